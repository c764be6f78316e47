"""What tells sets of inputs apart: named dimensions, or all elements."""

from __future__ import annotations

import dataclasses

import pytest

from graphbench.analysis.sizes import Axis, Sizes, axis_of, inputs_text, sizes_of
from graphbench.errors import UsageError
from graphbench.records import InputRecord
from tests.factories import profile, region, spec


def given(**shapes: tuple[int, ...]) -> tuple[InputRecord, ...]:
    return tuple(InputRecord(name=name, source="", kind="tensor", spec=spec(*shape)) for name, shape in shapes.items())


def sizes(**shapes: tuple[int, ...]) -> Sizes:
    return sizes_of(dataclasses.replace(profile(), inputs=given(**shapes)))


def test_dimensions_are_named_after_their_input() -> None:
    assert sizes(x=(2, 3), y=(4,)) == Sizes(dimensions={"x[0]": 2, "x[1]": 3, "y[0]": 4}, elements=10)


def test_a_whole_number_is_a_dimension() -> None:
    entries = (InputRecord(name="n", source="", kind="value", value=7), *given(x=(2,)))
    assert sizes_of(dataclasses.replace(profile(), inputs=entries)).dimensions == {"n": 7, "x[0]": 2}


def test_without_them_the_inputs_of_the_first_region_count() -> None:
    weight = InputRecord(name="w", source="L['self'].w", kind="parameter", spec=spec(100, 100))
    ids = InputRecord(name="l_ids_", source="L['ids']", kind="tensor", spec=spec(1, 128))
    first = dataclasses.replace(region(), inputs=(weight, ids))
    assert sizes_of(profile(first)) == Sizes(dimensions={"ids[0]": 1, "ids[1]": 128}, elements=128)


def test_the_only_dimension_that_changes_is_the_axis() -> None:
    found = axis_of([sizes(ids=(1, 128), mask=(1, 128)), sizes(ids=(1, 512), mask=(1, 512))])
    assert found == Axis(name="ids[1]", values=(128, 512), groups=(0, 0), together=("mask[1]",))


def test_several_dimensions_that_change_are_taken_for_elements() -> None:
    found = axis_of([sizes(x=(2, 3)), sizes(x=(4, 9))])
    assert (found.name, found.values) == ("elements", (6, 36))


def test_other_dimensions_are_held_where_one_is_asked_for() -> None:
    found = axis_of([sizes(x=(b, s)) for b in (1, 8) for s in (16, 32)], by="x[1]")
    assert found == Axis(name="x[1]", values=(16, 32, 16, 32), groups=(0, 0, 2, 2))


def test_a_dimension_that_does_not_change_is_refused() -> None:
    with pytest.raises(UsageError, match=r"by='x\[0\]'") as caught:
        axis_of([sizes(x=(1, 2)), sizes(x=(1, 4))], by="x[0]")
    assert caught.value.hint == "those that do: x[1], elements"


def test_inputs_in_short_have_names_and_sizes() -> None:
    record = dataclasses.replace(profile(), inputs=given(ids=(1, 128), scale=()))
    assert inputs_text(record) == "ids=1x128 scale=scalar"

"""What a model was called with, in numbers: named dimensions of its inputs, and which of them differ. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from graphbench.errors import UsageError
from graphbench.measurements import TensorSpec
from graphbench.records import InputRecord, ProfileRecord

ELEMENTS: Final = "elements"
"""The axis of all inputs' elements together, where several dimensions change at once."""
_KEY: Final = re.compile(r"\['?(\w+)'?\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """One set of inputs. `dimensions` by name, such as `input_ids[1]`; `elements` of all its tensors together.

    A whole number that is no tensor is a dimension of its own, by its name; a tensor's size that a graph takes as an
    input of its own is none.
    """

    dimensions: Mapping[str, int]
    elements: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """What times are set against: one size of every set. `groups` number sets that are alike in all other dimensions.

    `together` are further dimensions that have the same size in every set, or change with it.
    """

    name: str
    values: tuple[int, ...]
    groups: tuple[int, ...]
    together: tuple[str, ...] = ()

    def ordered(self, order: Sequence[int]) -> Axis:
        """The same with its sets in another order."""
        values, groups = (tuple(column[index] for index in order) for column in (self.values, self.groups))
        return replace(self, values=values, groups=groups)


def sizes_of(record: ProfileRecord) -> Sizes:
    """The sizes of a profile's inputs: those that its model was called with, else those of its first region."""
    inputs = record.inputs or tuple(
        entry for region in record.regions[:1] for entry in region.inputs if entry.kind in ("tensor", "value")
    )
    of_tensors = {size for entry in inputs if entry.spec is not None for size in entry.symbolic}
    dimensions: dict[str, int] = {}
    elements = 0
    for entry in inputs:
        name = name_of(entry)
        if entry.spec is not None:
            elements += math.prod(entry.spec.shape)
            dimensions.update((f"{name}[{i}]", size) for i, size in enumerate(entry.spec.shape))
        elif type(entry.value) is int and not of_tensors.issuperset(entry.symbolic or (entry.name,)):
            dimensions[name] = entry.value
    return Sizes(dimensions=dimensions, elements=elements)


def inputs_text(record: ProfileRecord) -> str:
    """A profile's inputs in short, such as `input_ids=1x128`."""
    known = [(entry, entry.spec) for entry in record.inputs if entry.spec is not None]
    return " ".join(f"{name_of(entry)}={_sizes_text(spec)}" for entry, spec in known)


def axis_of(sets: Sequence[Sizes], by: str | None = None) -> Axis:
    """What tells sets of inputs apart.

    Args:
        sets: two or more.
        by: a dimension, or `elements`; by default the only dimension that changes, else the elements of all inputs.

    Raises:
        UsageError: `by` is no dimension that changes.
    """
    together = _together(sets)
    if by is None and len(together) == 1:
        by = next(iter(together.values()))[0]
    if by is None or by == ELEMENTS:
        return Axis(name=ELEMENTS, values=tuple(entry.elements for entry in sets), groups=(0,) * len(sets))
    chosen = next((values for values, names in together.items() if by in names), None)
    if chosen is None:
        known = [name for names in together.values() for name in names]
        raise UsageError(
            f"by={by!r}: no dimension of that name changes between the sets of inputs",
            hint=f"those that do: {', '.join([*known, ELEMENTS])}",
            subject="by",
        )
    others = [values for values in together if values != chosen]
    alike = [tuple(values[index] for values in others) for index in range(len(sets))]
    return Axis(
        name=by,
        values=chosen,
        groups=tuple(alike.index(entry) for entry in alike),
        together=tuple(name for name in together[chosen] if name != by),
    )


def _together(sets: Sequence[Sizes]) -> dict[tuple[int, ...], list[str]]:
    """The sizes that change, each with the names of all dimensions that have it; what a set lacks does not count."""
    found: dict[tuple[int, ...], list[str]] = {}
    for name in sets[0].dimensions:
        if all(name in entry.dimensions for entry in sets):
            values = tuple(entry.dimensions[name] for entry in sets)
            if len(set(values)) > 1:
                found.setdefault(values, []).append(name)
    return found


def name_of(entry: InputRecord) -> str:
    """As the user knows it: `L['input_ids']`, Dynamo's expression for a local, is `input_ids`."""
    keys = _KEY.findall(entry.source)
    return str(keys[-1]) if keys and entry.source.startswith("L[") else entry.name


def _sizes_text(spec: TensorSpec) -> str:
    return "x".join(map(str, spec.shape)) or "scalar"

"""Tables as sequences: rows, slices, a short text, CSV."""

from __future__ import annotations

import pytest

from graphbench.analysis.diff import diff
from graphbench.analysis.fusion import all_fusion_rows
from graphbench.analysis.opportunities import opportunities
from graphbench.facade import Profile
from graphbench.records import ProfileRecord
from graphbench.report import REPORTERS
from graphbench.report.diff_data import DIFF_TABLES, csv_diff
from graphbench.report.profile_diff import ProfileDiff
from graphbench.report.row_view import Rows
from tests.factories import node, profile, region
from tests.samples import cpu_profile
from tests.step_samples import training_step


def of_nodes(count: int) -> Profile:
    return Profile(profile(region([node(f"n{index}", 1_000.0) for index in range(count)])))


def test_rows_are_a_sequence_of_the_row_objects() -> None:
    rows = of_nodes(3).nodes
    assert (len(rows), [row.name for row in rows], rows[-1].name) == (3, ["n0", "n1", "n2"], "n2")
    assert rows[1].isolated_p50_ns == 1_000.0


def test_a_slice_is_rows_again_with_the_same_columns() -> None:
    rows = of_nodes(3).nodes
    part = rows[1:]
    assert isinstance(part, Rows)
    assert part == list(rows)[1:]
    assert part.to_csv().splitlines() == [rows.to_csv().splitlines()[index] for index in (0, 2, 3)]


def test_rows_equal_a_list_or_tuple_of_the_same_and_nothing_else() -> None:
    record = cpu_profile()
    assert Profile(record).opportunities() == opportunities(record)
    rows = Profile(record).fusions
    assert rows == tuple(rows)
    assert rows != list(rows)[1:]
    assert rows != "rows"


def test_the_tables_of_a_profile_are_those_of_its_csv() -> None:
    record = training_step()
    found = Profile(record)
    tables = {
        "nodes": found.nodes,
        "fusions": found.fusions,
        "gaps": found.gaps,
        "opportunities": found.opportunities(),
    }
    for name, rows in {**tables, "places": found.places, "breaks": found.breaks}.items():
        printed = REPORTERS["csv"].render(record, table=name)
        assert len(rows) > 0
        assert sorted(rows.to_csv().splitlines()) == sorted(printed.splitlines()), name


def test_kernels_stand_in_the_order_of_the_wrapper() -> None:
    record = cpu_profile()
    assert [row.key for row in Profile(record).fusions] == [row.key for row in all_fusion_rows(record)]


@pytest.mark.parametrize("name", ["gaps", "places", "breaks"])
def test_without_a_step_there_are_none(name: str) -> None:
    rows = getattr(Profile(cpu_profile()), name)
    assert len(rows) == 0
    assert rows.to_csv().count("\n") == 1


def test_the_tables_of_a_diff_are_those_of_its_csv() -> None:
    before, after = cpu_profile(), cpu_profile()
    result = diff(before, after)
    for name in DIFF_TABLES:
        assert getattr(ProfileDiff(result), name).to_csv() == csv_diff(result, table=name)


def test_printed_rows_say_how_many_they_are_and_show_the_first_ten() -> None:
    lines = repr(of_nodes(12).nodes).splitlines()
    assert (lines[0], lines[-1]) == ("<12 nodes>", "... 2 more")
    assert [line.split()[0] for line in lines if line.startswith("n") and line[1].isdigit()] == [
        f"n{index}" for index in range(10)
    ]


@pytest.mark.parametrize(("count", "text"), [(0, "<0 nodes>"), (1, "<1 node>")])
def test_few_rows_are_counted_rightly(count: int, text: str) -> None:
    assert repr(of_nodes(count).nodes).splitlines()[0] == text


def test_printed_rows_hold_no_character_that_a_terminal_obeys() -> None:
    found: ProfileRecord = profile(region([node("\x1b[31mred", 1.0)]))
    assert "\x1b" not in repr(Profile(found).nodes)

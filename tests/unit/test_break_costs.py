"""What a graph break cost: the gap behind its graph, or the lines of its frame, and otherwise why not."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from graphbench.analysis.break_costs import BreakCost, BreakRow, break_rows
from graphbench.measurements import SourceLine
from graphbench.records import ProfileRecord
from graphbench.report.break_lines import cost_text
from graphbench.step_records import GraphBreak, Place, Timeline
from tests.factories import profile
from tests.step_samples import MODEL, TRAIN, eager_step, gap_op, host_step, training_step

AT_R0 = GraphBreak(reason="item", region="r0")
AT_R1 = GraphBreak(reason="print", region="r1")


def with_breaks(*breaks: GraphBreak, **changes: Any) -> ProfileRecord:
    record = training_step()
    assert record.step is not None
    return dataclasses.replace(record, breaks=breaks, step=dataclasses.replace(record.step, **changes))


def only(record: ProfileRecord) -> BreakRow:
    (row,) = break_rows(record)
    return row


def cost_of(record: ProfileRecord) -> BreakCost:
    cost = only(record).cost
    assert cost is not None
    return cost


def test_a_break_costs_the_gap_behind_the_graph_that_it_ended() -> None:
    cost = cost_of(with_breaks(AT_R0))
    assert (cost.place, cost.rows, cost.calls, cost.launches) == ("after r0/forward", 2, 3, 2)
    assert (cost.time_ns, cost.host_ns) == (6_000.0, 42_000.0)


def test_idle_time_around_the_gap_is_part_of_its_cost() -> None:
    cost = cost_of(with_breaks(AT_R0))
    assert cost.idle_ns == pytest.approx(40_000.0)
    assert cost.lost_ns == pytest.approx(46_000.0)


def test_a_break_names_what_it_copied_and_where_it_synchronised() -> None:
    cost = cost_of(with_breaks(AT_R0))
    assert cost.copied == (("cuda to cpu", 4),)
    assert cost.syncs == (("_local_scalar_dense at model.py:22", 1),)


def test_a_break_names_the_regions_that_it_separates() -> None:
    assert cost_of(with_breaks(AT_R0)).separates == ("r0", "r1")


def test_breaks_are_ranked_by_what_they_cost() -> None:
    rows = break_rows(with_breaks(AT_R1, AT_R0))
    assert [row.graph_break.region for row in rows] == ["r0", "r1"]


def test_two_breaks_behind_one_graph_are_charged_once() -> None:
    first, second = break_rows(with_breaks(AT_R0, dataclasses.replace(AT_R0, reason="print")))
    assert first.cost is not None
    assert (second.cost, second.told_with, second.reason) == (None, 0, "told with break 1")


@pytest.mark.parametrize("phase", ["backward", "optimizer"])
def test_what_follows_the_forward_in_the_same_gap_is_no_cost_of_the_break(phase: str) -> None:
    record = with_breaks(AT_R0)
    assert record.step is not None
    place = "after r0/forward"
    moved = tuple(dataclasses.replace(row, place=place) if row.phase == phase else row for row in record.step.rows)
    cost = cost_of(with_breaks(AT_R0, rows=moved))
    assert cost.time_ns == 6_000.0
    assert cost.host_ns == 6_000.0  # the rows' own: the gap's holds the others'


def test_a_break_behind_the_last_graph_of_the_forward_separates_it_from_a_backward() -> None:
    place = Place(key="after r0/forward", kind="gap", calls=2, host_ns=9.0, followed_by=("r1/forward", "r0/backward"))
    assert cost_of(with_breaks(AT_R0, places=(place,))).separates == ("r0", "r1", "r0/backward")


@pytest.mark.parametrize(
    ("following", "told"),
    [(("r1/forward",), "r0 | r1: 3 ops,"), (("end",), "r0 | end: 3 ops behind it, the caller's too,")],
)
def test_a_gap_at_the_end_of_the_forward_holds_the_callers_ops_too(following: tuple[str, ...], told: str) -> None:
    place = Place(key="after r0/forward", kind="gap", calls=1, host_ns=42_000.0, followed_by=following)
    assert cost_text(cost_of(with_breaks(AT_R0, places=(place,)))).startswith(told)


def test_a_break_whose_region_did_not_run_says_so() -> None:
    row = only(with_breaks(GraphBreak(reason="x", region="r2")))
    assert (row.cost, row.reason) == (None, "r2 did not run in this step")


def test_a_break_without_a_gap_behind_it_says_so() -> None:
    record = with_breaks(AT_R0)
    assert record.step is not None
    rows = tuple(row for row in record.step.rows if row.place != "after r0/forward")
    places = tuple(place for place in record.step.places if place.key != "after r0/forward")
    row = only(with_breaks(AT_R0, rows=rows, places=places, timeline=Timeline()))
    assert (row.cost, row.reason) == (None, "no gap behind it was recorded")


def test_a_frame_that_ran_eagerly_costs_the_ops_of_its_function_with_their_backward() -> None:
    skipped = GraphBreak(reason="skip", kind="skipped", source=SourceLine(file=MODEL, line=20, function="train_step"))
    cost = cost_of(with_breaks(skipped))
    assert (cost.place, cost.rows, cost.time_ns, cost.idle_ns) == (None, 3, 9_000.0, None)


def test_a_break_in_an_inlined_call_costs_the_ops_of_the_frame_that_was_given_up() -> None:
    line = SourceLine(file="layers.py", line=4, function="block")
    frame = SourceLine(file=MODEL, line=18, function="train_step")
    cost = cost_of(with_breaks(GraphBreak(reason="skip", kind="skipped", source=line, frame=frame)))
    assert (cost.rows, cost.time_ns) == (3, 9_000.0)


def test_a_qualified_function_is_found_by_its_bare_name() -> None:
    assert cost_of(eager_step()).time_ns == 90_000.0


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (None, "its source line is not known"),
        (SourceLine(file=TRAIN, line=1, function="other"), "no op of its function ran outside compiled graphs"),
        (
            SourceLine(file="else.py", line=1, function="train_step"),
            "no op of its function ran outside compiled graphs",
        ),
    ],
    ids=["no line", "another function", "another file"],
)
def test_a_break_that_cannot_be_placed_says_why(source: SourceLine | None, reason: str) -> None:
    row = only(with_breaks(GraphBreak(reason="x", source=source)))
    assert (row.cost, row.reason) == (None, reason)


def test_breaks_without_a_cost_come_last_in_their_order() -> None:
    lost, other = GraphBreak(reason="a"), GraphBreak(reason="b")
    assert [row.graph_break.reason for row in break_rows(with_breaks(lost, other, AT_R0))] == ["item", "a", "b"]


def test_without_a_recorded_step_a_break_has_no_cost() -> None:
    row = only(dataclasses.replace(profile(), breaks=(AT_R0,)))
    assert (row.cost, row.reason) == (None, "no step was recorded")


def test_on_the_cpu_a_break_is_ranked_by_the_hosts_time_in_its_gap() -> None:
    record = host_step()
    assert record.step is not None
    gap = gap_op("add", 50.0, place="after r0/forward", timer="wallclock")
    places = (*record.step.places, Place(key="after r0/forward", kind="gap", calls=1, host_ns=80_000.0))
    step = dataclasses.replace(record.step, rows=(*record.step.rows, gap), places=places)
    cost = cost_of(dataclasses.replace(record, step=step, breaks=(AT_R0,)))
    assert (cost.time_ns, cost.host_ns, cost.lost_ns, cost.launches) == (50_000.0, 80_000.0, 80_000.0, None)

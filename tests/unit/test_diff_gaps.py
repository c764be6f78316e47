"""Gap ops of two steps: how they are joined, and what is said of a change."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from graphbench.analysis.diff import diff
from graphbench.analysis.diff_gaps import GapDiffRow
from graphbench.measurements import Measurement
from graphbench.records import ProfileRecord
from graphbench.report.diff_table import render_diff
from graphbench.step_records import StepRecord, StepRow
from tests.factories import profile, spec, steady
from tests.step_samples import device_step, gap_op


def stepped(*rows: StepRow) -> ProfileRecord:
    return profile(timer="cupti", step=StepRecord(run=device_step(rows, wall_us=1_000.0), rows=rows))


def op(us: float, *, op_type: str = "mm", alone: Measurement | None = None, **changes: Any) -> StepRow:
    return gap_op(op_type, us, place="start", isolated=alone, **changes)


def gaps(before: ProfileRecord, after: ProfileRecord) -> list[GapDiffRow]:
    return list(diff(before, after).gaps)


def test_equal_ops_of_one_line_are_one_row_with_the_times_of_all_calls() -> None:
    (row,) = gaps(stepped(op(100.0, calls=10)), stepped(op(40.0, calls=4)))
    assert (row.change, row.calls_before, row.calls_after) == ("both", 10, 4)
    assert (row.before_ns, row.after_ns, row.delta_ns, row.ratio) == (100_000.0, 40_000.0, -60_000.0, 0.4)


def test_an_op_whose_line_moved_is_still_the_same() -> None:
    (row,) = gaps(stepped(op(10.0, line=5)), stepped(op(11.0, line=7)))
    assert (row.change, row.source) == ("both", "train.py:7")


def test_a_line_is_matched_before_order() -> None:
    before = stepped(op(1.0, line=5), op(2.0, line=6))
    after = stepped(op(3.0, line=6), op(4.0, line=9))
    assert [(row.source, row.before_ns) for row in gaps(before, after)] == [
        ("train.py:6", 2_000.0),
        ("train.py:9", 1_000.0),
    ]


@pytest.mark.parametrize(
    "other",
    [
        op(1.0, op_type="add"),
        op(1.0, phase="backward"),
        dataclasses.replace(op(1.0), inputs=(spec(9, 9),)),
        dataclasses.replace(op(1.0), outputs=(spec(9, 9),)),
    ],
    ids=["op", "phase", "inputs", "outputs"],
)
def test_other_work_is_another_row(other: StepRow) -> None:
    assert [row.change for row in gaps(stepped(op(1.0)), stepped(other))] == ["added", "gone"]


def test_an_op_of_one_side_costs_nothing_on_the_other() -> None:
    added, gone = gaps(stepped(op(5.0)), stepped(op(7.0, op_type="add")))
    assert (added.delta_ns, added.calls_before, added.reason) == (7_000.0, None, "only in the second profile")
    assert (gone.delta_ns, gone.calls_after, gone.reason) == (-5_000.0, None, "only in the first profile")


def test_backward_ops_without_a_line_are_joined_by_their_autograd_node() -> None:
    def rows(first: str, second: str) -> ProfileRecord:
        common = {"phase": "backward", "line": None}
        made = [op(1.0, autograd_node=name, **common) for name in (first, second)]
        return stepped(*(dataclasses.replace(row, name=f"{i}") for i, row in enumerate(made)))

    found = gaps(rows("MulBackward0", "AddBackward0"), rows("AddBackward0", "MulBackward0"))
    assert [row.source for row in found] == ["AddBackward0", "MulBackward0"]
    assert all(row.change == "both" for row in found)


@pytest.mark.parametrize(("after_ns", "verdict"), [(150.0, "slower"), (50.0, "faster"), (100.0, "same")])
def test_the_verdict_is_that_of_one_call_alone(after_ns: float, verdict: str) -> None:
    old, new = steady(100_000.0, timer="cupti"), steady(1e3 * after_ns, timer="cupti")
    (row,) = gaps(stepped(op(9.0, alone=old)), stepped(op(9.0, alone=new)))
    assert row.verdict == verdict


def test_without_isolated_times_nothing_is_claimed() -> None:
    (row,) = gaps(stepped(op(100.0)), stepped(op(200.0)))
    assert (row.verdict, row.reason) == (None, "before: not measured")


def test_gap_ops_are_compared_only_where_both_recorded_a_step() -> None:
    assert gaps(profile(timer="cupti"), stepped(op(1.0))) == []


def test_the_largest_change_stands_first_in_the_table() -> None:
    before = stepped(op(10.0), op(100.0, op_type="sort"))
    after = stepped(op(11.0), op(50.0, op_type="sort"))
    text = render_diff(diff(before, after))
    table = text[text.index("Gap ops (2;") :].splitlines()
    assert [line.split()[0] for line in table if line.startswith(("sort", "mm"))] == ["sort", "mm"]
    assert "– before: not measured: 2 gap ops" in table


def test_a_diff_without_steps_has_no_table_of_gap_ops() -> None:
    assert "Gap ops" not in render_diff(diff(profile(), profile()))

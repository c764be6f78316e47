"""Rows of the gap table, by op and by source line."""

from __future__ import annotations

import dataclasses

import pytest

from graphbench.analysis.gaps import GapLine, gap_lines, gap_rows
from graphbench.measurements import Comparison
from graphbench.step_records import StepRecord
from tests.factories import steady
from tests.samples import gpu_profile
from tests.step_samples import device_step, gap_op, training_step


def lines_of(step: StepRecord) -> dict[str, GapLine]:
    return {line.line: line for line in gap_lines(step)}


def test_gap_rows_leave_out_kernels_and_are_parts_of_the_step() -> None:
    step = gpu_profile().step
    assert step is not None
    (row,) = gap_rows(step)
    assert (row.row.op_type, row.row.phase, row.row.calls, row.in_graph_ns) == ("_foreach_add_", "optimizer", 2, 2e4)
    assert row.share == pytest.approx(20_000 / 30_000)


def test_a_gap_row_has_the_time_of_one_call_beside_that_of_all() -> None:
    step = training_step().step
    assert step is not None
    row = next(row for row in gap_rows(step) if row.isolated)
    assert row.isolated is not None
    assert (row.row.calls, row.in_graph_ns, row.isolated.p50, row.launches) == (2, 4_000.0, 1_750.0, 2)


def test_why_a_gap_op_has_no_isolated_time_is_kept() -> None:
    step = training_step().step
    assert step is not None
    assert gap_rows(step)[0].reasons == ("isolated: not measured",)


def test_marks_of_a_gap_op_are_those_of_its_isolated_measurement() -> None:
    wrong = Comparison(equal=False, max_abs=1.0)
    alone = dataclasses.replace(steady(1.0, timer="cupti"), warnings=("unstable",), shared_with="b", fidelity=wrong)
    rows = (gap_op("mm", 1.0, place="start", isolated=alone),)
    (row,) = gap_rows(StepRecord(run=device_step(rows, wall_us=2.0), rows=rows))
    assert (row.warnings, row.shared_with, row.unfaithful, row.reasons) == (("unstable",), "b", True, ())


def test_a_line_adds_up_its_ops_and_their_backward() -> None:
    step = training_step().step
    assert step is not None
    line = lines_of(step)["model.py:21"]
    assert (line.ops, line.calls, line.forward_ns, line.backward_ns, line.time_ns) == (("mul",), 3, 4e3, 3e3, 7e3)
    assert line.share == pytest.approx(7 / 343.8)


def test_ops_without_a_source_line_are_a_line_of_their_own() -> None:
    step = training_step().step
    assert step is not None
    assert lines_of(step)["(no source line)"].ops == ("add_",)


def test_lines_are_sorted_by_time_and_files_of_one_name_told_apart() -> None:
    rows = (
        gap_op("mm", 1.0, place="start", file="a/model.py", line=3),
        gap_op("add", 5.0, place="start", file="b/model.py", line=3, phase="backward"),
    )
    found = gap_lines(StepRecord(run=device_step(rows, wall_us=9.0), rows=rows))
    assert [line.line for line in found] == ["b/model.py:3", "a/model.py:3"]

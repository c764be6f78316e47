"""Which rows of a profile failed, as `--strict` names them."""

from __future__ import annotations

from graphbench.cli.common import failed_rows
from graphbench.measurements import Measurement
from graphbench.records import ProfileRecord, Side
from graphbench.step_records import StepRecord, StepRow
from tests.factories import cpu_run, kernel, measurement, node, profile, region

FAILED = Measurement(status="failed", reason="it broke")


def one_node(measured: Measurement) -> ProfileRecord:
    """A profile of one node, measured as given alone and in the graph."""
    return profile(region([node("relu", measured, in_graph=measured)]))


def test_row_that_failed_twice_counts_once() -> None:
    assert failed_rows(one_node(FAILED)) == ("r0 relu: it broke",)


def test_skipped_row_has_not_failed() -> None:
    assert failed_rows(one_node(Measurement(status="skipped", reason="a view"))) == ()


def test_failed_kernel_is_a_failed_row() -> None:
    record = profile(region(kernels=[kernel("mm", FAILED, handle=1, kind="extern")]))
    assert failed_rows(record) == ("r0 forward/mm:1: it broke",)


def test_failed_side_is_a_failed_row() -> None:
    assert failed_rows(profile(region(eager=Side(plain=FAILED)))) == ("r0 eager: it broke",)


def test_failed_gap_op_is_a_failed_row() -> None:
    run = cpu_run([measurement(1.0)])
    step = StepRecord(run=run, rows=(StepRow(name="aten.add", op_type="add", in_graph=FAILED),))
    assert failed_rows(profile(step=step)) == ("step aten.add: it broke",)


def test_gap_op_that_failed_alone_is_a_failed_row() -> None:
    run = cpu_run([measurement(1.0)])
    row = StepRow(name="aten.add", op_type="add", in_graph=measurement(1.0), isolated=FAILED)
    assert failed_rows(profile(step=StepRecord(run=run, rows=(row,)))) == ("step aten.add: it broke",)

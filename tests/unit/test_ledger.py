"""What a run that goes on keeps of what was measured before: rows of the same thing, and no others."""

from __future__ import annotations

import dataclasses

from graphbench.records import RegionRecord
from graphbench.runs.entries import STEP, Entry, Failed, KnownRegion, RecordedStep, UnitRow
from graphbench.runs.ledger import Ledger
from graphbench.step_records import StepRecord
from tests.factories import kernel, node, post_grad, region, spec, steady
from tests.step_samples import training_step

BACKWARD = kernel("mul", phase="backward", post_grad=("mul",))


def compiled(*post_grads: str, backward: bool = False) -> RegionRecord:
    """A region whose one forward kernel executes these post-grad nodes."""
    kernels = [kernel("fused", post_grad=post_grads), *([BACKWARD] if backward else [])]
    nodes = [*(post_grad(name) for name in post_grads), *([post_grad("mul", phase="backward")] if backward else [])]
    return region([node("relu")], kernels, post_grad=tuple(nodes))


def measured(row: str, of: str = "r0") -> UnitRow:
    return UnitRow(region=of, kind="isolated", row=row, measurement=steady(1e3))


def rows(ledger: Ledger, of: str = "r0") -> set[str]:
    return {row for _, row in ledger.book(of).units}


def test_kernels_of_other_contents_are_measured_again_and_nodes_are_not() -> None:
    ledger = Ledger(None, [KnownRegion(region=compiled("relu")), measured("relu"), measured("forward/fused:0")])
    ledger.book("r0").known(compiled("relu", "sum"))
    assert rows(ledger) == {"relu"}


def test_what_was_forgotten_does_not_come_back_when_the_run_goes_on_again() -> None:
    first: list[Entry] = [KnownRegion(region=compiled("relu")), measured("forward/fused:0")]
    ledger = Ledger(None, [*first, KnownRegion(region=compiled("relu", "sum"))])
    ledger.book("r0").known(compiled("relu", "sum"))
    assert rows(ledger) == set()


def test_a_backward_that_is_compiled_late_costs_no_row() -> None:
    crashed = Failed(region="r0", kind="isolated", row="backward/mul:0", reason="its process crashed (SIGSEGV)")
    ledger = Ledger(None, [KnownRegion(region=compiled("relu", backward=True)), measured("forward/fused:0"), crashed])
    ledger.book("r0").known(compiled("relu"))  # when measuring begins, its backward has not been needed
    ledger.book("r0").known(compiled("relu", backward=True))
    assert rows(ledger) == {"forward/fused:0", "backward/mul:0"}


def test_a_region_without_its_late_backward_is_still_known_with_it() -> None:
    ledger = Ledger(None, [KnownRegion(region=compiled("relu", backward=True))])
    ledger.book("r0").known(compiled("relu"))
    assert ledger.book("r0").region == compiled("relu", backward=True)


def step_with_gap_op(**changes: object) -> tuple[StepRecord, str]:
    """A step, its first gap op changed, and that one's row."""
    step = training_step().step
    assert step is not None
    first = next(row for row in step.rows if row.kernel is None)
    changed = dataclasses.replace(first, **changes)  # type: ignore[arg-type]
    return dataclasses.replace(step, rows=tuple(changed if row is first else row for row in step.rows)), first.name


def test_a_gap_op_that_is_the_same_is_not_measured_again() -> None:
    step, name = step_with_gap_op()
    ledger = Ledger(None, [RecordedStep(step=step), measured(name, STEP)])
    ledger.recorded(step)
    assert rows(ledger, STEP) == {name}


def test_a_gap_op_that_has_other_arguments_this_time_is_measured_again() -> None:
    step, name = step_with_gap_op()
    other, _ = step_with_gap_op(inputs=(spec(1024, 1024),))
    ledger = Ledger(None, [RecordedStep(step=step), measured(name, STEP)])
    ledger.recorded(other)
    assert rows(ledger, STEP) == set()

"""What a run that goes on believes of its journal: rows of the same work, and of no other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from graphbench import document
from graphbench.errors import UsageError
from graphbench.measurements import Measurement
from graphbench.records import RegionRecord, Side
from graphbench.runs.entries import STEP, Begun, Conditions, Entry, Failed, KnownRegion, RecordedStep, SideRow, UnitRow
from graphbench.runs.journal import Journal
from graphbench.runs.ledger import MOST_TRIES, Ledger, in_progress
from graphbench.runs.partial import read_partial
from tests import factories
from tests.factories import kernel, node, post_grad, region, steady
from tests.step_samples import training_step

RELU = "forward/relu:0"
GRADIENT = "backward/relu_backward:0"


def compiled(*ops: str, backward: bool = False) -> RegionRecord:
    """A region whose one forward kernel executes `ops`; its backward may not be compiled yet."""
    kernels = [kernel("relu", post_grad=ops)]
    lowered = [post_grad(name) for name in ops]
    if backward:
        kernels.append(kernel("relu_backward", phase="backward", post_grad=("where",)))
        lowered.append(post_grad("where", phase="backward"))
    return region([node("relu")], kernels, post_grad=tuple(lowered))


def unit(row: str, measurement: Measurement, owner: str = "r0") -> UnitRow:
    return UnitRow(region=owner, kind="isolated", row=row, measurement=measurement)


def shared(measurement: Measurement, first: str) -> Measurement:
    return replace(measurement, shared_with=first)


def rows(*entries: Entry, owner: str = "r0") -> set[str]:
    """The rows that a run which goes on need not measure."""
    return {row for _, row in Ledger(entries=entries).book(owner).units}


MEASURED = (
    KnownRegion(region=compiled("relu")),
    unit("relu", steady(1.0)),
    unit(RELU, steady(2.0)),
    SideRow(region="r0", row="eager", side=Side()),
    SideRow(region="r0", row="forward", side=Side()),
)


def test_rows_of_kernels_that_inductor_made_otherwise_are_forgotten() -> None:
    book = Ledger(entries=MEASURED).book("r0")
    book.known(compiled("relu", "mul"))
    assert {row for _, row in book.units} == {"relu"}
    assert set(book.sides) == {"eager"}


def test_they_stay_forgotten_when_the_run_goes_on_once_more() -> None:
    again = (*MEASURED, KnownRegion(region=compiled("relu", "mul")))
    assert rows(*again) == {"relu"}
    assert rows(*again, unit(RELU, steady(3.0))) == {"relu", RELU}


def test_a_backward_that_is_not_compiled_yet_costs_no_row() -> None:
    both, forward = compiled("relu", backward=True), compiled("relu")
    before: tuple[Entry, ...] = (KnownRegion(region=both), *MEASURED[1:], unit(GRADIENT, steady(4.0)))
    book = Ledger(entries=before).book("r0")
    book.known(forward)
    book.known(both)
    assert {row for _, row in book.units} == rows(*before, KnownRegion(region=forward)) == {"relu", RELU, GRADIENT}
    assert set(book.sides) == {"eager", "forward"}
    other = replace(both, kernels=(both.kernels[0], replace(both.kernels[1], kind="extern")))
    assert rows(*before, KnownRegion(region=forward), KnownRegion(region=other)) == {"relu"}


def test_a_region_whose_backward_is_not_compiled_yet_is_still_known_with_it() -> None:
    book = Ledger(entries=[KnownRegion(region=compiled("relu", backward=True))]).book("r0")
    book.known(compiled("relu"))
    assert book.region == compiled("relu", backward=True)


def test_another_graph_is_refused() -> None:
    with pytest.raises(UsageError, match="r0 is not the graph that the run began with"):
        Ledger(entries=MEASURED).book("r0").known(region([node("gelu")]))


def test_a_row_is_forgotten_whose_measured_row_is_lost_has_failed_or_was_measured_again() -> None:
    first, second = unit("relu", steady(1.0)), unit("relu_1", shared(steady(1.0), "relu"))
    assert rows(first, second) == {"relu", "relu_1"}
    assert rows(second) == set()
    assert rows(second, Failed(region="r0", kind="isolated", row="relu", reason="crashed")) == {"relu"}
    assert rows(second, unit("relu", steady(5.0))) == {"relu"}


def test_gap_ops_are_forgotten_that_are_others_in_the_step_of_now() -> None:
    step = training_step().step
    assert step is not None
    gaps = [row for row in step.rows if row.kernel is None]
    measured = [unit(row.name, steady(1.0), STEP) for row in gaps]
    before: tuple[Entry, ...] = (RecordedStep(step=step), *measured)
    assert rows(*before, RecordedStep(step=step), owner=STEP) == {row.name for row in gaps}
    other = [replace(row, op_type="another") if row.name == gaps[0].name else row for row in step.rows]
    left = rows(*before, RecordedStep(step=replace(step, rows=tuple(other))), owner=STEP)
    assert left == {row.name for row in gaps[1:]}


def test_a_unit_during_which_the_process_ended_every_time_is_given_up() -> None:
    begun = Begun(region="r0", kind="isolated", row="relu")
    assert rows(*[begun] * (MOST_TRIES - 1)) == set()
    (given_up,) = Ledger(entries=[begun] * MOST_TRIES).book("r0").units.values()
    assert given_up.measurement.reason == f"the process ended {MOST_TRIES} times while it was measured"


def test_what_was_under_way_is_the_innermost_work_without_a_result() -> None:
    whole_pass = Begun(region="r0", kind="pass", row="nodes")
    relu = Begun(region="r0", kind="isolated", row="relu")
    assert in_progress([]) is None
    assert in_progress([whole_pass, relu]) == relu
    assert in_progress([whole_pass, relu, unit("relu", steady(1.0))]) == whole_pass


def test_a_run_does_not_go_on_under_other_conditions() -> None:
    record = factories.profile()
    conditions = Conditions(created="", subject="", environment=record.environment, policy=record.policy)
    ledger = Ledger(entries=[conditions])
    ledger.begin(replace(conditions, created="later"))
    with pytest.raises(UsageError, match=r"torch was .* and is 'another'"):
        ledger.begin(replace(conditions, environment=replace(record.environment, torch="another")))
    with pytest.raises(UsageError, match="measured in another way"):
        ledger.begin(replace(conditions, policy=replace(record.policy, measure_ms=7.0)))


def test_a_step_of_kernels_that_are_others_now_is_left_out_of_a_partial_profile(tmp_path: Path) -> None:
    record = training_step()
    journal = Journal.open(tmp_path)
    journal.append(Conditions(created="", subject="", environment=record.environment, policy=record.policy))
    for entry in record.regions:
        journal.append(KnownRegion(region=replace(entry, kernels=(), nodes=())))
    assert record.step is not None
    journal.append(RecordedStep(step=record.step))
    journal.close()
    found = read_partial(tmp_path)
    document.check(found)
    assert found.step is None
    assert any("the recorded step is left out" in note for note in found.notes)

"""The parts of a step: they add up to it, and kinds and the user's phases are among them."""

from __future__ import annotations

import dataclasses

import pytest

from graphbench.analysis.step_parts import StepPart, step_parts
from graphbench.measurements import RunRecord
from graphbench.records import ProfileRecord
from graphbench.step_records import StepRecord, UserPhase
from tests.factories import FAILED, profile
from tests.step_samples import device_step, gap_op, host_step, training_step


def parts_of(record: ProfileRecord) -> dict[str, StepPart]:
    assert record.step is not None
    return {part.name: part for part in step_parts(record.step)}


def summing(parts: dict[str, StepPart]) -> float:
    return sum(part.time_ns or 0.0 for part in parts.values() if part.kind in ("part", "rest"))


@pytest.mark.parametrize(
    ("name", "time_us", "calls", "launches"),
    [
        ("forward, compiled", 98.8, 4, 4),
        ("forward, gap", 17.0, 5, 3),
        ("backward, compiled", 198.0, 6, 6),
        ("backward, gap", 10.0, 3, 3),
        ("optimizer, gap", 20.0, 2, 1),
        ("total", 343.8, 20, 17),
    ],
)
def test_phases_are_told_apart_by_what_ran_them(name: str, time_us: float, calls: int, launches: int) -> None:
    part = parts_of(training_step())[name]
    assert part.time_ns == pytest.approx(1e3 * time_us)
    assert (part.calls, part.launches) == (calls, launches)
    assert part.share == pytest.approx(time_us / 343.8)


def test_a_phase_that_did_not_run_has_no_part() -> None:
    assert "optimizer, compiled" not in parts_of(training_step())


def test_parts_add_up_to_busy_and_overlap_with_what_no_row_explains() -> None:
    rows = (gap_op("mm", 30.0, place="start"), gap_op("add", 20.0, place="start"))
    step = StepRecord(run=device_step(rows, wall_us=90.0, overlap_us=10.0, lost_us=5.0), rows=rows)
    parts = parts_of(profile(step=step))
    assert step.run.busy_ns == (45_000.0,)
    assert parts["unattributed"].time_ns == 5_000.0
    assert parts["unattributed"].launches == 1
    assert summing(parts) == parts["total"].time_ns == 55_000.0


def test_on_the_cpu_parts_and_the_time_between_rows_add_up_to_the_wall_time() -> None:
    parts = parts_of(host_step())
    assert parts["between rows (wrapper)"].time_ns == 300_000.0
    assert summing(parts) == parts["total"].time_ns == 1_000_000.0


def test_between_events_the_rest_may_be_idle_time() -> None:
    rows = (gap_op("mm", 30.0, place="start", timer="cuda-events"),)
    run = RunRecord(
        busy_ns=(40_000.0,),
        wall_ns=(50_000.0,),
        unattributed_ns=(0.0,),
        overlap_ns=(0.0,),
        wrapper_ns=(10_000.0,),
        timer="cuda-events",
    )
    parts = parts_of(profile(step=StepRecord(run=run, rows=rows)))
    assert parts["between rows, idle or unlabelled"].share == 0.25


def test_copies_are_told_by_direction_with_their_bytes() -> None:
    parts = parts_of(training_step())
    copies = parts["copies cpu to cuda"]
    assert (copies.kind, copies.copied_bytes, copies.time_ns, copies.launches) == ("of which", 4096, 6_000.0, 0)


def test_what_an_item_copies_counts_with_the_synchronisations() -> None:
    part = parts_of(training_step())["synchronisations"]
    assert (part.rows, part.calls, part.copied_bytes) == (1, 1, 4)


def test_accumulation_of_gradients_is_named() -> None:
    assert parts_of(training_step())["accumulation"].time_ns == 2_000.0


def test_a_phase_of_the_user_holds_those_nested_in_it() -> None:
    parts = parts_of(host_step())
    assert (parts["decode"].time_ns, parts["decode/count"].time_ns) == (600_000.0, 500_000.0)
    assert (parts["decode"].calls, parts["decode"].elapsed_ns) == (1, 750_000.0)
    assert (parts["total"].elapsed_ns, parts["total"].host_ns) == (1_000_000.0, 700_000.0)


def test_a_phase_does_not_hold_one_whose_name_only_begins_alike() -> None:
    record = host_step()
    assert record.step is not None
    others = (UserPhase(name="dec", calls=1, host_ns=1.0), *record.step.user_phases)
    parts = parts_of(dataclasses.replace(record, step=dataclasses.replace(record.step, user_phases=others)))
    assert (parts["dec"].rows, parts["dec"].time_ns) == (0, 0.0)


def test_rows_without_a_time_are_counted_as_missing_and_not_as_nothing() -> None:
    rows = (
        gap_op("mm", 10.0, place="start"),
        dataclasses.replace(gap_op("sort", 1.0, place="start", phase="backward"), in_graph=FAILED),
    )
    parts = parts_of(profile(step=StepRecord(run=device_step(rows, wall_us=20.0), rows=rows)))
    assert (parts["backward, gap"].time_ns, parts["backward, gap"].missing) == (None, 1)
    assert (parts["forward, gap"].time_ns, parts["forward, gap"].missing) == (10_000.0, 0)

"""The figures of a whole step, against values computed by hand."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from graphbench.analysis.steps import StepSummary, nothing_compiled, step_summary
from graphbench.records import ProfileRecord
from graphbench.step_records import Place, StepRecord
from tests.factories import FAILED, profile, region
from tests.step_samples import device_step, eager_step, gap_op, host_step, timeline, training_step


def of(record: ProfileRecord, **changes: Any) -> StepSummary:
    assert record.step is not None
    return step_summary(dataclasses.replace(record.step, **changes))


def test_rows_busy_and_walls_are_medians() -> None:
    found = of(training_step())
    assert (found.plain_ns, found.n_plain, found.wall_ns) == (400_000.0, 3, 500_000.0)
    assert found.rows_ns == pytest.approx(343_800.0)
    assert found.busy_ns == pytest.approx(343_800.0)


def test_recording_cost_is_recorded_by_uninstrumented_wall_time() -> None:
    assert of(training_step()).recording == 1.25


def test_idle_is_what_is_left_of_the_uninstrumented_time() -> None:
    found = of(training_step())
    assert found.idle == pytest.approx(1 - 343.8 / 400)
    assert found.recorded_idle == pytest.approx(1 - 343.8 / 500)


def test_launches_per_ms_are_kernels_of_the_uninstrumented_time() -> None:
    assert of(training_step()).launches_per_ms == pytest.approx(17 / 0.4)


def test_without_an_uninstrumented_time_nothing_is_said_of_it() -> None:
    found = of(training_step(), plain_wall_ns=())
    assert (found.plain_ns, found.recording, found.idle, found.launches_per_ms) == (None, None, None, None)
    assert found.recorded_idle is not None


def test_a_step_busier_than_its_uninstrumented_time_has_no_idle_share_of_zero() -> None:
    assert of(training_step(), plain_wall_ns=(300_000.0,)).idle == pytest.approx(1 - 343.8 / 300)


def test_gaps_are_a_part_of_the_rows_device_time() -> None:
    found = of(training_step())
    assert found.gap_share == pytest.approx(47 / 343.8)
    assert not found.gaps_dominate


def test_on_the_cpu_gaps_are_a_part_of_the_hosts_time_and_dominate_with_their_python() -> None:
    found = of(host_step())
    assert found.gap_share == pytest.approx(0.9)
    assert found.gaps_dominate


def test_on_the_cpu_without_places_gaps_are_a_part_of_the_rows() -> None:
    assert of(host_step(), places=()).gap_share == 1.0


def test_the_cpu_has_no_idle_share() -> None:
    found = of(host_step())
    assert (found.idle, found.recorded_idle, found.launches) == (None, None, None)
    assert not found.host_bound


def test_a_step_idle_for_most_of_its_time_is_host_bound_and_names_where_it_waits_longest_first() -> None:
    found = of(training_step(), plain_wall_ns=(1_000_000.0,))
    assert found.host_bound
    assert [row.key for row in found.most_idle][:2] == ["r1/forward", "start"]
    assert not of(training_step()).host_bound


def test_a_row_without_a_time_adds_nothing_and_breaks_nothing() -> None:
    rows = (gap_op("mm", 10.0, place="start"), dataclasses.replace(gap_op("add", 1.0, place="start"), in_graph=FAILED))
    found = of(profile(step=StepRecord(run=device_step(rows, wall_us=20.0), rows=rows)))
    assert (found.rows_ns, found.gap_share) == (10_000.0, 1.0)


@pytest.mark.parametrize(("key", "syncs"), [("start", 0), ("after r0/forward", 1)])
def test_synchronisations_are_counted_by_place(key: str, syncs: int) -> None:
    assert {row.key: row.syncs for row in of(training_step()).places}[key] == syncs


def test_nothing_was_compiled_where_no_graph_ran_and_no_region_is_measured() -> None:
    assert nothing_compiled(eager_step())
    assert not nothing_compiled(dataclasses.replace(eager_step(), regions=(region(),)))
    assert not nothing_compiled(training_step())
    assert not nothing_compiled(profile())


def test_an_empty_step_has_no_shares() -> None:
    step = StepRecord(run=device_step([], wall_us=5.0), rows=(), places=(Place(key="start", kind="gap"),))
    found = of(profile(step=step), timeline=timeline([]))
    assert (found.gap_share, found.rows_ns, found.recorded_idle) == (None, 0.0, 1.0)

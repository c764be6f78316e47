"""Where the device had nothing to do, and where the host waited for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest

from graphbench.analysis.places import PlaceRow, place_rows
from graphbench.analysis.timeline import Idle, find_waits, idle_stretches
from graphbench.step_records import StepRecord
from tests.step_samples import Event, device_step, gap_op, host_step, timeline, training_step

ROWS = (gap_op("mm", 10.0, place="start"), gap_op("item", 2.0, place="after r0/forward", kind="sync"))


def step(events: Sequence[Event]) -> StepRecord:
    return StepRecord(run=device_step(ROWS, wall_us=100.0), rows=ROWS, timeline=timeline(events))


def test_idle_time_lies_between_all_work_so_far_and_the_next() -> None:
    events: list[Event] = [("kernel", 0, 5.0, 10.0), ("copy", 1, 20.0, 2.0)]
    assert idle_stretches(timeline(events)) == (
        Idle(5_000.0, before=0, behind=-1, start_ns=0.0),
        Idle(5_000.0, before=1, behind=0, start_ns=15_000.0),
    )


def test_work_inside_longer_work_of_another_stream_ends_nothing() -> None:
    events: list[Event] = [("kernel", 0, 0.0, 50.0), ("kernel", 1, 10.0, 5.0), ("memset", 1, 60.0, 1.0)]
    assert idle_stretches(timeline(events)) == (Idle(10_000.0, before=1, behind=0, start_ns=50_000.0),)


def test_what_the_host_does_is_no_device_work() -> None:
    assert idle_stretches(timeline([("host", 0, 0.0, 5.0), ("sync", 1, 6.0, 5.0)])) is None


def test_back_to_back_work_leaves_no_idle_time() -> None:
    assert idle_stretches(timeline([("kernel", 0, 0.0, 5.0), ("kernel", 0, 5.0, 5.0)])) == ()


def test_idle_time_is_charged_to_the_place_of_the_launch_that_ended_it() -> None:
    record = training_step()
    assert record.step is not None
    idle = {row.key: row.idle_ns for row in place_rows(record.step)}
    assert {key: round(ns or 0.0) for key, ns in idle.items() if ns} == {
        "start": 10_000,
        "after r0/forward": 10_000,
        "r1/forward": 30_000,
        "after r0/backward": 10_000,
    }


def test_idle_behind_a_place_is_before_the_first_launch_of_another() -> None:
    record = training_step()
    assert record.step is not None
    behind = {row.key: round(row.idle_behind_ns or 0.0) for row in place_rows(record.step)}
    assert behind["after r0/forward"] == 30_000
    assert behind["r0/forward"] == 10_000
    assert behind["after r0/backward"] == 0


def test_idle_time_before_work_of_no_row_is_a_line_of_its_own() -> None:
    rows = place_rows(step([("kernel", 0, 0.0, 5.0), ("kernel", -1, 25.0, 5.0)]))
    assert (rows[-1].key, rows[-1].idle_ns) == ("(no row)", 20_000.0)
    assert rows[-1].host_bound is None


@pytest.mark.parametrize(("us", "host_bound"), [(10.5, True), (9.5, False)])
def test_a_place_is_host_bound_when_the_device_idled_longer_than_it_worked(us: float, host_bound: bool) -> None:
    assert place_rows(step([("kernel", 0, us, 10.0)]))[0].host_bound is host_bound


def test_without_device_work_no_place_is_called_host_bound() -> None:
    record = host_step()
    assert record.step is not None
    found: list[PlaceRow] = place_rows(record.step)
    assert [(row.idle_ns, row.host_bound, row.launches) for row in found] == [(None, None, None)] * 2


def test_a_row_that_reads_a_value_counts_its_calls_where_no_device_is_seen() -> None:
    assert find_waits(step([])).row_syncs == (0, 1)


def test_a_row_that_reads_a_value_of_the_host_waits_for_no_device() -> None:
    waits = find_waits(step([("kernel", 0, 0.0, 1.0)]))
    assert (waits.row_syncs, waits.wait_ns) == ((0, 0), 0.0)


def test_waits_of_the_host_add_up() -> None:
    waits = find_waits(step([("kernel", 0, 0.0, 1.0), ("sync", 1, 1.0, 2.0), ("sync", -1, 5.0, 4.0)]))
    assert (waits.row_syncs, waits.wait_ns) == ((0, 1), 6_000.0)


def test_another_row_synchronises_when_the_host_waited_in_it_at_most_once_a_call() -> None:
    waits = find_waits(step([("sync", 0, 1.0, 1.0), ("sync", 0, 2.0, 1.0)]))
    assert waits.row_syncs[0] == 1


def test_a_synchronisation_of_no_row_is_where_the_host_was() -> None:
    waits = find_waits(step([("sync", -1, 0.0, 1.0), ("host", 1, 2.0, 1.0), ("sync", -1, 4.0, 1.0)]))
    assert dict(waits.other_syncs) == {"start": 1, "after r0/forward": 1}
    assert waits.n_syncs == 3  # and the row that reads a value


def test_places_that_only_rows_name_are_listed_without_a_host_time() -> None:
    found = place_rows(step([]))
    assert [(row.key, row.host_ns, row.rows) for row in found] == [("start", None, 1), ("after r0/forward", None, 1)]


def test_launches_per_ms_of_a_place_are_of_the_hosts_time_in_it() -> None:
    record = training_step()
    assert record.step is not None
    found = {row.key: row for row in place_rows(record.step)}
    assert found["r1/backward"].launches_per_ms == pytest.approx(3 / 0.045)


def test_places_stand_in_the_order_of_the_step() -> None:
    record = training_step()
    assert record.step is not None
    assert [row.key for row in place_rows(record.step)][:3] == ["start", "r0/forward", "after r0/forward"]
    kinds = [row.place.kind for row in place_rows(record.step) if row.place]
    assert kinds[:3] == ["gap", "graph", "gap"]


def test_a_place_with_rows_that_all_failed_has_no_time() -> None:
    lost = dataclasses.replace(ROWS[0].in_graph, status="failed", reason="lost", samples=None)
    rows = (dataclasses.replace(ROWS[0], in_graph=lost), ROWS[1])
    found = place_rows(StepRecord(run=device_step(rows, wall_us=9.0), rows=rows))
    assert (found[0].time_ns, found[1].time_ns) == (None, 2_000.0)

"""Recorded sessions of real GPUs, attributed again: what comes out is what the recording script launched.

Counts and facts to compare with come from the script that launched the work (`tests/data`); unions and owners are
worked out here in another way than `provenance.correlation` does.
"""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from graphbench.provenance.correlation import PREPARATION, Activity, Attribution, Label
from tests import recorded as recordings
from tests.recorded import RecordedSession, attributed, busy_by_sweep_ns, labelled, owner_of

COMPLETE = ("labels", "windows", "off_thread", "two_threads", "graph_replay", "two_devices")
REFUSED = ("lost", "other_ids", "bent_clock")
NEAR_NS = 500_000  # the script waits 2 ms around what it launches between windows

complete = pytest.mark.parametrize("scenario", COMPLETE)
load = functools.cache(recordings.load)


def kinds(activities: Iterable[Activity]) -> Counter[str]:
    return Counter(activity.kind for activity in activities)


def expected_counts(recorded: RecordedSession) -> dict[Label, Counter[str]]:
    return {(row, sample): Counter(counts) for row, sample, counts in recorded.expected["labelled"]}


def unlabelled_counts(recorded: RecordedSession) -> dict[int | None, Counter[str]]:
    return {sample: Counter(counts) for sample, counts in recorded.expected["unlabelled"]}


def in_sample(recorded: RecordedSession, sample: int) -> list[Activity]:
    """All work of one sample: its labels', and what no label has and whose nearest window, if any is near, is its."""
    mine = [activity for (_, s), work in labelled(recorded).items() if s == sample for activity in work]
    for activity in recorded.activities:
        if owner_of(recorded, activity) is None:
            at = activity.start_ns
            away_ns, nearest = min((max(w.start_ns - at, at - w.end_ns, 0), w.sample) for w in recorded.windows)
            mine += [activity] if nearest == sample and away_ns < NEAR_NS else []
    return mine


@pytest.mark.parametrize("scenario", COMPLETE + REFUSED)
def test_every_recording_is_of_a_real_gpu_and_says_which(scenario: str) -> None:
    made_with = load(scenario).made_with
    assert "NVIDIA" in made_with["gpu"]
    assert {"torch", "cuda", "driver", "libcupti"} <= made_with.keys()


@complete
def test_every_label_has_the_kernels_copies_and_fills_that_were_launched_under_it(scenario: str) -> None:
    recorded = load(scenario)
    found = {label: kinds(work) for label, work in labelled(recorded).items()}
    assert found == {label: counts for label, counts in expected_counts(recorded).items() if counts}
    rows = attributed(recorded).rows
    assert {(row, sample): cost.n_kernels for row, costs in rows.items() for sample, cost in costs.items()} == {
        label: counts["kernel"] for label, counts in found.items()
    }


@complete
def test_the_parts_of_a_row_are_there_exactly_when_launched(scenario: str) -> None:
    recorded = load(scenario)
    rows = attributed(recorded).rows
    for (row, sample), counts in expected_counts(recorded).items():
        if counts:
            cost = rows[row][sample]
            parts = {"kernel": cost.kernel_ns, "copy": cost.copy_ns, "memset": cost.memset_ns}
            assert {kind for kind, spent in parts.items() if spent > 0} == {kind for kind, n in counts.items() if n}


@complete
def test_labels_preparation_and_the_rest_are_all_there_is(scenario: str) -> None:
    recorded = load(scenario)
    found = attributed(recorded)
    in_runs = sum(run.n_kernels for run in found.runs.values())
    prepared = sum(a.kind == "kernel" and owner_of(recorded, a) is PREPARATION for a in recorded.activities)
    outside = unlabelled_counts(recorded).get(None, Counter())["kernel"]
    assert prepared >= 2  # the test launches at both ends
    assert in_runs + prepared + outside == kinds(recorded.activities)["kernel"]


@complete
def test_unlabelled_work_is_counted_in_the_sample_that_launched_it(scenario: str) -> None:
    recorded = load(scenario)
    found = attributed(recorded)
    loose = {
        sample: run.n_kernels - sum(costs[sample].n_kernels for costs in found.rows.values() if sample in costs)
        for sample, run in found.runs.items()
    }
    expected = unlabelled_counts(recorded)
    assert loose == {sample: expected.get(sample, Counter())["kernel"] for sample in found.runs}


@complete
def test_time_is_conserved_in_every_run(scenario: str) -> None:
    recorded = load(scenario)
    found = attributed(recorded)
    for sample, run in found.runs.items():
        rows_ns = sum(costs[sample].busy_ns for costs in found.rows.values() if sample in costs)
        assert run.busy_ns == busy_by_sweep_ns(in_sample(recorded, sample)) > 0
        assert rows_ns + run.unattributed_ns - run.overlap_ns == run.busy_ns
        assert run.overlap_ns >= 0


@complete
def test_the_busy_time_of_a_row_is_the_union_of_its_work(scenario: str) -> None:
    recorded = load(scenario)
    rows = attributed(recorded).rows
    for (row, sample), work in labelled(recorded).items():
        assert rows[row][sample].busy_ns == busy_by_sweep_ns(work)


@complete
@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_the_records_does_not_matter(scenario: str, seed: int) -> None:
    recorded = load(scenario)
    shuffled = random.Random(seed).sample(recorded.activities, len(recorded.activities))
    assert attributed(replace(recorded, activities=tuple(shuffled))) == attributed(recorded)


@complete
def test_without_its_external_id_exactly_that_launch_is_unattributed(scenario: str) -> None:
    recorded = load(scenario)
    before = attributed(recorded)
    launches = [c for c, i in recorded.external_ids.items() if recorded.owners[i] is not PREPARATION]
    for correlation in launches:
        mine = [activity for activity in recorded.activities if activity.correlation_id == correlation]
        rest = {c: i for c, i in recorded.external_ids.items() if c != correlation}
        after = attributed(replace(recorded, external_ids=rest))
        assert set(after.unattributed) == set(before.unattributed) | {activity.name for activity in mine}
        assert _kernels(before) - _kernels(after) == kinds(mine)["kernel"]
        assert sum(run.n_kernels for run in after.runs.values()) == sum(run.n_kernels for run in before.runs.values())


def _kernels(attribution: Attribution) -> int:
    return sum(cost.n_kernels for costs in attribution.rows.values() for cost in costs.values())


def test_rows_of_two_streams_overlap_and_the_overlap_is_counted_once() -> None:
    recorded = load("windows")
    found = attributed(recorded)
    for sample, run in found.runs.items():
        both = [found.rows[row][sample].busy_ns for row in recorded.expected["overlapping"]]
        assert 0.5 * min(both) < run.overlap_ns < run.busy_ns


def test_a_kernel_between_windows_counts_nowhere() -> None:
    recorded = load("windows")
    loose = [activity for activity in recorded.activities if owner_of(recorded, activity) is None]
    inside = sum(run.n_kernels for run in attributed(recorded).runs.values()) - _kernels(attributed(recorded))
    assert len(loose) - inside == unlabelled_counts(recorded)[None]["kernel"] == 3


def test_work_of_a_flush_is_in_no_row() -> None:
    recorded = load("labels")
    flushes = [a for a in recorded.activities if owner_of(recorded, a) is PREPARATION and a.kind == "kernel"]
    assert len(flushes) >= 2 + len(expected_counts(recorded))
    in_rows = {work.name for costs in attributed(recorded).rows.values() for c in costs.values() for work in c.work}
    reductions = {flush.name for flush in flushes if "reduce" in flush.name}
    assert reductions
    assert not reductions & in_rows


def test_each_of_two_threads_keeps_its_own_stream() -> None:
    rows = attributed(load("two_threads")).rows
    streams = {row: {work.stream for cost in costs.values() for work in cost.work} for row, costs in rows.items()}
    assert [len(found) for found in streams.values()] == [1, 1]
    assert streams["thread 0"] != streams["thread 1"]


def test_devices_at_work_at_once_add_up() -> None:
    costs = attributed(load("two_devices")).rows["both"]
    for cost in costs.values():
        assert {work.device for work in cost.work} == {0, 1}
        assert cost.span_ns < cost.busy_ns <= 2 * cost.span_ns


def test_a_recording_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    recorded = load("labels")
    recordings.dump(recorded, tmp_path)
    assert recordings.load("labels", tmp_path) == recorded


def test_a_recording_that_was_never_made_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"python -m tests\.data\.record_activity"):
        recordings.load("labels", tmp_path)

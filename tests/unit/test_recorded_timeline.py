"""Timelines of recorded sessions of real GPUs: every piece of the last window's work, once, in the order it ran in."""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from graphbench.provenance.correlation import PREPARATION, Activity
from graphbench.timing.base import TimelineEvent
from graphbench.timing.cupti_records import Decoded
from graphbench.timing.cupti_timeline import HostWindow, session_timeline
from tests import recorded as recordings
from tests.recorded import RecordedSession, attributed, busy_by_sweep_ns, owner_of

WITH_WINDOWS = ("windows", "off_thread", "two_threads", "graph_replay", "two_devices")

windowed = pytest.mark.parametrize("scenario", WITH_WINDOWS)
load = functools.cache(recordings.load)


def timeline(recorded: RecordedSession) -> tuple[TimelineEvent, ...]:
    decoded = Decoded(list(recorded.activities), dict(recorded.external_ids))
    return session_timeline(decoded, recorded.owners, (), recorded.windows, HostWindow(0, 0, 0))


def last_expected(recorded: RecordedSession) -> dict[str | None, Counter[str]]:
    """What the recording script says it launched in the last window, by row."""
    last = recorded.windows[-1].sample
    found: dict[str | None, Counter[str]] = {
        row: Counter(counts) for row, sample, counts in recorded.expected["labelled"] if sample == last and counts
    }
    loose = next((counts for sample, counts in recorded.expected["unlabelled"] if sample == last), {})
    return found | ({None: Counter(loose)} if loose else {})


@windowed
def test_it_holds_what_was_launched_in_the_last_window_by_row(scenario: str) -> None:
    recorded = load(scenario)
    found: dict[str | None, Counter[str]] = {}
    for event in timeline(recorded):
        found.setdefault(event.row, Counter())[event.kind] += 1
    assert found == last_expected(recorded)


@windowed
def test_its_events_cover_the_busy_time_of_the_run(scenario: str) -> None:
    recorded = load(scenario)
    events = timeline(recorded)
    base_ns = 1_000_000
    as_activities = [
        Activity(
            "kernel", e.name, int(e.start_ns) + base_ns, int(e.start_ns + e.duration_ns) + base_ns, 0, 0, 0, e.device
        )
        for e in events
    ]
    run = attributed(recorded).runs[recorded.windows[-1].sample]
    assert busy_by_sweep_ns(as_activities) == run.busy_ns > 0


@windowed
def test_its_events_are_in_order_and_lie_in_the_window(scenario: str) -> None:
    recorded = load(scenario)
    events, window = timeline(recorded), recorded.windows[-1]
    assert all(event.start_ns <= later.start_ns for event, later in pairwise(events))
    assert events[0].start_ns > -50_000
    assert events[-1].start_ns + events[-1].duration_ns < window.end_ns - window.start_ns + 50_000


def test_streams_are_lanes_and_devices_are_told_apart() -> None:
    by_row = {event.row: event.lane for event in timeline(load("windows"))}
    assert by_row["stream 0"] != by_row["stream 1"]
    assert {event.device for event in timeline(load("two_devices"))} == {0, 1}


def test_device_work_is_named_and_stamped_as_recorded() -> None:
    recorded = load("two_threads")
    window = recorded.windows[-1]
    expected = sorted(
        (a.start_ns - window.start_ns, a.end_ns - a.start_ns, a.name, a.stream_id)
        for a in recorded.activities
        if isinstance(owner := owner_of(recorded, a), tuple) and owner[1] == window.sample
    )
    assert [(e.start_ns, e.duration_ns, e.name, e.lane) for e in timeline(recorded)] == expected


def test_work_of_preparation_is_in_no_timeline() -> None:
    recorded = load("two_threads")
    owners = {i: PREPARATION if owner == ("thread 1", 2) else owner for i, owner in recorded.owners.items()}
    assert {event.row for event in timeline(replace(recorded, owners=owners))} == {"thread 0"}

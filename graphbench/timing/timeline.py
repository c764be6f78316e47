"""Timelines: what the host and the devices did in one window, an event each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from graphbench.provenance.correlation import Activity
from graphbench.timing.base import TimelineEvent

HOST: Final = -1
"""The `device` of what the host did."""

Stamp = tuple[str, int, int, int, int]
"""One labelled call: row, sample, start, end (`time.perf_counter_ns`), thread (`threading.get_ident`)."""


def label_events(stamps: Iterable[Stamp], start_ns: int, end_ns: int) -> Iterator[TimelineEvent]:
    """The labels entered between two stamps, their thread as lane."""
    for row, _, start, end, thread in stamps:
        if start_ns <= start <= end_ns:
            yield TimelineEvent("host", row, row, start - start_ns, end - start, thread, HOST)


def device_events(
    activities: Iterable[Activity], row_of: Callable[[Activity], str | None], start_ns: int
) -> Iterator[TimelineEvent]:
    """Device work, counted from `start_ns` in the clock of the activities."""
    for activity in activities:
        yield TimelineEvent(
            kind=activity.kind,
            row=row_of(activity),
            name=activity.name,
            start_ns=activity.start_ns - start_ns,
            duration_ns=activity.end_ns - activity.start_ns,
            lane=activity.stream_id,
            device=activity.device_id,
        )


def in_order(events: Iterable[TimelineEvent]) -> tuple[TimelineEvent, ...]:
    """Sort by start, and number the threads that the host's lanes name in the order in which they appear."""
    numbers: dict[int, int] = {}
    return tuple(
        event if event.device != HOST else event._replace(lane=numbers.setdefault(event.lane, len(numbers)))
        for event in sorted(events, key=lambda event: (event.start_ns, event.device))
    )

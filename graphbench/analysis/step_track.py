"""A recorded step on lanes: where it was, what the host issued, what the devices did, where they waited. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from graphbench.analysis.spans import Fewer, Span, SpanKind, fewer
from graphbench.analysis.timeline import NO_ROW, idle_stretches
from graphbench.step_records import TIMELINE_KINDS, StepRecord, Timeline, TimelineKind

_OF_DEVICE: Final[dict[TimelineKind, SpanKind]] = {"copy": "copy", "memset": "fill", "sync": "sync"}
WORK: Final[frozenset[SpanKind]] = frozenset({"compiled", "gap op", "copy", "fill"})
"""What adds up to a device's busy time, or on the CPU to that of all rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTrack:
    """`lanes` by name, and what is on them. Times in nanoseconds from the step's start.

    `work_ns` adds up `WORK`, `idle_ns` the time before launches in which no device worked, `None` without a device.
    """

    lanes: tuple[str, ...]
    drawn: Fewer
    work_ns: float
    idle_ns: float | None


@dataclass(frozen=True, slots=True)
class _Event:
    kind: TimelineKind
    row: int
    name: str
    start_ns: float
    end_ns: float
    lane: int
    device: int


def step_track(step: StepRecord, most: int) -> StepTrack | None:
    """The lanes of a step; `None` where no timeline was recorded.

    Args:
        step: a recorded step.
        most: spans, of which so many are wanted at most.
    """
    events = list(_events(step.timeline))
    if not events:
        return None
    on_device = any(event.device >= 0 and event.kind != "sync" for event in events)
    lanes = _lanes(events, on_device)
    positions = {name: position for position, name in enumerate(lanes)}
    spans = [*_bands(step, events), *(_span(step, event, positions, on_device) for event in events)]
    idle = list(_idle(step, positions["device idle"])) if on_device else []
    return StepTrack(
        lanes=lanes,
        drawn=fewer([*spans, *idle], most),
        work_ns=sum(span.work_ns for span in spans if span.kind in WORK),
        idle_ns=sum(span.work_ns for span in idle) if on_device else None,
    )


def _events(timeline: Timeline) -> Iterator[_Event]:
    columns = (
        *(timeline.kinds, timeline.rows, timeline.event_names, timeline.starts_ns, timeline.durations_ns),
        *(timeline.lanes, timeline.devices),
    )
    for kind, row, name, start_ns, duration_ns, lane, device in zip(*columns, strict=True):
        end_ns = start_ns + duration_ns
        yield _Event(TIMELINE_KINDS[kind], row, timeline.names[name], start_ns, end_ns, lane, device)


def _lane(event: _Event) -> str:
    if event.device >= 0:
        return f"device {event.device}, stream {event.lane}"
    return "host" if event.lane == 0 else f"host, thread {event.lane + 1}"


def _lanes(events: list[_Event], on_device: bool) -> tuple[str, ...]:
    """Where the step was, the host's threads, the devices' streams; last when no device worked."""
    ordered = sorted(events, key=lambda event: (event.device >= 0, event.device, event.lane))
    return ("phase", "place", *dict.fromkeys(map(_lane, ordered)), *(["device idle"] if on_device else []))


def _bands(step: StepRecord, events: list[_Event]) -> Iterator[Span]:
    """Phases and places, each from the first event of a stretch that is of no other to its last one."""
    hosts = [event for event in events if event.row != NO_ROW and event.device < 0]
    graphs = {place.key for place in step.places if place.kind == "graph"}
    for start, end, name in _stretches([(event, step.rows[event.row].phase) for event in hosts]):
        yield Span(lane=0, kind="phase", start_ns=start, end_ns=end, work_ns=end - start, name=name)
    for start, end, name in _stretches([(event, step.rows[event.row].place) for event in hosts]):
        kind: SpanKind = "graph" if name in graphs else "gap"
        yield Span(lane=1, kind=kind, start_ns=start, end_ns=end, work_ns=end - start, name=name)


def _stretches(named: list[tuple[_Event, str]]) -> Iterator[tuple[float, float, str]]:
    """Start, end and name of events of one name that follow each other."""
    for name, members in groupby(named, key=lambda entry: entry[1]):
        events = [event for event, _ in members]
        yield events[0].start_ns, max(event.end_ns for event in events), name


def _span(step: StepRecord, event: _Event, positions: dict[str, int], on_device: bool) -> Span:
    row = None if event.row == NO_ROW else step.rows[event.row]
    work: SpanKind = "compiled" if row is not None and row.kernel is not None else "gap op"
    kind = _OF_DEVICE.get(event.kind, "host" if event.kind == "host" and on_device else work)
    return Span(
        lane=positions[_lane(event)],
        kind=kind,
        start_ns=event.start_ns,
        end_ns=event.end_ns,
        work_ns=event.end_ns - event.start_ns,
        name=event.name if row is None else row.kernel or row.name,
        row=None if row is None else event.row,
        region=None if row is None else row.region,
        place="" if row is None else row.place,
        detail="" if event.kind == "host" else event.name,
    )


def _idle(step: StepRecord, lane: int) -> Iterator[Span]:
    """What no device did, each stretch named after the work that ended it."""
    for idle in idle_stretches(step.timeline) or ():
        row = None if idle.before == NO_ROW else step.rows[idle.before]
        yield Span(
            lane=lane,
            kind="idle",
            start_ns=idle.start_ns,
            end_ns=idle.start_ns + idle.ns,
            work_ns=idle.ns,
            name="" if row is None else row.kernel or row.name,
            place="" if row is None else row.place,
        )

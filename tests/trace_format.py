"""What a trace must keep to so that a viewer shows all of it, checked as the Trace Event Format and Perfetto have it.

Source: the Trace Event Format; `JsonTraceTokenizer::ParseTraceEventContents`, `JsonTraceParser::ParseJsonPacket`,
`json_parser.h`, `SliceTracker::MaybeCloseStack`, `FlowTracker::Begin` and `End` of Perfetto's importer (2026-08).
Nothing here is imported from the code that writes traces.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from graphbench.measurements import Measurement
from graphbench.records import ProfileRecord
from graphbench.step_records import TIMELINE_KINDS
from graphbench.units import count_text

Event = Mapping[str, Any]
Track = tuple[int, int]
NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "X": ("name", "cat", "ts", "dur", "pid", "tid", "args"),
    "i": ("name", "cat", "ts", "s", "pid", "tid", "args"),
    "s": ("name", "cat", "ts", "id", "pid", "tid"),
    "f": ("name", "cat", "ts", "id", "bp", "pid", "tid"),
    "M": ("name", "pid", "tid", "args"),
}
NAMING: Final = {"process_name": "name", "thread_name": "name", "process_sort_index": "sort_index"}
METADATA: Final = {**NAMING, "thread_sort_index": "sort_index"}
DEEPEST: Final = 512
MOST_DECIMALS: Final = 18
_SURROGATE: Final = re.compile(r"(?<!\\)(?:\\\\)*\\u[dD][89a-fA-F]")


def read_trace(text: str) -> tuple[list[dict[str, Any]], list[str]]:
    """The events of a trace, and what a reader would refuse or misread in its text."""
    found: list[str] = []

    def number(digits: str) -> float:
        if len(digits.partition(".")[2].split("e")[0]) > MOST_DECIMALS:
            found.append(f"the number {digits} is misread")
        return float(digits)

    def constant(name: str) -> float:
        found.append(f"{name} is no JSON")
        return math.nan

    document = json.loads(text, parse_float=number, parse_constant=constant)
    if _SURROGATE.search(text) or "\x7f" in text:
        found.append("an escaped surrogate or a control character stops the reader")
    if document.get("displayTimeUnit") not in ("ms", "ns"):
        found.append(f"displayTimeUnit is {document.get('displayTimeUnit')!r}")
    return list(document["traceEvents"]), found


def trace_faults(text: str) -> list[str]:
    """Everything that is wrong with a trace; empty for a good one."""
    events, found = read_trace(text)
    incomplete = [fault for event in events for fault in _event_faults(event)]
    if incomplete:
        return found + incomplete
    return [*found, *_name_faults(events), *_order_faults(events), *_Reader().faults(events)]


def read_ns(microseconds: float) -> int:
    """What Perfetto makes of a stamp: `CoerceToTs`."""
    return math.floor(microseconds * 1000 + 0.5)


def track_of(event: Event) -> Track:
    """Process and thread."""
    return event["pid"], event["tid"]


def _event_faults(event: Event) -> Iterator[str]:
    phase = event.get("ph", "")
    if phase not in NEEDED:
        yield f"unknown phase {phase!r}"
        return
    yield from (f"{phase} without {key}: {event}" for key in NEEDED[phase] if key not in event)
    if not isinstance(event.get("name"), str) or not event.get("name"):
        yield f"no name: {event}"
    for key in ("ts", "dur"):
        value = event.get(key, 0)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
            yield f"{key} is {value!r}: {event}"
    if phase == "i" and event.get("s") not in ("t", "p", "g"):
        yield f"scope {event.get('s')!r}: {event}"
    if phase == "f" and event.get("bp") != "e":
        yield f"the end of a flow binds to no enclosing slice: {event}"
    if phase == "M" and METADATA.get(event["name"], "") not in event.get("args", {}):
        yield f"metadata that nobody reads: {event}"


def _name_faults(events: Sequence[Event]) -> Iterator[str]:
    """Metadata comes first and names every process and every track; a track's number is its own."""
    phases = [event["ph"] for event in events]
    if "M" in phases[phases.count("M") :]:
        yield "metadata between events"
    named = {(event["name"], *track_of(event)) for event in events if event["ph"] == "M"}
    tracks = {track_of(event) for event in events if event["ph"] != "M"}
    for pid, tid in sorted(tracks):
        if ("process_name", pid, 0) not in named or ("thread_name", pid, tid) not in named:
            yield f"track {pid}/{tid} has no name"
    processes = {pid for pid, _ in tracks}
    for tid, count in Counter(tid for _, tid in tracks).items():
        if count > 1 or tid in processes or tid < 1:
            yield f"thread {tid} is taken for another one"


def _order_faults(events: Sequence[Event]) -> Iterator[str]:
    last: dict[Track, float] = {}
    for event in events:
        if event["ph"] == "M":
            continue
        if event["ts"] < last.get(track_of(event), 0):
            yield f"stamps go back: {event['name']} at {event['ts']}"
        last[track_of(event)] = event["ts"]


@dataclass(slots=True)
class _Reader:
    """Reads events as Perfetto does: by time, of equal time in their order, each track with a stack of open slices."""

    stacks: dict[Track, list[tuple[int, int, str]]] = field(default_factory=dict)
    started: dict[tuple[Any, ...], int] = field(default_factory=dict)
    ended: set[tuple[Any, ...]] = field(default_factory=set)

    def faults(self, events: Iterable[Event]) -> Iterator[str]:
        timed = [event for event in events if event["ph"] != "M"]
        for event in sorted(timed, key=lambda event: read_ns(event["ts"])):
            yield from self._slice(event) if event["ph"] in "Xi" else self._flow(event)
        for flow in self.started.keys() - self.ended:
            yield f"flow {flow} has no end"

    def _slice(self, event: Event) -> Iterator[str]:
        start, length = read_ns(event["ts"]), read_ns(event.get("dur", 0))
        stack = self.stacks.setdefault(track_of(event), [])
        while stack and (stack[-1][1] < start or (stack[-1][1] == start and stack[-1][0] != start + length)):
            stack.pop()
        if stack and start < stack[-1][1] < start + length:
            yield f"{event['name']} overlaps {stack[-1][2]} at {event['ts']}"
        stack.append((start, start + length, event["name"]))
        if len(stack) > DEEPEST:
            yield f"{event['name']} lies too deep"

    def _flow(self, event: Event) -> Iterator[str]:
        flow, at = (event["cat"], event["name"], event["id"]), read_ns(event["ts"])
        stack = self.stacks.get(track_of(event), [])
        if not stack or not stack[-1][0] <= at <= stack[-1][1]:
            yield f"flow {flow} lies in no slice"
        start = stack[-1][0] if stack else at
        if event["ph"] == "s":
            if flow in self.started:
                yield f"flow {flow} starts twice"
            self.started[flow] = start
        elif flow not in self.started or self.started[flow] > start:
            yield f"flow {flow} ends before it starts"
        else:
            self.ended.add(flow)


def time_faults(text: str, record: ProfileRecord) -> list[str]:
    """Rows that are missing, told twice, or have another time than the profile."""
    events = [event for event in read_trace(text)[0] if event["ph"] in "Xi"]
    return [*_row_faults(events, record), *_timeline_faults(events, record), *_enclosing_faults(events)]


def _row_faults(events: Sequence[Event], record: ProfileRecord) -> Iterator[str]:
    """Every node and kernel is told once, with its median or why it has none."""
    told: dict[tuple[str, str], list[Event]] = {}
    regions = {region.key for region in record.regions}
    for event in events:
        if event["cat"] in ("eager", "eager backward", "compiled") and event["args"].get("region") in regions:
            told.setdefault((event["cat"], event["args"]["row"]), []).append(event)
    for region in record.regions:
        nodes = [node for node in region.nodes if node.kind in ("compute", "view")]
        alone = not any(node.in_graph.samples for node in nodes)
        for node in nodes:
            row, expected = f"{region.key}/{node.name}", node.isolated if alone else node.in_graph
            if alone and not expected.samples:
                expected = node.in_graph
            yield from _one(told.pop(("eager", row), []), row, expected)
            backward = told.pop(("eager backward", row), [])
            if backward or node.backward_in_graph.samples:
                yield from _one(backward, row, node.backward_in_graph)
        for kernel in region.kernels:
            row = f"{region.key}/{kernel.key}"
            yield from _one(told.pop(("compiled", row), []), row, kernel.in_graph)
    yield from (f"{row} is no row" for row in told)


def _one(events: Sequence[Event], row: str, measured: Measurement) -> Iterator[str]:
    if len(events) != 1:
        yield f"{row} is told {count_text(len(events), 'time')}"
        return
    (event,) = events
    if measured.samples is None:
        if event["ph"] != "i" or not event["args"].get("no_time"):
            yield f"{row} has no time, and the trace does not say why"
        return
    ordered = sorted(measured.samples.busy_ns)
    middle, odd = divmod(len(ordered), 2)
    median_ns = ordered[middle] if odd else (ordered[middle - 1] + ordered[middle]) / 2
    if event["ph"] != "X" or abs(event["dur"] * 1000 - median_ns) > 1e-3:
        yield f"{row} took {median_ns} ns, the trace has {event.get('dur')}"


def _timeline_faults(events: Sequence[Event], record: ProfileRecord) -> Iterator[str]:
    """The step's tracks hold what its timeline does, with its times to a thousandth of a nanosecond."""
    if record.step is None or not record.step.timeline.kinds:
        return
    timeline = record.step.timeline
    stamps = zip(timeline.kinds, timeline.starts_ns, timeline.durations_ns, strict=True)
    expected = Counter((TIMELINE_KINDS[kind] == "sync", round(a, 3), round(b, 3)) for kind, a, b in stamps)
    found = Counter(
        (event["cat"] == "sync", round(event["ts"] * 1000, 3), round(event["dur"] * 1000, 3))
        for event in events
        if event["cat"] in ("compiled", "gap", "unattributed", "sync") and "region" not in event["args"]
    )
    if found != expected:
        yield f"the timeline differs: {(expected - found).total()} missing, {(found - expected).total()} too many"


def _enclosing_faults(events: Sequence[Event]) -> Iterator[str]:
    """Modules and phases are as long as their rows, but for up to a nanosecond a row: where the next one starts."""
    for event in events:
        if event["cat"] in ("module", "phase"):
            over_ns = event["dur"] * 1000 - event["args"].get("time_ns", 0.0)
            if not -1e-3 <= over_ns <= event["args"]["rows"] + 1e-3:
                yield f"{event['name']} is {over_ns} ns longer than its rows"

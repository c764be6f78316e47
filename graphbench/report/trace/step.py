"""The tracks of a recorded step as it happened: host threads, device streams, idle time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from graphbench.analysis.timeline import NO_ROW, idle_stretches
from graphbench.report.trace.arguments import known
from graphbench.report.trace.events import Lane
from graphbench.report.trace.lanes import Spread, in_order
from graphbench.report.trace.names import device_name, row_title
from graphbench.step_records import TIMELINE_KINDS, StepRecord, StepRow, TimelineKind

UNATTRIBUTED: Final = "unattributed"
_HOST: Final = ("host", "sync")
_NO_DEVICE: Final = -1


@dataclass(frozen=True, slots=True)
class Happened:
    """One event of a timeline. `call` counts the events of its row and kind, from 1."""

    kind: TimelineKind
    row: int
    name: str
    start_ns: float
    duration_ns: float
    device: int
    lane: int
    call: int


def happenings(step: StepRecord) -> list[Happened]:
    """The events of a step's timeline by start, what encloses another one first."""
    timeline, calls = step.timeline, Counter[tuple[int, int]]()
    found: list[Happened] = []
    for at in in_order(timeline.starts_ns, timeline.durations_ns):
        row, kind = timeline.rows[at], timeline.kinds[at]
        calls[row, kind] += 1
        found.append(
            Happened(
                kind=TIMELINE_KINDS[kind],
                row=row,
                name=timeline.names[timeline.event_names[at]],
                start_ns=timeline.starts_ns[at],
                duration_ns=timeline.durations_ns[at],
                device=timeline.devices[at],
                lane=timeline.lanes[at],
                call=calls[row, kind],
            )
        )
    return found


def timeline_lanes(step: StepRecord, events: Sequence[Happened]) -> list[Lane]:
    """Threads of the host, then streams of the devices. Calls may lie inside each other, work of a stream not."""
    lanes: dict[tuple[int, int, int], Lane] = {}
    spreads = {True: Spread(nested=True), False: Spread(nested=False)}
    for event in events:
        host = event.kind in _HOST
        where = (_NO_DEVICE if host else event.device, event.lane)
        key = (*where, spreads[host].track_of(where, event.start_ns, event.duration_ns))
        lane = lanes.setdefault(key, Lane(_lane_name(*key)))
        row = None if event.row == NO_ROW else step.rows[event.row]
        lane.slice(_title(event, row), category(event, row), event.start_ns, event.duration_ns, _args(event, row))
    return [lanes[key] for key in sorted(lanes)]


def idle_lane(step: StepRecord) -> Lane:
    """When no device worked, and for whose launch it waited."""
    lane = Lane("no device works")
    for idle in idle_stretches(step.timeline) or ():
        rows = {"before": idle.before, "behind": idle.behind}
        args = {name: "no row" if row == NO_ROW else row_key(step.rows[row]) for name, row in rows.items()}
        place = "" if idle.before == NO_ROW else step.rows[idle.before].place
        lane.slice("idle", "idle", idle.start_ns, idle.ns, known({**args, "place": place}))
    return lane


def category(event: Happened, row: StepRow | None) -> str:
    """Waits of the host; work of compiled kernels, of gap ops, and of no row."""
    if event.kind == "sync":
        return "sync"
    return UNATTRIBUTED if row is None else "gap" if row.kernel is None else "compiled"


def row_key(row: StepRow) -> str:
    """By what the slices of a row are known on all tracks."""
    return row.name if row.kernel is None else f"{row.region}/{row.kernel}"


def call_args(row: StepRow, call: int) -> dict[str, Any]:
    """Whose call an event is, in short."""
    return known({"row": row_key(row), "call": call, "calls": row.calls})


def _title(event: Happened, row: StepRow | None) -> str:
    if event.kind == "host" and row is not None:
        return row_title(row)
    return device_name(event.name, event.kind)


def _args(event: Happened, row: StepRow | None) -> dict[str, Any]:
    if row is None:
        return {"row": UNATTRIBUTED}
    where = known({"place": row.place, "phase": row.phase, "user_phase": row.user_phase})
    counted = event.kind == "host"
    return {**(call_args(row, event.call) if counted else {"row": row_key(row)}), **where}


def _lane_name(device: int, lane: int, track: int) -> str:
    name = f"host thread {lane}" if device == _NO_DEVICE else f"device {device}, stream {lane}"
    return f"{name} ({track + 1})" if track else name

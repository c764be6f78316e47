"""What device and host waited for in a recorded step: idle time before launches, and synchronisations. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from graphbench.step_records import START, TIMELINE_KINDS, StepRecord, Timeline

NO_ROW = -1
_DEVICE_KINDS = frozenset(TIMELINE_KINDS.index(kind) for kind in ("kernel", "copy", "memset"))
_HOST, _SYNC = TIMELINE_KINDS.index("host"), TIMELINE_KINDS.index("sync")


@dataclass(frozen=True, slots=True)
class Idle:
    """A stretch in which no device worked: `before` and `behind` are the rows of the work at its ends, -1 for none.

    It begins `start_ns` behind the step's start.
    """

    ns: float
    before: int
    behind: int
    start_ns: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """`idle` and `wait_ns`, the time that the host waited in all, are `None` where the timeline has no device work.

    `row_syncs` counts, for every row of the step, its calls that made the host wait for a device; `other_syncs` what
    did so under no row, such as `torch.cuda.synchronize()`, by the place that the host was in. Without device work in
    the timeline a row that reads a value counts with all its calls; with it, one that reads a tensor of the host not.
    """

    idle: tuple[Idle, ...] | None
    row_syncs: tuple[int, ...]
    other_syncs: Mapping[str, int]
    wait_ns: float | None

    @property
    def n_syncs(self) -> int:
        """All of them."""
        return sum(self.row_syncs) + sum(self.other_syncs.values())


def find_waits(step: StepRecord) -> Waits:
    """Where the device had nothing to do, and where the host waited for it."""
    timeline = step.timeline
    idle = idle_stretches(timeline)
    events, other = _sync_events(step)
    reads = [row.calls if row.kind == "sync" and idle is None else 0 for row in step.rows]
    waited = [ns for kind, ns in zip(timeline.kinds, timeline.durations_ns, strict=True) if kind == _SYNC]
    return Waits(
        idle=idle,
        row_syncs=tuple(max(reads[index], min(events[index], row.calls)) for index, row in enumerate(step.rows)),
        other_syncs=other,
        wait_ns=None if idle is None else sum(waited),
    )


def idle_stretches(timeline: Timeline) -> tuple[Idle, ...] | None:
    """Time between the end of all device work so far and the start of the next, from the step's start on.

    Work of all devices and streams counts as one. What is idle behind the last of it is no launch's and left out.
    `None` when no device worked.
    """
    found: list[Idle] = []
    end_ns, behind, worked = 0.0, NO_ROW, False
    columns = (timeline.kinds, timeline.rows, timeline.starts_ns, timeline.durations_ns)
    for kind, row, start_ns, duration_ns in zip(*columns, strict=True):
        if kind not in _DEVICE_KINDS:
            continue
        worked = True
        if start_ns > end_ns:
            found.append(Idle(start_ns - end_ns, before=row, behind=behind, start_ns=end_ns))
        if start_ns + duration_ns >= end_ns:
            end_ns, behind = start_ns + duration_ns, row
    return tuple(found) if worked else None


def place_of(step: StepRecord, row: int) -> str | None:
    """The place of a row of the timeline; `None` for none."""
    return None if row == NO_ROW else step.rows[row].place


def _sync_events(step: StepRecord) -> tuple[Counter[int], Counter[str]]:
    """Waits of the host by row; those under no row by the place of the last call that the host had issued."""
    by_row: Counter[int] = Counter()
    by_place: Counter[str] = Counter()
    place = START
    for kind, row in zip(step.timeline.kinds, step.timeline.rows, strict=True):
        if kind == _SYNC and row != NO_ROW:
            by_row[row] += 1
        elif kind == _SYNC:
            by_place[place] += 1
        elif kind == _HOST:
            place = place_of(step, row) or place
    return by_row, by_place

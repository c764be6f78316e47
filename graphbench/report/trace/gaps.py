"""The tracks of what ran outside compiled graphs: a track a gap, a slice each time that the step passed through it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from graphbench.analysis.break_costs import BreakRow
from graphbench.analysis.digest import Digest
from graphbench.analysis.gaps import GapRow
from graphbench.analysis.timeline import NO_ROW
from graphbench.analysis.tracks import rows_track
from graphbench.report.break_columns import BREAK_COLUMNS
from graphbench.report.gaps_table import GAP_COLUMNS
from graphbench.report.trace.arguments import column_args, known, source_args
from graphbench.report.trace.events import Lane
from graphbench.report.trace.lanes import Spread, read_end_ns, read_ns
from graphbench.report.trace.names import device_name, row_title
from graphbench.report.trace.step import Happened, call_args, row_key
from graphbench.step_records import StepRecord, StepRow

NOT_IN_TIMELINE = "the timeline has no event of it"


@dataclass(frozen=True, slots=True)
class Visit:
    """The step passing through a gap once, in whole nanoseconds, and what happened meanwhile."""

    start_ns: int
    end_ns: int
    events: list[Happened] = field(default_factory=list)


class GapTracks:
    """The gaps of one step.

    Args:
        step: the step.
        events: its timeline, as `happenings` has it.
        rows: its gap ops.
    """

    def __init__(self, step: StepRecord, events: Sequence[Happened], rows: Sequence[GapRow]) -> None:
        self._step = step
        self._rows = {id(row.row): row for row in rows}
        self.visits = _visits(step, events)

    def lanes(self) -> list[Lane]:
        """A track per gap, in order of the step; its ops are told where they were issued."""
        found: list[Lane] = []
        for place in _places(self._step):
            missing = self._missing(place)
            if place in self.visits or missing:
                found += self._lanes_of(place, missing)
        return found

    def _lanes_of(self, place: str, missing: Sequence[StepRow]) -> list[Lane]:
        lanes = [Lane(f"gap: {place}")]
        spread, told = Spread(nested=True), set[int]()
        end_ns = 0
        for number, visit in enumerate(self.visits.get(place, ()), start=1):
            length_ns = visit.end_ns - visit.start_ns
            spread.track_of(place, visit.start_ns, length_ns)
            args = known({"place": place, "visit": number, "ops": len(visit.events)})
            lanes[0].slice(place, "place", visit.start_ns, length_ns, args)
            for event in visit.events:
                track = spread.track_of(place, event.start_ns, event.duration_ns)
                if track == len(lanes):
                    lanes.append(Lane(f"gap: {place} ({track + 1})"))
                row = self._step.rows[event.row]
                args = call_args(row, event.call) if event.row in told else self._args(row)
                told.add(event.row)
                lanes[track].slice(row_title(row), "gap op", event.start_ns, event.duration_ns, args)
            end_ns = visit.end_ns
        for at_ns, row in enumerate(missing, start=end_ns):
            reason = row.in_graph.reason or NOT_IN_TIMELINE
            lanes[0].instant(row_title(row), "gap op", at_ns, self._args(row) | known({"no_time": reason}))
        return lanes

    def _missing(self, place: str) -> list[StepRow]:
        """Gap ops of a place of which nothing happened in the timeline."""
        seen = {event.row for visit in self.visits.get(place, ()) for event in visit.events}
        rows = enumerate(self._step.rows)
        return [row for index, row in rows if row.kernel is None and row.place == place and index not in seen]

    def _args(self, row: StepRow) -> dict[str, Any]:
        return gap_args(self._rows[id(row)])


def gap_args(row: GapRow) -> dict[str, Any]:
    """Everything that is known of a gap op."""
    work = row.row.in_graph.device_kernels or row.row.isolated.device_kernels
    names = [device_name(entry.name, entry.kind) for entry in work]
    args = column_args(GAP_COLUMNS, row) | source_args(row.row.source)
    return args | known({"row": row_key(row.row), "device_kernels": names or None})


def laid_lane(step: StepRecord, rows: Sequence[GapRow], digest: Digest) -> Lane:
    """All rows of a step without a timeline, laid end to end under their places, with the time of all their calls."""
    lane, at_ns = Lane("rows of the step, laid end to end"), 0
    facts = {id(row.row): row for row in rows}
    for place in _places(step):
        track = rows_track(step, [index for index, row in enumerate(step.rows) if row.place == place], digest, at_ns)
        at_ns = track.end_ns
        if not track.slots:
            continue
        args = known({"place": place, "time_ns": track.total_ns})
        lane.slice(place, "place", track.start_ns, track.end_ns - track.start_ns, args)
        for slot in track.slots:
            row = step.rows[int(slot.key)]
            args = gap_args(facts[id(row)]) if row.kernel is None else known({"row": row_key(row), "calls": row.calls})
            category = "gap op" if row.kernel is None else "compiled"
            if slot.duration_ns is None:
                lane.instant(row_title(row), category, slot.start_ns, args | known({"no_time": slot.reason}))
            else:
                lane.slice(row_title(row), category, slot.start_ns, slot.duration_ns, args)
    return lane


def break_lane(breaks: Iterable[BreakRow], visits: Mapping[str, Sequence[Visit]]) -> Lane:
    """Graph breaks as instants, where the step first passed through the gap that they made, or else at its start."""
    lane, free_ns = Lane("graph breaks"), 0
    placed: list[tuple[int, BreakRow]] = []
    for row in breaks:
        seen = visits.get(row.cost.place or "", ()) if row.cost else ()
        placed.append((seen[0].start_ns if seen else 0, row))
    for start_ns, row in sorted(placed, key=lambda entry: entry[0]):
        at_ns = max(start_ns, free_ns)
        free_ns = at_ns + 1
        args = column_args(BREAK_COLUMNS, row) | source_args(row.graph_break.source)
        lane.instant(f"{row.graph_break.kind}: {row.graph_break.reason}", "break", at_ns, args)
    return lane


def _places(step: StepRecord) -> list[str]:
    """The places of a step in its order, then those that only rows name."""
    return list(dict.fromkeys([*(place.key for place in step.places), *(row.place for row in step.rows)]))


def _visits(step: StepRecord, events: Sequence[Happened]) -> dict[str, list[Visit]]:
    """When the step passed through each gap: from the first op issued in it to the last, before one elsewhere.

    Where the timeline has nothing of the host, the devices' work tells.
    """
    host = any(event.kind == "host" and event.row != NO_ROW for event in events)
    found: dict[str, list[Visit]] = {}
    last: str | None = None
    for event in events:
        if event.row == NO_ROW or event.kind == "sync" or (event.kind == "host") is not host:
            continue
        row = step.rows[event.row]
        if row.kernel is not None:
            last = row.place
            continue
        visits = found.setdefault(row.place, [])
        start_ns, end_ns = read_ns(event.start_ns), read_end_ns(event.start_ns, event.duration_ns)
        if not visits or (last != row.place and visits[-1].end_ns <= start_ns):
            visits.append(Visit(start_ns, end_ns))
        visits[-1].events.append(event)
        visits[-1] = replace(visits[-1], end_ns=max(visits[-1].end_ns, end_ns))
        last = row.place
    return found

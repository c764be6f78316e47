"""What each graph break cost in a recorded step: the gap behind the graph that it ended, or its frame's lines. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from graphbench.analysis.digest import Digest
from graphbench.analysis.gaps import known_sum
from graphbench.analysis.places import PlaceRow, count_launches, place_rows
from graphbench.analysis.shown import ShownRow
from graphbench.analysis.timeline import Waits, find_waits
from graphbench.analysis.views import source_text
from graphbench.measurements import SourceLine
from graphbench.records import ProfileRecord
from graphbench.step_records import GraphBreak, StepRecord, StepRow

NO_STEP = "no step was recorded"


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakCost:
    """What ran outside compiled graphs because of a break. Times in nanoseconds, of all calls; `None` where not known.

    `place` is the gap whose forward ops are counted, `None` where rows were found by their frame instead; then backward
    of its lines is among them. `host_ns` is the host's time in the gap, Python included, or else to issue its calls.
    `idle_ns` passed without device work before and behind the gap's. `copied` are bytes by direction, `syncs` calls by
    op.
    """

    place: str | None
    separates: tuple[str, ...]
    rows: int
    calls: int
    launches: int | None
    time_ns: float | None
    idle_ns: float | None
    host_ns: float | None
    copied: tuple[tuple[str, int], ...]
    syncs: tuple[tuple[str, int], ...]

    @property
    def lost_ns(self) -> float:
        """What breaks are ranked by: device time with the idle time around it, or the host's where that is more known.

        Without a device timeline the host's time in the gap, or that of its rows.
        """
        if self.idle_ns is not None:
            return (self.time_ns or 0.0) + self.idle_ns
        return max(self.host_ns or 0.0, self.time_ns or 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakRow(ShownRow):
    """One break. Where `cost` is `None`, `reason` says why; `told_with` is the position of the break with its cost."""

    graph_break: GraphBreak
    cost: BreakCost | None = None
    reason: str = ""
    told_with: int | None = None


def break_rows(record: ProfileRecord, digest: Digest | None = None) -> list[BreakRow]:
    """The breaks of a profile, the most expensive first, those without a cost in their order last.

    Several breaks behind one graph have one gap: the first of them carries its cost.
    """
    if record.step is None:
        return [BreakRow(graph_break=entry, reason=NO_STEP) for entry in record.breaks]
    step, digest = record.step, digest or Digest()
    waits = find_waits(step)
    places = {row.key: row for row in place_rows(step, digest, waits)}
    priced = [_price(entry, step, places, waits, digest) for entry in record.breaks]
    ranked = sorted(priced, key=lambda row: (row.cost is None, -row.cost.lost_ns if row.cost else 0.0))
    first: dict[object, int] = {}
    for index, row in enumerate(ranked):
        told = first.setdefault(_home(row), index) if row.cost is not None else index
        if told != index:
            ranked[index] = replace(row, cost=None, told_with=told, reason=f"told with break {told + 1}")
    return ranked


def _home(row: BreakRow) -> object:
    """What a cost was counted from."""
    if row.cost is not None and row.cost.place is not None:
        return row.cost.place
    return _frame(row.graph_break)


def _price(entry: GraphBreak, step: StepRecord, places: dict[str, PlaceRow], waits: Waits, digest: Digest) -> BreakRow:
    if entry.region is not None:
        found = places.get(f"after {entry.region}/forward")
        if found is None:
            ran = any(row.region == entry.region for row in step.rows)
            reason = "no gap behind it was recorded" if ran else f"{entry.region} did not run in this step"
            return BreakRow(graph_break=entry, reason=reason)
        members = [(index, row) for index, row in enumerate(step.rows) if row.place == found.key]
        # Behind the last graph of a forward begins the backward, and without a compiled one the optimizer runs there.
        counted = [(index, row) for index, row in members if row.phase == "forward"]
        cost = _cost(step, counted, waits, digest)
        cost = replace(cost, place=found.key, separates=(entry.region, *_next(found)), idle_ns=_idle_around(found))
        whole = len(counted) == len(members)
        return BreakRow(
            graph_break=entry,
            cost=replace(cost, host_ns=found.host_ns) if whole and found.host_ns is not None else cost,
        )
    frame = _frame(entry)
    if frame is None:
        return BreakRow(graph_break=entry, reason="its source line is not known")
    members = [
        (index, row)
        for index, row in enumerate(step.rows)
        if row.kernel is None and row.source and (row.source.file, _function(row.source)) == frame
    ]
    if not members:
        return BreakRow(graph_break=entry, reason="no op of its function ran outside compiled graphs")
    return BreakRow(graph_break=entry, cost=_cost(step, members, waits, digest))


def _frame(entry: GraphBreak) -> tuple[str, str] | None:
    """File and function of what runs eagerly because of a break that ended no graph."""
    source = entry.frame or entry.source
    return (source.file, _function(source)) if source else None


def _function(source: SourceLine) -> str:
    """A function's bare name: some sources qualify it."""
    return source.function.rpartition(".")[2]


def _next(place: PlaceRow) -> tuple[str, ...]:
    """The regions whose forward ran behind a gap, a backward by its place, or `end`."""
    followed = place.place.followed_by if place.place else ()
    return tuple(graph.removesuffix("/forward") for graph in followed)


def _idle_around(place: PlaceRow) -> float | None:
    if place.idle_ns is None or place.idle_behind_ns is None:
        return None
    return place.idle_ns + place.idle_behind_ns


def _cost(step: StepRecord, members: Sequence[tuple[int, StepRow]], waits: Waits, digest: Digest) -> BreakCost:
    rows = [row for _, row in members]
    copied: Counter[str] = Counter()
    syncs: Counter[str] = Counter()
    for index, row in members:
        if row.copied_bytes:
            copied[row.copied] += row.copied_bytes
        if waits.row_syncs[index]:
            line = source_text(row.source)
            syncs[f"{row.op_type} at {line}" if line else row.op_type] += waits.row_syncs[index]
    return BreakCost(
        place=None,
        separates=(),
        rows=len(rows),
        calls=sum(row.calls for row in rows),
        launches=count_launches(step, rows, digest),
        time_ns=known_sum([digest.median(row.in_graph) for row in rows]),
        idle_ns=None,
        host_ns=known_sum([digest.median(row.in_graph, "host_ns") for row in rows]),
        copied=tuple(copied.items()),
        syncs=tuple(syncs.items()),
    )

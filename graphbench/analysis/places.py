"""The places of a recorded step, graphs and the gaps behind them, in its order: who kept whom waiting. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphbench.analysis.digest import Digest
from graphbench.analysis.gaps import known_sum
from graphbench.analysis.shown import ShownRow
from graphbench.analysis.timeline import Waits, find_waits, place_of
from graphbench.step_records import Place, StepRecord, StepRow


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceRow(ShownRow):
    """One place. Times in nanoseconds over all its calls; `None` where not known.

    `time_ns` is that of its rows. `idle_ns` passed without device work before launches of this place,
    `idle_behind_ns` between its last work and the first of another place. `launches` counts kernels. `place` is `None`
    for device work of no row.
    """

    place: Place | None
    rows: int
    host_ns: float | None
    time_ns: float | None
    idle_ns: float | None
    idle_behind_ns: float | None
    launches: int | None
    syncs: int

    @property
    def key(self) -> str:
        """Its name."""
        return "(no row)" if self.place is None else self.place.key

    @property
    def launches_per_ms(self) -> float | None:
        """Kernels launched per millisecond of the host's time in it."""
        return None if self.launches is None or not self.host_ns else 1e6 * self.launches / self.host_ns

    @property
    def host_bound(self) -> bool | None:
        """Whether the device idled longer before its launches than it worked for it."""
        return None if self.idle_ns is None or self.time_ns is None else self.idle_ns > self.time_ns


def place_rows(step: StepRecord, digest: Digest | None = None, waits: Waits | None = None) -> list[PlaceRow]:
    """One row per place of a step, in its order; last, if the device waited for it, work that no row launched."""
    digest, waits = digest or Digest(), waits or find_waits(step)
    rows: dict[str, list[tuple[int, StepRow]]] = {}
    for index, row in enumerate(step.rows):
        rows.setdefault(row.place, []).append((index, row))
    before, behind = _idle_by_place(step, waits)
    found = []
    for place in _places(step):
        members = [row for _, row in rows.get(place.key, ())]
        syncs = sum(waits.row_syncs[index] for index, _ in rows.get(place.key, ()))
        found.append(
            PlaceRow(
                place=place,
                rows=len(members),
                host_ns=place.host_ns if place.calls else None,
                time_ns=known_sum([digest.median(row.in_graph) for row in members]),
                idle_ns=None if waits.idle is None else before.get(place.key, 0.0),
                idle_behind_ns=None if waits.idle is None else behind.get(place.key, 0.0),
                launches=count_launches(step, members, digest),
                syncs=syncs + waits.other_syncs.get(place.key, 0),
            )
        )
    return found + _unattributed(before.get(None, 0.0), behind.get(None, 0.0))


def count_launches(step: StepRecord, rows: Sequence[StepRow], digest: Digest) -> int | None:
    """Kernels that rows of a step launched; `None` where its timer counts none."""
    if step.run.n_kernels is None:
        return None
    total = known_sum([digest.median(row.in_graph, "n_kernels") for row in rows if row.in_graph.samples])
    return None if total is None else round(total)


def _places(step: StepRecord) -> list[Place]:
    """Places as recorded, then those that only rows name."""
    known = {place.key for place in step.places}
    others = dict.fromkeys(row.place for row in step.rows if row.place not in known)
    return [*step.places, *(Place(key=key, kind="graph" if "/" in key and " " not in key else "gap") for key in others)]


def _idle_by_place(step: StepRecord, waits: Waits) -> tuple[dict[str | None, float], dict[str | None, float]]:
    before: dict[str | None, float] = {}
    behind: dict[str | None, float] = {}
    for idle in waits.idle or ():
        launched, waited = place_of(step, idle.before), place_of(step, idle.behind)
        before[launched] = before.get(launched, 0.0) + idle.ns
        if waited != launched:
            behind[waited] = behind.get(waited, 0.0) + idle.ns
    return before, behind


def _unattributed(idle_ns: float, idle_behind_ns: float) -> list[PlaceRow]:
    if not idle_ns:
        return []
    return [
        PlaceRow(
            place=None,
            rows=0,
            host_ns=None,
            time_ns=None,
            idle_ns=idle_ns,
            idle_behind_ns=idle_behind_ns,
            launches=None,
            syncs=0,
        )
    ]

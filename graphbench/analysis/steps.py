"""A recorded step in a few figures: do its rows explain the real step, and what waited. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from graphbench.analysis.digest import Digest
from graphbench.analysis.gaps import known_sum
from graphbench.analysis.places import PlaceRow, place_rows
from graphbench.analysis.stats import quantile
from graphbench.analysis.timeline import find_waits
from graphbench.measurements import TimerName
from graphbench.records import ProfileRecord
from graphbench.step_records import StepRecord, StepRow

DOMINATES: Final = 0.5
"""Part of a step from which on gaps, or an idle device, are told first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSummary:
    """The figures of a whole step; times are medians in nanoseconds, `None` where not known.

    `plain_ns` is the wall time of the step without any instrument, of `n_plain` steps; `wall_ns` that of the recorded
    one. `rows_ns` adds up all rows. `wait_ns` is the host's time in synchronisations, `wrapper_ns` what passes between
    rows where busy time is wall time. `gap_share` is what ran outside compiled graphs: of the device time of all rows,
    or of the host's time on the CPU.
    """

    timer: TimerName
    plain_ns: float | None
    n_plain: int
    wall_ns: float
    busy_ns: float
    rows_ns: float
    wrapper_ns: float | None
    launches: int | None
    syncs: int
    wait_ns: float | None
    gap_share: float | None
    places: tuple[PlaceRow, ...]

    @property
    def recording(self) -> float | None:
        """Recorded ÷ uninstrumented wall time: what recording cost."""
        return self.wall_ns / self.plain_ns if self.plain_ns else None

    @property
    def on_device(self) -> bool:
        """Whether busy time is the union of device intervals, so that the rest of the wall time is idle."""
        return self.wrapper_ns is None

    @property
    def idle(self) -> float | None:
        """Part of the uninstrumented step in which the device is idle; below 0 where it was busy for longer than that.

        It supposes that recording does not change what the device does.
        """
        return 1 - self.busy_ns / self.plain_ns if self.on_device and self.plain_ns else None

    @property
    def recorded_idle(self) -> float | None:
        """The same of the recorded step."""
        return 1 - self.busy_ns / self.wall_ns if self.on_device and self.wall_ns else None

    @property
    def launches_per_ms(self) -> float | None:
        """Kernels per millisecond of the uninstrumented step."""
        return None if self.launches is None or not self.plain_ns else 1e6 * self.launches / self.plain_ns

    @property
    def gaps_dominate(self) -> bool:
        """Whether most of the step ran outside compiled graphs."""
        return self.gap_share is not None and self.gap_share > DOMINATES

    @property
    def host_bound(self) -> bool:
        """Whether the device is idle for most of the step, or, where that is not known, of the recorded one."""
        idle = self.idle if self.idle is not None else self.recorded_idle
        return idle is not None and idle > DOMINATES

    @property
    def most_idle(self) -> list[PlaceRow]:
        """Places before whose launches the device waited, the longest first."""
        waited = [place for place in self.places if place.idle_ns]
        return sorted(waited, key=lambda place: -(place.idle_ns or 0.0))


def step_summary(step: StepRecord, digest: Digest | None = None) -> StepSummary:
    """Sum up a step. `digest` holds statistics already computed for this record."""
    digest = digest or Digest()
    run, waits = step.run, find_waits(step)
    places = tuple(place_rows(step, digest, waits))
    return StepSummary(
        timer=run.timer,
        plain_ns=quantile(step.plain_wall_ns, 0.5) if step.plain_wall_ns else None,
        n_plain=len(step.plain_wall_ns),
        wall_ns=quantile(run.wall_ns, 0.5),
        busy_ns=quantile(run.busy_ns, 0.5),
        rows_ns=_time(step.rows, digest) or 0.0,
        wrapper_ns=None if run.wrapper_ns is None else quantile(run.wrapper_ns, 0.5),
        launches=run.n_kernels,
        syncs=waits.n_syncs,
        wait_ns=waits.wait_ns,
        gap_share=_gap_share(step, places, digest),
        places=places,
    )


def nothing_compiled(record: ProfileRecord) -> bool:
    """Whether the profile is of a step in which no compiled graph ran, and of no region besides."""
    return record.step is not None and not record.step.compiled and not any(r.status == "ok" for r in record.regions)


def _time(rows: Sequence[StepRow], digest: Digest) -> float | None:
    return known_sum([digest.median(row.in_graph) for row in rows])


def _gap_share(step: StepRecord, places: Sequence[PlaceRow], digest: Digest) -> float | None:
    if step.run.wrapper_ns is not None:  # Python between ops is a gap's time too, where the places tell it
        host = {kind: sum(p.host_ns or 0.0 for p in places if p.place and p.place.kind == kind) for kind in _SIDES}
        if sum(host.values()):
            return host["gap"] / sum(host.values())
    total_ns = _time(step.rows, digest)
    gap_ns = _time([row for row in step.rows if row.kernel is None], digest)
    return gap_ns / total_ns if gap_ns is not None and total_ns else None


_SIDES: Final = ("graph", "gap")

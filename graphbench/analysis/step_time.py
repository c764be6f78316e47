"""What a gain is set against: the time of a step in the device and on the wall, and who keeps whom waiting. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from graphbench.analysis.digest import Digest
from graphbench.analysis.gaps import whole_ns
from graphbench.analysis.stats import compare, quantile
from graphbench.analysis.steps import DOMINATES
from graphbench.conservation import WRAPPER_TIMERS
from graphbench.measurements import TimerName
from graphbench.records import Phase, ProfileRecord, RegionRecord, Side
from graphbench.step_records import StepRecord

SideKey = tuple[str, Phase]
"""The key of a region, and which of its graphs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SideTime:
    """One compiled graph; medians in nanoseconds of one run, `None` where not known.

    `device_ns` is the busy time of its labelled run, `wall_ns` and `host_ns` are of runs without any instrument.
    `host_bound`: issuing it takes longer than the device needs; a verdict, `None` where nothing can tell. On the CPU
    the host's time is the work itself, and `waits` is false.
    """

    device_ns: float | None
    wall_ns: float | None
    host_ns: float | None
    host_bound: bool | None
    waits: bool
    replays: bool

    def wall_after(self, saved_ns: float) -> float | None:
        """Wall time when the device has so much less to do: on a device never less than the host's part.

        Below 0 it has more to do; a host-bound graph takes longer then where the device needs more than there was.
        """
        if self.wall_ns is None:
            return None
        if self.host_bound:
            return max(self.wall_ns, (self.device_ns or 0.0) - saved_ns) if saved_ns < 0 else self.wall_ns
        least = min(self.host_ns or 0.0, self.wall_ns) if self.waits else 0.0
        return max(self.wall_ns - saved_ns, least)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """The time of a whole step, in nanoseconds: of the one that was recorded, else of every region run once.

    `device_ns` is all in-graph time, `wall_ns` without any instrument; `None` where not known. `kernels` are in-graph
    times of all calls of a kernel by region and key, `runs` says how often a graph ran. `host_bound`: of the step as a
    whole; a device that is idle for most of it.
    """

    recorded: bool
    device_ns: float | None
    wall_ns: float | None
    host_bound: bool
    kernels: Mapping[tuple[str, str], float]
    runs: Mapping[SideKey, float]
    sides: Mapping[SideKey, SideTime]

    @property
    def of_the_wall(self) -> float:
        """What a nanosecond of in-graph time is of the wall time: less than 1 where the labelled run took longer."""
        return min(1.0, self.wall_ns / self.device_ns) if self.wall_ns is not None and self.device_ns else 1.0

    def wall_after(self, saved: Mapping[SideKey | None, float]) -> float | None:
        """Wall time when the device has less to do in some graphs, and with `None` outside of them.

        What a host-bound graph, or any part of a host-bound step, saves changes nothing. A recorded step tells no
        host's time by itself, so that its prediction is a least one.
        """
        if self.wall_ns is None:
            return None
        if self.host_bound:
            more_ns = -sum(saved.values())
            return max(self.wall_ns, (self.device_ns or 0.0) + more_ns) if more_ns > 0 else self.wall_ns
        left_ns = self.wall_ns
        for key, saved_ns in saved.items():
            side = self.sides.get(key) if key is not None else None
            if side is None:
                left_ns -= saved_ns
            elif self.recorded:
                left_ns -= 0.0 if side.host_bound else saved_ns
            else:
                left_ns -= (side.wall_ns or 0.0) - (side.wall_after(saved_ns) or 0.0)
        return max(left_ns, 0.0)

    def wall_gain(self, saved_ns: float, side: SideKey | None) -> float | None:
        """How much less wall time the step takes when one graph, or what is outside of them, takes so much less."""
        after_ns = self.wall_after({side: saved_ns})
        return None if after_ns is None or self.wall_ns is None else self.wall_ns - after_ns


def step_time(record: ProfileRecord, digest: Digest | None = None) -> StepTime:
    """The step of a profile. `digest` holds statistics already computed for this record."""
    digest = digest or Digest()
    sides = {
        (region.key, phase): _side_time(region, side, record.policy.timer, digest)
        for region in record.regions
        if region.status == "ok"
        for phase, side in _sides(region)
    }
    if record.step is not None:
        return _recorded(record, record.step, sides, digest)
    times = [(side.device_ns, side.wall_ns) for side in sides.values()]
    kernels = {
        (region.key, kernel.key): time_ns
        for region in record.regions
        for kernel in region.kernels
        if (time_ns := digest.median(kernel.in_graph)) is not None
    }
    return StepTime(
        recorded=False,
        device_ns=_whole([device for device, _ in times]),
        wall_ns=_whole([wall for _, wall in times]),
        host_bound=bool(sides) and all(side.host_bound for side in sides.values()),
        kernels=kernels,
        runs=dict.fromkeys(sides, 1.0),
        sides=sides,
    )


def _recorded(record: ProfileRecord, step: StepRecord, sides: Mapping[SideKey, SideTime], digest: Digest) -> StepTime:
    per_run = {
        (region.key, kernel.key): (kernel.phase, max(1, kernel.calls))
        for region in record.regions
        for kernel in region.kernels
    }
    kernels: dict[tuple[str, str], float] = {}
    runs: dict[SideKey, float] = {}
    for row in step.rows:
        time_ns = digest.median(row.in_graph)
        key = (row.region or "", row.kernel or "")
        if key not in per_run:
            continue
        phase, calls = per_run[key]
        runs[key[0], phase] = max(runs.get((key[0], phase), 0.0), row.calls / calls)
        if time_ns is not None:
            kernels[key] = kernels.get(key, 0.0) + time_ns
    device_ns = whole_ns(step)
    wall_ns = quantile(step.plain_wall_ns, 0.5) if step.plain_wall_ns else None
    on_device = step.run.wrapper_ns is None
    return StepTime(
        recorded=True,
        device_ns=device_ns,
        wall_ns=wall_ns,
        host_bound=on_device and wall_ns is not None and 1 - quantile(step.run.busy_ns, 0.5) / wall_ns > DOMINATES,
        kernels=kernels,
        runs=runs,
        sides=sides,
    )


def _sides(region: RegionRecord) -> list[tuple[Phase, Side]]:
    """The compiled graphs of a region; its backward only where there is one."""
    backward = any(kernel.phase == "backward" for kernel in region.kernels) or region.backward.run is not None
    found: list[tuple[Phase, Side]] = [("forward", region.forward)]
    return [*found, ("backward", region.backward)] if backward else found


def _side_time(region: RegionRecord, side: Side, timer: TimerName, digest: Digest) -> SideTime:
    waits = not region.device.startswith("cpu")
    plain = side.plain.samples
    known = waits and timer not in WRAPPER_TIMERS and plain is not None and side.host_ns
    return SideTime(
        device_ns=quantile(side.run.busy_ns, 0.5) if side.run else digest.median(side.plain),
        wall_ns=quantile(side.wall_ns, 0.5) if side.wall_ns else None if waits else digest.median(side.plain),
        host_ns=quantile(side.host_ns, 0.5) if side.host_ns else None,
        host_bound=compare(plain.busy_ns, side.host_ns) == "slower" if known and plain else None,
        waits=waits,
        replays=side.graph_nodes is not None,
    )


def _whole(times_ns: list[float | None]) -> float | None:
    """Sum of all; `None` where one is not known, or there is none."""
    known = [time_ns for time_ns in times_ns if time_ns is not None]
    return sum(known) if known and len(known) == len(times_ns) else None

"""Whole runs of two profiles compared, and by how much two runs differ though nothing changed. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from graphbench.analysis.missing import lacks_backward
from graphbench.analysis.stats import Verdict, compare, quantile
from graphbench.measurements import EVENT_TIMERS, Measurement, TimerName
from graphbench.records import ProfileRecord

EAGER_TOTALS: Final = ("eager", "eager backward")
"""Totals that say nothing of the code that was compiled."""
TOTALS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "eager": "eager",
        "eager_backward": "eager backward",
        "forward": "compiled forward",
        "backward": "compiled backward",
    }
)
"""Sides of a region, and what a comparison calls their totals."""
NOISE_ON_CPU: Final = 0.10
NOISE_ON_EVENTS: Final = NOISE_ON_CPU  # the time between two events contains the host's time to launch
NOISE_ON_DEVICE: Final = 0.02
"""Relative difference of medians between two processes below which no row is called faster or slower.

Samples of one process scatter less than the medians of two: memory lies elsewhere, clocks and neighbours are others.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffTotal:
    """A whole uninstrumented run, before and after, in nanoseconds; regions added up where there are several."""

    name: str
    before_ns: float
    after_ns: float
    ratio: float | None
    verdict: Verdict


def noise_between_runs(timer: TimerName) -> float:
    """The relative difference of two runs' medians that this timer shows although nothing changed."""
    if timer in EVENT_TIMERS:
        return NOISE_ON_EVENTS
    return NOISE_ON_CPU if timer == "wallclock" else NOISE_ON_DEVICE


def compare_runs(
    before: Sequence[float], after: Sequence[float], timer: TimerName, *, grain_ns: float = 0.0
) -> Verdict:
    """Say what samples of one run are against those of another: as `stats.compare`, above the noise between runs.

    Raises:
        ValueError: either side is empty.
    """
    found = compare(before, after, grain_ns=grain_ns)
    old, new = quantile(before, 0.5), quantile(after, 0.5)
    within_noise = abs(new - old) < noise_between_runs(timer) * abs(old)
    return "unclear" if within_noise and found in ("faster", "slower") else found


def totals(before: ProfileRecord, after: ProfileRecord, grain: float) -> Iterator[DiffTotal]:
    """Every whole run that both profiles have, compared; `grain` is the step of the stamps in nanoseconds."""
    for name, title in TOTALS.items():
        left, right = (_plain(_sides(record, name)) for record in (before, after))
        if left and right:
            yield _total(title, left, right, after.policy.timer, grain)
    if before.step and after.step:
        old, new = before.step.plain_wall_ns, after.step.plain_wall_ns
        if old and new:
            yield _total("step (wall)", old, new, "wallclock", 0.0)


def _sides(record: ProfileRecord, name: str) -> list[Measurement]:
    """A side's run in every region that should have one: inference has no backward to miss."""
    sides = [(region, getattr(region, name).plain) for region in record.regions]
    return [plain for region, plain in sides if plain.samples or "backward" not in name or not lacks_backward(region)]


def _plain(measurements: Sequence[Measurement]) -> list[float] | None:
    """Samples of all regions added up in order of size, so that sums of quantiles are quantiles of the sum; or `None`.

    Regions that were measured a different number of times are cut to the quantiles of the shortest.
    """
    columns = [sorted(entry.samples.busy_ns) for entry in measurements if entry.samples]
    if not columns or len(columns) != len(measurements):
        return None
    n = min(map(len, columns))
    points = [index / (n - 1) if n > 1 else 0.5 for index in range(n)]
    return [sum(quantile(column, point) for column in columns) for point in points]


def _total(name: str, before: Sequence[float], after: Sequence[float], timer: TimerName, grain: float) -> DiffTotal:
    old, new = quantile(before, 0.5), quantile(after, 0.5)
    verdict = compare_runs(before, after, timer, grain_ns=grain)
    return DiffTotal(name=name, before_ns=old, after_ns=new, ratio=new / old if old else None, verdict=verdict)

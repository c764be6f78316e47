"""Whole runs of two profiles compared. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from graphbench.analysis.diff_rule import Rule, compare_runs
from graphbench.analysis.missing import lacks_backward
from graphbench.analysis.shown import ShownRow
from graphbench.analysis.stats import Verdict, quantile
from graphbench.measurements import Measurement, TimerName
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffTotal(ShownRow):
    """A whole uninstrumented run, before and after, in nanoseconds; regions added up where there are several.

    A profile that lacks a run does not hide the other's. `verdict` is `None` where `reason` says why.
    """

    name: str
    before_ns: float | None
    after_ns: float | None
    verdict: Verdict | None
    reason: str = ""

    @property
    def ratio(self) -> float | None:
        """After ÷ before."""
        return self.after_ns / self.before_ns if self.after_ns is not None and self.before_ns else None

    @property
    def delta_ns(self) -> float | None:
        """After - before."""
        return None if self.before_ns is None or self.after_ns is None else self.after_ns - self.before_ns


def totals(before: ProfileRecord, after: ProfileRecord, grain_ns: float, unlike: str) -> Iterator[DiffTotal]:
    """Every whole run that either profile has, compared.

    They are few, and judged each by itself.

    Args:
        before: the baseline.
        after: the profile to judge.
        grain_ns: the step of the stamps.
        unlike: why nothing is judged, "" where it is.
    """
    for name, title in TOTALS.items():
        sides = [_sides(record, name) for record in (before, after)]
        old, new = (_added(side) for side in sides)
        reason = unlike or _why_missing(old, new, sides)
        yield from _total(title, old, new, after.policy.timer, grain_ns, reason)
    walls = [record.step.plain_wall_ns if record.step else () for record in (before, after)]
    if all(record.step for record in (before, after)):
        yield from _total("step (wall)", walls[0], walls[1], "wallclock", 0.0, unlike)


def _sides(record: ProfileRecord, name: str) -> list[Measurement]:
    """A side's run in every region that should have one: inference has no backward to miss."""
    sides = [(region, getattr(region, name).plain) for region in record.regions]
    return [plain for region, plain in sides if plain.samples or "backward" not in name or not lacks_backward(region)]


def _added(measurements: Sequence[Measurement]) -> Sequence[float]:
    """Samples of all regions added up in order of size, so that sums of quantiles are quantiles of the sum.

    Regions that were measured a different number of times are cut to the quantiles of the shortest. None where a
    region has none.
    """
    columns = [sorted(entry.samples.busy_ns) for entry in measurements if entry.samples]
    if not columns or len(columns) != len(measurements):
        return ()
    n = min(map(len, columns))
    points = [index / (n - 1) if n > 1 else 0.5 for index in range(n)]
    return [sum(quantile(column, point) for column in columns) for point in points]


def _why_missing(old: Sequence[float], new: Sequence[float], sides: Sequence[Sequence[Measurement]]) -> str:
    for which, samples, measured in (("before", old, sides[0]), ("after", new, sides[1])):
        if not samples:
            reasons = [entry.reason or entry.status for entry in measured if not entry.samples]
            return f"{which}: {reasons[0] if reasons else 'there is none'}"
    return ""


def _total(
    name: str, before: Sequence[float], after: Sequence[float], timer: TimerName, grain_ns: float, reason: str
) -> Iterator[DiffTotal]:
    if not before and not after:
        return
    both = bool(before) and bool(after)
    yield DiffTotal(
        name=name,
        before_ns=quantile(before, 0.5) if before else None,
        after_ns=quantile(after, 0.5) if after else None,
        verdict=compare_runs(before, after, Rule.of_whole_runs(timer, grain_ns)) if both and not reason else None,
        reason=reason if both or reason else "only one of them timed whole steps",
    )

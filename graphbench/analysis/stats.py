"""Order statistics of raw samples, and the rule by which two sets of samples are called different.

Plain Python: sample sets are small (200 at most), and nothing here may cost an import.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

Verdict = Literal["faster", "slower", "same", "unclear"]
Quantiles = tuple[float, float, float]
"""p10, p50 and p90."""

UNSTABLE_TAIL_RATIO: Final = 2.0
"""`p90 / p50` above which samples are called unstable."""

UNSTABLE_IQR_RATIO: Final = 0.10
"""`IQR / p50` above which samples are called unstable."""

SAME_WITHIN: Final = 0.01
"""Relative difference of medians below which nothing is claimed: the same op repeats within 0.6 % between phases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Order statistics of `n` samples, in the unit of the samples. `iqr` is p75 - p25."""

    n: int
    p10: float
    p50: float
    p90: float
    mean: float
    minimum: float
    maximum: float
    iqr: float


def quantile(samples: Sequence[float], q: float) -> float:
    """The `q`-quantile (0 to 1) by linear interpolation between order statistics, in the unit of the samples.

    Raises:
        ValueError: `samples` is empty or `q` lies outside [0, 1].
    """
    if not samples:
        raise ValueError("quantile of no samples")
    if not 0.0 <= q <= 1.0:
        raise ValueError(f"quantile {q}: expected a number from 0 to 1")
    return _quantile_of_sorted(sorted(samples), q)


def _quantile_of_sorted(ordered: Sequence[float], q: float) -> float:
    below, above, part = _place(len(ordered), q)
    return float(ordered[below] + (ordered[above] - ordered[below]) * part)


def summarize(samples: Sequence[float]) -> Summary:
    """Order statistics of `samples`.

    Raises:
        ValueError: `samples` is empty; a subject without samples has no summary, and no zero stands in for one.
    """
    if not samples:
        raise ValueError("summary of no samples")
    ordered = sorted(samples)
    n = len(ordered)
    p10, p25, p50, p75, p90 = [
        float(ordered[below] + (ordered[above] - ordered[below]) * part) for below, above, part in _places(n)
    ]
    return Summary(
        n=n,
        p10=p10,
        p50=p50,
        p90=p90,
        mean=sum(ordered) / n,
        minimum=float(ordered[0]),
        maximum=float(ordered[-1]),
        iqr=p75 - p25,
    )


@lru_cache(maxsize=256)
def _places(n: int) -> tuple[tuple[int, int, float], ...]:
    """Where the quantiles of a summary lie between `n` order statistics: the same for all rows of a profile."""
    return tuple(_place(n, q) for q in (0.10, 0.25, 0.50, 0.75, 0.90))


def _place(n: int, q: float) -> tuple[int, int, float]:
    position = q * (n - 1)
    below = int(position)
    return below, min(below + 1, n - 1), position - below


def is_unstable(samples: Sequence[float]) -> bool:
    """Whether the samples scatter too much for their median to be trusted: p90/p50 > 2, or IQR/p50 > 10 %.

    Samples whose median is 0 (a measured nothing) are unstable only if their p90 is not 0.

    Raises:
        ValueError: `samples` is empty.
    """
    summary = summarize(samples)
    if summary.p50 == 0:
        return summary.p90 != 0
    return summary.p90 / summary.p50 > UNSTABLE_TAIL_RATIO or summary.iqr / summary.p50 > UNSTABLE_IQR_RATIO


def compare(a: Sequence[float], b: Sequence[float], *, grain_ns: float = 0.0) -> Verdict:
    """Say what `b` is against the baseline `a`: `faster` means that `b` took less time.

    Fewer than two samples on a side have no interval: `unclear`. Else the rule is that of `judge`.

    Args:
        a: samples of the baseline.
        b: samples of what is judged, in the same unit.
        grain_ns: step of the clock that stamped them, in that unit; 0 where the clock is fine enough.

    Raises:
        ValueError: either side is empty.
    """
    before, after = summarize(a), summarize(b)
    if before.n < 2 or after.n < 2:
        return "unclear"
    return judge((before.p10, before.p50, before.p90), (after.p10, after.p50, after.p90), grain_ns=grain_ns)


def judge(before: Quantiles, after: Quantiles, *, grain_ns: float = 0.0) -> Verdict:
    """Say what `after` is against the baseline `before`, each given by its p10, p50 and p90.

    The rule, in this order:

    1. medians within 1 % of the baseline's: `same`, also where tight intervals are apart, since one op measured
       twice differs by that much; likewise medians within one step of the clock;
    2. intervals [p10, p90], widened by half a step at each end, that do not touch: `faster` or `slower`;
    3. anything else: `unclear`.
    """
    (before_p10, before_p50, before_p90), (after_p10, after_p50, after_p90) = before, after
    if abs(after_p50 - before_p50) <= max(SAME_WITHIN * abs(before_p50), grain_ns):
        return "same"
    half = grain_ns / 2
    if after_p90 + half < before_p10 - half:
        return "faster"
    if after_p10 - half > before_p90 + half:
        return "slower"
    return "unclear"


def median_noise(samples: Sequence[float]) -> float:
    """How well the median of `samples` is known: half the width of its 95 % interval as a part of itself.

    1.57 IQR / sqrt(n), the notch of a box plot (McGill, Tukey and Larsen, 1978). 0 for a median of 0 without scatter;
    infinite for fewer than two samples.

    Raises:
        ValueError: `samples` is empty.
    """
    found = summarize(samples)
    if found.n < 2:
        return float("inf")
    width = 1.57 * found.iqr / float(found.n**0.5)
    if found.p50 == 0:
        return 0.0 if width == 0 else float("inf")
    return width / found.p50

"""How a time grows with a size: the exponent of a power law through medians, and how sure it is. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

FEWEST_SIZES: Final = 2
STANDARD_ERRORS: Final = 2.0
"""So many standard errors of the slope are called its error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """A time grows as `size ** exponent`, give or take `error`. `last` is the exponent from the last size but one on.

    Both are `None` for two sizes: any two points lie on a power law. So is the error where a median is of one sample.
    """

    exponent: float
    error: float | None = None
    last: float | None = None

    @property
    def is_known(self) -> bool:
        """Whether there is any: the exponent is beyond its error, as far as that is known."""
        return self.error is None or self.exponent > self.error


def growth(
    sizes: Sequence[int], times_ns: Sequence[float], noises: Sequence[float], groups: Sequence[int] | None = None
) -> Growth | None:
    """Least squares of log time over log size; `None` for fewer than two sizes, or a time or size of 0.

    The error is what the points' distance from the line leaves open (two standard errors of the slope), or what the
    noise of the medians does, whichever is more.

    Args:
        sizes: one for every time.
        times_ns: medians.
        noises: how well each is known, as a part of itself (`stats.median_noise`).
        groups: numbers of what is alike but for its size; each has a line of its own, all of one slope.
    """
    groups = groups or (0,) * len(sizes)
    if not all(size > 0 for size in sizes) or not all(time > 0 for time in times_ns):
        return None
    x = _centered([math.log(size) for size in sizes], groups)
    y = _centered([math.log(time) for time in times_ns], groups)
    spread = sum(value * value for value in x)
    if spread <= 0:
        return None
    exponent = sum(a * b for a, b in zip(x, y, strict=True)) / spread
    freedom = len(sizes) - len(set(groups)) - 1
    if freedom < 1 or len(set(sizes)) <= FEWEST_SIZES:
        return Growth(exponent=exponent)
    rest = sum((b - exponent * a) ** 2 for a, b in zip(x, y, strict=True))
    from_scatter = STANDARD_ERRORS * math.sqrt(rest / freedom / spread)
    from_noise = math.sqrt(sum((a * noise) ** 2 for a, noise in zip(x, noises, strict=True) if a)) / spread
    error = max(from_scatter, from_noise)
    last = _last(sizes, times_ns) if len(set(groups)) == 1 else None
    return Growth(exponent=exponent, error=error if math.isfinite(error) else None, last=last)


def _centered(values: Sequence[float], groups: Sequence[int]) -> list[float]:
    """Each value less the mean of its group."""
    means = {
        group: sum(v for v, g in zip(values, groups, strict=True) if g == group) / groups.count(group)
        for group in set(groups)
    }
    return [value - means[group] for value, group in zip(values, groups, strict=True)]


def _last(sizes: Sequence[int], times_ns: Sequence[float]) -> float | None:
    """The exponent between the two largest sizes."""
    (size_b, time_b), *others = sorted(zip(sizes, times_ns, strict=True), reverse=True)
    smaller = next(((size, time) for size, time in others if size < size_b), None)
    return None if smaller is None else math.log(time_b / smaller[1]) / math.log(size_b / smaller[0])

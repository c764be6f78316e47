"""How a time grows with sizes: the exponents of a power law through medians, and how sure they are. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from graphbench.analysis.shown import ShownRow
from graphbench.analysis.sizes import Axis

FEWEST_SIZES: Final = 2
STANDARD_ERRORS: Final = 2.0
"""So many standard errors of the slope are called its error."""
SAME_DIRECTION: Final = 1e-9
"""A size of whose logs less than this part is its own changes together with the others."""


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
    found = growths((sizes,), times_ns, noises, groups)
    return found[0] if found else None


def growths(
    sizes: Sequence[Sequence[int]],
    times_ns: Sequence[float],
    noises: Sequence[float],
    groups: Sequence[int] | None = None,
) -> tuple[Growth, ...]:
    """The exponents of several sizes in one fit, each with the others held: least squares of log time over their logs.

    Empty where the points do not tell them apart, or for a time or size of 0. Errors are as of `growth`; each is `None`
    where its size has two values only.

    Args:
        sizes: of each size that changes, one value for every time.
        times_ns: medians.
        noises: how well each is known, as a part of itself.
        groups: numbers of what is alike in all else; each has a constant of its own, all the same exponents.
    """
    groups = groups or (0,) * len(times_ns)
    if not all(size > 0 for values in sizes for size in values) or not all(time > 0 for time in times_ns):
        return ()
    x = [_centered([math.log(size) for size in values], groups) for values in sizes]
    y = _centered([math.log(time) for time in times_ns], groups)
    spread = _inverse([[sum(map(math.prod, zip(a, b, strict=True))) for b in x] for a in x])
    if spread is None:
        return ()
    # What every point adds to each exponent.
    weights = [[sum(row[k] * x[k][i] for k in range(len(x))) for i in range(len(y))] for row in spread]
    exponents = [sum(map(math.prod, zip(row, y, strict=True))) for row in weights]
    freedom = len(times_ns) - len(set(groups)) - len(sizes)
    rest = sum((y[i] - sum(e * column[i] for e, column in zip(exponents, x, strict=True))) ** 2 for i in range(len(y)))
    last = _last(sizes[0], times_ns) if len(sizes) == 1 and len(set(groups)) == 1 else None
    found: list[Growth] = []
    for k, exponent in enumerate(exponents):
        if freedom < 1 or len(set(sizes[k])) <= FEWEST_SIZES:
            found.append(Growth(exponent=exponent))
            continue
        from_scatter = STANDARD_ERRORS * math.sqrt(rest / freedom * spread[k][k])
        from_noise = math.sqrt(sum((a * noise) ** 2 for a, noise in zip(weights[k], noises, strict=True) if a))
        error = max(from_scatter, from_noise)
        found.append(Growth(exponent=exponent, error=error if math.isfinite(error) else None, last=last))
    return tuple(found)


class Growing(ShownRow):
    """What has a time for every set. `growth` goes by the first size, `further` by those that change beside it."""

    __slots__ = ()
    growth: Growth | None
    further: tuple[Growth, ...]

    @property
    def growths(self) -> tuple[Growth, ...]:
        """One for every size; none where they are not known."""
        return () if self.growth is None else (self.growth, *self.further)


def growths_over(axes: Sequence[Axis], times_ns: Sequence[float], noises: Sequence[float]) -> tuple[Growth, ...]:
    """The same over axes: of one, sets that differ in other dimensions have a line of their own."""
    groups = axes[0].groups if len(axes) == 1 else None
    return growths([axis.values for axis in axes], times_ns, noises, groups)


def _inverse(matrix: Sequence[Sequence[float]]) -> list[list[float]] | None:
    """Of a small symmetric matrix by Gauss and Jordan; `None` where it has none."""
    n = len(matrix)
    rows = [[*row, *(float(i == j) for j in range(n))] for i, row in enumerate(matrix)]
    for i in range(n):
        if rows[i][i] <= SAME_DIRECTION * matrix[i][i]:
            return None
        rows[i] = [value / rows[i][i] for value in rows[i]]
        for j in range(n):
            if j != i:
                rows[j] = [a - rows[j][i] * b for a, b in zip(rows[j], rows[i], strict=True)]
    return [row[n:] for row in rows]


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

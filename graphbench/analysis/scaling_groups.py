"""Sums of nodes over the sizes of the inputs: by op type, and by module with repeated layers as one. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graphbench.analysis.group_homes import TOP_LEVEL, fold_layers
from graphbench.analysis.growth import Growing, Growth, growths_over
from graphbench.analysis.scaling_rows import NodeScaling, no_growth
from graphbench.analysis.sizes import Axis

DOUBTFUL_PART = 0.5
"""A sum is in doubt where more than this part of it is that of rows in doubt, at any size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupScaling(Growing):
    """Nodes together, forward and backward: sums of isolated medians in nanoseconds, one a set; `None` for a part.

    `nodes` counts rows. `growth` is `None` where `reason` says why; `doubt` is as of a node.
    """

    group: str
    nodes: int
    times_ns: tuple[float | None, ...]
    shares: tuple[float | None, ...]
    growth: Growth | None
    further: tuple[Growth, ...] = ()
    reason: str = ""
    doubt: str = ""


def groups_by_op(rows: Sequence[NodeScaling], axes: Sequence[Axis]) -> list[GroupScaling]:
    """Sums by op type, what takes most at the largest size first."""
    groups: dict[str, list[NodeScaling]] = {}
    for row in rows:
        groups.setdefault(row.op_type, []).append(row)
    return _summed(groups, axes)


def groups_by_module(rows: Sequence[NodeScaling], axes: Sequence[Axis]) -> list[GroupScaling]:
    """Sums by module path, in which numbers that repeat become `*`."""
    folded = fold_layers({row.module for row in rows})
    groups: dict[str, list[NodeScaling]] = {}
    for row in rows:
        groups.setdefault(folded[row.module] or TOP_LEVEL, []).append(row)
    return _summed(groups, axes)


def _summed(groups: Mapping[str, Sequence[NodeScaling]], axes: Sequence[Axis]) -> list[GroupScaling]:
    found = [_group(name, rows, axes) for name, rows in groups.items()]
    return sorted(found, key=lambda group: -(group.times_ns[-1] or 0.0))


def _group(name: str, rows: Sequence[NodeScaling], axes: Sequence[Axis]) -> GroupScaling:
    times = tuple(_sum([row.times_ns[i] for row in rows]) for i in range(len(axes[0].values)))
    missing = next((f"{row.name}: {row.reason}" for row in rows if None in row.times_ns), "")
    known = [time for time in times if time is not None]
    noises = [
        sum(row.points[i].noise * (row.times_ns[i] or 0.0) for row in rows) / time if (time := times[i]) else 0.0
        for i in range(len(times))
    ]
    found = () if missing else growths_over(axes, known, noises)
    return GroupScaling(
        group=name,
        nodes=len(rows),
        times_ns=times,
        shares=tuple(_sum([row.shares[i] for row in rows]) for i in range(len(times))),
        growth=found[0] if found else None,
        further=found[1:],
        reason=missing or ("" if found else no_growth(axes)),
        doubt=_doubt(rows, times) if found else "",
    )


def _doubt(rows: Sequence[NodeScaling], times: Sequence[float | None]) -> str:
    doubtful = [row for row in rows if row.doubt]
    for i, time_ns in enumerate(times):
        if time_ns and sum(row.times_ns[i] or 0.0 for row in doubtful) > DOUBTFUL_PART * time_ns:
            return doubtful[0].doubt
    return ""


def _sum(values: Sequence[float | None]) -> float | None:
    """`None` where one is missing: a sum of some would seem to grow, or to shrink."""
    return sum(value for value in values if value is not None) if None not in values else None

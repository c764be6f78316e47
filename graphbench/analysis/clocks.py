"""Clocks while a profile was measured: rows that were throttled or saw them move, and their median. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from graphbench.analysis.stats import quantile
from graphbench.analysis.warning_kinds import CLOCK, THROTTLED, warning_kind
from graphbench.measurements import Measurement
from graphbench.records import ProfileRecord

TOLD_ABOVE: Final = 0.05
"""Part of the rows above which clocks are a finding about the whole profile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockCounts:
    """Timed rows of a profile, and how many of them were throttled or saw the clock move; `affected` by either."""

    timed: int
    throttled: int
    moved: int
    affected: int

    @property
    def matters(self) -> bool:
        """Whether so many rows are affected that it is a finding about the profile."""
        return self.affected > TOLD_ABOVE * self.timed


def clock_counts(record: ProfileRecord) -> ClockCounts:
    """Count what was isolated (nodes, their backwards, post-grad nodes, kernels) by what its warnings say of clocks."""
    kinds = [set(map(warning_kind, row.warnings)) for row in _isolated(record) if row.status == "ok"]
    return ClockCounts(
        timed=len(kinds),
        throttled=sum(THROTTLED in found for found in kinds),
        moved=sum(CLOCK in found for found in kinds),
        affected=sum(bool(found & {THROTTLED, CLOCK}) for found in kinds),
    )


def median_sm_mhz(record: ProfileRecord) -> float | None:
    """Median SM clock over the readings of all isolated rows, in MHz; `None` where none was read."""
    readings = [state.sm_mhz for row in _isolated(record) for state in row.clocks if state.sm_mhz is not None]
    return quantile(readings, 0.5) if readings else None


def _isolated(record: ProfileRecord) -> Iterator[Measurement]:
    for region in record.regions:
        for node in region.nodes:
            yield from (node.isolated, node.backward_isolated)
        yield from (node.isolated for node in region.post_grad)
        yield from (kernel.isolated for kernel in region.kernels)

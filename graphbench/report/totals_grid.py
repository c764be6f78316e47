"""The before/after table as text: what its rows are called gives way first, then the unfused times."""

from __future__ import annotations

from typing import Final

from graphbench.analysis.summary import ProfileSummary
from graphbench.measurements import TimerName
from graphbench.report.cells import Grid
from graphbench.report.overview import totals_aligns, totals_table

LEAVE: Final = ("unfused", "saved")


def totals_grid(summary: ProfileSummary, timer: TimerName) -> Grid:
    """Eager against compiled, forward, backward and both."""
    headers, rows = totals_table(summary, timer)
    return Grid(
        headers=headers,
        rows=rows,
        aligns=totals_aligns(headers),
        shrink=[None] * len(headers),
        shorten=[None if header else _without_remark for header in headers],
        words=headers,
        leave=[LEAVE.index(header) if header in LEAVE else None for header in headers],
    )


def _without_remark(text: str, _width: int) -> str:
    """`in-graph (labelled run)` as `in-graph`; that a sum is of a part stays."""
    return text if text.endswith("(part)") else text.partition(" (")[0]

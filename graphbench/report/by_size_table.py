"""The nodes of a graph by the sizes that it was called with, inside a profile's report: one row a node."""

from __future__ import annotations

from collections.abc import Sequence

from graphbench.analysis.scaling import Scaling
from graphbench.analysis.scaling_rows import NodeScaling
from graphbench.report.grid import build, draw_lines
from graphbench.report.scaling_columns import node_columns, time_keys
from graphbench.report.scaling_table import by_last, headlines, legend, size_lines


def by_size_lines(found: Scaling, *, top: int, width: int) -> list[str]:
    """A table with a column for every group of sizes and one for every size's exponent, then what they mean.

    Where lines are narrow, the smallest and the largest group and the exponents stay.

    Args:
        found: one graph over the sizes that it was called with.
        top: rows at most.
        width: of a line, in characters.
    """
    rows = by_last(found.rows)
    if not rows:
        return [f"{by_size_title(found, rows, rows)}: none"]
    shown = rows[:top]
    leave = ("outputs", "share_at_last", *time_keys(found)[1:-1], "op_type")
    grid = build(node_columns(found), shown, wide=False, leave=leave)
    return [by_size_title(found, shown, rows), *draw_lines(grid, width), *by_size_notes(found)]


def by_size_title(found: Scaling, shown: Sequence[NodeScaling], rows: Sequence[NodeScaling]) -> str:
    """Of which graph, over which sizes."""
    count = f"{len(shown)} of {len(rows)}" if len(shown) < len(rows) else str(len(rows))
    sizes = " × ".join(axis.name for axis in found.axes)
    return f"Nodes by size: {found.region} over {sizes} ({count}, by time at the largest)"


def by_size_notes(found: Scaling) -> list[str]:
    """What grows fastest and what the columns mean; which group is which, the report says above."""
    return [*headlines(found), *size_lines(found), *legend(found)]

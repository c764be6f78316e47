"""The column that says how a result differs from the one that it is compared with, in every table that has one."""

from __future__ import annotations

from typing import Final, Protocol

from graphbench.measurements import Comparison
from graphbench.report.column import Column


class HasDifference(Protocol):
    """A row whose result was compared."""

    @property
    def difference(self) -> Comparison | None:
        """How it differs."""


def difference_text(difference: Comparison | None) -> str | None:
    """The largest absolute difference to eager; `differs` where it has no size, `None` where nothing was compared."""
    if difference is None or (difference.equal is None and difference.max_abs is None):
        return None
    if difference.max_abs is None:
        return "0" if difference.equal else "differs"
    return "0" if difference.max_abs == 0 else f"{difference.max_abs:.1e}"


def is_wrong(row: HasDifference) -> bool:
    """Whether a result differs beyond its tolerance."""
    return row.difference is not None and row.difference.equal is False


DIFFERENCE_COLUMN: Final[Column[HasDifference]] = Column(
    name="max\ndiff",
    key="difference",
    kind="text",
    get=lambda row: difference_text(row.difference),
    shrink=None,
    marks=lambda row: "!" if is_wrong(row) else "",
)
"""Marked where the result is wrong."""

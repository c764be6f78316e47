"""`ProfileDiff`: what `graphbench.diff` returns, a facade over two compared profiles."""

from __future__ import annotations

import reprlib

from graphbench.analysis.diff import Diff
from graphbench.analysis.diff_fusions import FusionDiffRow
from graphbench.analysis.diff_gaps import GapDiffRow
from graphbench.analysis.diff_rows import DiffRow
from graphbench.analysis.diff_totals import DiffTotal
from graphbench.analysis.group_by import DIFF_GROUP_BY, DiffGroupBy
from graphbench.arguments import check_type
from graphbench.errors import UsageError
from graphbench.report.diff_markdown import SHOWN, markdown_diff
from graphbench.report.diff_table import SHOWN_ROWS, render_diff
from graphbench.report.profile_rows import diff_fusions, diff_gaps, diff_nodes, diff_totals
from graphbench.report.row_view import Rows


class ProfileDiff:
    """Two profiles joined on regions, nodes and fusions. Printing it gives the tables; `result` is all of it as data.

    Times in the rows are nanoseconds, bytes bytes; each kind of row is a table with `to_pandas()` and `to_csv()`.
    """

    def __init__(self, result: Diff) -> None:
        self.result = result

    @property
    def nodes(self) -> Rows[DiffRow]:
        """Nodes of either profile, forward and backward."""
        return diff_nodes(self.result)

    @property
    def fusions(self) -> Rows[FusionDiffRow]:
        """Kernels of either profile, joined by the nodes that they execute and differentiate."""
        return diff_fusions(self.result)

    @property
    def gaps(self) -> Rows[GapDiffRow]:
        """Gap ops of either profile's recorded step."""
        return diff_gaps(self.result)

    @property
    def totals(self) -> Rows[DiffTotal]:
        """Whole uninstrumented runs."""
        return diff_totals(self.result)

    def table(self, *, top: int | None = SHOWN_ROWS, every: bool = False, group_by: DiffGroupBy | None = None) -> str:
        """The tables as text.

        Args:
            top: how many rows per table at most, the largest change first; `None` for all.
            every: also rows that are the same, or unclear.
            group_by: `"module"`, `"source"`, `"op_type"` or `"shape"`: sums of nodes instead of rows.

        Raises:
            UsageError: a value of another type, `top` below 1, or no such way to group.
        """
        check_type("every", every, bool)
        return render_diff(self.result, top=_checked_top(top), every=every, group_by=_checked_group(group_by))

    def markdown(self, *, top: int | None = SHOWN, group_by: DiffGroupBy | None = None) -> str:
        """The comparison as Markdown for a pull request: what changed most, the rest folded.

        Args:
            top: how many rows per table stand before the fold; `None` for all.
            group_by: `"module"`, `"source"`, `"op_type"` or `"shape"`: sums of nodes instead of rows.

        Raises:
            UsageError: a value of another type, `top` below 1, or no such way to group.
        """
        return markdown_diff(self.result, top=_checked_top(top), group_by=_checked_group(group_by))

    def html(self) -> str:
        """The comparison as a page: one HTML file with every row of both sides, that loads nothing from elsewhere.

        Raises:
            SetupError: jinja2 or plotly is not installed.
        """
        from graphbench.report.html.diff_page import diff_page
        from graphbench.report.html.render import render_page

        return render_page(diff_page(self.result))

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        from graphbench.report.html.fragment import diff_fragment

        return diff_fragment(self.result)


def _checked_top(top: int | None) -> int | None:
    check_type("top", top, int | None)
    if top is not None and top < 1:
        raise UsageError(f"top is {top}, expected at least 1", hint="leave it out to see all rows", subject="top")
    return top


def _checked_group(by: DiffGroupBy | None) -> DiffGroupBy | None:
    if by is not None and by not in DIFF_GROUP_BY:
        hint = f"group by one of: {', '.join(DIFF_GROUP_BY)}"
        raise UsageError(f"cannot group by {reprlib.repr(by)}", hint=hint, subject="group_by")
    return by

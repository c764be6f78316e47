"""The report as Markdown, for an issue or a pull request: the same content as the text, in tables that render."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from graphbench.analysis.fusion import fusion_rows
from graphbench.analysis.summary import summary
from graphbench.analysis.views import gap_rows, node_rows, sort_rows
from graphbench.records import ProfileRecord
from graphbench.report.base import RenderOptions, check_options
from graphbench.report.columns import FUSION_COLUMNS, GAP_COLUMNS, NODE_COLUMNS, Column, find_sort, sort_keys
from graphbench.report.grid import build
from graphbench.report.overview import break_lines, finding_lines, heading_lines, totals_table
from graphbench.report.table import GAPS_NOT_RECORDED

if TYPE_CHECKING:
    from typing_extensions import Unpack

RowT = TypeVar("RowT")


class MarkdownReporter:
    """The whole report as Markdown; takes `top`, `sort` (a column of the node table) and `wide`."""

    suffix = ".md"

    def render(self, record: ProfileRecord, **options: Unpack[RenderOptions]) -> str:
        """The Markdown text, ending with a line break.

        Raises:
            UsageError: an unknown option or sort key.
        """
        check_options("markdown", options, ("top", "sort", "wide"))
        wide, top, sort = options.get("wide", False), options.get("top"), find_sort(options.get("sort", "cost"))
        found = summary(record)
        title, *conditions = heading_lines(record)
        headers, totals = totals_table(found, record.policy.timer)
        fusions = [row for region in record.regions for row in fusion_rows(region)]
        parts = [f"# {escape(title)}", _bullets(conditions), _table(headers, totals, ["left"] + ["right"] * 5)]
        parts += [_bullets(finding_lines(record, found, wide=wide)), "## Nodes"]
        parts += [
            _rows(NODE_COLUMNS, sort_rows(node_rows(record), sort_keys(NODE_COLUMNS, "isolated_p50"), sort, top), wide)
        ]
        by_cost = sort_rows(fusions, sort_keys(FUSION_COLUMNS, "fused_p50"), "cost", top)
        parts += ["## Fusions", _rows(FUSION_COLUMNS, by_cost, wide), "## Gaps and graph breaks"]
        if record.step is not None:
            gaps = sort_rows(gap_rows(record.step), sort_keys(GAP_COLUMNS, "in_graph"), "cost", top)
            parts.append(_rows(GAP_COLUMNS, gaps, wide))
        breaks = break_lines(record) if record.step is not None else [GAPS_NOT_RECORDED, *break_lines(record)]
        return "\n\n".join([*parts, _bullets(breaks)]) + "\n"


def escape(text: str) -> str:
    """Escape what Markdown would read as markup or as the end of a cell."""
    for character in ("\\", "|", "<", "*", "_", "`"):
        text = text.replace(character, "\\" + character)
    return text.replace("\n", " ")


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {escape(line.strip())}" for line in lines)


def _rows(columns: Sequence[Column[RowT]], rows: Sequence[RowT], wide: bool) -> str:
    if not rows:
        return "none"
    grid = build(columns, rows, wide=wide)
    return _table([header.replace("-\n", "-").replace("\n", " ") for header in grid.headers], grid.rows, grid.aligns)


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]], aligns: Sequence[str]) -> str:
    # Written here rather than by tabulate, whose Markdown formats leave `|` inside a cell as it is.
    marks = ["---:" if align == "right" else ":---" for align in aligns[: len(headers)]]
    lines = [[escape(header) for header in headers], marks, *([escape(cell) for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)

"""What notebooks show of a profile, a comparison or a scaling: small pieces of HTML, bounded in size.

The words and columns are those of the printed reports; who wants all rows prints them, or opens the whole page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from graphbench import markup
from graphbench.analysis.diff import Diff
from graphbench.analysis.digest import Digest
from graphbench.analysis.fusion_totals import fusion_totals
from graphbench.analysis.gaps import gap_rows
from graphbench.analysis.op_list import is_op_list
from graphbench.analysis.rows import profile_rows
from graphbench.analysis.scaling import Scaling
from graphbench.analysis.steps import nothing_compiled, step_summary
from graphbench.analysis.summary import summary
from graphbench.analysis.views import sort_rows
from graphbench.records import ProfileRecord
from graphbench.report.cells import Grid
from graphbench.report.column import Column, sort_keys
from graphbench.report.columns import FUSION_COLUMNS
from graphbench.report.diff_columns import DIFF_COLUMNS, FUSION_DIFF_COLUMNS, GAP_DIFF_COLUMNS, TOTAL_COLUMNS
from graphbench.report.diff_table import conditions
from graphbench.report.diff_words import by_change, changed
from graphbench.report.fusion_lines import fusion_lines
from graphbench.report.gaps_table import GAP_COLUMNS
from graphbench.report.grid import build
from graphbench.report.heading import heading_lines
from graphbench.report.node_columns import node_columns, node_sort_keys
from graphbench.report.overview import compares_sides, finding_lines, totals_aligns, totals_table
from graphbench.report.scaling_columns import group_columns, total_columns
from graphbench.report.scaling_columns import node_columns as scaled_node_columns
from graphbench.report.scaling_table import by_last, headlines, set_lines, title
from graphbench.units import count_text

RowT = TypeVar("RowT")
SHOWN: Final = 10
"""Rows of a table."""
LINES: Final = 12
"""Lines of prose."""
_NAME: Final = 48
_WHOLE_PAGE: Final = "print() shows all of it, html() gives a page to explore it"


def profile_fragment(record: ProfileRecord) -> str:
    """The heading, what to know first, before and after, and what takes most."""
    digest = Digest()
    found, rows = summary(record, digest), profile_rows(record, digest)
    step = step_summary(record.step, digest) if record.step else None
    paid = fusion_lines(fusion_totals(record.regions, rows), found.before_after)
    first, *others = heading_lines(record)
    parts = [markup.line(first, strong=True), *_lines([*others, *finding_lines(record, found, step, fusion=paid)])]
    if compares_sides(record):
        headers, cells = totals_table(found, record.policy.timer)
        parts.append(markup.table(headers, cells, totals_aligns(headers), "Eager against compiled"))
    asked, without = rows.asked_for, ("host",) if record.policy.timer == "wallclock" else ()
    parts += _sorted("Nodes, isolated", node_columns(rows.nodes), asked.nodes, node_sort_keys(), without)
    if not nothing_compiled(record) and not is_op_list(record):
        parts += _sorted("Fusions", FUSION_COLUMNS, asked.fusions, sort_keys(FUSION_COLUMNS, "all_calls_fused_p50"))
    if record.step is not None:
        gaps = gap_rows(record.step, digest)
        parts += _sorted("Gap ops", GAP_COLUMNS, gaps, sort_keys(GAP_COLUMNS, "in_graph"), without)
    return markup.block([*parts, markup.line(_WHOLE_PAGE)])


def diff_fragment(result: Diff) -> str:
    """The verdict, whole runs, and the rows that changed most."""
    first, *others = conditions(result)
    parts = [markup.line(first, strong=True), *_lines(others)]
    parts += [rows_table("Whole runs", TOTAL_COLUMNS, result.totals)] if result.totals else []
    nodes, fusions = by_change(changed(result.rows), None), by_change(changed(result.fusions), None)
    parts += [rows_table("Nodes that differ", DIFF_COLUMNS, nodes)] if nodes else []
    parts += [rows_table("Fusions that differ", FUSION_DIFF_COLUMNS, fusions)] if fusions else []
    gaps = by_change(changed(result.gaps), None)
    parts += [rows_table("Gap ops that differ", GAP_DIFF_COLUMNS, gaps)] if gaps else []
    return markup.block([*parts, markup.line(_WHOLE_PAGE)])


def scaling_fragment(found: Scaling) -> str:
    """What grows fastest, whole runs, sums by op type, and the nodes that take most at the largest size."""
    told = [*headlines(found), *(f"warning: {warning}" for warning in found.warnings), *set_lines(found)]
    parts = [markup.line(title(found), strong=True), *_lines(told)]
    parts += [rows_table("Whole runs", total_columns(found), found.totals)] if found.totals else []
    parts += [rows_table("By op", group_columns(found, "op"), found.ops)] if len(found.ops) > 1 else []
    parts += [rows_table("Nodes", scaled_node_columns(found), by_last(found.rows))] if found.rows else []
    return markup.block([*parts, markup.line(_WHOLE_PAGE)])


def rows_fragment(title: str, columns: Sequence[Column[RowT]], rows: Sequence[RowT]) -> str:
    """One table of rows, the first ones, under their number."""
    return markup.block([rows_table(title, columns, rows)])


def parts_fragment(parts: Sequence[str | Grid]) -> str:
    """Prose, its title first, and small tables."""
    first, *others = parts
    shown = [grid_table(part) if isinstance(part, Grid) else markup.line(part) for part in others if part]
    return markup.block([markup.line(str(first), strong=True), *shown])


def rows_table(title: str, columns: Sequence[Column[RowT]], rows: Sequence[RowT], without: tuple[str, ...] = ()) -> str:
    """The first rows, in the order given, without some columns; the caption tells of how many."""
    shown = rows[:SHOWN]
    count = f"{len(shown)} of {len(rows)}" if len(shown) < len(rows) else f"{len(rows)}"
    return grid_table(build(columns, shown, wide=False, without=without), f"{title} ({count})")


def grid_table(grid: Grid, caption: str = "") -> str:
    """A whole table, with long names cut as in text."""
    cells = [
        [cell if cut is None else cut(cell, _NAME) for cell, cut in zip(row, grid.shorten, strict=True)]
        for row in grid.rows
    ]
    return markup.table(grid.headers, cells, grid.aligns, caption)


def _sorted(
    title: str,
    columns: tuple[Column[RowT], ...],
    rows: Sequence[RowT],
    keys: Mapping[str, Callable[[RowT], object]],
    without: tuple[str, ...] = (),
) -> list[str]:
    """The rows that cost most; nothing where there are none. On the CPU a call's host time is its time."""
    ordered = sort_rows(rows, keys, "cost", None)
    return [rows_table(f"{title}, what takes most first", columns, ordered, without)] if rows else []


def _lines(lines: Sequence[str]) -> list[str]:
    """The first lines, and how many more there are."""
    shown = list(lines[:LINES])
    if len(lines) > LINES:
        shown[-1] = f"and {count_text(len(lines) - LINES + 1, 'more line')}"
    return [markup.line(entry) for entry in shown]

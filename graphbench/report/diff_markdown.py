"""Two compared profiles as Markdown for a pull request: the verdict, totals and what changed most; the rest folds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from graphbench.analysis.diff import Diff
from graphbench.analysis.diff_fusions import FusionDiffRow
from graphbench.analysis.diff_groups import group_diff
from graphbench.analysis.group_by import DiffGroupBy
from graphbench.report.column import Column
from graphbench.report.diff_columns import (
    DIFF_COLUMNS,
    FUSION_DIFF_COLUMNS,
    GAP_DIFF_COLUMNS,
    GROUP_DIFF_COLUMNS,
    TOTAL_COLUMNS,
)
from graphbench.report.diff_table import limits_explained
from graphbench.report.diff_words import (
    by_change,
    changed,
    counts_line,
    fusion_counts_line,
    headline,
    reason_lines,
    rule_line,
)
from graphbench.report.markdown_text import FOLDED, bullets, escape, folded, left_out, rows_table
from graphbench.units import count_text

RowT = TypeVar("RowT")
SHOWN = 10
"""Rows of a table that are not folded, unless asked for otherwise."""


def markdown_diff(result: Diff, *, top: int | None = SHOWN, group_by: DiffGroupBy | None = None) -> str:
    """The comparison as Markdown, ending with a line break.

    Args:
        result: two profiles, compared.
        top: how many rows of what changed are shown before the fold; `None` for all.
        group_by: sums of nodes in the place of nodes and fusions; on different devices, sums by op type come first.

    Raises:
        UsageError: `top` is below 1.
    """
    parts = [f"### graphbench diff\n\n**{escape(headline(result))}**"]
    parts += [bullets([f"warning: {finding}" for finding in result.findings])]
    parts += [bullets([f"before: {result.before}", f"after: {result.after}"])]
    parts += [rows_table(TOTAL_COLUMNS, result.totals)] if result.totals else ["No whole run was measured."]
    counts = [counts_line(result), fusion_counts_line(result)]
    parts += [bullets([line for line in counts if line])]
    shown_by = group_by or ("op_type" if result.devices is not None else None)
    if shown_by is not None:
        rows, total = group_diff(result, shown_by)
        shown = [*rows[:top], total]
        parts += [f"#### By {shown_by}", rows_table(GROUP_DIFF_COLUMNS, shown), escape(limits_explained(shown))]
    if group_by is None:
        parts += _section("What changed most: nodes", DIFF_COLUMNS, by_change(changed(result.rows), None), top)
        parts += _fusions(result, top)
    parts += _section("Gap ops", GAP_DIFF_COLUMNS, by_change(changed(result.gaps), None), top) if result.gaps else []
    parts += _environment(result)
    notes = [*result.notes, *(line.removeprefix("– ") for line in reason_lines(result)), rule_line(result)]
    parts += [folded("Notes, and what counts as a difference", bullets([note for note in notes if note]))]
    return "\n\n".join(part for part in parts if part) + "\n"


def _fusions(result: Diff, top: int | None) -> list[str]:
    """Merged and split ones by themselves: a sum of others would hide what the compiler now does otherwise."""
    if not result.fusions:
        return []
    rows = by_change(changed(result.fusions), None)
    regrouped = [row for row in rows if row.change in ("merged", "split")]
    others: list[FusionDiffRow] = [row for row in rows if row.change not in ("merged", "split")]
    parts = _section("Fusions merged and split", FUSION_DIFF_COLUMNS, regrouped, top) if regrouped else []
    if regrouped and not others:
        return parts
    return parts + _section("What changed most: fusions", FUSION_DIFF_COLUMNS, others, top)


def _section(title: str, columns: Sequence[Column[RowT]], rows: Sequence[RowT], top: int | None) -> list[str]:
    """A table of the first rows, and others behind a fold; of very many, the last are only counted."""
    if not rows:
        return [f"#### {title}", "No difference."]
    if top is None or len(rows) <= top:
        return [f"#### {title}", rows_table(columns, rows)]
    hidden = rows[top : top + FOLDED]
    more = folded(count_text(len(hidden), "more row"), rows_table(columns, hidden))
    return [f"#### {title}", rows_table(columns, rows[:top]), more, *left_out(len(rows), top)]


def _environment(result: Diff) -> list[str]:
    if not result.environment:
        return ["Same environment and policy."]
    lines = bullets([f"{what}: {old} → {new}" for what, old, new in result.environment])
    if len(result.environment) <= SHOWN:
        return ["#### Environment", lines]
    return [folded(f"Environment: {count_text(len(result.environment), 'difference')}", lines)]

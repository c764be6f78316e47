"""Two compared profiles as text: the verdict, conditions that differ, totals, what changed of nodes and fusions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

from graphbench.analysis.diff import Diff
from graphbench.analysis.diff_groups import GroupDiffRow, group_diff
from graphbench.analysis.group_by import DiffGroupBy
from graphbench.analysis.roofline import OVER
from graphbench.plaintext import clean
from graphbench.report.base import DEFAULT_WIDTH
from graphbench.report.column import Column
from graphbench.report.diff_columns import (
    DIFF_COLUMNS,
    FUSION_DIFF_COLUMNS,
    GAP_DIFF_COLUMNS,
    GROUP_DIFF_COLUMNS,
    LEAVE,
    TOTAL_COLUMNS,
)
from graphbench.report.diff_words import (
    by_change,
    changed,
    counts_line,
    fusion_counts_line,
    headline,
    hidden_line,
    reason_lines,
    rule_line,
)
from graphbench.report.grid import build, draw_lines, wrap
from graphbench.units import count_text

RowT = TypeVar("RowT")
SHOWN_ROWS = 100
"""Rows of a table that are shown unless asked for otherwise: who compares wants what changed most."""
GAPS_ABOUT = "times of all calls in one recorded step each, verdicts of one call alone"
REPEATS = "= repeats the measurements of an equal node, and is counted with it"


def render_diff(
    result: Diff,
    *,
    top: int | None = SHOWN_ROWS,
    width: int = DEFAULT_WIDTH,
    every: bool = False,
    group_by: DiffGroupBy | None = None,
) -> str:
    """The comparison's text, ending with a line break; rows with the largest change first.

    Args:
        result: two profiles, compared.
        top: how many rows a table shows at most; `None` for all.
        width: of a line, in characters.
        every: also rows of which nothing is said but that they are the same, or unclear.
        group_by: sums of nodes in the place of nodes and fusions; on different devices, sums by op type come first.

    Raises:
        UsageError: `top` is below 1.
    """
    lines = [*conditions(result), ""]
    lines += _draw(TOTAL_COLUMNS, result.totals, width) if result.totals else ["no whole run was measured"]
    shown_by = group_by or ("op_type" if result.devices is not None else None)
    if shown_by is not None:
        lines += _groups(result, shown_by, top, width)
    if group_by is None:
        lines += [*_nodes(result, top, width, every=every), *_fusions(result, top, width, every=every)]
    lines += _gaps(result, top, width, every=every)
    lines += [clean(line) for line in reason_lines(result)]
    return wrap(lines, width)


def limits_explained(rows: Sequence[GroupDiffRow]) -> str:
    """What the columns of groups are; and what `!` is where it stands."""
    over = any((row.before_limit or 0.0) > OVER or (row.after_limit or 0.0) > OVER for row in rows)
    return (
        "before, after: sums of isolated medians; limit: which part of what its own device can do at most was reached"
        f"{'; !: beyond it, which no row can be: cache, ceilings or costs are not what they seem' if over else ''}"
    )


def conditions(result: Diff) -> list[str]:
    """What comes before all tables: warnings, the verdict, counts, which profiles, and what differs around them."""
    lines = [f"warning: {finding}" for finding in result.findings]
    lines += [headline(result), counts_line(result), fusion_counts_line(result)]
    lines += [f"before: {result.before}", f"after:  {result.after}"]
    lines += [f"differs: {what}: {old} -> {new}" for what, old, new in result.environment]
    lines += [] if result.environment else ["same environment and policy"]
    lines += [f"note: {note}" for note in result.notes]
    lines += [rule_line(result)]
    return [clean(line) for line in lines if line]


def _nodes(result: Diff, top: int | None, width: int, *, every: bool) -> list[str]:
    rows = list(result.rows) if every else changed(result.rows)
    shown = by_change(rows, top)
    lines = [_title("Nodes", shown, rows)]
    lines += _draw(DIFF_COLUMNS, shown, width) if shown else []
    lines += [hidden_line(result.rows, rows, "node")]
    if any(row.repeats for row in shown):
        lines.append(REPEATS)
    return ["", *(line for line in lines if line)]


def _fusions(result: Diff, top: int | None, width: int, *, every: bool) -> list[str]:
    if not result.fusions:
        return []
    rows = list(result.fusions) if every else changed(result.fusions)
    shown = by_change(rows, top)
    lines = [_title("Fusions", shown, rows, "; isolated, all calls")]
    lines += _draw(FUSION_DIFF_COLUMNS, shown, width) if shown else []
    lines += [hidden_line(result.fusions, rows, "fusion")]
    return ["", *(line for line in lines if line)]


def _gaps(result: Diff, top: int | None, width: int, *, every: bool) -> list[str]:
    """The gap ops of two steps; those without a verdict too, since most steps have no isolated gap ops."""
    if not result.gaps:
        return []
    rows = [row for row in result.gaps if every or row.verdict not in ("same", "unclear")]
    shown = by_change(rows, top)
    reasons = Counter(row.reason for row in result.gaps if row.reason)
    lines = [_title("Gap ops", shown, rows, f"; {GAPS_ABOUT}")]
    lines += _draw(GAP_DIFF_COLUMNS, shown, width) if shown else []
    lines += [hidden_line(result.gaps, rows, "gap op")]
    lines += [f"– {clean(reason)}: {count_text(times, 'gap op')}" for reason, times in reasons.items()]
    return ["", *(line for line in lines if line)]


def _groups(result: Diff, by: DiffGroupBy, top: int | None, width: int) -> list[str]:
    rows, total = group_diff(result, by)
    shown = rows if top is None else rows[:top]
    drawn = [*shown, total]
    return ["", _title(f"By {by}", shown, rows), *_draw(GROUP_DIFF_COLUMNS, drawn, width), limits_explained(drawn)]


def _title(what: str, shown: Sequence[object], rows: Sequence[object], about: str = "") -> str:
    if not rows:
        return f"{what}: no difference"
    count = f"{len(shown)} of {len(rows)}" if len(shown) < len(rows) else f"{len(rows)}"
    return f"{what} ({count}{about})"


def _draw(columns: Sequence[Column[RowT]], rows: Sequence[RowT], width: int) -> list[str]:
    return draw_lines(build(columns, rows, wide=False, leave=LEAVE), width)

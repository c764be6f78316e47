"""The page of two compared profiles: the verdict, what differs around them, and every row of both sides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeVar

from graphbench.analysis.diff import Diff
from graphbench.analysis.diff_fusions import FusionDiffRow
from graphbench.analysis.diff_gaps import GapDiffRow
from graphbench.analysis.diff_groups import GroupDiffRow, group_diff
from graphbench.analysis.diff_rows import DiffRow
from graphbench.analysis.diff_totals import DiffTotal
from graphbench.analysis.group_by import DiffGroupBy
from graphbench.report.column import Column
from graphbench.report.diff_columns import (
    DIFF_COLUMNS,
    ENVIRONMENT_COLUMNS,
    FUSION_DIFF_COLUMNS,
    GAP_DIFF_COLUMNS,
    GROUP_DIFF_COLUMNS,
    TOTAL_COLUMNS,
)
from graphbench.report.diff_table import GAPS_ABOUT, REPEATS, limits_explained
from graphbench.report.diff_words import (
    by_change,
    changed,
    counts_line,
    fusion_counts_line,
    headline,
    reason_lines,
    rule_line,
)
from graphbench.report.html.diff_details import DiffIds, details
from graphbench.report.html.figures.diff import diff_figures
from graphbench.report.html.model import Page, Section, Table, Tile
from graphbench.report.html.tables import html_table
from graphbench.units import count_text, format_duration, format_ratio

RowT = TypeVar("RowT", DiffRow, FusionDiffRow, GapDiffRow)
GROUPS: Final[tuple[tuple[DiffGroupBy, str], ...]] = (("op_type", "By op type"), ("module", "By module"))
_TONES: Final[dict[str, Literal["", "good", "bad"]]] = {"faster": "good", "slower": "bad"}


def diff_page(result: Diff) -> Page:
    """The whole page. Rows come with the largest change first, those that tell of a difference before all others."""
    ids = DiffIds.of(result)
    sections = [
        _summary(result),
        _conditions(result),
        Section(id="pictures", title="Pictures", figures=diff_figures(result)),
        _nodes(result, ids),
        _fusions(result, ids),
        _gaps(result, ids),
        _groups(result),
        _notes(result),
    ]
    return Page(
        title="graphbench diff",
        lines=(headline(result), f"before: {result.before}", f"after: {result.after}"),
        sections=tuple(section for section in sections if section.lines or section.figures or section.tables),
        details=details(result, ids),
    )


def _summary(result: Diff) -> Section:
    lines = [f"warning: {finding}" for finding in result.findings]
    lines += [line for line in (counts_line(result), fusion_counts_line(result)) if line]
    lines += [] if result.totals else ["no whole run was measured"]
    table = html_table("totals", "Whole runs, uninstrumented", TOTAL_COLUMNS, result.totals, head="name")
    return Section(
        id="summary",
        title="Summary",
        tiles=tuple(map(_tile, result.totals)),
        lines=tuple(lines),
        tables=(table,) if result.totals else (),
    )


def _tile(total: DiffTotal) -> Tile:
    """After ÷ before of a whole run; its verdict also in words."""
    times = f"{format_duration(total.before_ns)} → {format_duration(total.after_ns)}"
    return Tile(
        label=total.name,
        value=format_ratio(total.ratio),
        note=f"{times}: {total.verdict or total.reason}",
        tone=_TONES.get(total.verdict or "", ""),
    )


def _conditions(result: Diff) -> Section:
    lines = ["after ÷ before on another device: ratios, but no verdicts"] if result.devices is not None else []
    lines += [] if result.environment else ["same environment and policy"]
    lines += [f"note: {note}" for note in result.notes]
    title = "What else differs between the two"
    table = html_table("environment", title, ENVIRONMENT_COLUMNS, result.environment, head="what")
    return Section(
        id="conditions", title="Conditions", lines=tuple(lines), tables=(table,) if result.environment else ()
    )


def _nodes(result: Diff, ids: DiffIds) -> Section:
    rows = _ordered(result.rows)
    repeats = [REPEATS] if any(row.repeats for row in rows) else []
    table = _table("nodes", "Nodes, isolated", DIFF_COLUMNS, rows, ids, repeats, head="name")
    return Section(id="nodes-section", title="Nodes", tables=(table,))


def _fusions(result: Diff, ids: DiffIds) -> Section:
    rows = _ordered(result.fusions)
    head = "kernels_after" if any(row.kernels_after for row in rows) else "kernels_before"
    table = _table("fusions", "Fusions, isolated, all calls", FUSION_DIFF_COLUMNS, rows, ids, head=head)
    return Section(id="fusions-section", title="Fusions", tables=(table,) if rows else ())


def _gaps(result: Diff, ids: DiffIds) -> Section:
    rows = _ordered(result.gaps)
    table = _table("gaps", "Gap ops", GAP_DIFF_COLUMNS, rows, ids, [GAPS_ABOUT], head="op_type")
    return Section(id="gaps-section", title="Gap ops", tables=(table,) if rows else ())


def _groups(result: Diff) -> Section:
    tables = []
    for by, title in GROUPS:
        rows, total = group_diff(result, by)
        if len(rows) > 1:
            notes = [_total_text(total), limits_explained([*rows, total])]
            tables.append(html_table(f"by-{by}", title, GROUP_DIFF_COLUMNS, rows, head="group", notes=notes))
    return Section(id="groups", title="Groups", tables=tuple(tables))


def _total_text(total: GroupDiffRow) -> str:
    """The sum of all groups, which no sorting may move between them."""
    times = f"{format_duration(total.before_ns)} → {format_duration(total.after_ns)} ({format_ratio(total.ratio)})"
    left_out = f", {count_text(total.left_out, 'row')} left out" if total.left_out else ""
    return f"all groups: {times}{left_out}; {total.verdict or 'not judged: not the same work on both sides'}"


def _notes(result: Diff) -> Section:
    lines = [*(line.removeprefix("– ") for line in reason_lines(result)), rule_line(result)]
    return Section(id="notes", title="What was not compared, and what is noise", lines=tuple(filter(None, lines)))


def _ordered(rows: Sequence[RowT]) -> list[RowT]:
    """What tells of a difference first, each part by the size of its change."""
    told = changed(rows)
    known = set(map(id, told))
    return by_change(told, None) + by_change([row for row in rows if id(row) not in known], None)


def _table(
    identity: str,
    title: str,
    columns: Sequence[Column[RowT]],
    rows: Sequence[RowT],
    ids: DiffIds,
    notes: Sequence[str] = (),
    *,
    head: str,
) -> Table:
    named = [ids.of_row(row) for row in rows]
    empty = "neither profile has any"
    return html_table(identity, title, columns, rows, ids=named, head=head, notes=notes, empty=empty)

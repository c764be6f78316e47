"""The report as Markdown, for an issue or a pull request: the same content as the text, in tables that render."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from graphbench.analysis.digest import Digest
from graphbench.analysis.fusion import FusionRow
from graphbench.analysis.fusion_totals import fusion_totals
from graphbench.analysis.gaps import gap_lines, gap_rows
from graphbench.analysis.op_list import is_op_list
from graphbench.analysis.opportunities import opportunities
from graphbench.analysis.rows import ProfileRows, profile_rows
from graphbench.analysis.step_parts import step_parts
from graphbench.analysis.steps import StepSummary, nothing_compiled, step_summary
from graphbench.analysis.summary import summary
from graphbench.analysis.views import NodeRow, sort_rows
from graphbench.plaintext import clean
from graphbench.records import ProfileRecord
from graphbench.report.balance import balance_lines
from graphbench.report.base import RenderOptions, check_options
from graphbench.report.break_lines import break_lines
from graphbench.report.column import Column, sort_keys
from graphbench.report.columns import FUSION_COLUMNS, FUSION_LAUNCH_COLUMNS, FUSION_LIMIT_COLUMNS, find_sort
from graphbench.report.fusion_lines import fusion_lines
from graphbench.report.gaps_table import EAGER_TITLE, GAP_COLUMNS, GAP_LINE_COLUMNS
from graphbench.report.grid import build
from graphbench.report.groups_table import GROUP_COLUMNS, Grouping, checked_grouping, groups_legend, shown_groups
from graphbench.report.heading import heading_lines
from graphbench.report.legend import COSTS, is_costed, launch_legend, legend
from graphbench.report.node_columns import NODE_LAUNCH_COLUMNS, NODE_LIMIT_COLUMNS, node_columns, node_sort_keys
from graphbench.report.opportunities_table import (
    OPPORTUNITY_COLUMNS,
    OVERLAP,
    pay_off_lines,
    shown_first,
    unknown_lines,
)
from graphbench.report.overview import (
    compares_sides,
    finding_lines,
    partial_sums,
    replay_lines,
    totals_aligns,
    totals_table,
)
from graphbench.report.step_table import (
    IDLE_EXPLAINED,
    PLACE_COLUMNS,
    STEP_COLUMNS,
    places_title,
    shown_places,
    step_title,
)
from graphbench.report.table import GAPS_NOT_RECORDED
from graphbench.step_records import StepRecord
from graphbench.units import count_text

if TYPE_CHECKING:
    from typing_extensions import Unpack

RowT = TypeVar("RowT")
LimitedT = TypeVar("LimitedT", NodeRow, FusionRow)
SHOWN = 20
FOLDED = 40
"""Rows of a table before its fold and in it, unless asked for otherwise. GitHub takes comments of 65,536 characters."""
# Brackets are in every shape, as in f32[2,64]: they make a link only with what stands behind them.
_MARKUP = re.compile(r"[\\|<*_`~$]|\](?=[(\[:])|(?<=\])\[")


class MarkdownReporter:
    """The whole report as Markdown; takes `top`, `sort` (of nodes or groups), `wide`, `group_by`, `depth`.

    Without `top` the first 20 rows of a table are shown, 40 more on a click, and the others counted.
    """

    suffix = ".md"

    def render(self, record: ProfileRecord, **options: Unpack[RenderOptions]) -> str:
        """The Markdown text, ending with a line break.

        Raises:
            UsageError: an unknown option or sort key.
        """
        check_options("markdown", options, ("top", "sort", "wide", "group_by", "depth"))
        grouping = checked_grouping(options.get("group_by"), options.get("depth"))
        wide, top, sort = options.get("wide", False), options.get("top"), find_sort(options.get("sort", "cost"))
        digest = Digest()
        found = summary(record, digest)
        step = step_summary(record.step, digest) if record.step else None
        rows = profile_rows(record, digest)
        paid = fusion_lines(fusion_totals(record.regions, rows), found.before_after)
        title, *conditions = heading_lines(record)
        parts = [f"# {escape(title)}", _bullets(conditions)]
        compiled, ops = not nothing_compiled(record), is_op_list(record)
        if compares_sides(record):
            headers, totals = totals_table(found, record.policy.timer)
            parts.append(_table(headers, totals, totals_aligns(headers)))
        findings = finding_lines(record, found, step, fusion=paid, wide=wide)
        findings += [] if ops else pay_off_lines(record)
        parts += [_bullets([*partial_sums(found), *replay_lines(record), *findings])]
        parts += [] if ops else _opportunities(record, rows.fusions, digest, top)
        if compiled and grouping is not None:
            parts += _groups(record, grouping, sort, top, wide)
        elif compiled:
            asked = rows.asked_for
            parts += _nodes(record, asked.nodes, sort, top, wide)
            parts += [] if ops else _fusions(record, asked, top, wide, digest)
        if record.step is not None and step is not None:
            parts += [*_step(record.step, step, top, wide, digest)]
            by_source = grouping is not None and grouping.by == "source"
            parts += _gaps(record, record.step, top, wide, digest, by_source=by_source)
        breaks = break_lines(record, digest, wide=wide)
        if ops:
            return "\n\n".join(part for part in [*parts, _bullets(breaks)] if part) + "\n"
        parts += ["## Graph breaks" if step is not None else "## Gaps and graph breaks"]
        parts.append(_bullets(breaks if step is not None else [GAPS_NOT_RECORDED, *breaks]))
        return "\n\n".join(part for part in parts if part) + "\n"


def _opportunities(record: ProfileRecord, rows: Sequence[FusionRow], digest: Digest, top: int | None) -> list[str]:
    found = opportunities(record, digest, rows=rows)
    shown = shown_first(found, top)
    counted = [f"{len(shown)} of {len(found)}"] if len(shown) < len(found) else []
    explained = [*counted, OVERLAP] if shown else []
    table = _rows(OPPORTUNITY_COLUMNS, shown, wide=False)
    return ["## Opportunities", table, _bullets([*explained, *unknown_lines(record)])]


def _step(step: StepRecord, found: StepSummary, top: int | None, wide: bool, digest: Digest) -> list[str]:
    parts = ["## Step", escape(step_title(step, found)), _rows(STEP_COLUMNS, step_parts(step, digest), wide)]
    if len(found.places) < 2:
        return parts
    rows = shown_places(found.places, top, wide=wide)
    parts += [escape(places_title(rows, found.places)), _rows(PLACE_COLUMNS, rows, wide)]
    return [*parts, *([_bullets([IDLE_EXPLAINED])] if any(row.idle_ns is not None for row in rows) else [])]


def _gaps(
    record: ProfileRecord, step: StepRecord, top: int | None, wide: bool, digest: Digest, *, by_source: bool
) -> list[str]:
    if by_source:
        lines = sort_rows(gap_lines(step, digest), sort_keys(GAP_LINE_COLUMNS, "cost"), "cost", top)
        return ["## Gap ops by source", *_folding(GAP_LINE_COLUMNS, lines, wide, top)]
    rows = sort_rows(gap_rows(step, digest), sort_keys(GAP_COLUMNS, "in_graph"), "cost", top)
    title = EAGER_TITLE if nothing_compiled(record) else "Gap ops"
    return [f"## {title}", *_folding(GAP_COLUMNS, rows, wide, top), _bullets(legend(rows, many=False, wide=wide))]


def _groups(record: ProfileRecord, grouping: Grouping, sort: str, top: int | None, wide: bool) -> list[str]:
    digest = Digest()
    _, rows = shown_groups(record, grouping, sort, top, digest)
    explained = groups_legend(record, grouping.by, rows[-1], digest)
    return [f"## By {grouping.by}", _rows(GROUP_COLUMNS, rows, wide), _bullets(explained)]


def _nodes(record: ProfileRecord, nodes: Sequence[NodeRow], sort: str, top: int | None, wide: bool) -> list[str]:
    rows = sort_rows(nodes, node_sort_keys(), sort, top)
    explained = legend(rows, many=len(record.regions) > 1, wide=wide)
    parts = ["## Nodes", *_folding(node_columns(rows), rows, wide, top), _bullets(explained)]
    parts += _limits(NODE_LIMIT_COLUMNS, rows, wide, top)
    ran = [row for row in rows if row.device.told] if wide else []
    if ran:
        parts += ["### Launches", *_folding(NODE_LAUNCH_COLUMNS, ran, wide, top), _bullets(launch_legend(ran))]
    return parts


def _fusions(record: ProfileRecord, found: ProfileRows, top: int | None, wide: bool, digest: Digest) -> list[str]:
    rows = sort_rows(found.fusions, sort_keys(FUSION_COLUMNS, "all_calls_fused_p50"), "cost", top)
    explained = legend(rows, many=len(record.regions) > 1, wide=wide)
    explained += balance_lines(record.regions, found.divided, digest)
    parts = ["## Fusions", *_folding(FUSION_COLUMNS, rows, wide, top), _bullets(explained)]
    parts += _limits(FUSION_LIMIT_COLUMNS, rows, wide, top)
    ran = [row for row in rows if row.device.told] if wide else []
    if ran:
        table = _folding(FUSION_LAUNCH_COLUMNS, ran, wide, top)
        parts += ["### Launches, one call", *table, _bullets(launch_legend(ran))]
    return parts


def _limits(columns: Sequence[Column[LimitedT]], rows: Sequence[LimitedT], wide: bool, top: int | None) -> list[str]:
    if not wide or not any(map(is_costed, rows)):
        return []
    return ["### Limits", *_folding(columns, list(filter(is_costed, rows)), wide, top), _bullets([COSTS])]


def escape(text: str) -> str:
    """Escape what Markdown would read as markup, as a link or an image, or as the end of a cell."""
    return _MARKUP.sub(r"\\\g<0>", clean(text))


def _bullets(lines: Sequence[str]) -> str:
    """One bullet a line; what is indented is a bullet of the one above."""
    return "\n".join(f"{' ' * _indent(line)}- {escape(line.strip())}" for line in lines)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _rows(columns: Sequence[Column[RowT]], rows: Sequence[RowT], wide: bool) -> str:
    if not rows:
        return "none"
    grid = build(columns, rows, wide=wide)
    return _table([_in_one_line(header) for header in grid.headers], grid.rows, grid.aligns)


def _folding(columns: Sequence[Column[RowT]], rows: Sequence[RowT], wide: bool, top: int | None) -> list[str]:
    """A table of rows; of many, those that nobody asked for by number are behind a fold, or only counted."""
    if top is not None or len(rows) <= SHOWN:
        return [_rows(columns, rows, wide)]
    grid = build(columns, rows[: SHOWN + FOLDED], wide=wide)
    headers = [_in_one_line(header) for header in grid.headers]
    parts = [_table(headers, grid.rows[:SHOWN], grid.aligns)]
    hidden = grid.rows[SHOWN:]
    parts += [folded(f"{count_text(len(hidden), 'more row')}", _table(headers, hidden, grid.aligns))]
    return [*parts, *left_out(len(rows))]


def folded(summary: str, text: str) -> str:
    """What is shown on a click. GitHub renders Markdown inside only after an empty line."""
    return f"<details><summary>{summary}</summary>\n\n{text}\n\n</details>"


def left_out(count: int, shown: int = SHOWN) -> list[str]:
    """What is said of a table of `count` rows, of which more than fit behind the fold are left."""
    rest = count - shown - FOLDED
    return (
        [f"{count_text(rest, 'further row')} not shown: `--top {count}` shows all, CSV has them."] if rest > 0 else []
    )


def _in_one_line(header: str) -> str:
    """A header without line breaks; a word that was broken is whole again, `in-graph` keeps its hyphen."""
    return header.replace("in-\n", "in-").replace("-\n", "").replace("\n", " ")


def bullets(lines: Sequence[str]) -> str:
    """One escaped bullet a line."""
    return _bullets(lines)


def rows_table(columns: Sequence[Column[RowT]], rows: Sequence[RowT]) -> str:
    """A table of the columns that are shown by default."""
    return _rows(columns, rows, wide=False)


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]], aligns: Sequence[str]) -> str:
    # Written here rather than by tabulate, whose Markdown formats leave `|` inside a cell as it is.
    marks = ["---:" if align == "right" else ":---" for align in aligns[: len(headers)]]
    lines = [[escape(header) for header in headers], marks, *([escape(cell) for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)

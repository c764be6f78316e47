"""The report as Markdown, for an issue or a pull request: the same content as the text, in tables that render."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from graphbench.analysis.digest import Digest
from graphbench.analysis.fusion import FusionRow
from graphbench.analysis.fusion_totals import fusion_totals
from graphbench.analysis.gaps import gap_lines, gap_rows
from graphbench.analysis.op_list import is_op_list
from graphbench.analysis.opportunities import opportunities
from graphbench.analysis.rows import ProfileRows, profile_rows
from graphbench.analysis.shape_groups import by_size
from graphbench.analysis.size_groups import has_groups, heaviest
from graphbench.analysis.step_parts import step_parts
from graphbench.analysis.steps import StepSummary, nothing_compiled, step_summary
from graphbench.analysis.summary import summary
from graphbench.analysis.views import NodeRow, sort_rows
from graphbench.records import ProfileRecord
from graphbench.report.balance import balance_lines
from graphbench.report.base import RenderOptions, check_options
from graphbench.report.break_lines import break_lines
from graphbench.report.by_size_table import by_size_notes, by_size_title
from graphbench.report.column import Column, sort_keys
from graphbench.report.columns import FUSION_COLUMNS, FUSION_LAUNCH_COLUMNS, FUSION_LIMIT_COLUMNS, find_sort
from graphbench.report.fusion_lines import fusion_lines
from graphbench.report.gaps_table import EAGER_TITLE, GAP_COLUMNS, GAP_LINE_COLUMNS
from graphbench.report.groups_table import GROUP_COLUMNS, Grouping, checked_grouping, groups_legend, shown_groups
from graphbench.report.heading import heading_lines
from graphbench.report.legend import COSTS, is_costed, launch_legend, legend
from graphbench.report.markdown_text import bullets, cells_table, escape, folding, rows_table
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
from graphbench.report.scaling_columns import node_columns as node_columns_by_size
from graphbench.report.scaling_table import by_last
from graphbench.report.step_table import (
    IDLE_EXPLAINED,
    PLACE_COLUMNS,
    STEP_COLUMNS,
    places_title,
    shown_places,
    step_title,
)
from graphbench.report.table import GAPS_NOT_RECORDED, ONE_GROUP
from graphbench.step_records import StepRecord

if TYPE_CHECKING:
    from typing_extensions import Unpack

RowT = TypeVar("RowT")
LimitedT = TypeVar("LimitedT", NodeRow, FusionRow)


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
        parts = [f"# {escape(title)}", bullets(conditions)]
        compiled, ops = not nothing_compiled(record), is_op_list(record)
        if compares_sides(record):
            headers, totals = totals_table(found, record.policy.timer)
            parts.append(cells_table(headers, totals, totals_aligns(headers)))
        findings = finding_lines(record, found, step, fusion=paid, wide=wide)
        findings += [] if ops else pay_off_lines(record)
        parts += [bullets([*partial_sums(found), *replay_lines(record), *findings])]
        parts += [] if ops else _opportunities(record, rows.fusions, digest, top)
        if compiled and grouping is not None:
            parts += _groups(record, grouping, sort, top, wide)
        elif compiled:
            asked = rows.asked_for
            if has_groups(record) and not wide:
                asked = asked.of_regions(heaviest(record, digest))
            parts += _nodes(record, asked.nodes, sort, top, wide)
            parts += _by_size(record, top, wide)
            parts += [] if ops else _fusions(record, asked, top, wide, digest)
        if record.step is not None and step is not None:
            parts += [*_step(record.step, step, top, wide, digest)]
            by_source = grouping is not None and grouping.by == "source"
            parts += _gaps(record, record.step, top, wide, digest, by_source=by_source)
        breaks = break_lines(record, digest, wide=wide)
        if ops:
            return "\n\n".join(part for part in [*parts, bullets(breaks)] if part) + "\n"
        parts += ["## Graph breaks" if step is not None else "## Gaps and graph breaks"]
        parts.append(bullets(breaks if step is not None else [GAPS_NOT_RECORDED, *breaks]))
        return "\n\n".join(part for part in parts if part) + "\n"


def _opportunities(record: ProfileRecord, rows: Sequence[FusionRow], digest: Digest, top: int | None) -> list[str]:
    found = opportunities(record, digest, rows=rows)
    shown = shown_first(found, top)
    counted = [f"{len(shown)} of {len(found)}"] if len(shown) < len(found) else []
    explained = [*counted, OVERLAP] if shown else []
    table = rows_table(OPPORTUNITY_COLUMNS, shown)
    return ["## Opportunities", table, bullets([*explained, *unknown_lines(record)])]


def _step(step: StepRecord, found: StepSummary, top: int | None, wide: bool, digest: Digest) -> list[str]:
    parts = ["## Step", escape(step_title(step, found)), rows_table(STEP_COLUMNS, step_parts(step, digest), wide)]
    if len(found.places) < 2:
        return parts
    rows = shown_places(found.places, top, wide=wide)
    parts += [escape(places_title(rows, found.places)), rows_table(PLACE_COLUMNS, rows, wide)]
    return [*parts, *([bullets([IDLE_EXPLAINED])] if any(row.idle_ns is not None for row in rows) else [])]


def _gaps(
    record: ProfileRecord, step: StepRecord, top: int | None, wide: bool, digest: Digest, *, by_source: bool
) -> list[str]:
    if by_source:
        lines = sort_rows(gap_lines(step, digest), sort_keys(GAP_LINE_COLUMNS, "cost"), "cost", top)
        return ["## Gap ops by source", *folding(GAP_LINE_COLUMNS, lines, wide, top)]
    rows = sort_rows(gap_rows(step, digest), sort_keys(GAP_COLUMNS, "in_graph"), "cost", top)
    title = EAGER_TITLE if nothing_compiled(record) else "Gap ops"
    return [f"## {title}", *folding(GAP_COLUMNS, rows, wide, top), bullets(legend(rows, many=False, wide=wide))]


def _groups(record: ProfileRecord, grouping: Grouping, sort: str, top: int | None, wide: bool) -> list[str]:
    digest = Digest()
    _, rows = shown_groups(record, grouping, sort, top, digest)
    explained = groups_legend(record, grouping.by, rows[-1], digest)
    return [f"## By {grouping.by}", rows_table(GROUP_COLUMNS, rows, wide), bullets(explained)]


def _nodes(record: ProfileRecord, nodes: Sequence[NodeRow], sort: str, top: int | None, wide: bool) -> list[str]:
    rows = sort_rows(nodes, node_sort_keys(), sort, top)
    explained = legend(rows, many=len(record.regions) > 1, wide=wide)
    parts = ["## Nodes", *folding(node_columns(rows), rows, wide, top), bullets(explained)]
    parts += _limits(NODE_LIMIT_COLUMNS, rows, wide, top)
    ran = [row for row in rows if row.device.told] if wide else []
    if ran:
        parts += ["### Launches", *folding(NODE_LAUNCH_COLUMNS, ran, wide, top), bullets(launch_legend(ran))]
    return parts


def _by_size(record: ProfileRecord, top: int | None, wide: bool) -> list[str]:
    """Of every graph that was called with several sizes, its nodes over these."""
    parts = [] if wide or not has_groups(record) else [bullets([f"nodes and kernels: {ONE_GROUP}"])]
    for found in by_size(record):
        rows = by_last(found.rows)
        title = escape(by_size_title(found, rows[:top], rows))
        parts += [f"## {title}", *folding(node_columns_by_size(found), rows[:top], False, top)]
        parts.append(bullets(by_size_notes(found)))
    return parts


def _fusions(record: ProfileRecord, found: ProfileRows, top: int | None, wide: bool, digest: Digest) -> list[str]:
    rows = sort_rows(found.fusions, sort_keys(FUSION_COLUMNS, "all_calls_fused_p50"), "cost", top)
    explained = legend(rows, many=len(record.regions) > 1, wide=wide)
    explained += balance_lines(record.regions, found.divided, digest)
    parts = ["## Fusions", *folding(FUSION_COLUMNS, rows, wide, top), bullets(explained)]
    parts += _limits(FUSION_LIMIT_COLUMNS, rows, wide, top)
    ran = [row for row in rows if row.device.told] if wide else []
    if ran:
        table = folding(FUSION_LAUNCH_COLUMNS, ran, wide, top)
        parts += ["### Launches, one call", *table, bullets(launch_legend(ran))]
    return parts


def _limits(columns: Sequence[Column[LimitedT]], rows: Sequence[LimitedT], wide: bool, top: int | None) -> list[str]:
    if not wide or not any(map(is_costed, rows)):
        return []
    return ["### Limits", *folding(columns, list(filter(is_costed, rows)), wide, top), bullets([COSTS])]

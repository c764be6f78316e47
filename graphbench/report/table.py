"""The printed report: summary first, then nodes, fusions and gaps. Plain text, made for a terminal of 100 columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from graphbench.analysis.digest import Digest
from graphbench.analysis.fold_choice import FoldChoice, checked_fold
from graphbench.analysis.fusion import FusionRow
from graphbench.analysis.fusion_totals import fusion_totals
from graphbench.analysis.gaps import gap_lines, gap_rows
from graphbench.analysis.missing import expected_backwards
from graphbench.analysis.op_list import is_op_list
from graphbench.analysis.rows import ProfileRows, profile_rows
from graphbench.analysis.shape_groups import by_size
from graphbench.analysis.size_groups import base_of, has_groups, heaviest
from graphbench.analysis.step_parts import step_parts
from graphbench.analysis.steps import StepSummary, nothing_compiled, step_summary
from graphbench.analysis.summary import ProfileSummary, summary
from graphbench.analysis.views import NodeRow, sort_rows
from graphbench.collector import collector_paused
from graphbench.measurements import Measurement
from graphbench.plaintext import clean
from graphbench.records import ProfileRecord
from graphbench.report.balance import balance_lines
from graphbench.report.base import DEFAULT_WIDTH, WIDE_WIDTH, RenderOptions, check_options
from graphbench.report.block_columns import blocks_legend, with_blocks
from graphbench.report.break_lines import break_lines
from graphbench.report.by_size_table import by_size_lines
from graphbench.report.column import Column, sort_keys
from graphbench.report.columns import FUSION_COLUMNS, FUSION_LAUNCH_COLUMNS, FUSION_LIMIT_COLUMNS, find_sort
from graphbench.report.columns import LEAVE as FUSIONS_LEAVE
from graphbench.report.fusion_lines import fusion_lines
from graphbench.report.gaps_table import EAGER_TITLE, GAP_COLUMNS, GAP_LINE_COLUMNS, TITLE, draw_by_place
from graphbench.report.gaps_table import LEAVE as GAPS_LEAVE
from graphbench.report.grid import build, draw_lines, wrap
from graphbench.report.groups_table import (
    GROUP_COLUMNS,
    OF_COMPILED,
    Grouping,
    checked_grouping,
    groups_legend,
    shown_groups,
)
from graphbench.report.groups_table import LEAVE as GROUPS_LEAVE
from graphbench.report.heading import heading_lines
from graphbench.report.legend import COSTS, is_costed, launch_legend, legend, row_name, without_limit
from graphbench.report.node_columns import LEAVE as NODES_LEAVE
from graphbench.report.node_columns import NODE_LAUNCH_COLUMNS, NODE_LIMIT_COLUMNS, node_columns, node_sort_keys
from graphbench.report.opportunities_table import opportunity_lines, pay_off_lines
from graphbench.report.overview import (
    NAMES_SHOWN,
    compares_sides,
    finding_lines,
    names_text,
    partial_sums,
    replay_lines,
)
from graphbench.report.step_table import (
    IDLE_EXPLAINED,
    PLACE_COLUMNS,
    PLACES_LEAVE,
    STEP_COLUMNS,
    STEP_LEAVE,
    places_title,
    shown_places,
    step_title,
)
from graphbench.report.totals_grid import totals_grid
from graphbench.step_records import StepRecord
from graphbench.units import count_text, format_duration, format_percent

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from graphbench.report.folded_tables import FoldedTable

RowT = TypeVar("RowT")
LimitedT = TypeVar("LimitedT", NodeRow, FusionRow)
MAX_ROWS = 500  # unless `top` asks for more: nobody reads on, and drawing would take longer than loading
ONE_GROUP = "of several groups of sizes the one that takes most; wide shows all"
GAPS_NOT_RECORDED = "gaps: not recorded (use graphbench.profile(fn))"

__all__ = ["GAPS_NOT_RECORDED", "TableReporter"]


class TableReporter:
    """The whole report as text; takes `top`, `sort`, `wide`, `width`, `group_by`, `depth`, `fold` and `blocks`."""

    suffix = ".txt"

    def render(self, record: ProfileRecord, **options: Unpack[RenderOptions]) -> str:
        """The report's text, ending with a line break.

        `sort` applies to each table that has such a column; the others stay sorted by cost.

        Raises:
            UsageError: an unknown option or sort key.
        """
        check_options("table", options, ("top", "sort", "wide", "width", "group_by", "depth", "fold", "blocks"))
        grouping = checked_grouping(options.get("group_by"), options.get("depth"))
        wide = options.get("wide", False)
        width = options.get("width", WIDE_WIDTH if wide else DEFAULT_WIDTH)
        fold = checked_fold(options.get("fold", "never"), wide=wide)
        look = _Look(wide=wide, width=width, blocks=options.get("blocks", False))
        tables = _Tables(options.get("sort", "cost"), options.get("top"), look, grouping, fold)
        with collector_paused():
            return wrap(tables.lines(record), width)


class _Look(NamedTuple):
    """How tables are drawn, as `RenderOptions` say."""

    wide: bool
    width: int
    blocks: bool


class _Tables:
    """The tables of one report, all cut and sorted by the same options."""

    def __init__(self, sort: str, top: int | None, look: _Look, grouping: Grouping | None, fold: FoldChoice) -> None:
        self.digest = Digest()
        self._grouping, self._fold = grouping, fold
        self._sort, self._top = find_sort(sort), top
        self._wide, self._width, self._blocks = look.wide, look.width, look.blocks

    def lines(self, record: ProfileRecord) -> list[str]:
        """The whole report, line by line; a table is one entry."""
        found = summary(record, self.digest)
        step = step_summary(record.step, self.digest) if record.step else None
        rows = profile_rows(record, self.digest)
        paid = fusion_lines(fusion_totals(record.regions, rows), found.before_after)
        findings = finding_lines(record, found, step, fusion=paid, wide=self._wide)
        return [
            *heading_lines(record),
            "",
            *([*self.before_after(record, found), ""] if compares_sides(record) else []),
            *findings,
            *([] if is_op_list(record) else self.prospects(record, rows)),
            "",
            *self.rows(record, rows),
            *(self.step(record.step, step) if record.step and step else []),
            *self.gaps(record),
            *break_lines(record, self.digest, wide=self._wide),
        ]

    def prospects(self, record: ProfileRecord, rows: ProfileRows) -> list[str]:
        """When compiling has paid, and what could make the step faster."""
        found = opportunity_lines(record, self.digest, top=self._top, rows=rows.fusions)
        return [*pay_off_lines(record), "", *found]

    def before_after(self, record: ProfileRecord, found: ProfileSummary) -> list[str]:
        """The summary of all regions, eager against compiled."""
        table = draw_lines(totals_grid(found, record.policy.timer), self._width)
        return [*table, *partial_sums(found), *_region_note(record), *replay_lines(record)]

    def rows(self, record: ProfileRecord, rows: ProfileRows) -> list[str]:
        """Nodes and fusions, or their groups; nothing where nothing was compiled."""
        if nothing_compiled(record):
            return []
        if self._grouping:
            return [*self.groups(record, self._grouping), ""]
        asked = rows.asked_for
        if has_groups(record) and not self._wide:
            asked = asked.of_regions(heaviest(record, self.digest))
        nodes = [*self.nodes(record, rows.nodes, asked.nodes), ""]
        for found in by_size(record):
            nodes += [*by_size_lines(found, top=self._top or MAX_ROWS, width=self._width), ""]
        return nodes if is_op_list(record) else [*nodes, *self.fusions(record, rows, asked.fusions), ""]

    def groups(self, record: ProfileRecord, grouping: Grouping) -> list[str]:
        """The table of groups, in the place of 600 rows that nobody reads; the total stands last."""
        title, rows = shown_groups(record, grouping, self._sort, self._top, self.digest)
        # Names of shapes and kernels are long, and where limits are known the page is narrow.
        without = ("layers",) if grouping.by in ("shape", "kernel") else ()
        without = (*without, "speedup") if rows[-1].limit_ns else without
        without = (*without, *OF_COMPILED) if is_op_list(record) else without
        hidden = without if is_op_list(record) or not self._wide else ()
        grid = build(GROUP_COLUMNS, rows, wide=self._wide, without=hidden, leave=GROUPS_LEAVE)
        return [title, *draw_lines(grid, self._width), *groups_legend(record, grouping.by, rows[-1], self.digest)]

    def nodes(self, record: ProfileRecord, rows: Sequence[NodeRow], asked: Sequence[NodeRow]) -> list[str]:
        """The per-node table of those asked for, its marks explained, and why times and limits are missing."""
        many = len(record.regions) > 1
        keys = node_sort_keys()
        without, title = self._without(record, rows), "Nodes, isolated"
        folded = None
        if self._fold != "never":  # imported here: it takes longer than drawing a small report
            from graphbench.report.folded_tables import folded_nodes

            folded = folded_nodes(record, asked, self._fold, self._sorts_as_well(keys))
        if folded is None:
            columns = self._drawn(node_columns(rows), asked, "share", lambda row: row.node.isolated)
            note = ONE_GROUP if len(asked) < len(rows) and has_groups(record) else ""
            lines = self._table(title, columns, asked, keys, without, NODES_LEAVE, note)
        else:
            lines = self._folded(title, folded, "share", without, NODES_LEAVE)
        lines += legend(rows, many=many, wide=self._wide)
        lines += _reasons([(row_name(row, many), row.reason) for row in rows if row.reason])
        lines += _reasons(_without_backward(record, rows))
        lines += _reasons(without_limit(rows, many))
        lines += self._limits("Limits of nodes, isolated", NODE_LIMIT_COLUMNS, rows, keys)
        ran = [row for row in rows if row.device.told] if self._wide else []
        if ran:
            lines += ["", *self._table("Launches of nodes, isolated", NODE_LAUNCH_COLUMNS, ran, keys)]
        return lines + launch_legend(ran)

    def fusions(self, record: ProfileRecord, found: ProfileRows, asked: Sequence[FusionRow]) -> list[str]:
        """The per-fusion table of those asked for, sums that must agree, and why times and limits are missing."""
        rows = found.fusions
        listed, unowned = (asked, []) if self._wide else _without_unowned(asked)
        many = len(record.regions) > 1
        title = "Fusions: a kernel's time against its nodes' eager time"
        keys = sort_keys(FUSION_COLUMNS, "all_calls_fused_p50")
        layered, without = None, self._without(record, rows)
        if self._fold != "never":
            from graphbench.report.folded_tables import folded_fusions

            layered = folded_fusions(record, listed, self._fold, self._sorts_as_well(keys))
        if layered is None:
            columns = self._drawn(FUSION_COLUMNS, listed, "in_graph", lambda row: row.device.measurement)
            note = ONE_GROUP if len(listed) < len(rows) and has_groups(record) else ""
            lines = self._table(title, columns, listed, keys, without, FUSIONS_LEAVE, note)
        else:
            lines = self._folded(title, layered, "in_graph", without, FUSIONS_LEAVE)
        lines += _left_out(unowned, [row for row in rows if row.phase == "backward"])
        lines += legend(rows, many=many, wide=self._wide)
        lines += balance_lines(record.regions, found.divided, self.digest)
        lines += _reasons([(row_name(row, many), cause) for row in rows for cause in row.causes])
        lines += _reasons(without_limit(rows, many))
        lines += self._limits("Limits of kernels", FUSION_LIMIT_COLUMNS, rows, keys)
        ran = [row for row in rows if row.device.told] if self._wide else []
        if ran:
            lines += ["", *self._table("Launches of kernels, isolated, one call", FUSION_LAUNCH_COLUMNS, ran, keys)]
        return lines + launch_legend(ran)

    def _limits(
        self,
        title: str,
        columns: tuple[Column[LimitedT], ...],
        rows: Sequence[LimitedT],
        keys: Mapping[str, Callable[[LimitedT], object]],
    ) -> list[str]:
        """In a wide report, the table of costs and limits of the rows that have any."""
        if not self._wide or not any(map(is_costed, rows)):
            return []
        return ["", *self._table(title, columns, list(filter(is_costed, rows)), keys), COSTS]

    def step(self, step: StepRecord, found: StepSummary) -> list[str]:
        """The parts of a recorded step, then its places, unless all of it is one."""
        parts = step_parts(step, self.digest)
        without = (*(() if found.on_device else ("host",)), *(() if step.user_phases else ("elapsed",)))
        grid = build(STEP_COLUMNS, parts, wide=self._wide, without=without, leave=STEP_LEAVE)
        lines = [step_title(step, found), *draw_lines(grid, self._width), ""]
        if len(found.places) < 2:
            return lines
        rows = shown_places(found.places, self._top, wide=self._wide)
        grid = build(PLACE_COLUMNS, rows, wide=self._wide, leave=PLACES_LEAVE)
        lines += [places_title(rows, found.places), *draw_lines(grid, self._width)]
        return [*lines, *([IDLE_EXPLAINED] if any(row.idle_ns is not None for row in rows) else []), ""]

    def gaps(self, record: ProfileRecord) -> list[str]:
        """The gap ops of a recorded step, or that none was recorded."""
        if is_op_list(record):
            return []
        if record.step is None:
            return [GAPS_NOT_RECORDED]
        rows = gap_rows(record.step, self.digest)
        if not rows:
            return ["gap ops: none, every op ran in a compiled graph"]
        if self._grouping is not None and self._grouping.by == "source":
            by_line, keys = gap_lines(record.step, self.digest), sort_keys(GAP_LINE_COLUMNS, "cost")
            return [*self._table("Gap ops by source", GAP_LINE_COLUMNS, by_line, keys), ""]
        title = EAGER_TITLE if nothing_compiled(record) else TITLE
        shown, lines = self._chosen(title, rows, sort_keys(GAP_COLUMNS, "in_graph"))
        without = self._without(record)
        if lines[0].endswith("sorted by cost)"):
            lines += draw_by_place(shown, rows, wide=self._wide, width=self._width, without=without)
        else:
            grid = build(GAP_COLUMNS, shown, wide=self._wide, without=without, leave=GAPS_LEAVE)
            lines += draw_lines(grid, self._width)
        lines += legend(shown, many=False, wide=self._wide)
        return [*lines, *_reasons([(row_name(row, False), reason) for row in rows for reason in row.reasons]), ""]

    def _without(self, record: ProfileRecord, limited: Sequence[NodeRow] | Sequence[FusionRow] = ()) -> tuple[str, ...]:
        """Columns that would repeat others: on the CPU a call's host time is its time.

        Where limits are known, they take the room of host times (`launch` says which rows these matter for) and ratios.
        """
        if self._wide:
            return ()
        told = any(row.limit.bound for row in limited)
        columns = ("host", "ratio") if told else ("host",) if record.policy.timer == "wallclock" else ()
        return (*columns, "fate") if is_op_list(record) else columns

    def _table(
        self,
        title: str,
        columns: tuple[Column[RowT], ...],
        rows: Sequence[RowT],
        keys: Mapping[str, Callable[[RowT], object]],
        without: tuple[str, ...] = (),
        leave: tuple[str, ...] = (),
        note: str = "",
    ) -> list[str]:
        shown, lines = self._chosen(title, rows, keys, note)
        if not shown:
            return lines
        grid = build(columns, shown, wide=self._wide, without=without, leave=leave)
        drawn = draw_lines(grid, self._width)
        return [*lines, *drawn, *(blocks_legend(drawn[:1]) if self._blocks else [])]

    def _folded(
        self,
        title: str,
        table: FoldedTable[RowT],
        barred: str,
        without: tuple[str, ...],
        leave: tuple[str, ...],
    ) -> list[str]:
        """A table of repeated layers, and what its columns are."""
        note = f"folded from {table.unfolded}; --fold never shows all"
        columns = self._drawn(table.columns, table.folds, barred)
        lines = self._table(title, columns, table.folds, table.keys, without, leave, note)
        return [*lines, table.legend(lines[1])]

    def _drawn(
        self,
        columns: tuple[Column[RowT], ...],
        rows: Sequence[RowT],
        barred: str,
        measured: Callable[[RowT], Measurement] | None = None,
    ) -> tuple[Column[RowT], ...]:
        """The columns, with their pictures where these can be shown."""
        return with_blocks(columns, rows, barred, measured) if self._blocks else columns

    def _sorts_as_well(self, keys: Mapping[str, object]) -> Callable[[Mapping[str, object]], bool]:
        """Whether a table with other keys can be sorted as this one with `keys`."""
        return lambda others: self._sort in others or self._sort not in keys

    def _chosen(
        self, title: str, rows: Sequence[RowT], keys: Mapping[str, Callable[[RowT], object]], note: str = ""
    ) -> tuple[list[RowT], list[str]]:
        """The rows to show, in order, and the line above them, with a `note`."""
        sort = self._sort if self._sort in keys else "cost"
        shown = sort_rows(rows, keys, sort, MAX_ROWS if self._top is None else self._top)
        if not shown:
            return [], [f"{title}: none"]
        count = f"{len(shown)} of {len(rows)}" if len(shown) < len(rows) else f"{len(rows)}"
        if self._top is None and len(shown) < len(rows):
            count += f" rows, top={len(rows)} shows all"
        return shown, [f"{title} ({count}, sorted by {sort}{f', {note}' if note else ''})"]


def _region_note(record: ProfileRecord) -> list[str]:
    measured = [region for region in record.regions if region.status == "ok"]
    graphs = len({base_of(region) for region in measured})
    if graphs < len(measured):
        return [f"({count_text(graphs, 'region')} in {len(measured)} groups of sizes, each group run once)"]
    return [f"({graphs} regions, each run once)"] if graphs > 1 else []


def _without_backward(record: ProfileRecord, rows: Sequence[NodeRow]) -> list[tuple[str, str]]:
    """Nodes whose eager backward should stand in the table and does not, and why."""
    many = len(record.regions) > 1
    expected = {(region.key, node.name) for region in record.regions for node in expected_backwards(region)}
    missing = [row for row in rows if row.backward.samples is None and (row.region, row.name) in expected]
    return [(row_name(row, many), f"no eager backward: {row.backward.reason}") for row in missing]


def _reasons(missing: Sequence[tuple[str, str]]) -> list[str]:
    """Why times are missing: one line a reason, with the number of rows and the first names."""
    groups: dict[str, list[str]] = {}
    for name, reason in missing:
        groups.setdefault(reason, []).append(name)
    return [
        f"– {clean(reason)}: " + (names_text(names) if len(names) <= NAMES_SHOWN else f"{len(names)} rows")
        for reason, names in groups.items()
    ]


def _without_unowned(rows: Sequence[FusionRow]) -> tuple[Sequence[FusionRow], Sequence[FusionRow]]:
    """Rows to list, and the backward kernels that no node is known for, unless these are few."""
    unowned = [row for row in rows if row.phase == "backward" and not row.owned]
    if len(unowned) <= NAMES_SHOWN:
        return rows, []
    return [row for row in rows if row.phase != "backward" or row.owned], unowned


def _left_out(unowned: Sequence[FusionRow], backward: Sequence[FusionRow]) -> list[str]:
    if not unowned:
        return []
    time_ns, total_ns = (sum(row.in_graph_ns or 0.0 for row in rows) for rows in (unowned, backward))
    share = f" ({format_percent(time_ns / total_ns)} of backward's)" if total_ns else ""
    kernels = f"{len(unowned)} backward kernels of no known node"
    return [f"not listed: {kernels}: {format_duration(time_ns)} in-graph{share}; wide lists them"]

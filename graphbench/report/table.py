"""The printed report: summary first, then nodes, fusions and gaps. Plain text, made for a terminal of 100 columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from graphbench.analysis.digest import Digest
from graphbench.analysis.fusion import FusionRow, fusion_rows
from graphbench.analysis.shares import shares
from graphbench.analysis.summary import summary
from graphbench.analysis.views import NodeRow, gap_rows, node_rows, sort_rows
from graphbench.collector import collector_paused
from graphbench.errors import UsageError
from graphbench.records import ProfileRecord
from graphbench.report.base import DEFAULT_WIDTH, RenderOptions, check_options
from graphbench.report.columns import FUSION_COLUMNS, GAP_COLUMNS, NODE_COLUMNS, Column, sort_keys
from graphbench.report.diff_table import render_diff
from graphbench.report.grid import Grid, build, clean, draw, wrap
from graphbench.report.overview import break_lines, finding_lines, heading_lines, names_text, totals_table
from graphbench.units import format_duration

if TYPE_CHECKING:
    from typing_extensions import Unpack

RowT = TypeVar("RowT")
WIDE_WIDTH = 200
MAX_ROWS = 2000  # unless `top` asks for more: nobody reads on, and drawing would take longer than loading
GAPS_NOT_RECORDED = "gaps: not recorded (use graphbench.profile(fn))"

__all__ = ["GAPS_NOT_RECORDED", "TableReporter", "render_diff"]


class TableReporter:
    """The whole report as text; takes `top`, `sort`, `wide` and `width`."""

    suffix = ".txt"

    def render(self, record: ProfileRecord, **options: Unpack[RenderOptions]) -> str:
        """The report's text, ending with a line break.

        `sort` applies to each table that has such a column; the others stay sorted by cost.

        Raises:
            UsageError: an unknown option or sort key.
        """
        check_options("table", options, ("top", "sort", "wide", "width"))
        wide = options.get("wide", False)
        width = options.get("width", WIDE_WIDTH if wide else DEFAULT_WIDTH)
        tables = _Tables(options.get("sort", "cost"), options.get("top"), wide, width)
        with collector_paused():
            return wrap(tables.lines(record), width)


class _Tables:
    """The tables of one report, all cut and sorted by the same options."""

    def __init__(self, sort: str, top: int | None, wide: bool, width: int) -> None:
        self.digest = Digest()
        self._sort, self._top, self._wide, self._width = sort, top, wide, width
        known = {column.key for columns in (NODE_COLUMNS, FUSION_COLUMNS, GAP_COLUMNS) for column in columns}
        if sort != "cost" and sort not in known:
            hint = f"sort by one of: cost, {', '.join(sorted(known))}"
            raise UsageError(f"unknown sort key {sort!r}", hint=hint, subject="sort")

    def lines(self, record: ProfileRecord) -> list[str]:
        """The whole report, line by line; a table is one entry."""
        found = summary(record, self.digest)
        headers, rows = totals_table(found)
        return [
            *heading_lines(record),
            "",
            draw(_plain_grid(headers, rows), self._width),
            *_region_note(record),
            "",
            *finding_lines(record, found),
            "",
            *self.nodes(record),
            "",
            *self.fusions(record),
            "",
            *self.gaps(record),
            *break_lines(record),
        ]

    def nodes(self, record: ProfileRecord) -> list[str]:
        """The per-node table, its marks explained, and why times are missing."""
        rows = node_rows(record, self.digest)
        many = len(record.regions) > 1
        lines = self._table("Nodes, isolated", NODE_COLUMNS, rows, "isolated_p50")
        return lines + _legend(rows) + _reasons([(_name(row, many), row.reason) for row in rows if row.reason])

    def fusions(self, record: ProfileRecord) -> list[str]:
        """The per-fusion table, the eager time that belongs to no kernel, and why times are missing."""
        rows = [row for region in record.regions for row in fusion_rows(region, self.digest)]
        many = len(record.regions) > 1
        lines = self._table("Fusions: a kernel's time against its nodes' eager time", FUSION_COLUMNS, rows, "fused_p50")
        lines += _legend(rows) + _without_kernel(record, self.digest)
        return lines + _reasons([(_name(row, many), reason) for row in rows for reason in row.reasons])

    def gaps(self, record: ProfileRecord) -> list[str]:
        """The gap ops of a recorded step, or that none was recorded."""
        if record.step is None:
            return [GAPS_NOT_RECORDED]
        rows = gap_rows(record.step)
        if not rows:
            return ["gaps: none, everything ran in compiled regions"]
        lines = self._table("Gap ops: eager between regions, in backward or optimizer", GAP_COLUMNS, rows, "in_graph")
        return [*lines, *_reasons([(row.name, row.reason) for row in rows if row.reason]), ""]

    def _table(self, title: str, columns: tuple[Column[RowT], ...], rows: Sequence[RowT], cost: str) -> list[str]:
        keys: Mapping[str, Callable[[RowT], object]] = sort_keys(columns, cost)
        sort = self._sort if self._sort in keys else "cost"
        shown = sort_rows(rows, keys, sort, MAX_ROWS if self._top is None else self._top)
        if not shown:
            return [f"{title}: none"]
        count = f"{len(shown)} of {len(rows)}" if len(shown) < len(rows) else f"{len(rows)}"
        if self._top is None and len(shown) < len(rows):
            count += f" rows, top={len(rows)} shows all"
        grid = build(columns, shown, wide=self._wide)
        lines = [f"{title} ({count}, sorted by {sort})", draw(grid, self._width)]
        return [*lines, f"measured for no row: {', '.join(grid.absent)}"] if grid.absent else lines


def _plain_grid(headers: list[str], rows: list[list[str]]) -> Grid:
    n = len(headers)
    aligns = ["left"] + ["right"] * (n - 1)
    return Grid(headers=headers, rows=rows, aligns=aligns, shrink=[None] * n, tails=[False] * n, absent=[])


def _region_note(record: ProfileRecord) -> list[str]:
    n_regions = sum(region.status == "ok" for region in record.regions)
    return [f"({n_regions} regions, each run once)"] if n_regions > 1 else []


def _legend(rows: Sequence[NodeRow] | Sequence[FusionRow]) -> list[str]:
    lines = []
    if any(row.shared_with for row in rows):
        lines.append("= measured once for several equal ones")
    warned: dict[str, list[str]] = {}
    for row in rows:
        for warning in row.warnings:
            warned.setdefault(warning, []).append(row.name)
    lines.extend(f"! {warning}: {names_text(names)}" for warning, names in warned.items())
    return lines


def _name(row: NodeRow | FusionRow, many: bool) -> str:
    name = row.name if isinstance(row, NodeRow) else row.key
    return f"{row.region}/{name}" if many else name


def _reasons(missing: Sequence[tuple[str, str]]) -> list[str]:
    groups: dict[str, list[str]] = {}
    for name, reason in missing:
        groups.setdefault(reason, []).append(name)
    return [f"– {clean(reason)}: {names_text(names)}" for reason, names in groups.items()]


def _without_kernel(record: ProfileRecord, digest: Digest) -> list[str]:
    """The eager time that belongs to no kernel, by fate: with the eager column it adds up to all nodes' time."""
    totals: dict[str, float] = {}
    for region in record.regions:
        for fate, time in shares(region, digest).without_kernel.items():
            totals[fate] = totals.get(fate, 0.0) + time.p50_ns
    if not totals:
        return []
    parts = ", ".join(f"{fate} {format_duration(time_ns)}" for fate, time_ns in totals.items())
    return [f"eager time of nodes without a kernel: {parts}"]

"""The sections of opportunities, groups, nodes and kernels. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

from graphbench.analysis.fusion import FusionRow
from graphbench.analysis.group_by import GroupBy
from graphbench.analysis.groups import GroupRow, group_rows
from graphbench.analysis.shape_groups import by_size
from graphbench.analysis.views import NodeRow, sort_rows
from graphbench.report.balance import balance_lines
from graphbench.report.by_size_table import by_size_notes, by_size_title
from graphbench.report.column import sort_keys
from graphbench.report.columns import FUSION_COLUMNS
from graphbench.report.groups_table import GROUP_COLUMNS, OF_COMPILED, path_lines, sums_legend
from graphbench.report.html.findings import Findings
from graphbench.report.html.group_details import group_id
from graphbench.report.html.model import Section, Table, kernel_id, node_id
from graphbench.report.html.step_details import opportunity_id
from graphbench.report.html.tables import html_table
from graphbench.report.legend import COSTS, is_costed, launch_legend, legend
from graphbench.report.node_columns import node_columns, node_sort_keys
from graphbench.report.opportunities_table import COLUMNS_TOLD, OPPORTUNITY_COLUMNS, OVERLAP, unknown_lines
from graphbench.report.scaling_columns import node_columns as node_columns_by_size
from graphbench.report.scaling_table import by_last
from graphbench.units import format_duration

RowT = TypeVar("RowT", NodeRow, FusionRow)
GROUP_TITLES: Final = {
    "module": "By module",
    "source": "By source line",
    "op_type": "By op type",
    "kernel": "By kernel",
    "shape": "By op and shapes",
}


def opportunities_section(found: Findings) -> Section:
    """What could make the step faster."""
    rows = found.opportunities
    return Section(
        id="opportunities",
        title="Opportunities",
        lines=tuple(unknown_lines(found.record)),
        tables=(
            html_table(
                "opportunities-table",
                "Opportunities",
                OPPORTUNITY_COLUMNS,
                rows,
                ids=[opportunity_id(position) for position in range(len(rows))],
                head="what",
                notes=(OVERLAP, COLUMNS_TOLD) if rows else (),
                without=("nodes", "note"),
                empty="none found",
            ),
        ),
    )


def groups_section(found: Findings) -> Section:
    """Where the time goes, by module and in other ways."""
    lines = tuple(path_lines(found.record, found.digest)) if found.compiled else ()
    tables = tuple(_groups(found, way) for way in found.group_ways)
    return Section(id="groups", title="Groups", lines=lines, tables=tables)


def _groups(found: Findings, by: GroupBy) -> Table:
    rows, total = group_rows(found.record, by, digest=found.digest)
    ordered = sort_rows(rows, sort_keys(GROUP_COLUMNS, "cost"), "cost", None)
    return html_table(
        f"groups-{by}",
        GROUP_TITLES[by],
        GROUP_COLUMNS,
        ordered,
        ids=[group_id(by, row.group) for row in ordered],
        sort="cost",
        head="group",
        notes=(_total(total), *sums_legend(found.record, by, total)),
        without=() if found.compiled else OF_COMPILED,
        also=("limit",),
        closed=by != "module",
    )


def _total(total: GroupRow) -> str:
    times = (
        ("eager", total.eager_ns),
        ("eager backward", total.eager_backward_ns),
        ("compiled", total.compiled_ns),
        ("compiled backward", total.compiled_backward_ns),
        ("saved", total.saved_ns),
    )
    return "total: " + ", ".join(f"{name} {format_duration(time_ns)}" for name, time_ns in times if time_ns)


def _notes(found: Findings, rows: Sequence[RowT]) -> list[str]:
    """What the marks and columns of a table of nodes or kernels mean."""
    notes = legend(rows, many=found.many, wide=False)
    notes += [COSTS] if any(map(is_costed, rows)) else []
    return notes + launch_legend([row for row in rows if row.device.told])


def nodes_section(found: Findings) -> Section:
    """What every node cost, alone."""
    every = found.rows.nodes
    rows = sort_rows(every, node_sort_keys(), "cost", None)
    return Section(
        id="nodes",
        title="Nodes",
        tables=(
            html_table(
                "nodes-table",
                "Nodes, isolated",
                node_columns(rows),
                rows,
                ids=[node_id(row.region, row.name) for row in rows],
                sort="isolated_p50",
                head="name",
                notes=_notes(found, rows),
                empty="no nodes were captured",
                without=(*(("host",) if found.on_wallclock else ()), *(("fate",) if found.only_ops else ())),
                also=("module",),
            ),
        ),
    )


def by_size_section(found: Findings) -> Section:
    """Nodes over the sizes that their graph was called with; empty where every graph had one size."""
    tables = []
    for entry in by_size(found.record):
        rows = by_last(entry.rows)
        tables.append(
            html_table(
                f"by-size-{entry.region}",
                by_size_title(entry, rows, rows),
                node_columns_by_size(entry),
                rows,
                ids=[node_id(row.region, row.name) for row in rows],
                head="name",
                notes=by_size_notes(entry),
            )
        )
    return Section(id="by-size", title="Nodes by size", tables=tuple(tables))


def fusions_section(found: Findings) -> Section:
    """Whether each kernel paid."""
    rows = sort_rows(found.rows.fusions, sort_keys(FUSION_COLUMNS, "all_calls_fused_p50"), "cost", None)
    return Section(
        id="fusions",
        title="Fusions",
        lines=tuple(balance_lines(found.record.regions, found.rows.divided, found.digest)),
        tables=(
            html_table(
                "fusions-table",
                "Fusions: a kernel's time against its nodes' eager time",
                FUSION_COLUMNS,
                rows,
                ids=[kernel_id(row.region, row.key) for row in rows],
                sort="all_calls_fused_p50",
                head="kernel",
                notes=_notes(found, rows),
                empty="no kernels: nothing of it ran compiled",
                also=("phase",),
            ),
        ),
    )

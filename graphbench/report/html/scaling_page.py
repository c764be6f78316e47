"""The page of one model on several inputs: what grows fastest, and every row over the sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from graphbench.analysis.scaling import Scaling, TotalScaling
from graphbench.analysis.scaling_rows import NodeScaling
from graphbench.report.html.figures.scaling import scaling_figures
from graphbench.report.html.model import Detail, Page, Section, Tile
from graphbench.report.html.tables import html_table
from graphbench.report.scaling_columns import (
    BACKWARD,
    group_columns,
    grows_text,
    node_columns,
    set_names,
    total_columns,
)
from graphbench.report.scaling_table import by_last, headlines, legend, set_lines, shown_groups, title
from graphbench.units import MISSING, format_duration, format_ratio


def scaling_page(found: Scaling) -> Page:
    """The whole page. Rows come in the order of their time at the largest size."""
    nodes = by_last(found.rows)
    ids = [f"node/{index}" for index in range(len(nodes))]
    sections = [
        _summary(found),
        Section(id="pictures", title="Pictures", figures=scaling_figures(found)),
        _groups(found),
        _nodes(found, nodes, ids),
        Section(id="notes", title="Notes", lines=tuple(legend(found))),
    ]
    return Page(
        title=title(found),
        lines=tuple(headlines(found)),
        sections=tuple(section for section in sections if section.lines or section.figures or section.tables),
        details={identity: _detail(found, identity, row) for identity, row in zip(ids, nodes, strict=True)},
    )


def _summary(found: Scaling) -> Section:
    lines = [*(f"warning: {warning}" for warning in found.warnings), *set_lines(found)]
    table = html_table("totals", "Whole runs, uninstrumented", total_columns(found), found.totals, head="name")
    return Section(
        id="summary",
        title="Summary",
        tiles=tuple(_tile(found, total) for total in found.totals),
        lines=tuple(lines),
        tables=(table,) if found.totals else (),
    )


def _tile(found: Scaling, total: TotalScaling) -> Tile:
    """A whole run from the smallest set to the largest."""
    ends = [format_duration(value) if total.is_time else format_ratio(value) for value in _ends(total.values)]
    grows = f"grows as {grows_text(found, total)}" if total.growths else ""
    return Tile(label=total.name, value=" → ".join(ends), note=grows)


def _ends(values: Sequence[float | None]) -> tuple[float | None, float | None]:
    return values[0], values[-1]


def _groups(found: Scaling) -> Section:
    tables = [
        html_table(f"by-{what}", f"By {what}", group_columns(found, what), rows, head="group")
        for what, rows in shown_groups(found)
    ]
    return Section(id="groups", title="Groups", tables=tuple(tables))


def _nodes(found: Scaling, rows: Sequence[NodeScaling], ids: Sequence[str]) -> Section:
    table = html_table("nodes", "Nodes, isolated", node_columns(found), rows, ids=ids, head="name", empty="none")
    return Section(id="nodes-section", title="Nodes", tables=(table,))


def _detail(found: Scaling, identity: str, row: NodeScaling) -> Detail:
    return Detail(
        id=identity,
        kind="node",
        title=f"{BACKWARD if row.phase == 'backward' else ''}{row.name}",
        facts=tuple(chain.from_iterable(_facts(found, row))),
    )


def _facts(found: Scaling, row: NodeScaling) -> Iterator[list[tuple[str, str]]]:
    """At every size: times and what it reads, or why there is no time."""
    for name, label, point in zip(set_names(found), found.labels, row.points, strict=True):
        times = [("isolated", point.isolated_ns), ("in-graph", point.in_graph_ns), ("compiled", point.compiled_ns)]
        told = [f"{what} {format_duration(time_ns)}" for what, time_ns in times if time_ns is not None]
        told += [entry for entry in (point.reads, point.short) if entry]
        told += [f"{MISSING} {point.reason}"] if point.isolated_ns is None and point.reason else []
        yield [(name if name == label else f"{name} ({label})", "\n".join(told))]

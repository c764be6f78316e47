"""The columns of the table of graph breaks, for CSV and pages: text tells each break in lines of its own."""

from __future__ import annotations

from collections.abc import Callable

from graphbench.analysis.break_costs import BreakCost, BreakRow
from graphbench.analysis.recompiles import RecompileRow
from graphbench.report.column import Column
from graphbench.report.names import shorten_head, shorten_tail


def _of_cost(pick: Callable[[BreakCost], object]) -> Callable[[BreakRow], object]:
    return lambda row: None if row.cost is None else pick(row.cost)


def _where(row: BreakRow) -> str:
    source = row.graph_break.source
    return f"{source.file}:{source.line}" if source else ""


def _counted(pairs: tuple[tuple[str, int], ...]) -> str:
    return "; ".join(f"{name}: {count}" for name, count in pairs)


BREAK_COLUMNS: tuple[Column[BreakRow], ...] = (
    Column(name="kind", key="kind", kind="text", get=lambda row: row.graph_break.kind),
    Column(name="region", key="region", kind="text", get=lambda row: row.graph_break.region or ""),
    Column(name="source", key="source", kind="text", get=_where, shorten=shorten_tail),
    Column(
        name="reason",
        key="reason",
        kind="text",
        get=lambda row: row.graph_break.reason,
        shrink=30,
        shorten=shorten_head,
    ),
    Column(name="cause", key="cause", kind="text", get=lambda row: row.graph_break.cause, shown="wide"),
    Column(name="hint", key="hint", kind="text", get=lambda row: row.graph_break.hint, shown="wide"),
    Column(name="count", key="count", kind="number", get=lambda row: row.graph_break.count, shown="several"),
    Column(name="place", key="place", kind="text", get=_of_cost(lambda cost: cost.place), shown="wide"),
    Column(
        name="separates",
        key="separates",
        kind="text",
        get=_of_cost(lambda cost: " | ".join(cost.separates)),
        shown="wide",
    ),
    Column(name="ops", key="ops", kind="number", get=_of_cost(lambda cost: cost.calls)),
    Column(name="launches", key="launches", kind="number", get=_of_cost(lambda cost: cost.launches), shown="wide"),
    Column(name="time", key="time", kind="time", get=_of_cost(lambda cost: cost.time_ns)),
    Column(name="idle", key="idle", kind="time", get=_of_cost(lambda cost: cost.idle_ns)),
    Column(name="host", key="host", kind="time", get=_of_cost(lambda cost: cost.host_ns)),
    Column(
        name="copied", key="copied_bytes", kind="text", get=_of_cost(lambda cost: _counted(cost.copied)), shown="wide"
    ),
    Column(name="syncs", key="syncs", kind="text", get=_of_cost(lambda cost: _counted(cost.syncs)), shown="wide"),
    Column(name="no cost", key="no_cost_reason", kind="text", get=lambda row: row.reason, shown="wide"),
)

RECOMPILE_COLUMNS: tuple[Column[RecompileRow], ...] = (
    Column(name="compile id", key="compile_id", kind="text", get=lambda row: row.compile_id),
    Column(name="region", key="region", kind="text", get=lambda row: row.region),
    Column(name="takes any", key="takes", kind="text", get=lambda row: row.takes, shown="nonzero"),
    Column(name="earlier", key="earlier", kind="text", get=lambda row: ", ".join(row.earlier), shown="nonzero"),
    Column(
        name="source",
        key="source",
        kind="text",
        get=lambda row: f"{row.source.file}:{row.source.line}" if row.source else "",
    ),
    Column(name="guard", key="guard", kind="text", get=lambda row: row.guard),
)

"""The columns of the per-node tables: in inference, and in training with forward and backward side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final, Literal

from graphbench.analysis.fusion import FusionRow
from graphbench.analysis.gaps import GapRow
from graphbench.analysis.stats import Summary
from graphbench.analysis.views import NodeRow
from graphbench.report.column import Column, sort_keys
from graphbench.report.device_columns import COUNT_COLUMN, LAUNCH_COLUMNS, in_csv
from graphbench.report.limit_columns import (
    BACKWARD_LIMIT_COLUMNS,
    LIMIT_COLUMNS,
    LIMIT_KEYS,
    NODE_TRAFFIC_COLUMN,
    always,
)
from graphbench.report.names import shorten_fate, shorten_head, shorten_source, shorten_tail
from graphbench.units import format_bytes


def _of_isolated(pick: Callable[[Summary], float | None]) -> Callable[[NodeRow], object]:
    return lambda row: None if row.isolated is None else pick(row.isolated)


def _of_backward(pick: Callable[[Summary], float | None]) -> Callable[[NodeRow], object]:
    return lambda row: None if row.backward_summary is None else pick(row.backward_summary)


def tail_ratio(summary: Summary) -> float | None:
    """p90 ÷ p50; `None` for a median of 0."""
    return summary.p90 / summary.p50 if summary.p50 else None


def row_marks(row: NodeRow | FusionRow | GapRow) -> str:
    """`=`: measured in the place of an equal unit; `!`: it carries a warning, or its isolated result was wrong."""
    return ("=" if row.shared_with else "") + ("!" if row.warnings or row.unfaithful else "")


def _backward_marks(row: NodeRow) -> str:
    """The same of its backward."""
    return ("=" if row.backward.shared_with else "") + ("!" if row.backward.warnings or row.backward_unfaithful else "")


def _compiled(phase: Literal["forward_ns", "backward_ns"]) -> Callable[[NodeRow], object]:
    return lambda row: getattr(row.compiled, phase)


_BACKWARD_COLUMNS: tuple[Column[NodeRow], ...] = (
    Column(
        name="bwd p50",
        key="backward_isolated_p50",
        kind="time",
        get=lambda row: row.backward_p50_ns,
        marks=_backward_marks,
        shown="csv",
    ),
    Column(name="bwd p10", key="backward_isolated_p10", kind="time", get=_of_backward(lambda s: s.p10), shown="csv"),
    Column(name="bwd p90", key="backward_isolated_p90", kind="time", get=_of_backward(lambda s: s.p90), shown="csv"),
    Column(name="bwd n", key="backward_samples", kind="number", get=_of_backward(lambda s: s.n), shown="csv"),
)

NODE_COLUMNS: tuple[Column[NodeRow], ...] = (
    Column(name="region", key="region", kind="text", get=lambda row: row.region, shown="several", shrink=3),
    Column(name="node", key="name", kind="text", get=lambda row: row.name, shrink=12),
    Column(name="op", key="op_type", kind="text", get=lambda row: row.op_type, shorten=shorten_head),
    Column(name="kind", key="kind", kind="text", get=lambda row: row.kind, shown="csv"),
    Column(name="output", key="outputs", kind="text", get=lambda row: row.outputs, shrink=10),
    Column(name="p50", key="isolated_p50", kind="time", get=lambda row: row.isolated_p50_ns, marks=row_marks),
    *_BACKWARD_COLUMNS,
    Column(name="p90", key="isolated_p90", kind="time", get=_of_isolated(lambda s: s.p90)),
    Column(name="batch", key="batch_p50", kind="time", get=lambda row: row.device.batch_ns),
    Column(name="p10", key="isolated_p10", kind="time", get=_of_isolated(lambda s: s.p10), shown="wide"),
    Column(name="iqr", key="isolated_iqr", kind="time", get=_of_isolated(lambda s: s.iqr), shown="wide"),
    Column(name="mean", key="isolated_mean", kind="time", get=_of_isolated(lambda s: s.mean), shown="wide"),
    Column(name="min", key="isolated_min", kind="time", get=_of_isolated(lambda s: s.minimum), shown="wide"),
    Column(name="max", key="isolated_max", kind="time", get=_of_isolated(lambda s: s.maximum), shown="wide"),
    Column(name="p90/\np50", key="isolated_p90_over_p50", kind="number", get=_of_isolated(tail_ratio), shown="wide"),
    Column(name="n", key="samples", kind="number", get=_of_isolated(lambda s: s.n), shown="wide"),
    *LIMIT_COLUMNS,
    NODE_TRAFFIC_COLUMN,
    *BACKWARD_LIMIT_COLUMNS,
    Column(name="share", key="share", kind="fraction", get=lambda row: row.share),
    Column(name="in-\ngraph", key="in_graph", kind="time", get=lambda row: row.in_graph_ns),
    Column(
        name="bwd in-\ngraph", key="backward_in_graph", kind="time", get=lambda r: r.backward_in_graph_ns, shown="csv"
    ),
    Column(name="com-\npiled", key="compiled_forward", kind="time", get=_compiled("forward_ns"), shown="wide"),
    Column(name="back-\nward", key="compiled_backward", kind="time", get=_compiled("backward_ns"), shown="csv"),
    Column(name="host", key="host", kind="time", get=lambda row: row.host_ns),
    COUNT_COLUMN,
    Column(
        name="at\npeak",
        key="peak_bytes",
        kind="number",
        get=lambda row: row.node.peak_bytes,
        brief=lambda row: None if row.node.peak_bytes is None else format_bytes(row.node.peak_bytes),
        order=lambda row: row.node.peak_bytes,
        shown="wide",
    ),
    Column(name="fate", key="fate", kind="text", get=lambda row: row.fate, shrink=22, shorten=shorten_fate),
    Column(name="kernels", key="kernels", kind="text", get=lambda row: " ".join(row.kernels), shown="csv"),
    Column(name="source", key="source", kind="text", get=lambda row: row.source, shorten=shorten_source),
    Column(name="module", key="module", kind="text", get=lambda row: row.module, shown="wide", shorten=shorten_tail),
    Column(name="of any\nsize", key="symbolic", kind="text", get=lambda row: row.symbolic or None, shown="wide"),
    Column(name="state", key="state", kind="text", get=lambda row: row.state, shown="csv"),
    Column(name="reason", key="reason", kind="text", get=lambda row: row.reason, shown="csv"),
    Column(name="warnings", key="warnings", kind="text", get=lambda row: "; ".join(row.warnings), shown="csv"),
    Column(name="same as", key="shared_with", kind="text", get=lambda row: row.shared_with or "", shown="csv"),
    Column(name="unfaithful", key="unfaithful", kind="text", get=lambda row: row.unfaithful, shown="csv"),
    Column(name="bwd state", key="backward_state", kind="text", get=lambda row: row.backward.status, shown="csv"),
    Column(name="bwd reason", key="backward_reason", kind="text", get=lambda row: row.backward.reason, shown="csv"),
    Column(
        name="bwd warnings",
        key="backward_warnings",
        kind="text",
        get=lambda row: "; ".join(row.backward.warnings),
        shown="csv",
    ),
    Column(
        name="bwd same as",
        key="backward_shared_with",
        kind="text",
        get=lambda row: row.backward.shared_with or "",
        shown="csv",
    ),
    *in_csv(LAUNCH_COLUMNS),
)

_SIDE_BY_SIDE: Mapping[str, str] = MappingProxyType(
    {
        "isolated_p50": "eager\nfwd",
        "backward_isolated_p50": "eager\nbwd",
        "compiled_forward": "comp.\nfwd",
        "compiled_backward": "comp.\nbwd",
    }
)


def _training_columns() -> Iterator[Column[NodeRow]]:
    """The node columns with forward and backward side by side; what makes room for them is shown `wide`."""
    known = {column.key: column for column in NODE_COLUMNS}
    for column in NODE_COLUMNS:
        if column.key == "isolated_p50":
            yield from (replace(known[key], name=name, shown="always") for key, name in _SIDE_BY_SIDE.items())
        elif column.key in ("isolated_p90", "backward_in_graph"):
            yield replace(column, shown="wide")
        elif column.key not in _SIDE_BY_SIDE:
            yield column


TRAINING_NODE_COLUMNS: tuple[Column[NodeRow], ...] = tuple(_training_columns())


LEAVE: Final = (
    "samples_line",
    "share_bar",
    "n_kernels",
    "host",
    "batch_p50",
    "in_graph_spread",
    "isolated_p90",
    "outputs",
    "spread",
    "bound",
    "in_graph",
    "each",
    "source",
    "op_type",
    "limit",
    "region",
)
"""Columns of nodes by how little they matter where lines are narrow: what stays says what it costs and what became of
it."""


def node_columns(rows: Sequence[NodeRow]) -> tuple[Column[NodeRow], ...]:
    """The columns of a table of these nodes: those of training where one of them has a backward."""
    return TRAINING_NODE_COLUMNS if any(row.has_backward for row in rows) else NODE_COLUMNS


def node_sort_keys() -> Mapping[str, Callable[[NodeRow], object]]:
    """What nodes can be sorted by, whichever columns their table has."""
    return sort_keys((*NODE_COLUMNS, *TRAINING_NODE_COLUMNS), "isolated_p50")


NODE_LAUNCH_COLUMNS: tuple[Column[NodeRow], ...] = (
    *(column for column in NODE_COLUMNS if column.key in ("region", "name", "op_type")),
    Column(name="p50", key="isolated_p50", kind="time", get=lambda row: row.isolated_p50_ns),
    COUNT_COLUMN,
    *LAUNCH_COLUMNS,
)

NODE_LIMIT_COLUMNS: tuple[Column[NodeRow], ...] = (
    *(column for column in NODE_COLUMNS if column.key in ("region", "name", "op_type")),
    Column(name="p50", key="isolated_p50", kind="time", get=lambda row: row.isolated_p50_ns),
    *always(LIMIT_COLUMNS, *LIMIT_KEYS, "read_bytes", "written_bytes"),
    Column(name="bwd\np50", key="backward_isolated_p50", kind="time", get=lambda row: row.backward_p50_ns),
    *always(BACKWARD_LIMIT_COLUMNS, "backward_bound", "backward_limit", "backward_at_limit"),
)

"""Columns of what rows have to do and how far they are from their limit, of nodes, their backwards and kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final, Protocol

from graphbench.analysis.costs import Cost
from graphbench.analysis.fusion import FusionRow
from graphbench.analysis.roofline import Limit
from graphbench.analysis.views import NodeRow
from graphbench.report.column import Column, RowT
from graphbench.units import UNKNOWN, format_flops, format_traffic

GIGA: Final = 1e9
TERA: Final = 1e12
SHORT_BOUNDS: Final = MappingProxyType({"memory": "mem", "compute": "comp", "latency": "lat"})


class Limited(Protocol):
    """A row whose cost and limit may be known; of one call, but for `limit_ns`."""

    @property
    def cost(self) -> Cost:
        """What it has to do."""

    @property
    def limit(self) -> Limit:
        """How far it is from what its device was seen to do."""

    @property
    def limit_ns(self) -> float | None:
        """How long it takes at the limit."""

    @property
    def bytes_per_s(self) -> float | None:
        """Bytes per second that it moved."""

    @property
    def flops_per_s(self) -> float | None:
        """FLOP per second."""


def shorten_bound(text: str, _width: int) -> str:
    """A bound where there is little room; `launch` stays as it is."""
    return SHORT_BOUNDS.get(text, text)


def _mark(limit: Limit) -> str:
    """`!`: beyond the limit, which says that a count or a ceiling is wrong."""
    return "!" if limit.suspicious else ""


def _bytes(name: str, key: str, get: Callable[[RowT], float | None]) -> Column[RowT]:
    """A column of bytes, in tables with their unit."""

    def brief(row: RowT) -> object:
        moved = get(row)
        return None if moved is None else format_traffic(moved)

    return Column(name=name, key=key, kind="number", get=get, brief=brief, shown="csv", missing=UNKNOWN)


def always(columns: Sequence[Column[RowT]], *keys: str) -> tuple[Column[RowT], ...]:
    """Columns of these keys, in that order, for a table that shows all of its columns."""
    known = {column.key: column for column in columns}
    return tuple(replace(known[key], shown="always") for key in keys)


def _in(unit: float, amount: float | None) -> float | None:
    return None if amount is None else amount / unit


def _no_cost(cost: Cost) -> str:
    """Why FLOPs or bytes are not known, each reason once."""
    return "; ".join(dict.fromkeys(reason for reason in (cost.no_bytes, cost.no_flops) if reason))


LIMIT_COLUMNS: tuple[Column[Limited], ...] = (
    Column(
        name="bound",
        key="bound",
        kind="text",
        get=lambda row: row.limit.bound,
        shrink=None,
        shorten=shorten_bound,
        missing=UNKNOWN,
    ),
    Column(
        name="of\nlimit",
        key="limit",
        kind="fraction",
        get=lambda row: row.limit.part,
        marks=lambda row: _mark(row.limit),
        missing=UNKNOWN,
    ),
    Column(name="at\nlimit", key="at_limit", kind="time", get=lambda row: row.limit_ns, shown="csv", missing=UNKNOWN),
    Column(
        name="GB/s",
        key="bytes_per_s",
        kind="number",
        get=lambda row: row.bytes_per_s,
        brief=lambda row: _in(GIGA, row.bytes_per_s),
        shown="csv",
        missing=UNKNOWN,
    ),
    Column(
        name="TFLOP\n/s",
        key="flops_per_s",
        kind="number",
        get=lambda row: row.flops_per_s,
        brief=lambda row: _in(TERA, row.flops_per_s),
        shown="csv",
        missing=UNKNOWN,
    ),
    Column(
        name="FLOP/\nbyte",
        key="flop_per_byte",
        kind="number",
        get=lambda row: row.cost.intensity,
        shown="csv",
        missing=UNKNOWN,
    ),
    Column(
        name="FLOP",
        key="flops",
        kind="number",
        get=lambda row: row.cost.flops,
        brief=lambda row: None if row.cost.flops is None else format_flops(row.cost.flops),
        shown="csv",
        missing=UNKNOWN,
    ),
    Column(name="arithmetic", key="arithmetic", kind="text", get=lambda row: row.cost.arithmetic, shown="csv"),
    _bytes("read", "read_bytes", lambda row: row.cost.read_bytes),
    _bytes("written", "written_bytes", lambda row: row.cost.written_bytes),
    Column(name="no cost", key="cost_reason", kind="text", get=lambda row: _no_cost(row.cost), shown="csv"),
    Column(name="no limit", key="limit_reason", kind="text", get=lambda row: row.limit.reason, shown="csv"),
    Column(name="suspicious", key="suspicious", kind="text", get=lambda row: row.limit.suspicious, shown="csv"),
)

NODE_TRAFFIC_COLUMN: Column[NodeRow] = _bytes("moved", "moved_bytes", lambda row: row.moved_bytes)

FUSION_TRAFFIC_COLUMNS: tuple[Column[FusionRow], ...] = (
    _bytes("eager\nmoved", "eager_bytes", lambda row: row.eager_bytes),
    _bytes("unfused\nmoved", "unfused_bytes", lambda row: row.unfused_bytes),
    _bytes("fused\nmoved", "all_calls_moved_bytes", lambda row: row.moved_bytes),
    _bytes("removed", "removed_bytes", lambda row: row.removed_bytes),
    Column(name="not removed", key="removed_reason", kind="text", get=lambda row: row.no_removed, shown="csv"),
)

BACKWARD_LIMIT_COLUMNS: tuple[Column[NodeRow], ...] = (
    Column(
        name="bwd\nbound",
        key="backward_bound",
        kind="text",
        get=lambda row: row.backward_limit.bound,
        shown="csv",
        shrink=6,
        shorten=shorten_bound,
        missing=UNKNOWN,
    ),
    Column(
        name="bwd of\nlimit",
        key="backward_limit",
        kind="fraction",
        get=lambda row: row.backward_limit.part,
        marks=lambda row: _mark(row.backward_limit),
        shown="csv",
        missing=UNKNOWN,
    ),
    Column(
        name="bwd at\nlimit",
        key="backward_at_limit",
        kind="time",
        get=lambda row: row.backward_limit.time_ns,
        shown="csv",
    ),
    Column(name="bwd FLOP", key="backward_flops", kind="number", get=lambda row: row.backward_cost.flops, shown="csv"),
    Column(
        name="bwd read",
        key="backward_read_bytes",
        kind="number",
        get=lambda row: row.backward_cost.read_bytes,
        shown="csv",
    ),
    Column(
        name="bwd written",
        key="backward_written_bytes",
        kind="number",
        get=lambda row: row.backward_cost.written_bytes,
        shown="csv",
    ),
    Column(
        name="bwd no limit",
        key="backward_limit_reason",
        kind="text",
        get=lambda row: row.backward_limit.reason,
        shown="csv",
    ),
    Column(
        name="bwd suspicious",
        key="backward_suspicious",
        kind="text",
        get=lambda row: row.backward_limit.suspicious,
        shown="csv",
    ),
)

LIMIT_KEYS: Final = ("bound", "limit", "at_limit", "bytes_per_s", "flops_per_s", "flop_per_byte", "flops", "arithmetic")

"""The columns of tables whose rows stand for several layers: sums of what the columns of single rows say.

Statistics of samples have no sum, and no place here: `each` is the median over the layers, `min..max` how far these are
apart where that is more than noise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

from graphbench.analysis.folding import Fold, Layers, base_name
from graphbench.analysis.fusion import FusionRow
from graphbench.analysis.stats import Summary
from graphbench.analysis.views import NodeRow
from graphbench.report.column import Column
from graphbench.report.columns import BACKWARD_SIGN, FUSION_COLUMNS, roles_text
from graphbench.report.limit_columns import shorten_bound
from graphbench.report.names import shorten_fate, shorten_kernel_of_kind, shorten_place
from graphbench.report.node_columns import node_columns
from graphbench.units import UNKNOWN

RowT = TypeVar("RowT")
Number = Callable[[RowT], float | None]

FOLDED: Final = "×: so many layers are one row, and its times are their sums; each: the median of one"
SPREAD: Final = "min..max"
SPREAD_EXPLAINED: Final = f"{SPREAD}: of the layer that takes least and of the one that takes most, beyond noise"
_MARKS: Final = "=!*"
_NODE_TOTALS: Final = frozenset(
    {"isolated_p50", "backward_isolated_p50", "compiled_forward", "compiled_backward", "share", "in_graph", "host"}
)
_FUSION_TOTALS: Final = frozenset({"eager_p50", "unfused", "recomputed", "all_calls_fused_p50", "saved", "in_graph"})
_COUNT: Final[Column[Fold[Any]]] = Column(
    name="×",
    key="count",
    kind="number",
    get=lambda fold: fold.count if fold.several else "",
    order=lambda fold: fold.count,
)
_EQUAL: Final = frozenset({"region", "phase", "kind", "calls", "op_type", "outputs", "source"})


def folded_legend(table: str) -> str:
    """What the columns of a drawn table of folds are."""
    return f"{FOLDED}; {SPREAD_EXPLAINED}" if SPREAD in table else FOLDED


def folded_node_columns(rows: Sequence[NodeRow], grain_ns: float) -> tuple[Column[Fold[NodeRow]], ...]:
    """The columns of nodes as `rows` have them, of folds; `grain_ns` is the step of the device's stamps."""
    return tuple(_node_columns(rows, grain_ns))


def _node_columns(rows: Sequence[NodeRow], grain_ns: float) -> Iterator[Column[Fold[NodeRow]]]:
    yield _COUNT
    for column in node_columns(rows):
        if column.key == "name":
            yield replace(_text(column, lambda fold: fold.name), shrink=26, shorten=shorten_place)
        elif column.key == "fate":
            yield replace(_text(column, _fate), shorten=_shorten_fate)
        elif column.key == "module":
            yield _text(column, lambda fold: "" if fold.several else fold.rows[0].module)
        elif column.key == "limit":
            yield _limit(column, lambda row: row.limit_ns, lambda row: row.isolated_p50_ns)
        else:
            yield from _same(column, _NODE_TOTALS)
        if column.key == "outputs":
            yield _each(lambda row: row.isolated_p50_ns)
            yield _spread(SPREAD, "spread", lambda row: row.isolated, grain_ns)
        if column.key == "in_graph":
            yield _spread(f"in-graph\n{SPREAD}", "in_graph_spread", _node_in_graph, grain_ns)


def folded_fusion_columns(layers: Layers, grain_ns: float) -> tuple[Column[Fold[FusionRow]], ...]:
    """The columns of kernels, of folds; `layers` are those of their profile."""
    return tuple(_fusion_columns(layers, grain_ns))


def _fusion_columns(layers: Layers, grain_ns: float) -> Iterator[Column[Fold[FusionRow]]]:
    yield _COUNT
    for column in FUSION_COLUMNS:
        if column.key == "kernel":
            yield replace(_text(column, lambda fold: fold.name), shrink=18, shorten=shorten_kernel_of_kind)
        elif column.key == "nodes":
            yield replace(_text(column, partial(_roles, layers)), shrink=20)
            yield _each(lambda row: row.fused_ns)
            yield _spread(SPREAD, "spread", lambda row: row.fused, grain_ns)
        elif column.key == "ratio":
            yield Column(name=column.name, key=column.key, kind="ratio", get=_ratio)
        elif column.key == "verdict":
            yield _text(column, _verdicts)
        elif column.key == "limit":
            yield _limit(column, lambda row: row.limit_ns, lambda row: row.fused_ns)
        elif column.key == "difference":
            yield _worst(column)
        else:
            yield from _same(column, _FUSION_TOTALS)
        if column.key == "in_graph":
            yield _spread(f"in-graph\n{SPREAD}", "in_graph_spread", lambda row: row.in_graph, grain_ns)


def _same(column: Column[RowT], totals: frozenset[str]) -> Iterator[Column[Fold[RowT]]]:
    """What can be told of several rows: a sum, or what they have in common."""
    if column.key in totals:
        yield _total(column)
    elif column.key == "bound":
        bounds = _text(column, lambda fold: "/".join(_known(fold, column)) or None)
        yield replace(bounds, shorten=_shorten_bounds, missing=UNKNOWN)
    elif column.key in _EQUAL:
        yield _common(column)


def _total(column: Column[RowT]) -> Column[Fold[RowT]]:
    def value(row: RowT) -> float | None:
        found = column.get(row)
        return float(found) if isinstance(found, (int, float)) else None

    return Column(
        name=column.name,
        key=column.key,
        kind=column.kind,
        get=lambda fold: fold.total(value),
        shown=column.shown,
        marks=None if column.marks is None else partial(_marks, column.marks),
        missing=column.missing,
    )


def _marks(marks: Callable[[RowT], str], fold: Fold[RowT]) -> str:
    """Every mark that one of the rows has."""
    found = {mark for row in fold.rows for mark in marks(row)}
    return "".join(mark for mark in _MARKS if mark in found)


def _common(column: Column[RowT]) -> Column[Fold[RowT]]:
    """What rows agree in, or how many different values they have."""

    def get(fold: Fold[RowT]) -> object:
        values = list(dict.fromkeys(map(column.get, fold.rows)))
        return values[0] if len(values) == 1 else f"{len(values)} {column.word}s"

    return Column(
        name=column.name,
        key=column.key,
        kind=column.kind,
        get=get,
        shown=column.shown,
        shrink=column.shrink,
        shorten=column.shorten,
    )


def _text(column: Column[RowT], get: Callable[[Fold[RowT]], object]) -> Column[Fold[RowT]]:
    return Column(
        name=column.name,
        key=column.key,
        kind="text",
        get=get,
        shown=column.shown,
        shrink=column.shrink,
        shorten=column.shorten,
    )


def _known(fold: Fold[RowT], column: Column[RowT]) -> list[str]:
    """The distinct texts that rows have in a column, the most frequent first."""
    return fold.texts(lambda row: str(column.get(row) or ""))


def _each(value: Number[RowT]) -> Column[Fold[RowT]]:
    return Column(
        name="each",
        key="each",
        kind="time",
        get=lambda fold: fold.median(value) if fold.several else "",
        order=lambda fold: fold.median(value),
    )


def _spread(name: str, key: str, measured: Callable[[RowT], Summary | None], grain_ns: float) -> Column[Fold[RowT]]:
    def get(fold: Fold[RowT]) -> tuple[float, float] | None:
        return fold.spread(measured, grain_ns=grain_ns)

    def order(fold: Fold[RowT]) -> float | None:
        found = get(fold)
        return None if found is None else found[1] - found[0]

    return Column(name=name, key=key, kind="time", get=get, order=order, missing="")


def _limit(column: Column[RowT], limit: Number[RowT], time: Number[RowT]) -> Column[Fold[RowT]]:
    """Time at the limit ÷ time, each of all layers."""

    def part(fold: Fold[RowT]) -> float | None:
        limit_ns, time_ns = fold.total(limit), fold.total(time)
        return limit_ns / time_ns if limit_ns is not None and time_ns else None

    return replace(_total(column), get=part)


def _node_in_graph(row: NodeRow) -> Summary | None:
    return row.digest.summary(row.node.in_graph)


def _fate(fold: Fold[NodeRow]) -> str:
    """What became of a node in every layer; kernels without their numbers."""
    if not fold.several:
        return fold.rows[0].fate
    kinds = fold.texts(lambda row: row.node.fate.kind)
    kernels = dict.fromkeys(_family(key) for row in fold.rows for key in row.node.fate.kernels)
    return f"{'/'.join(kinds)} → {', '.join(kernels)}" if kernels else "/".join(kinds)


def _family(key: str) -> str:
    """A kernel's name from its key, without number and position."""
    return base_name(key.split("/", 1)[-1].rpartition(":")[0])


def _shorten_fate(text: str, width: int) -> str:
    """Cut a fate of several layers; of several kernels the first is named and the others are counted."""
    kind, arrow, target = text.partition(" → ")
    if not arrow or ":" in target:
        return shorten_fate(text, width)
    first, *others = target.split(", ")
    more = f" +{len(others)}" if others else ""
    return f"{kind}→{shorten_kernel_of_kind(first, max(4, width - len(kind) - 1 - len(more)))}{more}"


def _shorten_bounds(text: str, width: int) -> str:
    return "/".join(shorten_bound(bound, width) for bound in text.split("/"))


def _roles(layers: Layers, fold: Fold[FusionRow]) -> str:
    """The nodes of one kernel of the fold, by their place in the layer."""
    row = fold.rows[0]
    told = roles_text(row.roles, partial(layers.within_layer, row.region)) if fold.several else roles_text(row.roles)
    return told.replace("backward of ", BACKWARD_SIGN)


def _ratio(fold: Fold[FusionRow]) -> float | None:
    eager_ns = fold.total(lambda row: row.eager.p50_ns if row.eager else None)
    fused_ns = fold.total(lambda row: row.fused_ns)
    return eager_ns / fused_ns if eager_ns is not None and fused_ns else None


def _verdicts(fold: Fold[FusionRow]) -> str | None:
    """The verdict of all rows; of different ones the most frequent, and of how many, as in `faster 3/4`."""
    found = Counter(row.verdict for row in fold.rows if row.verdict)
    if not found:
        return None
    together = " +" if any(row.together for row in fold.rows) else ""
    verdict, count = found.most_common(1)[0]
    return f"{verdict}{'' if count == fold.count else f' {count}/{fold.count}'}{together}"


def _worst(column: Column[FusionRow]) -> Column[Fold[FusionRow]]:
    """The largest difference of any row."""

    def size(row: FusionRow) -> float:
        found = column.order(row) if column.order else None
        return float(found) if isinstance(found, (int, float)) else -1.0

    def worst(fold: Fold[FusionRow]) -> FusionRow:
        return max(fold.rows, key=size)

    return Column(
        name=column.name,
        key=column.key,
        kind="text",
        get=lambda fold: column.get(worst(fold)),
        shrink=None,
        order=lambda fold: column.order(worst(fold)) if column.order else None,
    )

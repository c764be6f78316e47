"""The columns of a comparison over the sizes of the inputs: one a set. Text, Markdown, CSV, JSON read these."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TypeVar

from graphbench.analysis.growth import Growing, Growth
from graphbench.analysis.scaling import Scaling, TotalScaling
from graphbench.analysis.scaling_groups import GroupScaling
from graphbench.analysis.scaling_rows import NodePoint, NodeScaling
from graphbench.report.column import Column, Kind, Shown
from graphbench.report.names import shorten_head
from graphbench.units import MISSING, format_ratio

RowT = TypeVar("RowT")
BACKWARD = "∂ "
_Row = NodeScaling | GroupScaling


def set_names(found: Scaling) -> list[str]:
    """A short name of every set for headers: its size where that tells them apart, else its number."""
    values = found.axis.values
    if found.others:
        return ["×".join(map(str, sizes)) for sizes in zip(*(axis.values for axis in found.axes), strict=True)]
    if len(set(values)) == len(values):
        return [f"n={value}" for value in values]
    return [f"set {index + 1}" for index in range(len(values))]


def growth_text(growth: Growth | None, doubt: str = "") -> str:
    """An exponent with its error, such as `1.97 ±0.02`; `~` says that it is in doubt."""
    if growth is None:
        return MISSING
    error = f" ±{growth.error:.2f}" if growth.error is not None else ""
    return f"{'~' if doubt else ''}{growth.exponent:.2f}{error}"


def grows_text(found: Scaling, row: Growing, doubt: str = "") -> str:
    """Such as `n^1.97 ±0.02`, or of several sizes `x[0]^1.02 x[1]^1.97`; "" where it is not known."""
    names = ["n"] if not found.others else [axis.name for axis in found.axes]
    return " ".join(f"{name}^{growth_text(entry, doubt)}" for name, entry in zip(names, row.growths, strict=False))


def time_keys(found: Scaling) -> list[str]:
    """The keys of the columns of times, one a set."""
    return [f"isolated_{_key(name)}" for name in set_names(found)]


def share_text(shares: tuple[float | None, ...]) -> str | None:
    """The part of the smallest set and that of the largest, in percent."""
    first, last = shares[0], shares[-1]
    if first is None and last is None:
        return None
    return " → ".join(MISSING if share is None else f"{100 * share:.1f}" for share in (first, last))


def total_columns(found: Scaling) -> tuple[Column[TotalScaling], ...]:
    """Whole runs: times in nanoseconds, a ratio as it is."""

    def value(index: int, name: str) -> Column[TotalScaling]:
        return Column(
            name=name,
            key=_key(name),
            kind="time",
            get=lambda row: row.values[index] if row.is_time else None,
            brief=lambda row: _value_text(row, index),
        )

    def ratio(index: int, name: str) -> Column[TotalScaling]:
        return Column(
            name=name,
            key=f"ratio_{_key(name)}",
            kind="number",
            get=lambda row: None if row.is_time else row.values[index],
            shown="csv",
        )

    names = list(enumerate(set_names(found)))
    sets = [value(index, name) for index, name in names] + [ratio(index, name) for index, name in names]
    return (
        Column(name="all regions", key="name", kind="text", get=lambda row: row.name, shrink=None),
        *sets,
        *(exponent for exponent, _ in _exponents(found)),
    )


def group_columns(found: Scaling, what: str) -> tuple[Column[GroupScaling], ...]:
    """Sums of nodes."""
    return (
        Column(name=what, key="group", kind="text", get=lambda row: row.group, shorten=shorten_head),
        Column(name="rows", key="rows", kind="number", get=lambda row: row.nodes),
        *_growing(found),
    )


def node_columns(found: Scaling) -> tuple[Column[NodeScaling], ...]:
    """Nodes, and what is known of them in each set."""
    names = set_names(found)
    return (
        Column(name="region", key="region", kind="text", get=lambda row: row.region, shown="several", shrink=3),
        Column(name="node", key="name", kind="text", get=lambda row: row.name, brief=_shown_name),
        Column(name="op", key="op_type", kind="text", get=lambda row: row.op_type, shorten=shorten_head),
        Column(name="output", key="outputs", kind="text", get=lambda row: row.outputs, shown="nonzero", shrink=10),
        Column(name="phase", key="phase", kind="text", get=lambda row: row.phase, shown="csv"),
        Column(name="module", key="module", kind="text", get=lambda row: row.module, shown="wide"),
        *_growing(found),
        *_points("compiled", "time", "wide", names, lambda point: point.compiled_ns),
        *_points("in_graph", "time", "csv", names, lambda point: point.in_graph_ns),
        *_points("reads", "text", "wide", names, lambda point: point.reads or None),
        *_points("reason", "text", "csv", names, lambda point: point.reason),
    )


def _shown_name(row: NodeScaling) -> str:
    return f"{BACKWARD if row.phase == 'backward' else ''}{row.name}"


def _growing(found: Scaling) -> tuple[Column[_Row], ...]:
    names = set_names(found)

    def time(index: int, name: str) -> Column[_Row]:
        return Column(name=name, key=time_keys(found)[index], kind="time", get=lambda row: row.times_ns[index])

    def share(index: int, name: str) -> Column[_Row]:
        key = f"share_{_key(name)}"
        return Column(name=f"share {name}", key=key, kind="fraction", get=lambda row: row.shares[index], shown="csv")

    times = [time(index, name) for index, name in enumerate(names)]
    shares = [share(index, name) for index, name in enumerate(names)]
    return (
        *times,
        Column(
            name="share",
            key="share_at_last",
            kind="fraction",
            get=lambda row: row.shares[-1],
            brief=lambda row: share_text(row.shares),
        ),
        *shares,
        *chain.from_iterable(_exponents(found)),
        *([] if found.others else [_growth_column("at\nlast", "exponent_at_last", 0, lambda growth: growth.last)]),
        Column(name="doubt", key="doubt", kind="text", get=lambda row: row.doubt, shown="csv"),
        Column(name="no growth", key="reason", kind="text", get=lambda row: row.reason, shown="csv"),
    )


def _exponents(found: Scaling) -> list[tuple[Column[Growing], Column[Growing]]]:
    """Of every size its exponent, and the error of that."""
    columns = []
    for index, axis in enumerate(found.axes):
        of, end = (axis.name, f"_{key_of(axis.name)}") if found.others else ("n", "")
        exponent = _growth_column(f"grows\nas {of}^", f"exponent{end}", index, lambda growth: growth.exponent)
        told = replace(exponent, brief=partial(_exponent_text, index))
        error = _growth_column("±", f"exponent_error{end}", index, lambda growth: growth.error)
        columns.append((told, replace(error, shown="csv")))
    return columns


def _exponent_text(index: int, row: Growing) -> str | None:
    return growth_text(row.growths[index], getattr(row, "doubt", "")) if row.growths else None


def _growth_column(name: str, key: str, index: int, get: Callable[[Growth], float | None]) -> Column[Growing]:
    return Column(name=name, key=key, kind="number", get=lambda row: get(row.growths[index]) if row.growths else None)


def _points(
    what: str, kind: Kind, shown: Shown, names: list[str], get: Callable[[NodePoint], object]
) -> list[Column[NodeScaling]]:
    def column(index: int, name: str) -> Column[NodeScaling]:
        return Column(
            name=f"{what}\n{name}",
            key=f"{what}_{_key(name)}",
            kind=kind,
            get=lambda row: get(row.points[index]),
            shown=shown,
        )

    return [column(index, name) for index, name in enumerate(names)]


def _value_text(row: TotalScaling, index: int) -> object:
    value = row.values[index]
    return value if row.is_time or value is None else format_ratio(value)


def key_of(name: str) -> str:
    """A dimension such as `x[0]` as a part of a column's key: `x_0`."""
    return re.sub(r"\W+", "_", name).strip("_")


def _key(name: str) -> str:
    return name.replace("=", "").replace(" ", "_").replace("×", "x")

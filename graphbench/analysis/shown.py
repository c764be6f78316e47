"""A single row as notebooks show it: what it says, by the names under which code reads it. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from graphbench import markup
from graphbench.analysis.stats import Summary
from graphbench.measurements import SourceLine
from graphbench.units import (
    format_bytes,
    format_duration,
    format_flops,
    format_number,
    format_percent,
    format_rate,
    format_ratio,
)

LISTED = 8
"""Of longer lists so many are named."""
_NOT_TOLD = frozenset({"digest", "ceilings", "node", "old", "new", "rank_ns", "total_ns"})
"""What rows are worked out from, and what only orders them."""
_FRACTIONS = frozenset({"share", "part", "before_limit", "after_limit", "noise"})
_QUANTITIES = ("_ns", "_bytes", "_per_s", "share", "part", "ratio", "verdict")
"""How names end of what is measured or judged: only there `None` says that something is not known."""
_TITLES = ("name", "key", "group", "what", "pattern", "op_type")


class ShownRow:
    """A row, all of whose fields and properties a notebook shows as a table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        told, missing = [], []
        for name, value in facts(self):
            if value is not None:
                told.append((name, value))
            elif name.endswith(_QUANTITIES):
                missing.append(name)
        parts = [markup.line(_title(self), strong=True), markup.facts(told)]
        return markup.block([*parts, markup.line(f"not known: {', '.join(missing)}")] if missing else parts)


def facts(row: object) -> Iterator[tuple[str, str | None]]:
    """Names and texts of what a row says; `None` where it is not known, nothing where there is nothing to say.

    What a row holds of another kind, such as its limit, is told with a dot: `limit.bound`.
    """
    for name in _names(type(row)):
        value = getattr(row, name)
        if dataclasses.is_dataclass(value) and not isinstance(value, (type, SourceLine)):
            if isinstance(value, Summary) or name in _fields(type(row)):
                yield from _inner(name, value)
        elif value is None:
            yield name, None
        else:
            shown = _shown(name, value)
            yield from ((name, shown),) if shown else ()


def _names(kind: type) -> tuple[str, ...]:
    """Fields, then properties, in the order in which the class has them."""
    own = [name for base in reversed(kind.__mro__) for name, entry in vars(base).items() if isinstance(entry, property)]
    return tuple(name for name in dict.fromkeys((*_fields(kind), *own)) if name not in _NOT_TOLD)


def _fields(kind: type) -> tuple[str, ...]:
    return tuple(entry.name for entry in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else ()


def _inner(outer: str, value: object) -> Iterator[tuple[str, str | None]]:
    """The plain fields of what a row holds; those that are not known say nothing here."""
    for name in _fields(type(value)):
        inner = getattr(value, name)
        if isinstance(value, Summary) and name != "n":
            yield f"{outer}.{name}", format_duration(inner)
        elif inner is not None:
            shown = _shown(name, inner)
            yield from ((f"{outer}.{name}", shown),) if shown else ()


def _shown(name: str, value: object) -> str:
    """A known value with its unit; "" for what says nothing or is no plain value."""
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, (int, float)):
        return _number(name, value)
    if isinstance(value, str):
        return value
    if isinstance(value, SourceLine):
        return f"{value.file}:{value.line}"
    return _listed(name, value) if isinstance(value, tuple) else ""


def _number(name: str, value: float) -> str:
    if name in _FRACTIONS:
        return format_percent(value)
    if name.endswith("_ns"):
        return format_duration(value)
    if name.endswith("_bytes"):
        return format_bytes(round(value))
    if name.endswith("ratio"):
        return format_ratio(value)
    if name.endswith("_per_s"):
        return format_rate(value, "FLOP/s" if name.startswith("flops") else "B/s")
    if name == "flops":
        return format_flops(value)
    if name.startswith("max_"):
        return f"{value:.1e}" if value else "0"
    return format_number(value) if value % 1 else f"{value:.0f}"


def _listed(name: str, values: tuple[object, ...]) -> str:
    shown = ["–" if value is None else _shown(name.replace("shares", "share"), value) for value in values[:LISTED]]
    if not any(shown):
        return ""
    more = f" and {len(values) - LISTED} more" if len(values) > LISTED else ""
    return ", ".join(shown) + more


def _title(row: object) -> str:
    own = row if not hasattr(row, "row") else row.row
    name = next((getattr(own, title) for title in _TITLES if getattr(own, title, "")), "")
    return f"{type(row).__name__} {name}".strip()

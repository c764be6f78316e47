"""The values of a table's columns for other programs: plain, typed, in the units that the names in CSV say. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from graphbench.jsonvalues import INT64
from graphbench.plaintext import clean
from graphbench.report.column import Column

RowT = TypeVar("RowT")
Value = str | int | float | bool | None
ValueType = Literal["float", "integer", "flag", "category", "text"]
CATEGORIES: Final = frozenset(
    (
        *("region", "op_type", "kind", "phase", "place", "change", "arithmetic", "of"),
        *("state", "verdict", "bound", "backward_state", "backward_bound"),
    )
)
"""Columns of few words that recur, by key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedColumn:
    """All values of one column, all of one type but for `None`. `name` has the unit, such as `isolated_p50_ns`."""

    name: str
    type: ValueType
    values: tuple[Value, ...]


def plain_value(column: Column[RowT], row: RowT) -> Value:
    """What a cell holds: times in nanoseconds, fractions in percent, `None` where it is missing."""
    value = column.get(row)
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, float)) and column.kind != "text":
        return 100 * value if column.kind == "fraction" else value
    return str(value)


def typed_column(column: Column[RowT], rows: Sequence[RowT]) -> TypedColumn:
    """A column of these rows; texts are one printable line each.

    Times, percents and ratios are floats, counts and sizes whole numbers where all of them are. A column of numbers in
    which one row has several, as registers of each of its launches, is text.
    """
    values = tuple(plain_value(column, row) for row in rows)
    known = [value for value in values if value is not None]
    kind = _type(column, known)
    if kind in ("text", "category"):
        values = tuple(None if value is None else clean(str(value)) for value in values)
    return TypedColumn(name=column.csv_name, type=kind, values=values)


def _type(column: Column[RowT], known: Sequence[Value]) -> ValueType:
    if known and all(isinstance(value, bool) for value in known):
        return "flag"
    if column.kind == "text" or any(isinstance(value, str) for value in known):
        return "category" if column.key in CATEGORIES else "text"
    whole = known and all(isinstance(value, int) and abs(value) < INT64 for value in known)
    return "integer" if column.kind == "number" and whole else "float"

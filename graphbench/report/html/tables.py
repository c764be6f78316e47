"""From the columns and rows of a report to the tables of a page: every column, those that text leaves out hidden."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from graphbench.measurements import JsonValue
from graphbench.plaintext import clean
from graphbench.report.column import Column
from graphbench.report.grid import brief_values, cell_texts, column_unit, is_shown, table_unit
from graphbench.report.html.model import Filter, Table, TableColumn
from graphbench.units import TimeUnit

RowT = TypeVar("RowT")
CHOICES: Final = (
    *("region", "phase", "kind", "op_type", "fate", "change", "verdict", "bound", "place", "user_phase", "state"),
    "arithmetic",
)
"""Keys of columns of which people want one value only."""
ANY: Final = ("reason", "warnings", "unfaithful", "suspicious", "host_bound")
"""Keys of columns that say something of few rows, which people look for."""
LARGEST: Final = 1.7976931348623157e308
"""In the place of infinity, which JSON does not have."""


def html_table(
    identity: str,
    title: str,
    columns: Sequence[Column[RowT]],
    rows: Sequence[RowT],
    *,
    ids: Sequence[str] = (),
    sort: str = "",
    head: str = "",
    notes: Sequence[str] = (),
    empty: str = "",
    without: Sequence[str] = (),
    also: Sequence[str] = (),
    closed: bool = False,
) -> Table:
    """A table with every column that says anything of these rows.

    Args:
        identity: names the table on its page.
        title: stands above it.
        columns: all of this kind of table, those that only CSV shows included.
        rows: in the order in which they come.
        ids: of the rows, for links and clicks.
        sort: key of the column that they are sorted by.
        head: key of the column that names a row.
        notes: what marks and columns mean.
        empty: said where there are no rows.
        without: keys of columns that would say nothing at first, so that they are hidden.
        also: keys of columns to show that text has no room for.
        closed: whether the table is opened on demand.
    """
    valued = [_Valued.of(column, rows) for column in columns]
    shown = [entry for entry in valued if is_shown(entry.column, entry.briefs, without=without)]
    unit = table_unit([(entry.column, entry.briefs) for entry in shown])
    visible = {entry.column.key for entry in shown} | set(also)
    told = [entry for entry in valued if not rows or entry.says_something]
    made = [_column(entry, rows, unit, hidden=entry.column.key not in visible) for entry in told]
    return Table(
        id=identity,
        title=title,
        columns=tuple(made),
        ids=tuple(ids),
        sort=sort,
        head=head,
        notes=tuple(notes),
        empty=empty,
        closed=closed,
    )


@dataclass(frozen=True, slots=True)
class _Valued(Generic[RowT]):
    """A column with its values, and what stands in its cells instead."""

    column: Column[RowT]
    values: Sequence[object]
    briefs: Sequence[object]

    @classmethod
    def of(cls, column: Column[RowT], rows: Sequence[RowT]) -> _Valued[RowT]:
        values = [column.get(row) for row in rows]
        return cls(column, values, brief_values(column, rows) if column.brief else values)

    @property
    def says_something(self) -> bool:
        if self.column.kind == "text" or self.column.shown == "nonzero":
            return any(self.values)
        return any(value is not None for value in self.values)


def _column(entry: _Valued[RowT], rows: Sequence[RowT], unit: TimeUnit, *, hidden: bool) -> TableColumn:
    column = entry.column
    return TableColumn(
        key=column.key,
        name=column.title or column.key.replace("_", " "),
        kind=column.kind,
        values=_plain(entry.values),
        texts=tuple(cell_texts(column, rows, entry.briefs, unit)),
        unit=column_unit(column, unit),
        help=f"in CSV: {column.csv_name}",
        hidden=hidden,
        order=() if column.order is None else _plain([column.order(row) for row in rows]),
        filter=_filter(column.key, entry.values),
    )


def _filter(key: str, values: Sequence[object]) -> Filter:
    """How rows can be filtered by a column: not where all rows have a value of their own, or all the same."""
    if key in CHOICES:
        return "choice" if 1 < len(set(values)) < len(values) else ""
    return "any" if key in ANY and 0 < sum(map(bool, values)) < len(values) else ""


def _plain(values: Sequence[object]) -> tuple[JsonValue, ...]:
    """Values as JSON can hold them: infinity as the largest number, what is no number as missing."""
    known: dict[str, str] = {}
    found: list[JsonValue] = []
    for value in values:
        if isinstance(value, float):
            found.append(value if math.isfinite(value) else _finite(value))
        elif value is None or isinstance(value, (bool, int)):
            found.append(value)
        else:
            text = str(value)
            if text not in known:
                known[text] = clean(text)
            found.append(known[text])
    return tuple(found)


def _finite(value: float) -> float | None:
    return None if math.isnan(value) else math.copysign(LARGEST, value)

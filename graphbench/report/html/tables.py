"""From the columns and rows of a report to the tables of a page: every column, those that text leaves out hidden."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, TypeVar

from graphbench.measurements import JsonValue
from graphbench.plaintext import clean
from graphbench.report.column import Column
from graphbench.report.grid import brief_values, cell_texts, column_unit, shown_values, table_unit
from graphbench.report.html.model import Filter, Table, TableColumn
from graphbench.units import TimeUnit

RowT = TypeVar("RowT")
CHOICES: Final = (
    *("region", "phase", "kind", "op_type", "fate", "verdict", "bound", "place", "user_phase", "state", "arithmetic"),
)
"""Keys of columns of which people want one value only."""
ANY: Final = ("reason", "warnings", "unfaithful", "shared_with", "suspicious", "host_bound")
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
    folded: bool = False,
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
        folded: whether the table is opened on demand.
    """
    shown = shown_values(columns, rows, without=without)
    unit = table_unit(shown)
    # Every value is worked out once: with 10,000 rows that is most of the work.
    known = {id(column): values for column, values in shown}
    made = []
    for column in columns:
        told = known.get(id(column))
        values = told if told is not None and column.brief is None else [column.get(row) for row in rows]
        if not rows or _says_something(column, values):
            hidden = told is None and column.key not in also
            made.append(_column(column, rows, values, told, unit, hidden=hidden))
    return Table(
        id=identity,
        title=title,
        columns=tuple(made),
        ids=tuple(ids),
        sort=sort,
        head=head,
        notes=tuple(notes),
        empty=empty,
        folded=folded,
    )


def _says_something(column: Column[RowT], values: Sequence[object]) -> bool:
    if column.kind == "text" or column.shown == "nonzero":
        return any(values)
    return any(value is not None for value in values)


def _column(
    column: Column[RowT],
    rows: Sequence[RowT],
    values: Sequence[object],
    told: Sequence[object] | None,
    unit: TimeUnit,
    *,
    hidden: bool,
) -> TableColumn:
    """One column; `told` is what its cells say, where that is known already."""
    shown = told if told is not None else brief_values(column, rows) if column.brief else values
    return TableColumn(
        key=column.key,
        name=column.title,
        kind=column.kind,
        values=tuple(map(plain, values)),
        texts=tuple(cell_texts(column, rows, shown, unit)),
        unit=column_unit(column, unit),
        hidden=hidden,
        order=() if column.order is None else tuple(plain(column.order(row)) for row in rows),
        filter=_filter(column.key, values),
    )


def _filter(key: str, values: Sequence[object]) -> Filter:
    if key in CHOICES:
        return "choice" if len(set(values)) > 1 else ""
    return "any" if key in ANY and any(values) else ""


def plain(value: object) -> JsonValue:
    """A value as JSON can hold it: infinity as the largest number, what is no number as missing."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return None if math.isnan(value) else max(-LARGEST, min(LARGEST, value))
    return clean(str(value))

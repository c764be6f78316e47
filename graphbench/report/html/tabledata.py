"""A table as the page's script reads it: repeated texts once, and no text that equals its value. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from graphbench.measurements import JsonValue
from graphbench.report.html.model import Table, TableColumn


def table_data(table: Table) -> dict[str, JsonValue]:
    """What the script needs of a table."""
    return {
        "id": table.id,
        "title": table.title,
        "names": table.head or (table.columns[0].key if table.columns else ""),
        "sort": table.sort,
        "ids": list(table.ids),
        "empty": table.empty,
        "rows": len(table.columns[0].values) if table.columns else 0,
        "columns": [_column_data(column) for column in table.columns],
    }


def _column_data(column: TableColumn) -> dict[str, JsonValue]:
    data: dict[str, JsonValue] = {
        "key": column.key,
        "name": column.name,
        "kind": column.kind,
        "unit": column.unit,
        "help": column.help,
        "hidden": column.hidden,
        "filter": column.filter,
        "values": _listed(column.values),
    }
    if column.texts != column.values:
        data["texts"] = _listed(column.texts)
    if column.order:
        data["order"] = _listed(column.order)
    return data


def _listed(values: Sequence[JsonValue]) -> JsonValue:
    """A list; of few distinct values those, and where each stands."""
    distinct: dict[object, int] = {}
    for value in values:
        distinct.setdefault((type(value), value), len(distinct))
    if 2 * len(distinct) > len(values):
        return list(values)
    return {"pool": [value for _, value in distinct], "at": [distinct[(type(value), value)] for value in values]}  # type: ignore[misc]

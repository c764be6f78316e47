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
    numbers: dict[tuple[type, object], int] = {}
    pool: list[JsonValue] = []
    at: list[JsonValue] = []
    for value in values:
        key = (type(value), value)  # 1, 1.0 and True are one key otherwise
        if key not in numbers:
            numbers[key] = len(pool)
            pool.append(value)
        at.append(numbers[key])
    return {"pool": pool, "at": at} if 2 * len(pool) <= len(values) else list(values)

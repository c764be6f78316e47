"""Two compared profiles for other programs: JSON of everything, or CSV of one table. Units are in the names."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from graphbench.analysis.diff import Diff
from graphbench.analysis.diff_groups import group_diff
from graphbench.analysis.group_by import DiffGroupBy
from graphbench.errors import UsageError
from graphbench.report.column import Column
from graphbench.report.csv_report import csv_text
from graphbench.report.diff_columns import (
    DIFF_COLUMNS,
    FUSION_DIFF_COLUMNS,
    GAP_DIFF_COLUMNS,
    GROUP_DIFF_COLUMNS,
    TOTAL_COLUMNS,
)
from graphbench.report.diff_words import headline
from graphbench.report.values import plain_value

_COLUMNS: Mapping[str, Sequence[Column[Any]]] = MappingProxyType(
    {"totals": TOTAL_COLUMNS, "nodes": DIFF_COLUMNS, "fusions": FUSION_DIFF_COLUMNS, "gaps": GAP_DIFF_COLUMNS}
)
DIFF_TABLES: Final = tuple(_COLUMNS)


def csv_diff(result: Diff, *, table: str = "nodes", group_by: DiffGroupBy | None = None) -> str:
    """One table as CSV, header line included: every row, in the order of the second profile.

    Args:
        result: two profiles, compared.
        table: one of `DIFF_TABLES`.
        group_by: sums of nodes instead, their total last.

    Raises:
        UsageError: no such table.
    """
    if group_by is not None:
        rows, total = group_diff(result, group_by)
        return csv_text(GROUP_DIFF_COLUMNS, [*rows, total])
    if table not in _COLUMNS:
        hint = f"the tables are: {', '.join(DIFF_TABLES)}"
        raise UsageError(f"unknown table {table!r}", hint=hint, subject="table")
    return csv_text(_COLUMNS[table], _rows(result)[table])


def json_diff(result: Diff) -> str:
    """Everything as JSON: conditions, and one object per row, with the names of the CSV. A missing value is `null`."""
    told: dict[str, Any] = {
        "verdict": headline(result),
        "before": result.before,
        "after": result.after,
        "timer": result.timer,
        "noise": result.rule.noise,
        "rows_judged_together": result.rule.rows,
        "grain_ns": result.rule.grain_ns,
        "devices": result.devices,
        "findings": result.findings,
        "notes": result.notes,
        "environment": [{"what": what, "before": old, "after": new} for what, old, new in result.environment],
    }
    tables = {
        name: [{column.csv_name: plain_value(column, row) for column in _COLUMNS[name]} for row in rows]
        for name, rows in _rows(result).items()
    }
    return json.dumps(told | tables, indent=1) + "\n"


def _rows(result: Diff) -> dict[str, Sequence[Any]]:
    return {"totals": result.totals, "nodes": result.rows, "fusions": result.fusions, "gaps": result.gaps}

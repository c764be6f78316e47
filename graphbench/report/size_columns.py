"""The columns of CSV's table of sizes: one row for a node and a size of its region that changes."""

from __future__ import annotations

from graphbench.analysis.shape_groups import SizeRow
from graphbench.report.column import Column

SIZE_COLUMNS: tuple[Column[SizeRow], ...] = (
    Column(name="region", key="region", kind="text", get=lambda row: row.node.region),
    Column(name="node", key="name", kind="text", get=lambda row: row.node.name),
    Column(name="op", key="op_type", kind="text", get=lambda row: row.node.op_type),
    Column(name="phase", key="phase", kind="text", get=lambda row: row.node.phase),
    Column(name="module", key="module", kind="text", get=lambda row: row.node.module),
    Column(name="size", key="size", kind="text", get=lambda row: row.size),
    Column(name="values", key="values", kind="text", get=lambda row: " ".join(map(str, sorted(set(row.values))))),
    Column(name="groups", key="groups", kind="number", get=lambda row: len(row.values)),
    Column(name="grows as", key="exponent", kind="number", get=lambda row: row.growth.exponent if row.growth else None),
    Column(name="±", key="exponent_error", kind="number", get=lambda row: row.growth.error if row.growth else None),
    Column(name="doubt", key="doubt", kind="text", get=lambda row: row.node.doubt),
    Column(name="no growth", key="reason", kind="text", get=lambda row: row.node.reason),
)

"""Headers of every CSV: a number says its unit, or is a plain count or ratio by its name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from graphbench.analysis.scaling import scaling
from graphbench.report.break_columns import BREAK_COLUMNS
from graphbench.report.column import Column
from graphbench.report.columns import FUSION_COLUMNS
from graphbench.report.diff_columns import (
    DIFF_COLUMNS,
    FUSION_DIFF_COLUMNS,
    GAP_DIFF_COLUMNS,
    GROUP_DIFF_COLUMNS,
    TOTAL_COLUMNS,
)
from graphbench.report.gaps_table import GAP_COLUMNS
from graphbench.report.groups_table import GROUP_COLUMNS
from graphbench.report.node_columns import NODE_COLUMNS
from graphbench.report.opportunities_table import OPPORTUNITY_COLUMNS
from graphbench.report.scaling_columns import group_columns, node_columns, total_columns
from graphbench.report.size_columns import SIZE_COLUMNS
from graphbench.report.step_table import PLACE_COLUMNS, STEP_COLUMNS
from tests.factories import node, profile, region, spec

SCALING = scaling([profile(region([node("a", 1_000.0 * size, outputs=(spec(size, 4),))])) for size in (8, 16)])
TABLES: dict[str, Sequence[Column[Any]]] = {
    "nodes": NODE_COLUMNS,
    "fusions": FUSION_COLUMNS,
    "gaps": GAP_COLUMNS,
    "places": PLACE_COLUMNS,
    "step": STEP_COLUMNS,
    "breaks": BREAK_COLUMNS,
    "opportunities": OPPORTUNITY_COLUMNS,
    "groups": GROUP_COLUMNS,
    "sizes": SIZE_COLUMNS,
    "diff totals": TOTAL_COLUMNS,
    "diff nodes": DIFF_COLUMNS,
    "diff fusions": FUSION_DIFF_COLUMNS,
    "diff gaps": GAP_DIFF_COLUMNS,
    "diff groups": GROUP_DIFF_COLUMNS,
    "scaling nodes": node_columns(SCALING),
    "scaling groups": group_columns(SCALING, "op"),
    "scaling totals": total_columns(SCALING),
}
UNITS = re.compile(
    r"(_ns|_bytes|_percent|_mhz|_per_s|_per_ms|_per_byte|_per_thread|_per_block|flops|ratio|ratio_\w+|speedup|_over_p50)$"
)
# Numbers of things, and exponents: they have no unit.
COUNTS = {
    *("samples", "backward_samples", "calls", "calls_before", "calls_after", "count", "before_count", "after_count"),
    *("n_kernels", "n_kernels_min", "n_kernels_max", "launches", "rows", "ops", "syncs", "layers", "nodes", "kernels"),
    *("one_call_n_kernels", "one_call_n_kernels_min", "one_call_n_kernels_max", "missing", "unlimited", "uncounted"),
    *("num_warps", "num_stages", "spills", "stream", "left_out", "exponent", "exponent_error", "exponent_at_last"),
    "groups",
}


@pytest.mark.parametrize("table", TABLES)
def test_a_number_says_its_unit(table: str) -> None:
    numbers = [column.csv_name for column in TABLES[table] if column.kind != "text"]
    assert [name for name in numbers if not UNITS.search(name) and name not in COUNTS] == []


@pytest.mark.parametrize("table", TABLES)
def test_no_two_columns_have_one_name(table: str) -> None:
    headers = [column.csv_name for column in TABLES[table]]
    assert len(headers) == len(set(headers))


@pytest.mark.parametrize("table", TABLES)
def test_times_are_nanoseconds_and_fractions_percent(table: str) -> None:
    for column in TABLES[table]:
        assert (column.kind == "time") == column.csv_name.endswith("_ns"), column.key
        assert (column.kind == "fraction") == column.csv_name.endswith("_percent"), column.key

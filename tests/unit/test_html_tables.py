"""Tables of a page: the record's values, the text report's words, every column that says anything."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from graphbench.analysis.digest import Digest
from graphbench.analysis.rows import profile_rows
from graphbench.report.column import Column, Kind
from graphbench.report.columns import FUSION_COLUMNS
from graphbench.report.grid import build
from graphbench.report.html.model import Table, TableColumn
from graphbench.report.html.tables import LARGEST, html_table
from graphbench.report.node_columns import node_columns
from tests.recorded import recorded_profile


@dataclass(frozen=True)
class Row:
    name: str
    time_ns: float | None = None
    mark: str = ""


NAME: Column[Row] = Column(name="name", key="name", kind="text", get=lambda row: row.name)
TIME: Column[Row] = Column(
    name="in-\ngraph", key="in_graph", kind="time", get=lambda row: row.time_ns, marks=lambda row: row.mark
)


def made(*rows: Row, columns: tuple[Column[Row], ...] = (NAME, TIME)) -> Table:
    return html_table("t", "A table", columns, rows)


def column(table: Table, key: str) -> TableColumn:
    return next(entry for entry in table.columns if entry.key == key)


def computed(get: Callable[[Row], object], *, kind: Kind = "number", key: str = "x") -> Column[Row]:
    return Column(name="x", key=key, kind=kind, get=get)


def test_times_keep_their_nanoseconds_and_are_written_in_one_unit_with_marks() -> None:
    found = column(made(Row("a", 1500.0, "!"), Row("b", 2500.0), Row("d", 1e9), Row("c")), "in_graph")
    assert found.values == (1500.0, 2500.0, 1e9, None)
    assert (found.name, found.unit) == ("in-graph", "µs")
    assert found.texts == ("!1.50", "2.50", "1000000", "–")


def test_columns_that_text_leaves_out_are_hidden_and_those_without_a_value_are_left_out() -> None:
    hidden: Column[Row] = Column(name="w", key="w", kind="number", get=lambda row: 1, shown="wide")
    csv: Column[Row] = Column(name="c", key="c", kind="text", get=lambda row: row.name, shown="csv")
    empty: Column[Row] = Column(name="e", key="e", kind="text", get=lambda row: "", shown="csv")
    zero: Column[Row] = Column(name="z", key="z", kind="number", get=lambda row: 0, shown="nonzero")
    missing: Column[Row] = Column(name="m", key="m", kind="number", get=lambda row: None)
    table = made(Row("a"), Row("b"), columns=(NAME, hidden, csv, empty, zero, missing))
    assert {entry.key: entry.hidden for entry in table.columns} == {"name": False, "w": True, "c": True}


def test_what_a_cell_says_in_short_is_still_found_and_sorted_by_its_value() -> None:
    brief: Column[Row] = Column(
        name="b", key="b", kind="text", get=lambda row: row.name, brief=lambda row: row.name[0], order=lambda row: 7
    )
    found = column(made(Row("abc"), columns=(brief,)), "b")
    assert (found.values, found.texts, found.order) == (("abc",), ("a",), (7,))


def test_json_has_no_infinity_and_nothing_that_is_no_number() -> None:
    rows = (Row("a", math.inf), Row("b", -math.inf), Row("c", math.nan), Row("d", 1.0))
    size: Column[Row] = Column(name="s", key="s", kind="text", get=lambda row: row.name, order=lambda row: row.time_ns)
    assert column(made(*rows, columns=(size,)), "s").order == (LARGEST, -LARGEST, None, 1.0)


def test_a_text_shows_no_character_that_a_reader_could_not_see() -> None:
    found = column(made(Row("a\u202eb\x1b[2J\ud800")), "name")
    assert found.values == found.texts == ("a·b·[2J·",)


@pytest.mark.parametrize(
    ("key", "names", "filtered"),
    [
        ("kind", ("a", "a", "b"), "choice"),
        ("change", ("a", "a", "b"), "choice"),
        ("kind", ("a", "b", "c"), ""),  # each row has its own
        ("kind", ("a", "a", "a"), ""),
        ("warnings", ("", "", "w"), "any"),
        ("warnings", ("w", "w", "w"), ""),
        ("name", ("a", "a", "b"), ""),
    ],
)
def test_rows_are_filtered_by_columns_of_few_values(key: str, names: tuple[str, ...], filtered: str) -> None:
    table = made(*map(Row, names), columns=(computed(lambda row: row.name, kind="text", key=key),))
    assert column(table, key).filter == filtered


def test_a_table_without_rows_says_so() -> None:
    table = html_table("t", "A table", (NAME,), [], empty="nothing ran")
    assert (table.columns[0].values, table.empty) == ((), "nothing ran")


def test_nodes_of_a_real_profile_have_the_cells_of_the_text_report_and_the_values_of_the_record() -> None:
    rows = profile_rows(recorded_profile(), Digest()).nodes
    columns = node_columns(rows)
    table = html_table("nodes", "Nodes", columns, rows)
    known = {entry.key: entry for entry in columns}
    shown = [entry for entry in table.columns if not entry.hidden]
    grid = build(columns, rows, wide=False)
    assert [list(cells) for cells in zip(*(entry.texts for entry in shown), strict=True)] == grid.rows
    for entry in table.columns:
        assert entry.values == tuple(known[entry.key].get(row) for row in rows), entry.key


def test_kernels_of_a_real_profile_likewise() -> None:
    rows = profile_rows(recorded_profile(), Digest()).fusions
    table = html_table("fusions", "Fusions", FUSION_COLUMNS, rows)
    shown = [entry for entry in table.columns if not entry.hidden]
    assert [list(cells) for cells in zip(*(entry.texts for entry in shown), strict=True)] == build(
        FUSION_COLUMNS, rows, wide=False
    ).rows
    fused = column(table, "all_calls_fused_p50")
    assert fused.values == tuple(row.fused_ns for row in rows)

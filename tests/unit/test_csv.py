"""CSV of nodes and fusions: every column, units in the headers, empty cells with a reason, safe for spreadsheets."""

from __future__ import annotations

import csv
import io

import pytest

from graphbench.errors import UsageError
from graphbench.measurements import Comparison
from graphbench.records import ProfileRecord
from graphbench.report import REPORTERS
from tests.factories import executes, kernel, node, profile, region, steady
from tests.samples import cpu_profile


def csv_rows(record: ProfileRecord, name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(REPORTERS["csv"].render(record, table=name))))


def test_csv_has_units_in_its_headers_and_nanoseconds_in_its_cells() -> None:
    first = csv_rows(cpu_profile(), "nodes")[0]
    assert (first["name"], first["isolated_p50_ns"], first["in_graph_ns"]) == ("conv1", "1200000", "1210000")
    assert float(first["share_percent"]) == pytest.approx(100 * 1_200_000 / 1_600_900)


@pytest.mark.parametrize("name", ["nodes", "fusions"])
def test_csv_has_the_interquartile_range(name: str) -> None:
    spread = steady(5_000.0, n=5, spread_ns=200.0)
    (row,) = csv_rows(profile(region([node("a", spread)], [kernel("k", spread)])), name)
    assert row["isolated_iqr_ns"] == "200"


def test_csv_leaves_missing_values_empty_and_gives_the_reason() -> None:
    failed = csv_rows(cpu_profile(), "nodes")[-1]
    assert (failed["name"], failed["isolated_p50_ns"], failed["reason"]) == ("sort", "", "ran out of memory")


def test_csv_of_fusions_has_one_row_a_kernel() -> None:
    rows = csv_rows(cpu_profile(), "fusions")
    assert [(row["kernel"], row["saved_ns"], row["verdict"]) for row in rows] == [
        ("extern_kernels.convolution:1", "10000", "same"),
        ("cpp_fused_add_relu_0:2", "250000", "faster"),
    ]


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "＝", "＋", "－", "＠"])
def test_csv_text_is_never_a_formula(start: str) -> None:
    (row,) = csv_rows(profile(region([node(f"{start}cmd|x", 5.0, op_type="x")])), "nodes")
    assert row["name"] == f"'{start}cmd|x"


@pytest.mark.parametrize("start", ["\t", "\r", "\n", "\x1b", "\u202e", "\udcff"])
def test_csv_text_has_no_character_that_is_obeyed_instead_of_shown(start: str) -> None:
    (row,) = csv_rows(profile(region([node(f"{start}=cmd|x", 5.0, op_type="x")])), "nodes")
    assert row["name"] == "·=cmd|x"


@pytest.mark.parametrize("name", ["a;=1+1", 'a",=1+1', "a,b", '"'])
def test_csv_text_with_what_separates_cells_anywhere_stands_in_quotes(name: str) -> None:
    text = REPORTERS["csv"].render(profile(region([node(name, 5.0, op_type="x")])))
    assert '"' + name.replace('"', '""') + '",' in text
    assert csv_rows(profile(region([node(name, 5.0, op_type="x")])), "nodes")[0]["name"] == name


def test_negative_numbers_in_csv_stay_numbers() -> None:
    made = kernel("k", 50.0, roles=(executes("a"),))
    (row,) = csv_rows(profile(region([node("a", 20.0)], [made])), "fusions")
    assert row["saved_ns"] == "-30"


def test_an_unknown_csv_table_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown table 'edges'"):
        REPORTERS["csv"].render(cpu_profile(), table="edges")


@pytest.mark.parametrize(
    ("word", "column"),
    [
        ("p90", "isolated_p90_ns"),
        ("P50", "isolated_p50_ns"),
        ("in-graph", "in_graph_ns"),
        ("Share", "share_percent"),
        ("host", "host_ns"),
        ("isolated_mean", "isolated_mean_ns"),
    ],
)
def test_rows_sort_by_the_header_that_a_reader_sees_or_by_the_csv_name(word: str, column: str) -> None:
    values = [(30.0, 1.0), (10.0, 3.0), (20.0, 2.0)]
    nodes = [node(f"n{i}", own, in_graph=steady(live)) for i, (own, live) in enumerate(values)]
    text = REPORTERS["csv"].render(profile(region(nodes)), sort=word)
    found = [float(row[column]) for row in csv.DictReader(io.StringIO(text))]
    assert found == sorted(found, reverse=True)
    assert len(set(found)) == 3


def test_differences_sort_by_size_and_not_by_their_text() -> None:
    sizes = {"small": 9e-8, "large": 2e-3, "none": 0.0, "nan": None}
    made = [
        kernel(name, 5.0, handle=i, difference=Comparison(equal=size == 0, max_abs=size))
        for i, (name, size) in enumerate(sizes.items())
    ]
    text = REPORTERS["csv"].render(profile(region([], made)), table="fusions", sort="max diff")
    found = [row["kernel"].split(":")[0] for row in csv.DictReader(io.StringIO(text))]
    assert found == ["nan", "large", "small", "none"]

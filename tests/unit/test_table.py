"""Printed reports: golden texts, the line width, and what must be said however small the profile is."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Callable

import pytest

from graphbench import document
from graphbench.errors import UsageError
from graphbench.records import Fate, ProfileRecord, Side
from graphbench.report import REPORTERS
from graphbench.report.grid import shorten
from tests.factories import executes, kernel, measurement, node, profile, region, steady
from tests.samples import cpu_profile, gpu_profile


def table(record: ProfileRecord, **options: object) -> str:
    return REPORTERS["table"].render(record, **options)  # type: ignore[arg-type]


def csv_rows(record: ProfileRecord, name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(REPORTERS["csv"].render(record, table=name))))


@pytest.mark.parametrize(("name", "make"), [("cpu", cpu_profile), ("gpu", gpu_profile)])
def test_the_report_reads_as_agreed(
    name: str, make: Callable[[], ProfileRecord], golden: Callable[[str, str], None]
) -> None:
    golden(table(make()), f"table_{name}.txt")


def test_the_wide_report_reads_as_agreed(golden: Callable[[str, str], None]) -> None:
    golden(table(cpu_profile(), wide=True), "table_cpu_wide.txt")


def test_the_markdown_reads_as_agreed(golden: Callable[[str, str], None]) -> None:
    golden(REPORTERS["markdown"].render(gpu_profile()), "report_gpu.md")


def long_names() -> ProfileRecord:
    name = "l_self_modules_transformer_modules_layers_modules_11_modules_feed_forward"
    key = f"forward/triton_poi_fused_{'add_mul_' * 20}:17"
    fate = Fate(kind="fused", kernels=(key,))
    made = kernel(f"triton_poi_fused_{'add_mul_' * 20}", 123_456.0, handle=17, roles=(executes(name),) * 1)
    long = node(name, 123_456.0, op_type="scaled_dot_product_attention" * 2, fate=fate, line=12_345)
    return profile(region([long], [made]), subject="x" * 300)


@pytest.mark.parametrize("make", [cpu_profile, gpu_profile, long_names])
@pytest.mark.parametrize("width", [100, 120])
def test_no_line_is_wider_than_asked_for(make: Callable[[], ProfileRecord], width: int) -> None:
    lines = [line for line in table(make(), width=width).splitlines() if "xxx" not in line]
    assert max(map(len, lines)) <= width


def test_a_shortened_kernel_keeps_the_end_that_tells_it_apart() -> None:
    assert "add_mul_:17" in table(long_names())


@pytest.mark.parametrize(
    ("text", "width", "tail", "short"),
    [("abcdef", 6, False, "abcdef"), ("abcdefghi", 5, False, "ab…hi"), ("abcdefghij", 7, True, "ab…ghij")],
)
def test_texts_are_cut_in_their_middle(text: str, width: int, tail: bool, short: str) -> None:
    assert shorten(text, width, tail=tail) == short


def test_the_coverage_line_is_printed() -> None:
    assert "coverage: attributed 100.00 % (2 kernels, 0 unattributed, 0 dropped)" in table(cpu_profile())


def test_without_a_recorded_step_gaps_are_said_not_to_be_recorded() -> None:
    assert "gaps: not recorded (use graphbench.profile(fn))" in table(cpu_profile()).splitlines()


def test_an_empty_profile_still_makes_a_report() -> None:
    text = table(profile())
    assert "Nodes, isolated: none" in text
    assert "coverage: nothing ran labelled" in text


def test_a_host_bound_region_is_said_before_anything_else_is_found() -> None:
    plain = measurement(500.0, 500.0, host_ns=900.0, timer="cupti")
    lines = table(profile(region(forward=Side(plain=plain)), timer="cupti")).splitlines()
    findings = [line for line in lines if line.startswith(("host-bound", "coverage"))]
    assert findings[0].startswith("host-bound: r0: issuing its kernels takes 900.0 ns, the device needs 500.0 ns")


def test_a_sum_of_some_rows_is_marked_and_not_divided() -> None:
    (line,) = (line for line in table(cpu_profile()).splitlines() if line.startswith("Σ isolated"))
    assert "(4/5 nodes, 2/2 kernels)" in line
    assert line.endswith("–")


def test_what_failed_is_listed_with_its_reason_and_not_as_zero() -> None:
    lines = table(cpu_profile()).splitlines()
    (row,) = (line for line in lines if line.startswith("sort "))
    assert row.split()[3:6] == ["–", "–", "–"]
    assert "– ran out of memory: sort" in lines


def test_shared_and_warned_rows_are_marked_and_explained() -> None:
    shared = dataclasses.replace(steady(5_000.0), shared_with="relu", warnings=("unstable: p90/p50 = 3.1",))
    text = table(profile(region([node("relu", 5_000.0), node("relu_1", shared)])))
    assert "=!5.00" in text
    assert "= measured once for several equal ones" in text
    assert "! unstable: p90/p50 = 3.1: relu_1" in text


def test_top_cuts_the_table_and_says_so() -> None:
    text = table(cpu_profile(), top=2)
    assert "Nodes, isolated (2 of 5, sorted by cost)" in text
    assert "\nrelu " not in text


def test_a_table_of_thousands_is_cut_and_says_how_to_see_all() -> None:
    record = profile(region([node(f"add_{i}", float(i + 1)) for i in range(2001)]))
    assert "Nodes, isolated (2000 of 2001 rows, top=2001 shows all, sorted by cost)" in table(record)
    assert "\nadd_0 " in table(record, top=2001)


def test_sort_applies_to_the_tables_that_have_the_column() -> None:
    text = table(cpu_profile(), sort="name")
    rows = [line.split()[0] for line in text.splitlines() if "model.py:" in line]
    assert rows == ["add", "conv1", "relu", "sort", "view"]


@pytest.mark.parametrize("name", ["table", "csv", "markdown"])
def test_an_unknown_sort_key_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="unknown sort key 'nope'"):
        REPORTERS[name].render(cpu_profile(), sort="nope")


def test_an_option_that_a_report_would_ignore_is_refused() -> None:
    with pytest.raises(UsageError, match="the json report takes no option 'top'"):
        REPORTERS["json"].render(cpu_profile(), top=3)


def test_control_characters_in_names_do_not_reach_the_terminal() -> None:
    text = table(profile(region([node("a\x1b[31m\nb", 5.0, op_type="x")]), subject="S\x07"))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "a·[31m·b" in text


def test_csv_has_units_in_its_headers_and_nanoseconds_in_its_cells() -> None:
    first = csv_rows(cpu_profile(), "nodes")[0]
    assert (first["name"], first["isolated_p50_ns"], first["in_graph_ns"]) == ("conv1", "1200000", "1210000")
    assert float(first["share_percent"]) == pytest.approx(100 * 1_200_000 / 1_600_900)


def test_csv_leaves_missing_values_empty_and_gives_the_reason() -> None:
    failed = csv_rows(cpu_profile(), "nodes")[-1]
    assert (failed["name"], failed["isolated_p50_ns"], failed["reason"]) == ("sort", "", "ran out of memory")


def test_csv_of_fusions_has_one_row_a_kernel() -> None:
    rows = csv_rows(cpu_profile(), "fusions")
    assert [(row["kernel"], row["saved_ns"], row["verdict"]) for row in rows] == [
        ("extern_kernels.convolution:1", "10000", "same"),
        ("cpp_fused_add_relu_0:2", "250000", "faster"),
    ]


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t"])
def test_csv_text_is_never_a_formula(start: str) -> None:
    (row,) = csv_rows(profile(region([node(f"{start}cmd|x", 5.0, op_type="x")])), "nodes")
    assert row["name"] == f"'{start}cmd|x"


def test_negative_numbers_in_csv_stay_numbers() -> None:
    made = kernel("k", 50.0, roles=(executes("a"),))
    (row,) = csv_rows(profile(region([node("a", 20.0)], [made])), "fusions")
    assert row["saved_ns"] == "-30"


def test_an_unknown_csv_table_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown table 'gaps'"):
        REPORTERS["csv"].render(cpu_profile(), table="gaps")


def test_the_json_report_is_the_document_with_plain_samples() -> None:
    values = tuple(float(i) for i in range(200))
    record = profile(region([node("a", measurement(*values))]))
    text = REPORTERS["json"].render(record)
    assert json.loads(text)["regions"][0]["nodes"][0]["isolated"]["samples"]["busy_ns"] == list(range(200))
    assert document.loads(text) == record


def test_markdown_cells_cannot_break_the_table() -> None:
    text = REPORTERS["markdown"].render(profile(region([node("a|b", 5.0, op_type="x")])))
    assert "a\\|b" in text

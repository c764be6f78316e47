"""Limits and traffic as reports show them: columns, lines, groups, and what is not known."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Callable

import pytest

from graphbench.analysis.fusion import all_fusion_rows
from graphbench.analysis.group_by import GroupBy
from graphbench.analysis.groups import GroupRow, group_rows
from graphbench.analysis.unfused import unfused_times
from graphbench.api import Profile
from graphbench.records import ProfileRecord
from graphbench.report.csv_report import CsvReporter
from graphbench.report.heading import ceiling_lines
from graphbench.report.markdown import MarkdownReporter
from tests.cost_samples import HIDDEN_BYTES, POINTWISE, gated_ceilings, gated_mlp
from tests.factories import ceilings, executes, kernel, node, profile, region, spec, steady, worked
from tests.samples import cpu_profile, gpu_profile, moves

GROUPINGS: tuple[GroupBy, ...] = ("module", "source", "shape")


def line_of(text: str, start: str) -> str:
    """A line of a report with those that it goes on in."""
    lines = text.splitlines()
    first = next(index for index, line in enumerate(lines) if line.startswith(start))
    last = next(index for index in range(first + 1, len(lines)) if not lines[index].startswith("  "))
    return " ".join(line.strip() for line in lines[first:last])


def cells(record: ProfileRecord, table: str, row: int = 0) -> dict[str, str]:
    return list(csv.DictReader(io.StringIO(CsvReporter().render(record, table=table))))[row]


def test_the_report_of_a_gated_mlp_reads_as_agreed(golden: Callable[[str, str], None]) -> None:
    golden(Profile(gated_mlp()).table(), "table_gated_mlp.txt")


def test_the_wide_report_of_a_gated_mlp_reads_as_agreed(golden: Callable[[str, str], None]) -> None:
    golden(Profile(gated_mlp()).table(wide=True), "table_gated_mlp_wide.txt")


def test_groups_by_shape_read_as_agreed(golden: Callable[[str, str], None]) -> None:
    text = Profile(gated_mlp()).table(group_by="shape")
    golden(text[text.index("By shape") : text.index("gaps:")], "table_shapes.txt")


def test_the_summary_says_what_fusion_removed() -> None:
    text = Profile(gated_mlp()).table()
    assert line_of(text, "traffic:") == (
        "traffic: eager 386.9 MB → unfused 588.3 MB → fused 286.3 MB: fusion removed 100.7 MB, 26.0 % of eager's"
    )
    assert line_of(text, "fusion:") == (
        "fusion: eager 235.0 µs → unfused 295.0 µs → fused 200.0 µs → at the limit 148.2 µs (74.1 % reached)"
    )


def test_what_is_faster_than_its_limit_is_never_told_as_reached() -> None:
    low = tuple(
        dataclasses.replace(entry, value=entry.value / 10) if entry.kind != "launch" else entry
        for entry in gated_ceilings()
    )
    line = line_of(Profile(gated_mlp(ceilings=low)).table(), "fusion:")
    assert line.endswith("(faster than at the limit, which cannot be: see suspicious)")


def test_sums_of_some_rows_say_of_how_many() -> None:
    assert "eager 1.601 ms (4 of 5 nodes) →" in line_of(Profile(cpu_profile()).table(), "fusion:")
    assert "(of 9 of 10 kernels, which take 281.8 µs; 75.0 % reached)" in line_of(
        Profile(gpu_profile()).table(), "fusion:"
    )


def test_suspicious_rows_are_counted_and_named_once_with_the_reason() -> None:
    line = line_of(Profile(gpu_profile()).table(), "suspicious:")
    assert line.startswith("suspicious: 2 rows: r0/backward/triton_per_fused_mul_sum_1:5, r1/backward/")
    assert line.endswith("(over its limit: fewer bytes moved than counted, or writes left in the cache)")


def test_a_suspicious_part_of_the_limit_is_marked() -> None:
    assert "!120.0" in Profile(gpu_profile()).table()
    assert "! in of limit: beyond it" in Profile(gpu_profile()).table()


def test_the_ceilings_line_says_when_and_whether_from_a_cache() -> None:
    (line,) = ceiling_lines(gated_mlp().ceilings)
    assert line == (
        "ceilings of cuda:0: copy 4.00 TB/s, read 4.00 TB/s, write 4.00 TB/s, bfloat16 700 TFLOP/s, launch 1.50 µs "
        "(measured 2026-01-02, cached)"
    )


def test_ceilings_of_which_only_some_are_cached_say_so() -> None:
    first, *rest = ceilings()
    (line,) = ceiling_lines([dataclasses.replace(first, cached=True), *rest])
    assert line.endswith("(measured 2026-01-02, partly cached)")


def test_every_device_has_its_own_ceilings_line() -> None:
    lines = ceiling_lines([*ceilings(device="cpu"), *ceilings(device="cuda:0")])
    assert [line.split(":")[0] for line in lines] == ["ceilings of cpu", "ceilings of cuda"]


def test_unknown_limits_are_no_columns_and_one_line() -> None:
    text = Profile(gated_mlp(ceilings=())).table()
    assert "limits: n/a: the device's ceilings were not measured" in text
    assert "bound" not in text


def test_an_old_profile_without_work_and_ceilings_says_nothing_of_limits() -> None:
    text = Profile(profile(region([node("a", 10.0)], [kernel("k", 5.0, roles=(executes("a"),))]))).table()
    assert "of limit" not in text
    assert "traffic" not in text


def test_one_unknown_limit_among_others_is_n_a_in_text_and_empty_in_csv() -> None:
    nodes = [node("a", worked(steady(100_000.0), 500, 300)), node("b", 10_000.0)]
    record = profile(region(nodes), ceilings=ceilings())
    table = Profile(record).table()
    assert next(line for line in table.splitlines() if line.startswith("b ")).split().count("n/a") == 2
    assert "– no limit: its work was not counted: b" in table
    assert (cells(record, "nodes", 1)["bound"], cells(record, "nodes", 1)["limit_percent"]) == ("", "")
    assert cells(record, "nodes", 1)["limit_reason"] == "its work was not counted"


def test_csv_of_fusions_has_units_in_its_header_and_every_figure() -> None:
    row = cells(gated_mlp(), "fusions", 2)
    assert row["kernel"] == POINTWISE.split("/")[1]
    assert row["bound"] == "memory"
    assert float(row["limit_percent"]) == pytest.approx(94.37184)
    assert float(row["at_limit_ns"]) == pytest.approx(37_748.736)
    assert float(row["bytes_per_s"]) == pytest.approx(3 * HIDDEN_BYTES / 40e-6)
    assert [row[name] for name in ("read_bytes", "written_bytes", "removed_bytes", "eager_bytes", "unfused_bytes")] == [
        str(n * HIDDEN_BYTES) for n in (2, 1, 2, 5, 9)
    ]


def test_csv_of_nodes_has_the_limit_of_their_backward_too() -> None:
    row = cells(gpu_profile(), "nodes")
    assert (row["backward_bound"], row["backward_flops"]) == ("compute", "40000000000")
    assert float(row["backward_limit_percent"]) == pytest.approx(100 * 40e9 / 700e12 / 82e-6)


def test_rows_can_be_sorted_by_their_part_of_the_limit() -> None:
    text = CsvReporter().render(gated_mlp(), table="fusions", sort="of limit")
    parts = [float(row["limit_percent"]) for row in csv.DictReader(io.StringIO(text))]
    assert parts == sorted(parts, reverse=True)


def test_markdown_has_the_same_lines_and_columns() -> None:
    text = MarkdownReporter().render(gated_mlp())
    assert "- traffic: eager 386.9 MB" in text
    assert "| bound | of limit % |" in text


@pytest.mark.parametrize("by", GROUPINGS)
@pytest.mark.parametrize("sample", [gated_mlp, gpu_profile, cpu_profile])
def test_every_quantity_of_groups_adds_up_to_the_total(sample: Callable[[], ProfileRecord], by: GroupBy) -> None:
    rows, total = group_rows(sample(), by)
    for name in ("unfused_ns", "limit_ns", "eager_bytes", "unfused_bytes", "moved_bytes"):
        assert sum(getattr(row, name) or 0.0 for row in rows) == pytest.approx(getattr(total, name)), name
    assert sum(row.share or 0.0 for row in rows) == pytest.approx(1.0)


@pytest.mark.parametrize("by", GROUPINGS)
def test_groups_divide_exactly_what_kernels_have(by: GroupBy) -> None:
    record = gpu_profile()
    rows = all_fusion_rows(record)
    _, total = group_rows(record, by)
    unfused = [entry.time_ns or 0.0 for made in record.regions for entry in unfused_times(made).values()]
    assert total.unfused_ns == pytest.approx(sum(unfused))
    assert total.limit_ns == pytest.approx(sum(row.limit_ns or 0.0 for row in rows))
    assert total.moved_bytes == pytest.approx(sum(row.moved_bytes or 0.0 for row in rows))


def by_group(record: ProfileRecord, by: GroupBy) -> dict[str, GroupRow]:
    return {row.group: row for row in group_rows(record, by)[0]}


def test_removed_traffic_of_groups_adds_up_to_that_of_the_profile() -> None:
    rows, total = group_rows(gated_mlp(), "module")
    assert total.removed_bytes == 2 * HIDDEN_BYTES
    assert sum(row.removed_bytes or 0.0 for row in rows) == pytest.approx(2 * HIDDEN_BYTES)


def test_a_kernels_limit_and_traffic_fall_to_its_nodes_as_its_time_does() -> None:
    found = by_group(gated_mlp(), "module")["mlp.act"]
    assert found.compiled_ns == pytest.approx(0.4 * 40_000.0)
    assert found.limit_ns == pytest.approx(0.4 * 3 * HIDDEN_BYTES / 4e12 * 1e9)
    assert found.moved_bytes == pytest.approx(0.4 * 3 * HIDDEN_BYTES)
    assert found.removed_bytes == pytest.approx((2 - 1.2) * HIDDEN_BYTES)


def test_a_group_with_a_kernel_of_unknown_traffic_has_removed_nothing_that_is_known() -> None:
    nodes = [node("a", worked(steady(10.0), 60, 40), module="m"), node("b", worked(steady(10.0), 6, 4), module="n")]
    kernels = [
        kernel("k", 5.0, roles=(executes("a"),), traffic=moves(30, 20)),
        kernel("l", 5.0, handle=1, roles=(executes("b"),)),
    ]
    record = profile(region(nodes, kernels), ceilings=ceilings())
    found = by_group(record, "module")
    assert (found["m"].removed_bytes, found["m"].unlimited) == (50, 0)
    assert (found["n"].removed_bytes, found["n"].unlimited, found["n"].limit_ns) == (None, 1, None)
    assert group_rows(record, "module")[1].removed_bytes is None
    assert "at limit: of 1 kernel no limit is known" in Profile(record).table(group_by="module")


def test_equal_shapes_are_one_group_that_counts_its_nodes() -> None:
    nodes = [
        node("x", 0.0, kind="view", outputs=(spec(4, 8),)),
        node("relu", 10.0, inputs=("x",)),
        node("relu_1", 20.0, op_type="relu", inputs=("x",)),
        node("relu_2", 40.0, op_type="relu", inputs=("wide",)),
        node("wide", 0.0, kind="view", outputs=(spec(4, 64, dtype="bfloat16"),)),
    ]
    found = by_group(profile(region(nodes)), "shape")
    assert (found["relu f32[4,8]"].nodes, found["relu f32[4,8]"].eager_ns) == (2, 30.0)
    assert (found["relu bf16[4,64]"].nodes, found["relu bf16[4,64]"].eager_ns) == (1, 40.0)


def test_graph_inputs_have_their_shape_and_what_is_no_tensor_is_left_out() -> None:
    record = gated_mlp()
    (made,) = record.regions
    size = node("size", None, kind="host", outputs=())
    product = dataclasses.replace(made.nodes[0], inputs=("x", "size", "g", "nowhere"))
    changed = dataclasses.replace(made, nodes=(size, product, *made.nodes[1:]))
    assert "matmul bf16[8192,768] bf16[768,3072] ?" in by_group(
        dataclasses.replace(record, regions=(changed,)), "shape"
    )

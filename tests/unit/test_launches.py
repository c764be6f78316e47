"""What the device recorded of a row, column by column: the exact text of tables and of CSV."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Callable

import pytest

from graphbench.analysis.device import DeviceFacts, config_text, shared_bytes, size_text
from graphbench.analysis.digest import Digest
from graphbench.device_records import DeviceKernel, TritonConfig
from graphbench.measurements import Measurement
from graphbench.records import ProfileRecord
from graphbench.report import REPORTERS
from graphbench.report.column import Column
from graphbench.report.columns import FUSION_LAUNCH_COLUMNS, find_sort
from graphbench.report.names import shorten_symbol, symbol_text
from tests.factories import kernel, measurement, node, profile, region, steady
from tests.launch_samples import GELU_CONFIG, device_kernel, launch_profile, launched
from tests.samples import cpu_profile


def table(record: ProfileRecord, **options: object) -> str:
    return REPORTERS["table"].render(record, **options)  # type: ignore[arg-type]


def node_csv(*measured: Measurement) -> list[dict[str, str]]:
    """Rows of nodes, as CSV."""
    made = region([node(f"n{i}", entry) for i, entry in enumerate(measured)])
    return list(csv.DictReader(io.StringIO(REPORTERS["csv"].render(profile(made, timer="cupti")))))


def csv_row(measured: Measurement, config: TritonConfig | None = None, calls: int = 1) -> dict[str, str]:
    """The row of one kernel, as CSV."""
    made = dataclasses.replace(kernel("k", measured, calls=calls), config=config)
    text = REPORTERS["csv"].render(profile(region([], [made]), timer="cupti"), table="fusions")
    (row,) = csv.DictReader(io.StringIO(text))
    return row


def shown(measured: Measurement, key: str, config: TritonConfig | None = None) -> object:
    """What a table shows of one kernel in the column of that key."""
    row = dataclasses.make_dataclass("Row", ["device"])(DeviceFacts(measured, Digest(), config))
    column: Column[object] = next(column for column in FUSION_LAUNCH_COLUMNS if column.key == key)  # type: ignore[assignment]
    return (column.brief or column.get)(row)


ONE = launched(
    9_000.0,
    device_kernel(
        "k",
        grid=(16, 32, 1),
        block=(384, 1, 1),
        cluster=(2, 1, 1),
        registers=168,
        static_shared_bytes=1024,
        dynamic_shared_bytes=2048,
        local_bytes=48,
        stream=13,
    ),
    copy_ns=500.0,
    memset_ns=200.0,
    gaps_ns=1_000.0,
    batch_ns=(7_000.0, 7_200.0, 7_100.0),
    clocks=(1980, 1755),
)
TWO = launched(
    9_000.0,
    DeviceKernel(name="Memset", kind="memset", stream=7),
    device_kernel("first", registers=40),
    device_kernel("second", grid=(8, 4, 2)),
)


def test_the_wide_report_of_launches_reads_as_agreed(golden: Callable[[str, str], None]) -> None:
    golden(table(launch_profile(), wide=True), "table_gpu_wide.txt")


def test_the_wide_markdown_of_launches_reads_as_agreed(golden: Callable[[str, str], None]) -> None:
    golden(REPORTERS["markdown"].render(launch_profile(), wide=True), "report_gpu_wide.md")


def test_no_line_of_the_wide_report_is_wider_than_200_columns() -> None:
    assert max(map(len, table(launch_profile(), wide=True).splitlines())) <= 200


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("device_kernels", "k"),
        ("n_kernels", 1),
        ("kernel_p50", 8_300.0),
        ("copy_p50", 500.0),
        ("memset_p50", 200.0),
        ("span_p50", 10_000.0),
        ("sm_clock_before_mhz", "1980→1755"),
        ("grid", "16x32"),
        ("block", "384"),
        ("cluster", "2"),
        ("registers_per_thread", 168),
        ("static_shared_bytes_per_block", 3.0),
        ("local_bytes_per_thread", 48),
        ("stream", 13),
    ],
)
def test_a_table_shows_of_one_kernel(key: str, text: object) -> None:
    assert shown(ONE, key) == text


@pytest.mark.parametrize(
    ("header", "cell"),
    [
        ("device_kernels", "k"),
        ("one_call_n_kernels", "1"),
        ("one_call_n_kernels_min", "1"),
        ("one_call_n_kernels_max", "1"),
        ("one_call_kernel_p50_ns", "8300"),
        ("one_call_copy_p50_ns", "500"),
        ("one_call_memset_p50_ns", "200"),
        ("one_call_span_p50_ns", "10000"),
        ("all_calls_batch_p50_ns", "7100"),
        ("sm_clock_before_mhz", "1980"),
        ("sm_clock_after_mhz", "1755"),
        ("grid", "16x32"),
        ("block", "384"),
        ("cluster", "2"),
        ("registers_per_thread", "168"),
        ("static_shared_bytes_per_block", "1024"),
        ("dynamic_shared_bytes_per_block", "2048"),
        ("local_bytes_per_thread", "48"),
        ("stream", "13"),
    ],
)
def test_csv_has_of_one_kernel_with_units_in_the_headers(header: str, cell: str) -> None:
    assert csv_row(ONE)[header] == cell


@pytest.mark.parametrize(
    ("key", "header", "first", "all_of_them"),
    [
        ("device_kernels", "device_kernels", "first +2", "Memset;first;second"),
        ("grid", "grid", "432", ";432;8x4x2"),
        ("block", "block", "256", ";256;256"),
        ("registers_per_thread", "registers_per_thread", 40, ";40;32"),
        ("stream", "stream", 7, "7;7;7"),
    ],
)
def test_of_several_a_table_shows_the_first_kernel_and_csv_lists_all_in_one_order(
    key: str, header: str, first: object, all_of_them: str
) -> None:
    assert shown(TWO, key) == first
    assert csv_row(TWO)[header] == all_of_them


def test_a_kernel_count_that_varies_is_a_range_in_tables_and_two_numbers_in_csv() -> None:
    varying = launched(9_000.0, device_kernel("k"), counts=(3, 4))
    assert shown(varying, "n_kernels") == "3-4"
    (row,) = node_csv(varying)
    assert (row["n_kernels"], row["n_kernels_min"], row["n_kernels_max"]) == ("3.5", "3", "4")


def test_the_default_table_of_nodes_shows_a_varying_kernel_count() -> None:
    varying = launched(9_000.0, device_kernel("k"), counts=(3, 4))
    (row,) = (line for line in table(profile(region([node("a", varying)]))).splitlines() if line.startswith("a "))
    assert row.split()[-3] == "3-4"


def test_a_clock_that_stood_still_is_one_number_and_an_unread_one_a_dash() -> None:
    still = launched(9_000.0, device_kernel("k"), clocks=(1755, 1755))
    unread = dataclasses.replace(still, clocks=(still.clocks[0], dataclasses.replace(still.clocks[1], sm_mhz=None)))
    assert (shown(still, "sm_clock_before_mhz"), shown(unread, "sm_clock_before_mhz")) == (1755, "1755→–")


def test_a_triton_configuration_is_told_with_its_spills() -> None:
    assert (shown(ONE, "config", GELU_CONFIG), shown(ONE, "spills", GELU_CONFIG)) == ("XBLOCK=1024 w4 s1", 0)
    row = csv_row(ONE, GELU_CONFIG)
    assert [row[name] for name in ("config", "num_warps", "num_stages", "spills")] == [
        "XBLOCK=1024 w4 s1",
        "4",
        "1",
        "0",
    ]


def test_spills_that_are_not_known_are_no_zero() -> None:
    unknown = dataclasses.replace(GELU_CONFIG, spills=None)
    assert shown(ONE, "spills", unknown) is None
    assert csv_row(ONE, unknown)["spills"] == ""


def test_what_the_instrument_does_not_tell_is_an_empty_cell() -> None:
    row = csv_row(steady(9_000.0))
    told = (
        "one_call_kernel_p50_ns",
        "one_call_span_p50_ns",
        "all_calls_batch_p50_ns",
        "grid",
        "stream",
        "sm_clock_before_mhz",
        "one_call_n_kernels",
        "config",
    )
    assert [row[name] for name in told] == [""] * len(told)


def test_shared_memory_with_an_unknown_part_is_unknown() -> None:
    assert shared_bytes(DeviceKernel(name="k", static_shared_bytes=16)) is None


@pytest.mark.parametrize(
    ("size", "text"),
    [((432, 1, 1), "432"), ((16, 32, 1), "16x32"), ((1, 1, 8), "1x1x8"), ((1, 1, 1), "1"), (None, None)],
)
def test_a_size_is_written_without_trailing_ones(size: tuple[int, int, int] | None, text: str | None) -> None:
    assert size_text(size) == text


def test_all_block_constants_of_a_configuration_are_named() -> None:
    config = TritonConfig(num_warps=8, num_stages=3, blocks=(("XBLOCK", 1), ("R0_BLOCK", 2048)))
    assert config_text(config) == "XBLOCK=1 R0_BLOCK=2048 w8 s3"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
        ("void at::native::gather_kernel<16, long>(char*, long)", "gather_kernel<16, long>"),
        ("void at::native::(anonymous namespace)::sort(int)", "sort"),
        ("void f<g(int)>(float)", "f<g(int)>"),
        ("void cutlass::Kernel2<cutlass_80_gemm>(cutlass_80_gemm::Params)", "cutlass::Kernel2<cutlass_80_gemm>"),
    ],
)
def test_a_symbol_is_shown_without_return_type_arguments_and_common_namespaces(name: str, text: str) -> None:
    assert symbol_text(name) == text


@pytest.mark.parametrize(
    ("text", "short"),
    [("sm90_xmma_gemm_bf16 +2", "sm90_xm… +2"), ("sm90_xmma_gemm_bf16", "sm90_xmma_…"), ("k +2", "k +2")],
)
def test_a_shortened_symbol_keeps_the_number_of_others(text: str, short: str) -> None:
    assert shorten_symbol(text, 11) == short


def test_launches_are_a_table_of_their_own_and_only_when_wide() -> None:
    assert "Launches" not in table(launch_profile())
    wide = table(launch_profile(), wide=True)
    assert "Launches of nodes, isolated (3, sorted by cost)" in wide
    assert "Launches of kernels, isolated, one call (3, sorted by cost)" in wide


def test_without_a_device_there_is_no_table_of_launches() -> None:
    assert "Launches" not in table(cpu_profile(), wide=True)


def test_a_node_that_launched_nothing_is_not_among_the_launches() -> None:
    launches = table(launch_profile(), wide=True).split("Launches of nodes")[1].split("Fusions")[0]
    assert "\nlinear " in launches
    assert "\nview " not in launches


def test_copies_and_fills_are_columns_only_where_there_are_any() -> None:
    plain = profile(region([node("a", launched(9_000.0, device_kernel("k")))]), timer="cupti")
    header = table(plain, wide=True).split("Launches of nodes")[1].split("---")[0]
    assert "kernel" in header
    assert "copy" not in header
    assert "memset" not in header


def test_spans_are_said_not_to_be_comparable_wherever_they_are_shown() -> None:
    said = "spans are comparable only between rows of equal kernel count"
    for text in (table(launch_profile(), wide=True), REPORTERS["markdown"].render(launch_profile(), wide=True)):
        assert text.count(said) == text.count("Launches") == 2
    assert said not in table(launch_profile())


def test_a_batch_is_a_column_where_any_row_has_one_and_says_what_it_is_not() -> None:
    said = "batch: many calls queued back to back, warm: no-overhead theoretical, not what a single call costs; "
    assert said + "only rows under 20 µs a call have one" in table(launch_profile(), width=200).splitlines()
    (row,) = (line for line in table(launch_profile()).splitlines() if line.startswith("gelu "))
    assert row.split()[3:6] == ["!9.02", "9.02", "7.03"]
    without = dataclasses.replace(ONE, batch_ns=None)
    assert "batch" not in table(profile(region([node("a", without)]), timer="cupti"))


def test_times_of_a_site_that_runs_three_times_say_in_csv_of_how_many_calls_they_are() -> None:
    row = csv_row(ONE, calls=3)
    assert [row[name] for name in ("calls", "all_calls_fused_p50_ns", "all_calls_batch_p50_ns")] == [
        "3",
        "27000",
        "21300",
    ]
    assert [row[name] for name in ("isolated_p50_ns", "one_call_kernel_p50_ns", "one_call_host_ns")] == [
        "9000",
        "8300",
        "9000",
    ]
    assert row["one_call_n_kernels"] == "1"


def test_the_batch_of_a_site_that_runs_three_times_is_of_all_calls_as_fused_is() -> None:
    record = profile(region([], [kernel("k", ONE, calls=3), kernel("m", ONE)]), timer="cupti")
    (row,) = (line for line in table(record).splitlines() if line.startswith("k:0"))
    header = next(line for line in table(record).splitlines() if "fused" in line)
    assert header.split()[:2] == ["fused", "batch"]
    assert row.split()[2:] == ["3", "27.0", "21.3"]


def test_statistics_beside_the_time_of_all_calls_are_headed_as_of_one() -> None:
    record = profile(region([], [kernel("k", ONE, calls=3)]), timer="cupti")
    fusions = REPORTERS["markdown"].render(record, wide=True).split("## Fusions")[1]
    headers, _, cells = ([cell.strip() for cell in line.split("|")] for line in fusions.splitlines()[2:5])
    shown_cells = dict(zip(headers, cells, strict=True))
    assert (shown_cells["fused µs"], shown_cells["1 call p50 µs"], shown_cells["1 call host µs"]) == (
        "27.0",
        "9.00",
        "9.00",
    )


def test_rows_sort_by_blocks_and_not_by_the_text_of_their_grid() -> None:
    grids = {"small": (9, 1, 1), "large": (16, 32, 1), "middle": (100, 1, 1)}
    nodes = [node(name, launched(1_000.0, device_kernel("k", grid=grid))) for name, grid in grids.items()]
    text = REPORTERS["csv"].render(profile(region(nodes), timer="cupti"), sort="grid")
    assert [row["name"] for row in csv.DictReader(io.StringIO(text))] == ["large", "middle", "small"]


@pytest.mark.parametrize("word", ["span", "regs", "Kernel Time", "clock MHz", "local B", "spills", "batch"])
def test_every_word_above_a_column_of_launches_is_a_sort_key(word: str) -> None:
    assert find_sort(word) == word.lower()
    text = table(launch_profile(), wide=True, sort=word)
    assert f"Launches of kernels, isolated, one call (3, sorted by {word.lower()})" in text


def test_a_measurement_of_a_timer_without_launches_tells_nothing() -> None:
    assert not DeviceFacts(measurement(5.0), Digest()).told

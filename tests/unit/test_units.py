"""Quantities in words: the unit of a column comes from its median, digits stay honest, missing is never zero."""

from __future__ import annotations

import pytest

from graphbench import units


@pytest.mark.parametrize(
    ("values_ns", "unit"),
    [
        ([1.0, 2.0, 999.0], "ns"),
        ([1e3, 2e3, 5e9], "µs"),
        ([2e6, 3e6, 1.0], "ms"),
        ([5e9], "s"),
        ([None, 0, 5e6], "ms"),
        ([], "µs"),
        ([None], "µs"),
        ([-5e6, -6e6], "ms"),
    ],
)
def test_a_column_has_the_unit_of_its_median(values_ns: list[float | None], unit: str) -> None:
    assert units.time_unit(values_ns) == unit


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1234.5, "1234"),
        (123.4, "123"),
        (12.34, "12.3"),
        (1.234, "1.23"),
        (0.1234, "0.123"),
        (0.0123, "0.0123"),
        (0.0501, "0.0501"),
        (0.00123, "0.00123"),
        (0.09996, "0.100"),
        (0.0004, "<0.001"),
        (9.996, "10.0"),
        (99.96, "100"),
        (-12.34, "-12.3"),
        (-0.0004, ">-0.001"),
    ],
)
def test_numbers_have_three_significant_figures_and_never_vanish(value: float, text: str) -> None:
    assert units.format_number(value) == text


def test_a_time_in_a_column_has_no_unit_of_its_own() -> None:
    assert units.format_time(1_234_000.0, "ms") == "1.23"


def test_a_single_time_carries_its_unit() -> None:
    assert units.format_duration(2_702_300.0) == "2.702 ms"


@pytest.mark.parametrize(
    "text",
    [
        units.format_time(None, "ms"),
        units.format_duration(None),
        units.format_bytes(None),
        units.format_percent(None),
        units.format_coverage(None),
        units.format_ratio(None),
    ],
)
def test_what_is_missing_is_a_dash(text: str) -> None:
    assert text == "–"


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.50 KiB"), (50 * 2**20, "50.0 MiB"), (3 * 2**40, "3.00 TiB")],
)
def test_bytes_are_binary(size_bytes: int, text: str) -> None:
    assert units.format_bytes(size_bytes) == text


@pytest.mark.parametrize(
    ("fraction", "text"),
    [(1.0, "100.00 %"), (0.999999, "99.99 %"), (1 - 1e-14, "99.99 %"), (0.57, "57.00 %"), (0.0, "0.00 %")],
)
def test_only_a_complete_coverage_reads_one_hundred(fraction: float, text: str) -> None:
    assert units.format_coverage(fraction) == text


def test_a_ratio_is_marked_as_one() -> None:
    assert units.format_ratio(1.8567) == "1.86x"


def test_a_ratio_has_three_decimals_at_most() -> None:
    assert units.format_ratio(0.0072123) == "0.007x"


def test_percent() -> None:
    assert units.format_percent(0.1234) == "12.3 %"


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (units.format_traffic(0), "0 B"),
        (units.format_traffic(999), "999 B"),
        (units.format_traffic(100_663_296), "100.7 MB"),
        (units.format_traffic(-8e6), "-8.000 MB"),
        (units.format_rate(4.123e12, "B/s"), "4.12 TB/s"),
        (units.format_rate(7e14, "FLOP/s"), "700 TFLOP/s"),
        (units.format_flops(38_654_705_664), "38.7 GFLOP"),
    ],
)
def test_traffic_rates_and_flops_are_in_powers_of_ten(written: str, text: str) -> None:
    assert written == text


def test_what_is_unknown_of_traffic_and_rates_is_never_0() -> None:
    assert {units.format_traffic(None), units.format_rate(None, "B/s"), units.format_flops(None)} == {"n/a"}


def test_a_plural_without_s_is_given() -> None:
    assert [units.count_text(n, "node or kernel", "nodes and kernels") for n in (1, 2)] == [
        "1 node or kernel",
        "2 nodes and kernels",
    ]

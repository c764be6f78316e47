"""How quantities are written for people: one time unit per column, no digit that noise does not support. Pure text."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from typing import Literal

TimeUnit = Literal["ns", "µs", "ms", "s"]

MISSING = "–"
_SMALLEST = 0.001
_SCALE_NS: tuple[tuple[TimeUnit, float], ...] = (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0))
_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_PREFIXES = ("", "k", "M", "G", "T", "P")
UNKNOWN = "n/a"
"""Stands for a limit or a cost that nobody knows, where 0 would be taken for a bad one."""


def time_unit(values_ns: Iterable[float | None]) -> TimeUnit:
    """Choose the unit of a whole column or table: the largest in which its median is at least 1.

    Args:
        values_ns: its times in nanoseconds; missing values and zeros do not count.

    Returns:
        The unit; `µs` where there is no value at all.
    """
    known = [abs(value) for value in values_ns if value]
    if not known:
        return "µs"
    middle = statistics.median(known)
    return next((unit for unit, scale in _SCALE_NS if middle >= scale), "ns")


def format_number(value: float, *, digits: int = 3) -> str:
    """Write a number with `digits` significant figures, whole numbers in full.

    A value below 0.001 is written `<0.001`, never as 0.
    """
    if value == 0:
        return "0"
    magnitude = abs(value)
    if magnitude < _SMALLEST:
        return f"<{_SMALLEST}" if value > 0 else f">-{_SMALLEST}"
    decimals = max(0, digits - 1 - math.floor(math.log10(magnitude)))
    # Rounding can carry into the next decade (9.996 -> 10.00), which then needs one decimal less.
    if decimals and round(magnitude, decimals) >= 10.0 ** (digits - decimals):
        decimals -= 1
    return f"{value:.{decimals}f}"


def format_time(value_ns: float | None, unit: TimeUnit, *, digits: int = 3) -> str:
    """Write nanoseconds as a bare number in `unit`, the unit standing in the column's header; `–` when missing."""
    if value_ns is None:
        return MISSING
    return format_number(value_ns / dict(_SCALE_NS)[unit], digits=digits)


def format_duration(value_ns: float | None, *, digits: int = 4) -> str:
    """Write a single time with its own unit, such as `2.702 ms`; `–` when missing."""
    if value_ns is None:
        return MISSING
    # As `time_unit` of this value alone, without a median of one: pages write 100,000 of these.
    unit: TimeUnit = next((unit for unit, scale in _SCALE_NS if abs(value_ns) >= scale), "ns") if value_ns else "µs"
    return f"{format_time(value_ns, unit, digits=digits)} {unit}"


def format_bytes(size_bytes: int | None) -> str:
    """Write a size in binary units, such as `1.50 MiB`; `–` when missing."""
    if size_bytes is None:
        return MISSING
    exponent = 0
    while abs(size_bytes) >= 1024 ** (exponent + 1) and exponent < len(_BYTE_UNITS) - 1:
        exponent += 1
    number = str(size_bytes) if exponent == 0 else format_number(size_bytes / 1024**exponent)
    return f"{number} {_BYTE_UNITS[exponent]}"


def format_traffic(moved_bytes: float | None) -> str:
    """Write bytes moved in powers of ten, as bandwidths are, such as `100.7 MB`; `n/a` when unknown."""
    return _scaled(moved_bytes, "B", digits=4)


def format_flops(flops: float | None) -> str:
    """Write a number of FLOPs, such as `38.7 GFLOP`; `n/a` when unknown."""
    return _scaled(flops, "FLOP", digits=3)


def format_rate(per_s: float | None, unit: Literal["B/s", "FLOP/s"]) -> str:
    """Write a bandwidth or a rate of FLOPs, such as `4.12 TB/s`; `n/a` when unknown."""
    return _scaled(per_s, unit, digits=3)


def _scaled(value: float | None, unit: str, *, digits: int) -> str:
    if value is None:
        return UNKNOWN
    exponent = 0
    while abs(value) >= 1000 ** (exponent + 1) and exponent < len(_PREFIXES) - 1:
        exponent += 1
    number = f"{value:.0f}" if exponent == 0 else format_number(value / 1000**exponent, digits=digits)
    return f"{number} {_PREFIXES[exponent]}{unit}"


def format_percent(fraction: float | None, *, decimals: int = 1) -> str:
    """Write a fraction as percent, such as `12.3 %`; `–` when missing."""
    return MISSING if fraction is None else f"{100 * fraction:.{decimals}f} %"


def format_coverage(fraction: float | None) -> str:
    """Write a coverage as percent with two decimals, rounded down: only a complete one reads `100.00 %`."""
    if fraction is None:
        return MISSING
    if fraction >= 1:
        return f"{100 * fraction:.2f} %"
    # The small term undoes binary representation only: 0.57 is stored as a little less and must stay 57.00.
    return f"{min(9999, math.floor(fraction * 10_000 + 1e-9)) / 100:.2f} %"


def format_ratio(ratio: float | None) -> str:
    """Write a ratio such as `1.86x`, with at most three decimals; `–` when missing."""
    if ratio is None:
        return MISSING
    text = format_number(ratio)
    return f"{text if len(text) <= 5 or abs(ratio) >= 1 else f'{ratio:.3f}'}x"


def count_text(count: int, what: str, several: str = "") -> str:
    """Such as `1 node` or `2 nodes`; `several` is the plural, where no `s` makes it."""
    return f"{count} {what}" if count == 1 else f"{count} {several or f'{what}s'}"

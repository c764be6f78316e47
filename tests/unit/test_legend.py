"""Warnings below a table are grouped by kind, and clocks that moved under many rows are told at the top."""

from __future__ import annotations

import dataclasses

import pytest

from graphbench.analysis.clocks import clock_counts, median_sm_mhz
from graphbench.device_records import ClockState
from graphbench.records import ProfileRecord
from graphbench.report import REPORTERS
from tests.factories import FAILED, kernel, node, profile, region, steady


def warned(*warnings: str, ok: int = 0) -> ProfileRecord:
    """One node for each warning, then nodes without any."""
    nodes = [node(f"n{i}", dataclasses.replace(steady(5_000.0), warnings=(w,))) for i, w in enumerate(warnings)]
    return profile(region([*nodes, *(node(f"ok{i}", 5_000.0) for i in range(ok))]))


def marks(record: ProfileRecord) -> list[str]:
    text = REPORTERS["table"].render(record, width=500)
    return [line for line in text.splitlines() if line.startswith("! ")]


@pytest.mark.parametrize(
    ("record", "line"),
    [
        (warned("void: 3 of 9 samples allocated", ok=1), "! void: 3 of 9 samples allocated: n0"),
        (warned("throttled: power cap", "throttled: power cap", ok=1), "! throttled: power cap: 2 rows (n0, n1)"),
        (warned("throttled: power cap", "throttled: power cap"), "! throttled: power cap: all 2 rows"),
        (
            warned("throttled: heat", "throttled: power cap", "throttled: power cap", ok=1),
            "! throttled: 3 rows (n0, n1, n2): power cap (2), heat (1)",
        ),
        (
            warned(*(f"clock: SM {mhz} MHz" for mhz in range(6)), ok=1),
            "! clock: 6 rows (n0, n1, n2, n3 and 2 more): SM 0 MHz (1), SM 1 MHz (1), SM 2 MHz (1), 3 other values",
        ),
        (warned("unstable", "unstable", ok=1), "! unstable: 2 rows"),
    ],
)
def test_rows_with_one_kind_of_warning_are_one_line_with_their_number(record: ProfileRecord, line: str) -> None:
    assert marks(record) == [line]


def test_400_warned_rows_are_one_line() -> None:
    (line,) = marks(warned(*(f"clock: SM {1980 - i} MHz" for i in range(400))))
    assert line.startswith("! clock: all 400 rows: SM 1980 MHz (1), ")
    assert line.endswith(", 397 other values")


def test_more_than_one_row_in_twenty_under_other_clocks_is_a_finding_at_the_top() -> None:
    text = REPORTERS["table"].render(warned("throttled: heat", "clock: SM 1980→1755 MHz", ok=37), width=200)
    said = (
        "warning: clocks: of 39 timed rows, 1 throttled and 1 with a clock that moved: their times are not of one clock"
    )
    lines = text.splitlines()
    assert lines.index(said) < next(i for i, line in enumerate(lines) if line.startswith("coverage"))


def test_one_row_in_twenty_is_none() -> None:
    assert "warning: clocks" not in REPORTERS["table"].render(warned("throttled: heat", ok=19))


def test_nodes_and_kernels_that_were_timed_are_counted_once_each_by_what_befell_them() -> None:
    both = dataclasses.replace(steady(5.0), warnings=("throttled: heat", "clock: SM 1 MHz", "unstable"))
    found = clock_counts(profile(region([node("a", both), node("f", FAILED)], [kernel("k", 5.0)])))
    assert (found.timed, found.throttled, found.moved, found.affected) == (2, 1, 1, 1)


def test_the_clock_of_a_profile_is_the_median_of_all_readings() -> None:
    def at(*mhz: int | None) -> ProfileRecord:
        read = dataclasses.replace(steady(5.0), clocks=tuple(ClockState(sm_mhz=value) for value in mhz))
        return profile(region([node("a", read)], [kernel("k", read)]))

    assert median_sm_mhz(at(1980, 1755, None, 1900)) == 1900
    assert median_sm_mhz(at(None)) is None

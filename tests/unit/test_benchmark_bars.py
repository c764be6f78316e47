"""When the benchmarks of the timing engine say that a bar is met."""

from __future__ import annotations

from typing import Any

import pytest

from tests.benchmarks.judging import (
    accuracy,
    as_expected,
    decoded_in_time,
    explained,
    nothing_lost,
    recorded_in_time,
    why_left_out,
)


def compared(n_long: int, n_short: int, deviation_percent: float = 1.0) -> list[dict[str, Any]]:
    """Rows of kernels of 20 µs and of 2 µs, all that far from ncu."""
    times = {f"long {i}": 20.0 for i in range(n_long)} | {f"short {i}": 2.0 for i in range(n_short)}
    factor = 1 + deviation_percent / 100
    return [
        {"kernel": name, "ncu us": us, "kernels us": factor * us, "deviation %": deviation_percent}
        for name, us in times.items()
    ]


MISSING = {"kernel": "copy", "ncu us": None, "kernels us": None, "deviation %": None}


@pytest.mark.parametrize(
    ("n_long", "n_short", "met"), [(8, 4, True), (12, 0, True), (7, 5, False), (8, 3, False), (0, 12, False)]
)
def test_accuracy_needs_12_kernels_of_which_8_are_long(n_long: int, n_short: int, met: bool) -> None:
    assert accuracy(compared(n_long, n_short), {})["met"] is met


@pytest.mark.parametrize(("deviation_percent", "met"), [(1.5, True), (-1.5, True), (1.6, False), (-1.6, False)])
def test_accuracy_needs_the_median_within_its_bar(deviation_percent: float, met: bool) -> None:
    assert accuracy(compared(12, 0, deviation_percent), {})["met"] is met


def test_one_kernel_that_is_far_off_fails_accuracy_by_name() -> None:
    rows = compared(12, 0)
    rows[3]["deviation %"] = -3.1
    found = accuracy(rows, {})
    assert (found["met"], found["worst"], found["worst_percent"]) == (False, "long 3", 3.1)


def test_short_kernels_have_a_bias_and_no_bar() -> None:
    found = accuracy(compared(12, 1, deviation_percent=1.0) + compared(0, 1, deviation_percent=50.0), {})
    assert (found["met"], found["bias_below_10_us_ns"]) == (True, {"short 0": 1000.0})


@pytest.mark.parametrize(("reason", "met"), [("ncu: it broke", True), ("", False)])
def test_a_kernel_that_was_not_compared_is_listed_and_needs_a_reason(reason: str, met: bool) -> None:
    found = accuracy([*compared(12, 0), MISSING], {"copy": reason})
    assert (found["met"], found["compared"], found["left_out"]) == (met, 12, {"copy": reason})


def found_by(**parts: Any) -> dict[str, Any]:
    return {"not_built": {}, "graphbench": {"figures": {}, "errors": {}}, "ncu": {"figures": {}, "errors": {}}, **parts}


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (found_by(not_built={"k": "no memory"}), "not built: no memory"),
        (found_by(graphbench={"figures": {}, "errors": {"k": "ClockError: bent"}}), "graphbench: ClockError: bent"),
        (found_by(ncu={"error": "not installed"}), "ncu: not installed"),
        (
            found_by(
                graphbench={"figures": {"k": {"n_kernels": [2, 3]}}, "errors": {}},
                ncu={"figures": {"k": {"n_kernels": 2}}, "errors": {}},
            ),
            "[2, 3] kernels a call, of which ncu saw 2",
        ),
        (found_by(), ""),
    ],
)
def test_why_a_kernel_was_not_compared(found: dict[str, Any], reason: str) -> None:
    assert why_left_out(found, "k") == reason


@pytest.mark.parametrize(
    ("outcome", "expected", "met"),
    [
        ({"outcome": "same"}, ("same",), True),
        ({"outcome": "wrong"}, ("same", "TimingError"), False),
        ({"outcome": "refused", "error": "TimingError: no\n  hint: x"}, ("same", "TimingError"), True),
        ({"outcome": "refused", "error": "SetupError: no"}, ("TimingError",), False),
        ({"outcome": "refused", "error": "ClockError: TimingError: no"}, ("TimingError",), False),
        ({"outcome": "other error", "error": "TimingError: no"}, ("TimingError",), False),
        ({"outcome": "not tested", "error": "x"}, ("same",), False),
    ],
)
def test_only_the_class_expected_may_refuse_a_disturbed_measurement(
    outcome: dict[str, Any], expected: tuple[str, ...], met: bool
) -> None:
    assert as_expected(outcome, expected) is met


@pytest.mark.parametrize(
    ("change", "met"),
    [({}, True), ({"exact": False}, False), ({"unattributed": ["k"]}, False), ({"dropped": 1}, False)],
)
def test_under_pressure_every_kernel_is_counted(change: dict[str, Any], met: bool) -> None:
    assert nothing_lost({"exact": True, "unattributed": [], "dropped": 0, **change}) is met


@pytest.mark.parametrize(("us", "met"), [(2.0, True), (2.1, False)])
def test_decoding_has_a_bar_per_record(us: float, met: bool) -> None:
    assert decoded_in_time({"decode_us_per_record": us}) is met


def test_constants_of_the_instruments_are_told_apart_from_their_disagreement() -> None:
    # ncu adds 2 µs to every kernel, we add 1; beside that they agree on all kernels but the last.
    one = {"per call": 1, "deviation %": 0.0}
    rows = [
        {"kernel": "stamped", **one, "ncu us": 32.0, "kernels us": 31.0, "stamped us": 30.0},
        {"kernel": "two kernels", **one, "per call": 2, "ncu us": 44.0, "kernels us": 42.0},
        {"kernel": "apart", **one, "ncu us": 102.0, "kernels us": 111.0},
    ]
    found = accuracy(rows, {})
    assert found["excess_over_stamps_ns"] == {"ncu": 2000.0, "graphbench": 1000.0}
    rest = found["without_excess"]
    assert rest["median_percent"] == pytest.approx(0.0, abs=1e-9)
    assert (rest["worst"], rest["worst_percent"]) == ("apart", pytest.approx(10.0))


def test_without_stamps_no_constants_are_told() -> None:
    rows = [{"kernel": "a", "per call": 1, "ncu us": 32.0, "kernels us": 31.0, "deviation %": -3.1}]
    assert "excess_over_stamps_ns" not in accuracy(rows, {})


EXPLAINED = {"attributed_percent": 100.0, "rows_against_busy_percent": 0.5, "unattributed": [], "dropped": 0}


@pytest.mark.parametrize(
    ("change", "met"),
    [
        ({}, True),
        ({"attributed_percent": 99.999}, False),
        ({"rows_against_busy_percent": -0.51}, False),
        ({"unattributed": ["k"]}, False),
        ({"dropped": 1}, False),
    ],
)
def test_a_step_is_explained_by_rows_that_add_up_and_claim_everything(change: dict[str, Any], met: bool) -> None:
    assert explained({**EXPLAINED, **change}) is met


@pytest.mark.parametrize(
    ("idle_percent", "ratio", "met"), [(10.0, 1.15, True), (10.0, 1.16, False), (-1.0, 1.2, False), (10.1, 3.0, None)]
)
def test_recording_has_a_bar_where_the_device_bounds_the_step(
    idle_percent: float, ratio: float, met: bool | None
) -> None:
    assert recorded_in_time({"idle_plain_percent": idle_percent, "recording_ratio": ratio}) is met

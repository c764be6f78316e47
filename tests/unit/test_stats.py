"""Order statistics and the rule of verdicts."""

from __future__ import annotations

import math

import pytest

from graphbench.analysis.stats import compare, is_unstable, judge, median_noise, quantile, summarize

STEADY = [100.0 + 0.1 * i for i in range(21)]


def scaled(factor: float) -> list[float]:
    return [factor * sample for sample in STEADY]


@pytest.mark.parametrize(("q", "expected"), [(0.0, 1.0), (0.25, 1.75), (0.5, 2.5), (0.9, 3.7), (1.0, 4.0)])
def test_quantiles_interpolate_between_order_statistics(q: float, expected: float) -> None:
    assert quantile([4.0, 1.0, 3.0, 2.0], q) == pytest.approx(expected)


def test_a_quantile_of_nothing_is_an_error_not_zero() -> None:
    with pytest.raises(ValueError, match="no samples"):
        quantile([], 0.5)


def test_a_quantile_outside_0_to_1_is_refused() -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        quantile([1.0], 50)


def test_a_summary_holds_every_order_statistic() -> None:
    summary = summarize([5.0, 1.0, 2.0, 4.0, 3.0])
    assert (summary.n, summary.p50, summary.mean, summary.minimum, summary.maximum) == (5, 3.0, 3.0, 1.0, 5.0)
    assert (summary.p10, summary.p90, summary.iqr) == pytest.approx((1.4, 4.6, 2.0))


def test_a_summary_of_nothing_is_an_error_not_zero() -> None:
    with pytest.raises(ValueError, match="no samples"):
        summarize([])


def test_steady_samples_are_stable() -> None:
    assert not is_unstable(STEADY)


def test_a_long_tail_is_unstable() -> None:
    assert is_unstable([100.0] * 17 + [210.0] * 4)


def test_a_wide_middle_is_unstable() -> None:
    assert is_unstable([94.0] * 6 + [100.0] * 8 + [106.0] * 6)


def test_measured_zeros_are_stable() -> None:
    assert not is_unstable([0.0] * 10)


def test_zeros_with_work_among_them_are_unstable() -> None:
    assert is_unstable([0.0] * 10 + [5.0] * 5)


@pytest.mark.parametrize(
    ("factor", "verdict"), [(0.8, "faster"), (1.25, "slower"), (1.0, "same"), (1.009, "same"), (1.012, "unclear")]
)
def test_the_second_side_is_judged_against_the_first(factor: float, verdict: str) -> None:
    assert compare(STEADY, scaled(factor)) == verdict


def test_overlapping_intervals_decide_nothing() -> None:
    noisy = [50.0, 60.0, 70.0, 80.0, 90.0, 100.0, 110.0, 120.0]
    assert compare(noisy, [1.2 * sample for sample in noisy]) == "unclear"


def test_tight_intervals_apart_by_less_than_the_noise_between_phases_are_the_same() -> None:
    assert compare([100.0, 100.0, 100.1], [100.5, 100.5, 100.6]) == "same"


def test_one_sample_a_side_decides_nothing() -> None:
    assert compare([100.0], [50.0]) == "unclear"


def test_nothing_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="no samples"):
        compare([], [1.0])


@pytest.mark.parametrize("reaching_over", [[80.0] * 8 + [101.0] * 3, [120.0] * 8 + [101.0] * 3])
def test_an_interval_that_reaches_into_the_other_decides_nothing(reaching_over: list[float]) -> None:
    assert compare(STEADY, reaching_over) == "unclear"


@pytest.mark.parametrize(
    ("after", "verdict"),
    [
        ([1032.0, 1032.0, 1032.0], "same"),
        ([968.0, 968.0, 968.0], "same"),
        ([1033.0, 1033.0, 1033.0], "slower"),
        ([967.0, 967.0, 967.0], "faster"),
    ],
)
def test_medians_within_one_step_of_the_clock_are_the_same(after: list[float], verdict: str) -> None:
    assert compare([1000.0] * 3, after, grain_ns=32.0) == verdict


@pytest.mark.parametrize(("low", "verdict"), [(1032.0, "unclear"), (1032.5, "slower")])
def test_intervals_are_widened_by_half_a_step_at_each_end_before_they_are_apart(low: float, verdict: str) -> None:
    assert judge((900.0, 950.0, 1000.0), (low, 1100.0, 1200.0), grain_ns=32.0) == verdict
    assert judge((low, 1100.0, 1200.0), (900.0, 950.0, 1000.0), grain_ns=32.0) == verdict.replace("slower", "faster")


def test_without_a_known_step_any_gap_between_intervals_is_one() -> None:
    assert judge((900.0, 950.0, 1000.0), (1000.1, 1100.0, 1200.0)) == "slower"


@pytest.mark.parametrize(
    ("samples", "noise"),
    [
        ([100.0] * 25, 0.0),
        ([90.0, 100.0, 110.0] * 12, 1.57 * 20.0 / 6 / 100.0),  # IQR 20, n 36
        ([0.0] * 5, 0.0),
        ([0.0, 0.0, 0.0, 1.0, 1.0], math.inf),
        ([100.0], math.inf),
    ],
)
def test_the_median_is_known_to_a_part_of_itself(samples: list[float], noise: float) -> None:
    assert median_noise(samples) == pytest.approx(noise)

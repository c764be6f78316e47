"""The rule by which rows of two runs differ: its rate of false alarms is the stated one, and real changes are found."""

from __future__ import annotations

import random

import pytest

from graphbench.analysis.diff import Diff, diff
from graphbench.analysis.diff_rule import FALSE_ALARMS, Rule, Timed, add_times, compare_runs, judge_runs
from graphbench.analysis.stats import summarize
from graphbench.measurements import Measurement, TimerName
from graphbench.records import ProfileRecord
from tests.factories import environment, measurement, node, profile, region

ROWS, TRIALS, GRAIN_NS = 200, 20, 32


def samples(ns: float, chosen: random.Random, *, n: int, scatter: float, shift: float, timer: TimerName) -> Measurement:
    """One run's samples of a row: off by the run's own shift, scattered with a tail upwards, in steps of the stamps."""
    middle = ns * (1 + shift)
    drawn = [middle * (1 + scatter * abs(chosen.gauss(0, 1)) ** 1.5 * chosen.choice((-0.5, 1.0))) for _ in range(n)]
    steps = GRAIN_NS if timer == "cupti" else 1
    return measurement(*(max(steps, round(value / steps) * steps) for value in drawn), timer=timer)


def run(seed: int, timer: TimerName = "cupti", slower: dict[int, float] | None = None) -> ProfileRecord:
    """One of two runs of the same 200 rows, from 2 µs to 2 ms, 10 to 200 samples each, some of them noisy.

    Shifts between runs have exponential tails, and one row in a hundred is off by the noise between runs or more.
    """
    rows, noise = random.Random(0), Rule.of(timer).noise
    chosen = random.Random(seed)
    nodes = []
    for index in range(ROWS):
        ns = 100_000.0 if slower and index in slower else 10 ** rows.uniform(3.3, 6.3)
        n, scatter = rows.choice((10, 30, 100, 200)), rows.choice((0.003, 0.01, 0.01, 0.05, 0.2))
        scatter = 0.01 if slower and index in slower else scatter
        # Half of the shift is either run's: the difference of two has the tail of the noise between runs.
        shift = noise / 2 / 4.6 * chosen.expovariate(1.0) * chosen.choice((-1, 1))
        factor = (slower or {}).get(index, 1.0)
        found = samples(ns * factor, chosen, n=n, scatter=scatter, shift=shift, timer=timer)
        nodes.append(node(f"n_{index}", found, op_type=f"op{index}"))
    return profile(region(nodes), timer=timer, env=environment(stamp_grain_ns=GRAIN_NS))


def judged(result: Diff) -> list[str]:
    return [row.name for row in result.rows if row.verdict in ("faster", "slower")]


@pytest.mark.parametrize("timer", ["cupti", "wallclock"])
def test_of_twenty_pairs_of_equal_runs_of_200_rows_none_has_a_faster_or_slower_row(timer: TimerName) -> None:
    found = [judged(diff(run(2 * trial, timer), run(2 * trial + 1, timer))) for trial in range(TRIALS)]
    assert found == [[]] * TRIALS


def test_a_row_of_100_us_that_became_15_percent_slower_is_found_among_200() -> None:
    result = diff(run(1), run(2, slower={77: 1.15}))
    reference = diff(run(1, slower={77: 1.0}), run(2, slower={77: 1.15}))
    assert "n_77" in judged(reference)
    assert judged(reference) == ["n_77"]
    assert len(judged(result)) == 1


def test_a_row_that_became_15_percent_faster_is_found_too() -> None:
    result = diff(run(1, slower={77: 1.0}), run(2, slower={77: 0.85}))
    assert [(row.name, row.verdict) for row in result.rows if row.verdict == "faster"] == [("n_77", "faster")]


@pytest.mark.parametrize(("rows", "noise"), [(1, 0.04), (100, 0.08), (10_000, 0.12)])
def test_the_noise_widens_with_the_number_of_rows(rows: int, noise: float) -> None:
    assert Rule.of("cupti", rows=rows).noise == pytest.approx(noise)


def test_a_whole_run_on_a_device_is_judged_by_half_of_a_row_s_noise() -> None:
    assert Rule.of_whole_runs("cupti").noise == pytest.approx(0.02)
    assert Rule.of_whole_runs("wallclock").noise == Rule.of("wallclock").noise


def test_the_widened_noise_leaves_each_row_its_part_of_all_false_alarms() -> None:
    """With exponential tails of which 1 % is beyond the noise of one row."""
    one, many = Rule.of("cupti").noise, Rule.of("cupti", rows=50).noise
    beyond = FALSE_ALARMS ** (many / one)
    assert beyond == pytest.approx(FALSE_ALARMS / 50)


def test_a_median_that_is_hardly_known_decides_nothing() -> None:
    """p10 to p90 of both are apart, and so are the medians, but of ten samples whose middle half is 30 % wide."""
    before = [100.0, 100.0, 100.0, 130.0, 130.0, 130.0, 130.0, 160.0, 160.0, 160.0]
    after = [value + 75.0 for value in before]
    assert compare_runs(before, after, Rule.of("cupti")) == "unclear"
    assert compare_runs(before * 20, after * 20, Rule.of("cupti")) == "slower"


def test_a_single_sample_is_no_interval_but_equals_itself() -> None:
    assert compare_runs([100.0], [200.0], Rule.of("cupti")) == "unclear"
    assert compare_runs([100.0], [100.0], Rule.of("cupti")) == "same"


def test_stamps_of_a_sum_may_be_off_by_a_step_each() -> None:
    one, more = (Timed.of(summarize([ns] * 10)) for ns in (1_000.0, 1_070.0))
    rule = Rule.of("cupti", 32.0)
    assert judge_runs(one, more, rule) == "slower"
    assert judge_runs(add_times([one] * 3), add_times([one, one, more]), rule) == "same"


def test_times_of_several_calls_add_up_with_their_spread() -> None:
    found = Timed.of(summarize([90.0, 100.0, 110.0]), calls=3)
    assert (found.p50_ns, found.steps) == (300.0, 3)
    assert found.p90_ns - found.p10_ns == pytest.approx(48.0)

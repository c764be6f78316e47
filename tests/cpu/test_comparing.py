"""Comparing implementations: order and budgets, rows that fail alone, results, options."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812 - the name that every PyTorch program gives it

import graphbench
from graphbench import Implementation
from graphbench.comparing import trial
from graphbench.comparing.halves import half_of
from graphbench.condition_records import Policy
from graphbench.errors import TimingError, UsageError
from graphbench.measurements import CacheState, Comparison, TimerName
from graphbench.timing.base import Recording, Session
from tests.cpu.half_timer import HalfTimer, boom, compare, nothing

# order and budgets


def test_implementations_run_in_order_and_then_in_reverse() -> None:
    timer = HalfTimer()
    compare(dict.fromkeys("ABC", nothing), timer=timer)
    assert timer.order == list("ABCCBA")


def test_a_half_has_half_the_budget_and_half_the_samples() -> None:
    half = half_of(Policy(timer="fake", cache="warm", values="captured", min_samples=11))
    assert (half.warmup_ms, half.measure_ms, half.min_samples, half.max_samples) == (12.5, 50.0, 6, 100)


def test_explicit_counts_are_halved_rounding_up() -> None:
    (row,) = compare({"A": nothing}, repeat=7, warmup=3).rows
    assert row.summary is not None
    assert (row.summary.n, row.measurement.warmup, [half.warmup for half in row.halves]) == (8, 4, [2, 2])


def test_the_samples_of_both_halves_are_pooled() -> None:
    (row,) = compare({"A": nothing}, timer=HalfTimer({"A": (10.0, 20.0)})).rows
    assert row.measurement.samples is not None
    assert row.measurement.samples.busy_ns == (10.0, 10.0, 20.0, 20.0)
    assert (row.p50_ns, row.half_ns) == (15.0, (10.0, 20.0))


def test_halves_that_lie_apart_are_told() -> None:
    (row,) = compare({"A": nothing}, timer=HalfTimer({"A": (10_000.0, 20_000.0)})).rows
    assert "drift: 10.00 µs in the first half, 20.00 µs in the second" in row.measurement.warnings


def test_equal_halves_have_not_drifted() -> None:
    (row,) = compare({"A": nothing}).rows
    assert not [warning for warning in row.measurement.warnings if "drift" in warning]


def test_few_samples_are_counted_over_both_halves() -> None:
    (few,) = compare({"A": nothing}, repeat=10).rows
    (enough,) = compare({"A": nothing}, repeat=20).rows
    assert (few.measurement.warnings, enough.measurement.warnings) == (("coarse: 10 samples",), ())


def test_the_first_is_the_baseline() -> None:
    first, second = compare({"A": nothing, "B": nothing}, timer=HalfTimer({"B": (30.0, 30.0)})).rows
    assert (first.ratio, first.verdict, second.ratio, second.verdict) == (1.0, None, 3.0, "slower")


class TurningTimer(HalfTimer):
    """Turns into another instrument, or another cache state, after its first session."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self._what = what

    @property
    def name(self) -> TimerName:
        return "cuda-events" if self._what == "timer" and self.order[1:] else "fake"

    def record(self, body: Callable[[Session], None], *, repeats: int = 3) -> Recording:
        return replace(super().record(body, repeats=repeats), timer=self.name)

    @property
    def cache(self) -> CacheState:
        return "cold-read" if self._what == "cache" and self.order[1:] else "warm"


@pytest.mark.parametrize(
    ("what", "told"),
    [("timer", "half 1 of A: fake, half 2 of A: cuda-events"), ("cache", "half 1 of A: warm, half 2 of A: cold-read")],
)
def test_halves_that_were_not_measured_alike_are_refused(what: str, told: str) -> None:
    with pytest.raises(TimingError, match=f"different {what}s .{told}"):
        compare({"A": nothing}, timer=TurningTimer(what))


def test_reset_runs_before_the_cache_is_cleared_and_the_call_after() -> None:
    timer = HalfTimer()
    x = torch.ones(2)
    a = Implementation("A", lambda x: timer.log.append("call"), inputs=(x,), reset=lambda: timer.log.append("reset"))
    compare([a], timer=timer, repeat=2)
    rounds = ["reset", "clear", "call"] * (3 + 1)  # three calibration calls and one sample
    checked = "reset"  # after the trial and after each half: does it put its inputs back?
    assert timer.log == ["reset", "call", checked, *rounds, checked, *rounds, checked]


def test_an_own_conversion_is_inside_the_timed_interval() -> None:
    def converting(x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.002)  # stands for a cast
        return x

    (row,) = graphbench.compare({"A": converting}, inputs=(torch.ones(2),), repeat=4, warmup=0).rows
    assert row.p50_ns is not None
    assert row.p50_ns >= 2_000_000


def test_a_call_that_waits_thirty_times_as_long_takes_many_times_as_long_by_the_wall_clock() -> None:
    waits = {"short": lambda: time.sleep(0.001), "long": lambda: time.sleep(0.03)}
    table = graphbench.compare(waits, repeat=6, warmup=0, warmup_ms=0.0)
    ratio = table.rows[1].ratio
    assert ratio is not None
    assert ratio > 5
    assert (table.device, table.policy.timer) == ("cpu", "wallclock")


# rows that fail alone


def test_what_raises_is_a_failed_row_and_the_others_are_measured() -> None:
    rows = compare({"A": nothing, "B": boom, "C": nothing}).rows
    assert [row.measurement.status for row in rows] == ["ok", "failed", "ok"]
    assert (rows[1].measurement.reason, rows[1].p50_ns) == ("it raised ValueError: mine", None)


def test_what_raises_in_a_later_call_is_a_failed_row_and_has_no_second_half() -> None:
    calls = [0]

    def late() -> None:
        calls[0] += 1
        if calls[0] == 3:
            boom()

    timer = HalfTimer()
    rows = compare({"A": late, "B": nothing}, timer=timer).rows
    assert (rows[0].measurement.reason, len(rows[0].halves)) == ("it raised ValueError: mine", 1)
    assert timer.order == ["B", "B"]


def test_when_all_raise_all_rows_say_why() -> None:
    rows = compare({"A": boom, "B": boom}).rows
    assert [row.measurement.reason for row in rows] == ["it raised ValueError: mine"] * 2


def test_without_a_baseline_nothing_is_judged() -> None:
    _, row = compare({"A": boom, "B": nothing}).rows
    assert (row.measurement.status, row.ratio, row.verdict, row.difference) == ("ok", None, None, None)


def test_what_it_wrote_before_it_raised_is_put_back_for_the_others() -> None:
    x, seen = torch.ones(2), []

    def half_way(x: torch.Tensor) -> None:
        x.zero_()
        boom()

    rows = compare({"A": half_way, "B": lambda x: seen.append(float(x[0]))}, x).rows
    assert [row.measurement.status for row in rows] == ["failed", "ok"]
    assert set(seen) == {1.0}


def test_an_interrupt_is_not_kept_as_a_row_and_inputs_are_put_back() -> None:
    x = torch.ones(2)

    def interrupted(x: torch.Tensor) -> None:
        x.zero_()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare({"A": interrupted}, x)
    assert x.tolist() == [1.0, 1.0]


# results


def test_a_result_beyond_tolerance_is_shown_and_not_refused() -> None:
    x = torch.ones(2)
    table = compare({"A": torch.relu, "B": lambda x: x + 0.5}, x)
    difference = table.rows[1].difference
    assert difference is not None
    assert (table.rows[1].measurement.status, difference.equal, difference.max_abs) == ("ok", False, 0.5)
    assert "! B: its result is not A's (max diff 5.0e-01)" in str(table)


def test_the_baselines_result_is_kept_when_it_is_an_input_that_reset_puts_back() -> None:
    own = torch.ones(2)
    a = Implementation("A", lambda y: y.mul_(3), inputs=(own,), reset=lambda: own.fill_(1.0))
    _, row = compare([a, Implementation("B", lambda: torch.full((2,), 3.0))]).rows
    assert row.difference is not None
    assert row.difference.equal is True


def test_random_implementations_draw_the_same_and_leave_the_generator_alone() -> None:
    x, drawn = torch.ones(64), []

    def dropping(x: torch.Tensor) -> torch.Tensor:
        drawn.append(F.dropout(x, 0.5))
        return drawn[-1]

    before = torch.get_rng_state()
    _, row = compare({"A": dropping, "B": dropping}, x).rows
    assert torch.equal(torch.get_rng_state(), before)
    assert row.difference is not None
    assert row.difference.max_abs == 0.0
    assert all(torch.equal(drawn[0], other) for other in drawn)


def test_results_on_different_devices_are_not_compared() -> None:
    _, row = compare({"A": lambda: torch.ones(2), "B": lambda: torch.ones(2, device="meta")}).rows
    assert row.difference == Comparison(equal=None, max_abs=None, note="on meta instead of cpu")


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_results_that_cannot_be_compared_do_not_fail_the_call() -> None:
    ragged: Callable[[], torch.Tensor] = lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])  # noqa: E731
    first, second = compare({"A": ragged, "B": ragged}).rows
    assert (first.measurement.status, second.measurement.status) == ("ok", "ok")
    assert second.difference == Comparison(
        equal=None, max_abs=None, note="cannot be compared: quantized or nested tensor"
    )


def test_a_comparison_that_fails_is_not_blamed_on_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(trial, "compare_trees", full)
    _, row = compare({"A": torch.relu, "B": torch.relu}, torch.ones(2)).rows
    assert row.measurement.status == "ok"
    assert row.difference == Comparison(equal=None, max_abs=None, note="comparing raised OutOfMemoryError: no room")


def test_a_first_result_that_cannot_be_kept_is_not_blamed_on_any_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: object) -> None:
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(trial, "_copy", full)
    rows = compare({"A": torch.relu, "B": torch.relu}, torch.ones(2)).rows
    assert [row.measurement.status for row in rows] == ["ok", "ok"]
    assert rows[1].difference is not None
    assert rows[1].difference.note == "the first one's could not be kept: OutOfMemoryError: no room"


# options


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"speed": 3}, "unknown measuring option speed\n  hint: known options: timer, l2, warmup_ms"),
        ({"values": "synthetic"}, "unknown measuring option values"),
        ({"noise": 2.0}, "noise=2.0: expected a part of the median"),
        ({"inputs": torch.ones(2)}, "compare: inputs is a Tensor, expected a tuple or list"),
        ({"device": "cuter"}, "device='cuter': "),
        ({"lock_gpu_clock": 1500}, "lock_gpu_clock=1500: this model runs on the CPU"),
        ({"l2": "cold-read"}, "l2='cold-read': the CPU's caches are not cleared"),
    ],
    ids=["unknown", "of measure only", "noise", "bare tensor", "device", "clock", "l2"],
)
def test_a_wrong_option_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        graphbench.compare({"A": nothing}, **options)

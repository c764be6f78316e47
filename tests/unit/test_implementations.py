"""Comparing implementations, the parts without torch: what may be given, what a row says, how it is printed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from graphbench.analysis.implementations import ImplementationRow, clocks_apart
from graphbench.comparing.implementation import Implementation, as_implementations, check_inputs
from graphbench.condition_records import Environment, Policy
from graphbench.device_records import ClockState
from graphbench.errors import UsageError
from graphbench.measurements import Comparison, Measurement, Samples, TimerName
from graphbench.report.compare_table import implementation_parts
from graphbench.report.grid import text_of


def call() -> None: ...


def timed(*busy_ns: float, **fields: Any) -> Measurement:
    samples = Samples(busy_ns=busy_ns, host_ns=tuple(2 * busy for busy in busy_ns), n_kernels=(3,) * len(busy_ns))
    return Measurement(status="ok", timer="cupti", cache="warm", samples=samples, **fields)


FAILED = Measurement(status="failed", reason="it raised ValueError: no")


def row(name: str, measurement: Measurement, baseline: Measurement, **fields: Any) -> ImplementationRow:
    return ImplementationRow(name=name, measurement=measurement, halves=(), baseline=baseline, **fields)


# what may be given


def test_a_mapping_gives_implementations_in_its_order() -> None:
    found = as_implementations({"b": call, "a": call})
    assert [(entry.name, entry.call, entry.inputs, entry.reset) for entry in found] == [
        ("b", call, None, None),
        ("a", call, None, None),
    ]


def test_a_sequence_is_taken_as_it_is() -> None:
    given = [Implementation("a", call), Implementation("b", call)]
    assert as_implementations(given) == tuple(given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "no implementations to compare"),
        ([Implementation("a", call), Implementation("b", call), Implementation("a", call)], "are called a$"),
        ([call], "found function, expected graphbench.Implementation"),
    ],
    ids=["none", "one name twice", "bare callables"],
)
def test_what_cannot_be_compared_is_refused(given: Any, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        as_implementations(given)
    assert caught.match(words) if "$" not in words else caught.value.message.endswith(words[:-1])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Implementation("", call), "an implementation's name is '', expected a text"),
        (lambda: Implementation("a", 3), "a: call is a int, expected a callable"),  # type: ignore[arg-type]
        (lambda: Implementation("a", call, reset=3), "a: reset is a int, expected a callable"),  # type: ignore[arg-type]
        (lambda: Implementation("a", call, 3), "a: inputs is a int, expected a tuple or list of arguments"),  # type: ignore[arg-type]
    ],
    ids=["name", "call", "reset", "inputs"],
)
def test_a_wrong_field_is_named(make: Callable[[], Implementation], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        make()
    assert caught.value.message == message


def test_a_bare_argument_is_told_how_to_be_written() -> None:
    with pytest.raises(UsageError, match=r"write inputs=\(x,\)"):
        check_inputs("text", "compare")


# what a row says


def test_ratio_and_verdict_are_against_the_baseline() -> None:
    baseline, half = timed(10, 10, 10), timed(5, 5, 5)
    found = row("b", half, baseline)
    assert (found.ratio, found.verdict, found.p50_ns, found.host_ns, found.n_kernels) == (0.5, "faster", 5, 10, 3)


def test_the_baseline_has_no_verdict_on_itself() -> None:
    baseline = timed(10, 10)
    assert (row("a", baseline, baseline).ratio, row("a", baseline, baseline).verdict) == (1.0, None)


def test_touching_intervals_are_unclear() -> None:
    assert row("b", timed(9, 11, 13), timed(8, 9, 12)).verdict == "unclear"


@pytest.mark.parametrize(("own", "baseline"), [(timed(1, 1), FAILED), (FAILED, timed(1, 1))], ids=["baseline", "own"])
def test_a_failed_side_has_neither_ratio_nor_verdict(own: Measurement, baseline: Measurement) -> None:
    assert (row("b", own, baseline).ratio, row("b", own, baseline).verdict) == (None, None)


def test_medians_within_a_step_of_the_clock_are_the_same() -> None:
    baseline, next_step = timed(2000, 2000), timed(2032, 2032)
    verdicts = [row("b", next_step, baseline, grain_ns=grain).verdict for grain in (None, 32)]
    assert verdicts == ["slower", "same"]


def clocked(*sm_mhz: int | None) -> Measurement:
    return timed(10, 10, clocks=tuple(ClockState(sm_mhz=mhz) for mhz in sm_mhz))


def test_rows_at_other_clocks_are_told() -> None:
    slow = clocked(1500, 1755, 1980)
    found = clocks_apart([row("a", clocked(1980), slow), row("b", slow, slow), row("c", timed(1, 1), slow)])
    assert found == "SM clocks differ between rows (a 1980, b 1755 MHz, medians): the ratios may be the clock's"


@pytest.mark.parametrize(
    "other", [clocked(1941), clocked(None), timed(1, 1)], ids=["within 2 %", "not told", "not read"]
)
def test_clocks_that_lie_close_or_are_unknown_are_not_told(other: Measurement) -> None:
    assert clocks_apart([row("a", clocked(1980), other), row("b", other, other)]) is None


# how it is printed


GPU = Environment(
    torch="2.11.0", python="3.11", platform="Linux", cpu="Xeon", num_threads=8, gpu="NVIDIA H200", stamp_grain_ns=32
)
CUPTI = Policy(timer="cupti", cache="cold-read", values="captured")


def printed(
    *rows: ImplementationRow, policy: Policy = CUPTI, environment: Environment = GPU, notes: tuple[str, ...] = ()
) -> str:
    """In lines as long as they are."""
    return text_of(
        implementation_parts(rows, device="cuda:0", policy=policy, environment=environment, notes=notes), 1000
    )


ONE = timed(10_000, 10_000)


def test_the_table_names_instrument_cache_order_and_every_figure() -> None:
    baseline = timed(10_000, 10_000)
    second = ImplementationRow(
        name="fused",
        measurement=timed(5_000, 5_000),
        halves=(timed(5_000), timed(5_000)),
        baseline=baseline,
        difference=Comparison(equal=True, max_abs=0.0),
    )
    text = printed(row("eager", baseline, baseline), second)
    assert "how: timer cupti, stamps in steps of 32 ns | cache cold-read | " in text
    assert "| each timed twice, in order and then in reverse, with half the budget each time\n" in text
    (line,) = [line for line in text.splitlines() if line.startswith("fused")]
    assert line.split() == ["fused", "5.00", "5.00", "5.00", "2", "5.00", "5.00", "3", "10.0", "0.500x", "faster", "0"]


def test_a_warning_marks_its_row_and_is_told() -> None:
    baseline = timed(10, 10, warnings=("coarse: 2 samples",))
    text = printed(row("a", baseline, baseline))
    assert "!10" in text
    assert "! a: coarse: 2 samples\n" in text


def test_a_wrong_result_is_marked_and_told() -> None:
    baseline = timed(10, 10)
    wrong = row("b", baseline, baseline, difference=Comparison(equal=False, max_abs=0.5))
    text = printed(row("a", baseline, baseline), wrong)
    assert "!5.0e-01" in text
    assert "! b: its result is not a's (max diff 5.0e-01)\n" in text


def test_a_result_that_was_not_compared_says_why() -> None:
    baseline = timed(10, 10)
    other = row("b", baseline, baseline, difference=Comparison(equal=None, max_abs=None, note="on cpu"))
    assert "– b: its result was not compared: on cpu\n" in printed(row("a", baseline, baseline), other)


def test_a_failed_row_says_why_and_a_failed_baseline_that_nothing_is_judged() -> None:
    text = printed(row("a", FAILED, FAILED), row("b", timed(1, 1), FAILED))
    assert "– a: failed: it raised ValueError: no\n" in text
    assert "– no ratios or verdicts: a, the baseline, has no time\n" in text


def test_names_with_control_characters_do_not_break_the_table() -> None:
    baseline = timed(10, 10)
    assert "a\x1b" not in printed(row("a\x1b[31m", baseline, baseline))


def test_the_heading_says_on_what_it_ran() -> None:
    assert "on: torch 2.11.0 | NVIDIA H200 | Xeon, 8 threads\n" in printed(row("a", ONE, ONE))


def test_the_heading_says_what_a_profiles_says_of_the_policy() -> None:
    text = printed(row("a", ONE, ONE), policy=replace(CUPTI, noise=0.01, noise_ms=500.0, lock_gpu_clock_mhz=1500))
    assert "how: timer cupti, stamps in steps of 32 ns | cache cold-read | " in text
    assert "on until the median is known to 1 % or 500 ms are up" in text
    assert "SM clock locked to 1500 MHz" in text


def test_an_event_timer_says_what_its_busy_time_is() -> None:
    text = printed(row("a", ONE, ONE), policy=replace(CUPTI, timer="cuda-events"))
    assert "timer cuda-events: busy is the time between two events: launch gaps are in it" in text


@pytest.mark.parametrize(
    ("timer", "grain_ns", "told"), [("cupti", None, True), ("cupti", 32, False), ("wallclock", None, False)]
)
def test_an_unknown_step_of_a_devices_stamps_is_said(timer: TimerName, grain_ns: int | None, told: bool) -> None:
    environment = replace(GPU, stamp_grain_ns=grain_ns)
    text = printed(row("a", ONE, ONE), policy=replace(CUPTI, timer=timer), environment=environment)
    assert ("| stamps: step unknown |" in text) is told


def test_a_count_of_kernels_that_varies_is_a_range() -> None:
    samples = Samples(busy_ns=(5_000.0,) * 3, host_ns=(7_000.0,) * 3, n_kernels=(3, 5, 3))
    (line,) = printed(row("a", replace(ONE, samples=samples), ONE)).splitlines()[-1:]
    assert line.split()[5] == "3-5"


def test_rows_at_other_clocks_are_told_below_the_table() -> None:
    text = printed(row("a", clocked(1980), ONE), row("b", clocked(1500), ONE))
    assert "\n! SM clocks differ between rows (a 1980, b 1500 MHz, medians)" in text


def test_notes_stand_below_the_table() -> None:
    assert printed(row("a", ONE, ONE), notes=("GPU clocks unknown: no NVML",)).endswith(
        "\nnote: GPU clocks unknown: no NVML\n"
    )


def around(median: float, times: int) -> Measurement:
    return timed(*[median + step / 100 for step in range(-3, 4)] * times)


@pytest.mark.parametrize(
    ("baseline_halves", "own_halves", "verdict"),
    [
        ((10.0, 10.2), (20.0, 20.3), "slower"),
        ((10.0, 30.0), (20.0, 20.3), "unclear"),  # one busy half of the baseline
        ((20.0, 20.3), (10.0, 10.2), "faster"),
        ((20.0, 20.3), (10.0, 30.0), "unclear"),
    ],
)
def test_a_verdict_is_borne_out_by_every_half(
    baseline_halves: tuple[float, float], own_halves: tuple[float, float], verdict: str
) -> None:
    # The first half of each holds five times as many samples.
    baseline, own = ((around(first, 5), around(second, 1)) for first, second in (baseline_halves, own_halves))
    everything = [
        timed(*[ns for half in halves if half.samples for ns in half.samples.busy_ns]) for halves in (baseline, own)
    ]
    found = ImplementationRow(
        name="b", measurement=everything[1], halves=own, baseline=everything[0], baseline_halves=baseline
    )
    assert found.verdict == verdict

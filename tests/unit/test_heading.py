"""The first lines of a report say how it was measured: clock, stopping rule, batches, stamps, timer, replays."""

from __future__ import annotations

import dataclasses

import pytest

from graphbench.condition_records import Policy
from graphbench.measurements import TimerName
from graphbench.records import SHARED_CPU_NOTE, Side
from graphbench.report import REPORTERS
from graphbench.report.heading import policy_text, timer_lines
from graphbench.report.overview import replay_lines
from tests.factories import environment, profile, region
from tests.samples import cpu_profile

CUPTI = Policy(timer="cupti", cache="cold-read", values="captured")


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"lock_gpu_clock_mhz": 1500}, " | SM clock locked to 1500 MHz"),
        ({"batch": 64}, " | batches of 64 calls"),
        (
            {"noise": 0.005, "noise_ms": 500.0},
            " | 10 to 200 samples a row in 100 ms and on until the median is known to 0.5 % or 500 ms are up, 25 ms",
        ),
    ],
)
def test_the_policy_is_told_where_it_departs_from_the_usual(change: dict[str, float], part: str) -> None:
    assert part in policy_text(dataclasses.replace(CUPTI, **change), environment())  # type: ignore[arg-type]
    assert part not in policy_text(CUPTI, environment())


@pytest.mark.parametrize(
    ("timer", "grain_ns", "start"),
    [
        ("cupti", 32, "how: timer cupti, stamps in steps of 32 ns | "),
        ("cupti", None, "how: timer cupti | "),
        ("wallclock", 32, "how: timer wallclock | "),
    ],
)
def test_the_step_of_stamps_stands_beside_their_timer(timer: TimerName, grain_ns: int | None, start: str) -> None:
    text = policy_text(dataclasses.replace(CUPTI, timer=timer), environment(stamp_grain_ns=grain_ns))
    assert text.startswith(start)


@pytest.mark.parametrize("timer", ["cuda-events", "device-events"])
def test_what_an_event_timer_measures_is_said_below_its_name(timer: TimerName) -> None:
    said = f"timer {timer}: busy is the time between two events: launch gaps are in it; not comparable with cupti"
    assert said in REPORTERS["table"].render(profile(timer=timer), width=200).splitlines()


@pytest.mark.parametrize("timer", ["cupti", "wallclock"])
def test_other_timers_need_no_explanation(timer: TimerName) -> None:
    assert timer_lines(timer) == []


def test_times_of_replays_are_said_to_be_so_below_the_totals() -> None:
    one = profile(region(forward=Side(graph_nodes=35)))
    said = "forward: in-graph times are of CUDA-graph replays (35 nodes each)"
    assert replay_lines(one) == [said]
    assert said in REPORTERS["table"].render(one).splitlines()


def test_of_several_regions_the_one_that_replays_is_named() -> None:
    record = profile(region(), region(key="r1", backward=Side(graph_nodes=12)))
    assert replay_lines(record) == ["r1 backward: in-graph times are of CUDA-graph replays (12 nodes each)"]


def test_a_shared_cpu_is_told_before_any_number_is_read() -> None:
    note = f"{SHARED_CPU_NOTE}: 230 involuntary context switches a second"
    text = REPORTERS["table"].render(dataclasses.replace(cpu_profile(), notes=(note,)))
    assert f"warning: {note}" in text.splitlines()
    assert text.index(note) < text.index("Nodes, isolated")
    assert text.count(note) == 1

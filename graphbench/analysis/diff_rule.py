"""When a row of one run is called faster or slower than that of another, and how often that is wrong. Pure.

Two runs of the same code differ by more than their samples scatter: memory lies elsewhere, clocks and neighbours are
others. On one row in `1 / FALSE_ALARMS` medians differ by more than `noise_between_runs`, and larger differences are
taken to be rarer exponentially. On an H200, of ResNet-50 measured twice 1.1 % of 89 rows differ by more than 2 %; of a
small transformer measured again and again, one product among 26 kernels jumps between two times 7 % apart, and nothing
else does (`tests/benchmarks/false_alarms.py`).

Of `rows` rows none may be judged falsely more often than `FALSE_ALARMS`: each has a part `FALSE_ALARMS / rows` of
that (Bonferroni), which widens the noise by `1 + ln(rows) / ln(1 / FALSE_ALARMS)`: 4 % for one row, 8.6 % for 200, 12 %
for 10,000. Whole runs, in which such rows make up for one another, are judged one by one, by half of that. It holds for
runs that had the machine to themselves: what a neighbour takes has no such tail.

A difference must also be beyond what is not known of the two medians, and beyond what stamps in steps can tell.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from graphbench.analysis.stats import Summary, Verdict, judge, summarize
from graphbench.measurements import EVENT_TIMERS, TimerName

FALSE_ALARMS: Final = 0.01
"""Of comparisons of two runs of the same code, the part in which any row may be called faster or slower."""
NOISE_ON_CPU: Final = 0.10
NOISE_ON_EVENTS: Final = NOISE_ON_CPU  # the time between two events contains the host's time to launch
NOISE_ON_DEVICE: Final = 0.04
OF_WHOLE_RUNS: Final = 0.5
"""The noise of a whole run on a device, as a part of that of a row."""
ERRORS: Final = 5.0
"""So many standard errors of both medians together come by chance less often than once in a million."""
LEAST_STEPS: Final = 2
"""Both medians may be off by one step of the stamps."""


def noise_between_runs(timer: TimerName) -> float:
    """The relative difference of two runs' medians that one row in a hundred shows although nothing changed."""
    if timer in EVENT_TIMERS:
        return NOISE_ON_EVENTS
    return NOISE_ON_CPU if timer == "wallclock" else NOISE_ON_DEVICE


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """By what a difference counts: above the fraction `noise` of the baseline, with stamps in steps of `grain_ns`.

    `grain_ns` is 0 where it is unknown or does not matter. `rows` are those that are judged together.
    """

    noise: float
    grain_ns: float = 0.0
    rows: int = 1

    @classmethod
    def of_whole_runs(cls, timer: TimerName, grain_ns: float = 0.0) -> Rule:
        """The rule for the total of a run; by a wall clock that of a row."""
        part = 1.0 if noise_between_runs(timer) == NOISE_ON_CPU else OF_WHOLE_RUNS
        return cls(noise=part * noise_between_runs(timer), grain_ns=grain_ns)

    @classmethod
    def of(cls, timer: TimerName, grain_ns: float = 0.0, rows: int = 1) -> Rule:
        """The rule for so many rows of this timer."""
        widened = 1 + math.log(max(1, rows)) / math.log(1 / FALSE_ALARMS)
        return cls(noise=noise_between_runs(timer) * widened, grain_ns=grain_ns, rows=max(1, rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """A time of one run in nanoseconds, or a sum of several: quantiles, and the standard error of the median.

    `steps` is how many times were added, each of which may be off by a step of the stamps; `single`: one of them is a
    single sample, which is no interval.
    """

    p10_ns: float
    p50_ns: float
    p90_ns: float
    error_ns: float
    steps: int = 1
    single: bool = False

    @classmethod
    def of(cls, summary: Summary, calls: int = 1) -> Timed:
        """The time of `calls` calls, of which one was measured.

        For normal samples the standard error of a median is 0.93 IQR / sqrt(n).
        """
        return cls(
            p10_ns=calls * summary.p10,
            p50_ns=calls * summary.p50,
            p90_ns=calls * summary.p90,
            error_ns=calls * 0.93 * summary.iqr / math.sqrt(summary.n),
            steps=calls,
            single=summary.n < 2,
        )


def add_times(times: Iterable[Timed]) -> Timed:
    """Sum of times. Errors add up as if they had one cause: equal units were measured once."""
    entries = list(times)
    return Timed(
        p10_ns=sum(entry.p10_ns for entry in entries),
        p50_ns=sum(entry.p50_ns for entry in entries),
        p90_ns=sum(entry.p90_ns for entry in entries),
        error_ns=sum(entry.error_ns for entry in entries),
        steps=sum(entry.steps for entry in entries),
        single=any(entry.single for entry in entries),
    )


def judge_runs(before: Timed, after: Timed, rule: Rule) -> Verdict:
    """Say what a time of one run is against that of another: as `stats.judge`, and beyond what `rule` calls noise."""
    if before == after:
        return "same"
    if before.single or after.single:
        return "unclear"
    step_ns = rule.grain_ns * max(before.steps, after.steps)
    found = judge(
        (before.p10_ns, before.p50_ns, before.p90_ns), (after.p10_ns, after.p50_ns, after.p90_ns), grain_ns=step_ns
    )
    unknown_ns = rule.noise * abs(before.p50_ns) + ERRORS * math.hypot(before.error_ns, after.error_ns)
    beyond = abs(after.p50_ns - before.p50_ns) > max(unknown_ns, LEAST_STEPS * step_ns)
    return found if beyond or found == "same" else "unclear"


def compare_runs(before: Sequence[float], after: Sequence[float], rule: Rule) -> Verdict:
    """Say what samples of one run are against those of another, in nanoseconds.

    Raises:
        ValueError: either side is empty.
    """
    return judge_runs(Timed.of(summarize(before)), Timed.of(summarize(after)), rule)

"""Host time of a call with no recording open: tracing every launch would cost more than many launches do."""

from __future__ import annotations

from time import perf_counter_ns
from typing import Protocol

from graphbench.timing.base import Timer


class Repeatable(Protocol):
    """What can be called again: `timing.loop.Unit` without its name."""

    def prepare(self) -> None:
        """Put things back before the next call. Untimed."""

    def run(self) -> object:
        """Make the call once."""


def host_times(timer: Timer, unit: Repeatable, n_samples: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Time to issue a call, and until the device has drained, in nanoseconds, `n_samples` each.

    The device is idle when a call starts, so the host never waits for earlier work.
    """
    issue_ns: list[float] = []
    wall_ns: list[float] = []
    for _ in range(n_samples):
        unit.prepare()
        timer.synchronize()
        start_ns = perf_counter_ns()
        result = unit.run()
        issued_ns = perf_counter_ns()
        timer.synchronize()
        wall_ns.append(float(perf_counter_ns() - start_ns))
        issue_ns.append(float(issued_ns - start_ns))
        del result
    return tuple(issue_ns), tuple(wall_ns)

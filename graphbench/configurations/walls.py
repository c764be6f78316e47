"""Wall times of steps on a device, with no instrument open: in order and in reverse, like the device times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graphbench.analysis.stats import quantile
from graphbench.comparing.implementation import Implementation
from graphbench.options import MeasureOptions
from graphbench.timing.base import Timer
from graphbench.timing.host import host_times

WARMUPS = 3
FEWEST, MOST = 5, 25
"""Samples of one half."""


@dataclass(frozen=True, slots=True)
class _Repeated:
    """A step as `timing.host.Repeatable`."""

    entry: Implementation

    def prepare(self) -> None:
        if self.entry.reset is not None:
            self.entry.reset()

    def run(self) -> Any:
        return self.entry.call()


def wall_times(
    entries: Sequence[Implementation], timer: Timer, options: MeasureOptions
) -> dict[str, tuple[tuple[float, ...], ...]]:
    """Both halves of every step's wall times, in nanoseconds, from the call until the device has drained."""
    halves: dict[str, tuple[tuple[float, ...], ...]] = {entry.name: () for entry in entries}
    for entry in [*entries, *reversed(entries)]:
        halves[entry.name] = (*halves[entry.name], _half(_Repeated(entry), timer, options))
    return halves


def _half(step: _Repeated, timer: Timer, options: MeasureOptions) -> tuple[float, ...]:
    _, warm_ns = host_times(timer, step, WARMUPS)
    budgeted = options.measure_ms / 2 * 1e6 / max(quantile(warm_ns, 0.5), 1.0)
    samples = -(-options.repeat // 2) if options.repeat is not None else int(max(FEWEST, min(MOST, budgeted)))
    return host_times(timer, step, samples)[1]

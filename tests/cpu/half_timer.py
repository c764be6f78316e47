"""A timer that scripts both halves of a comparison, and calls to compare."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from graphbench.comparing.compare import compare_implementations
from graphbench.comparing.table import ImplementationTable
from graphbench.measurements import CacheState, TimerName
from graphbench.measuring.options import Timers
from graphbench.options import MeasureOptions
from graphbench.timing.base import Recording, Sample, Session
from graphbench.timing.clocks import ClockSource, NoClocks
from graphbench.timing.fake import FakeTimer

GRAIN_ROW = "stamp grain"
"""What the environment times to find the step of stamps: here 32 ns."""


class HalfTimer(FakeTimer):
    """Costs `costs[row][half]` nanoseconds a call; notes which row each session timed, and when caches are cleared."""

    def __init__(
        self,
        costs: dict[str, tuple[float | Sample, float | Sample]] | None = None,
        log: list[str] | None = None,
        *,
        name: TimerName = "fake",
        cache: CacheState = "warm",
        **options: Any,
    ) -> None:
        super().__init__(self._cost_of_half, cache=cache, **options)
        self._costs = costs or {}
        self._name = name
        self.order: list[str] = []
        self.log = [] if log is None else log

    @property
    def name(self) -> TimerName:
        """As given: rows and tables take it for that instrument."""
        return self._name

    def _cost_of_half(self, row: str, sample: int) -> float | Sample:
        if row == GRAIN_ROW:
            return 32.0 * (sample + 1)
        return self._costs.get(row, (10.0, 10.0))[self.order.count(row)]

    def record(self, body: Callable[[Session], None], *, repeats: int = 3) -> Recording:
        recording = replace(super().record(body, repeats=repeats), timer=self.name)
        self.order.extend(row for row in recording.rows if row != GRAIN_ROW)
        return recording

    def clear_cache(self) -> None:
        self.log.append("clear")
        super().clear_cache()


def compare(
    given: Any,
    *inputs: Any,
    timer: FakeTimer | None = None,
    clocks: ClockSource | None = None,
    device: str | torch.device | None = None,
    repeat: int = 4,
    warmup: int = 0,
    **options: Any,
) -> ImplementationTable:
    """Compare with scripted times."""
    fake = timer or HalfTimer()
    return compare_implementations(
        given,
        inputs,
        MeasureOptions(repeat=repeat, warmup=warmup, **options),
        device=device,
        instruments=lambda _options, _device: Timers(fake, fake, clocks or NoClocks()),
    )


def nothing() -> None: ...


def boom(*_: Any) -> None:
    raise ValueError("\nmine\nmore")

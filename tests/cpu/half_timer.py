"""A timer that scripts both halves of a comparison, and calls to compare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphbench.comparing.compare import compare_implementations
from graphbench.comparing.table import ImplementationTable
from graphbench.measuring.options import MeasureOptions, Timers
from graphbench.timing.base import Recording, Session
from graphbench.timing.fake import FakeTimer


class HalfTimer(FakeTimer):
    """Costs `costs[row][half]` nanoseconds a call; notes which row each session timed, and when caches are cleared."""

    def __init__(self, costs: dict[str, tuple[float, float]] | None = None, log: list[str] | None = None) -> None:
        super().__init__(self._cost_of_half)
        self._costs = costs or {}
        self.order: list[str] = []
        self.log = [] if log is None else log

    def _cost_of_half(self, row: str, sample: int) -> float:
        return self._costs.get(row, (10.0, 10.0))[self.order.count(row)]

    def record(self, body: Callable[[Session], None], *, repeats: int = 3) -> Recording:
        recording = super().record(body, repeats=repeats)
        self.order.extend(recording.rows)
        return recording

    def clear_cache(self) -> None:
        self.log.append("clear")
        super().clear_cache()


def compare(
    given: Any, *inputs: Any, timer: FakeTimer | None = None, repeat: int = 4, warmup: int = 0
) -> ImplementationTable:
    """Compare with scripted times."""
    fake = timer or HalfTimer()
    options = MeasureOptions(repeat=repeat, warmup=warmup)
    return compare_implementations(given, inputs, options, instruments=lambda _options, _device: Timers(fake, fake))


def nothing() -> None: ...


def boom(*_: Any) -> None:
    raise ValueError("\nmine\nmore")

"""What regions are measured with: instruments, budgets, the guard, the time there is, and who is told of progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from graphbench.condition_records import Policy
from graphbench.measuring.guard import Guard
from graphbench.measuring.options import Timers
from graphbench.measuring.spending import Purse, rough_side

Tick = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Means:
    """What a region is measured with: instruments, budgets, the guard around every unit, and who is told of progress.

    `tick` is called after every unit, `watch` before it with its name. `purse` is the region's time, where it is
    limited: then units are measured by `rough`, whole runs by `rough_side`, until units are measured again.
    """

    timers: Timers
    policy: Policy
    guard: Guard
    tick: Tick
    watch: Callable[[str], None] = lambda _: None
    purse: Purse | None = None
    rough: Policy | None = None

    @property
    def side_policy(self) -> Policy:
        """How whole runs are measured."""
        return rough_side(self.policy) if self.purse is not None else self.policy

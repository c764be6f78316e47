"""Timing in A B C ... C B A order: each implementation twice, with half the budget each time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from graphbench.comparing.snapshot import Snapshot
from graphbench.comparing.surroundings import Generators, GlobalState
from graphbench.comparing.trial import Trial, raised
from graphbench.condition_records import Policy
from graphbench.errors import GraphbenchError, OffThreadLaunchError
from graphbench.measurements import Measurement
from graphbench.timing import loop
from graphbench.timing.base import Timer
from graphbench.timing.clocks import ClockSource


def half_of(policy: Policy) -> Policy:
    """Half the budget, so that both halves together take as long and sample as much as one row on its own."""
    return replace(
        policy,
        warmup_ms=policy.warmup_ms / 2,
        measure_ms=policy.measure_ms / 2,
        noise_ms=policy.noise_ms / 2,
        min_samples=math.ceil(policy.min_samples / 2),
        max_samples=math.ceil(policy.max_samples / 2),
        warmup=None if policy.warmup is None else math.ceil(policy.warmup / 2),
        repeat=None if policy.repeat is None else math.ceil(policy.repeat / 2),
    )


class ImplementationUnit:
    """A `timing.loop.Unit` over one implementation.

    Args:
        trial: what its trial showed.
        inputs: its inputs, shared or its own.
        device: where the work runs, as `cuda:0`.
        generators: the random state that every call starts from.
        alone: its calls are not repeated within a sample, because some implementation of the comparison must be
            prepared before each: all of them are sampled the same way.
    """

    def __init__(
        self, trial: Trial, inputs: Snapshot, device: torch.device, generators: Generators, *, alone: bool
    ) -> None:
        self.name = trial.implementation.name
        self.device = str(device)
        self.may_launch_nothing = trial.is_view
        self._autocast = torch.is_autocast_enabled(device.type)
        self.needs_restore = alone or self._autocast
        self._device = device
        self._call = trial.implementation.call
        self._reset = trial.implementation.reset
        self._generators = generators if trial.draws else None
        self._inputs = inputs
        self._own = trial.start
        self._args: tuple[Any, ...] = ()

    def prepare(self) -> None:
        """Reset its inputs, then the random state and autocast's cache of casts."""
        if self._generators is not None:
            self._generators.restore()
        if self._reset is not None:
            self._reset()
        if self._generators is not None:
            self._generators.restore()
        if self._autocast:
            torch.clear_autocast_cache()
        self._args = self._inputs.arguments()

    def run(self) -> object:
        """The call, once."""
        return self._call(*self._args)

    def allocations(self) -> int | None:
        """Device allocations (`cudaMalloc`) so far; `None` on the CPU.

        Source: `torch.cuda.memory_stats_as_nested_dict()["num_device_alloc"]`, torch 2.11.
        """
        if self._device.type != "cuda":
            return None
        return int(torch.cuda.memory_stats_as_nested_dict(self._device)["num_device_alloc"])

    def lost_inputs(self) -> list[str]:
        """Which of its own inputs are not as every call should find them, after its reset."""
        if self._own is None:
            return []
        self.prepare()
        return self._own.changed()


@dataclass(slots=True)
class Race:
    """Times units twice each, in order and then in reverse, so that steady drift hits all of them alike.

    `policy` is that of one half. `clocks` are read around each half. `state`, the `shared` inputs and the `own` ones
    are as in the trials: a half that leaves them otherwise fails its row, and the next finds them as they were.
    """

    timer: Timer
    policy: Policy
    clocks: ClockSource
    state: GlobalState
    shared: Snapshot
    own: Mapping[str, Snapshot]
    _unusable: str = field(default="", init=False)

    def run(self, units: Sequence[ImplementationUnit]) -> dict[str, tuple[Measurement, ...]]:
        """The halves by unit, in the order in which they ran. A unit whose first half failed has no second."""
        halves: dict[str, tuple[Measurement, ...]] = {unit.name: () for unit in units}
        for unit in [*units, *reversed(units)]:
            done = halves[unit.name]
            if not done or done[0].status == "ok":
                halves[unit.name] = (*done, self._half(unit))
        return halves

    def _half(self, unit: ImplementationUnit) -> Measurement:
        if self._unusable:
            return self._failed(f"not timed: {self._unusable}")
        with self.state.kept():
            found = self._timed(unit)
            try:
                reason = found.reason or self._left_behind(unit)
                self._put_back()
            except torch.AcceleratorError as error:
                self._unusable = f"{unit.name} left the device unusable"
                return self._failed(f"{found.reason or raised(error)}; the device is unusable since")
        return self._failed(reason) if reason else found

    def _timed(self, unit: ImplementationUnit) -> Measurement:
        try:
            return loop.measure(self.timer, unit, self.policy, values="captured", clocks=self.clocks)
        except OffThreadLaunchError as error:
            return self._failed(f"{error.message}; a backward is timed through graphbench.backward_of")
        except GraphbenchError as error:
            return self._failed(error.message)
        except Exception as error:  # noqa: BLE001 - whatever a user's call raises fails its row, not the others
            return self._failed(raised(error))

    def _left_behind(self, unit: ImplementationUnit) -> str:
        """What a call after the first did that the trial did not show; empty for nothing."""
        later = "in a call after its first"
        state, shared = self.state.changed(), self.shared.changed()
        if state:
            return f"it changed global state ({'; '.join(state)}) {later}"
        if shared:
            return f"it changed {', '.join(shared)}, which all implementations share, {later}"
        try:
            lost = unit.lost_inputs()
        except torch.AcceleratorError:
            raise
        except Exception as error:  # noqa: BLE001 - a user's reset, as above
            return raised(error)
        return f"it changed its own {', '.join(lost)} for good {later}" if lost else ""

    def _put_back(self) -> None:
        self.timer.synchronize()  # a device that cannot be used any more says so here, with or without inputs
        for snapshot in (self.shared, *self.own.values()):
            snapshot.restore()

    def _failed(self, reason: str) -> Measurement:
        return Measurement(status="failed", reason=reason, timer=self.timer.name, cache=self.timer.cache)

"""Timing in A B C ... C B A order: the halves of a row, and what both say together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch

from graphbench.analysis.warning_kinds import COARSE, DRIFT, UNSTABLE
from graphbench.comparing.snapshot import Snapshot
from graphbench.comparing.trial import Trial, raised
from graphbench.errors import GraphbenchError, OffThreadLaunchError, TimingError
from graphbench.isolate.bench_unit import RngState
from graphbench.records import Measurement, Policy, Samples
from graphbench.timing import loop, rows
from graphbench.timing.base import Timer
from graphbench.timing.clocks import ClockSource

RECOMPUTED = (COARSE, UNSTABLE, DRIFT)  # what is said of samples is said again of all of them together


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
        rng: the random state that every call starts from.
        alone: its calls are not repeated within a sample, because some implementation of the comparison has a reset:
            all of them are sampled the same way.
    """

    def __init__(self, trial: Trial, inputs: Snapshot, device: torch.device, rng: RngState, *, alone: bool) -> None:
        self.name = trial.implementation.name
        self.device = str(device)
        self.may_launch_nothing = trial.is_view
        self._autocast = torch.is_autocast_enabled(device.type)
        self.needs_restore = alone or self._autocast
        self._device = device
        self._call = trial.implementation.call
        self._reset = trial.implementation.reset
        self._rng = rng if trial.draws else None
        self._inputs = inputs
        self._args: tuple[Any, ...] = ()

    def prepare(self) -> None:
        """Reset its inputs, then the random state and autocast's cache of casts."""
        if self._rng is not None:
            self._rng.restore()
        if self._reset is not None:
            self._reset()
        if self._rng is not None:
            self._rng.restore()
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


@dataclass(slots=True)
class Race:
    """Times units twice each, in order and then in reverse, so that steady drift hits all of them alike.

    `policy` is that of one half. `clocks` are read around each half. `shared` are the inputs that no call may change,
    also not after its trial.
    """

    timer: Timer
    policy: Policy
    clocks: ClockSource
    shared: Snapshot

    def run(self, units: Sequence[ImplementationUnit]) -> dict[str, tuple[Measurement, ...]]:
        """The halves by unit, in the order in which they ran. A unit whose first half failed has no second."""
        halves: dict[str, tuple[Measurement, ...]] = {unit.name: () for unit in units}
        for unit in [*units, *reversed(units)]:
            done = halves[unit.name]
            if not done or done[0].status == "ok":
                halves[unit.name] = (*done, self._half(unit))
        return halves

    def _half(self, unit: ImplementationUnit) -> Measurement:
        try:
            found = loop.measure(self.timer, unit, self.policy, values="captured", clocks=self.clocks)
        except OffThreadLaunchError as error:
            found = self._failed(f"{error.message}; a backward is timed through graphbench.backward_of")
        except GraphbenchError as error:
            found = self._failed(error.message)
        except Exception as error:  # noqa: BLE001 - whatever a user's call raises fails its row, not the others
            found = self._failed(raised(error))
        changed = self.shared.changed()
        if changed:
            self.shared.restore()
            reason = f"it changed {', '.join(changed)}, which all implementations share, in a call after its first"
            found = self._failed(reason)
        return found

    def _failed(self, reason: str) -> Measurement:
        return Measurement(status="failed", reason=reason, timer=self.timer.name, cache=self.timer.cache)


def pooled(name: str, halves: Sequence[Measurement], *, grain_ns: float) -> Measurement:
    """One measurement of a row's halves: all samples together, all warnings, and whether it drifted between them.

    Args:
        name: of the row.
        halves: in the order in which they ran.
        grain_ns: step of the clock that stamped the samples.

    Returns:
        The pooled measurement, or the half that failed.

    Raises:
        TimingError: the halves come from different timers or cache states.
    """
    refuse_mixed({f"half {number} of {name}": half for number, half in enumerate(halves, 1)})
    failed = [half for half in halves if half.samples is None]
    if failed:
        return failed[0]
    samples = _joined([half.samples for half in halves if half.samples is not None])
    kept = [warning for half in halves for warning in half.warnings if not warning.startswith(RECOMPUTED)]
    return replace(
        halves[0],
        samples=samples,
        inner=min(half.inner for half in halves),
        warmup=sum(half.warmup for half in halves),
        device_kernels=tuple(dict.fromkeys(kernel for half in halves for kernel in half.device_kernels)),
        clocks=tuple(clock for half in halves for clock in half.clocks),
        warnings=(*_drift(halves, grain_ns), *rows.warnings(samples.busy_ns), *dict.fromkeys(kept)),
    )


def refuse_mixed(measurements: dict[str, Measurement]) -> None:
    """Refuse to put side by side what was not measured alike.

    Raises:
        TimingError: timers or cache states differ.
    """
    for what in ("timer", "cache"):
        found = {name: getattr(entry, what) for name, entry in measurements.items()}
        if len(set(found.values())) > 1:
            told = ", ".join(f"{name}: {value}" for name, value in found.items())
            raise TimingError(
                f"cannot compare measurements of different {what}s ({told})",
                hint="one instrument and one cache state must serve a whole comparison; measure again",
            )


def _joined(parts: Sequence[Samples]) -> Samples:
    """All samples one after another; a column that any part lacks is `None`."""
    columns: dict[str, Any] = {}
    for column in fields(Samples):
        values = [getattr(part, column.name) for part in parts]
        columns[column.name] = None if None in values else tuple(entry for value in values for entry in value)
    return Samples(**columns)


def _drift(halves: Sequence[Measurement], grain_ns: float) -> tuple[str, ...]:
    known = [half.samples.busy_ns for half in halves if half.samples is not None]
    return rows.drift_warning(known[0], known[-1], grain_ns=grain_ns) if len(known) > 1 else ()

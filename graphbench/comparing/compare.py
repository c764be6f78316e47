"""Brings the trial and the race of a comparison together, and puts the caller's world back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from graphbench.analysis.implementations import ImplementationRow
from graphbench.capture.ambient import rng_untouched
from graphbench.comparing.device import device_of_all
from graphbench.comparing.halves import ImplementationUnit, Race, half_of
from graphbench.comparing.implementation import Implementation, as_implementations, check_inputs
from graphbench.comparing.pooling import pooled, refuse_mixed
from graphbench.comparing.snapshot import Snapshot
from graphbench.comparing.surroundings import Generators, GlobalState
from graphbench.comparing.table import ImplementationTable
from graphbench.comparing.trial import Trial, Trials
from graphbench.condition_records import Policy
from graphbench.errors import first_line
from graphbench.measurements import Measurement
from graphbench.measuring.environment import CpuWatch, environment, stamp_grain
from graphbench.measuring.locking import clock_lock
from graphbench.measuring.options import Timers, policy_of, timers_for
from graphbench.options import MeasureOptions
from graphbench.tensors import device_named
from graphbench.timing.clocks import NoClocks

Given = Mapping[str, Callable[..., Any]] | Sequence[Implementation]
Instruments = Callable[[MeasureOptions, torch.device], Timers]


def compare_implementations(
    given: Given,
    inputs: Sequence[Any],
    options: MeasureOptions,
    *,
    device: str | torch.device | None = None,
    instruments: Instruments = timers_for,
) -> ImplementationTable:
    """Compare implementations; see `graphbench.compare`.

    Args:
        given: a mapping of names to callables, or implementations; the first is the baseline.
        inputs: what all of them are called with that have no inputs of their own.
        options: how to measure.
        device: where the work runs; by default where inputs and results are.
        instruments: makes the timers; only tests give their own.
    """
    implementations = as_implementations(given)
    check_inputs(inputs, "compare")
    named = None if device is None else device_named(device)
    shared = Snapshot(inputs)
    own = {entry.name: Snapshot(entry.inputs) for entry in implementations if entry.inputs is not None}
    lost: tuple[str, ...] = ()
    try:
        with rng_untouched():
            table = _Comparison(shared, own, options, named, instruments).run(implementations)
    finally:
        lost = _put_back((shared, *own.values()))
    return replace(table, notes=(*table.notes, *lost))


def _put_back(snapshots: Iterable[Snapshot]) -> tuple[str, ...]:
    """Restore inputs. A device that cannot be used any more is told, since an error would hide who broke it."""
    try:
        for snapshot in snapshots:
            snapshot.restore()
    except torch.AcceleratorError as error:
        return (f"inputs could not be put back: {first_line(error)}",)
    return ()


@dataclass(slots=True)
class _Comparison:
    """One comparison, from the trials to the table. `device` is the one asked for, with its index."""

    shared: Snapshot
    own: Mapping[str, Snapshot]
    options: MeasureOptions
    device: torch.device | None
    instruments: Instruments

    def run(self, implementations: Sequence[Implementation]) -> ImplementationTable:
        found = [tensor.device for snapshot in self._snapshots for tensor in snapshot.tensors]
        state = GlobalState(device.type for device in found)
        generators = Generators()
        trials = Trials(self.shared, self.own, state, generators).run(implementations)
        target = self._target(trials, found)
        timers = self.instruments(self.options, target)
        policy = policy_of(self.options, timers)
        race = Race(timers.isolated, half_of(policy), timers.clocks, state, self.shared, self.own)
        notes: list[str] = []
        watch = CpuWatch()
        with clock_lock(self.options, target, notes):
            measured_on = replace(environment(target, (), timers), stamp_grain_ns=stamp_grain(timers.running, target))
            halves = race.run(self._units(trials, target, generators))
        if isinstance(timers.clocks, NoClocks) and timers.clocks.reason:
            notes.append(f"GPU clocks unknown: {timers.clocks.reason}")
        notes += watch.notes() if target.type == "cpu" else ()
        return ImplementationTable(
            rows=_rows(trials, halves, policy, measured_on.stamp_grain_ns),
            device=str(target),
            policy=policy,
            environment=measured_on,
            notes=tuple(notes),
        )

    @property
    def _snapshots(self) -> tuple[Snapshot, ...]:
        return (self.shared, *self.own.values())

    def _target(self, trials: Sequence[Trial], inputs: Sequence[torch.device]) -> torch.device:
        """The device to time. When no implementation ran, nothing shows where: that of the inputs then."""
        if all(trial.reason for trial in trials):
            return device_of_all(self.device, inputs or [torch.device("cpu")])
        results = [device for trial in trials for device in trial.outputs]
        worked = [trial.implementation.name for trial in trials if trial.used_cuda]
        return device_of_all(self.device, [*inputs, *results], worked)

    def _units(self, trials: Sequence[Trial], device: torch.device, generators: Generators) -> list[ImplementationUnit]:
        alone = any(snapshot.has_containers for snapshot in self._snapshots) or any(
            trial.draws or trial.implementation.reset is not None for trial in trials
        )
        return [
            ImplementationUnit(trial, trial.start or self.shared, device, generators, alone=alone)
            for trial in trials
            if not trial.reason
        ]


def _rows(
    trials: Sequence[Trial], halves: Mapping[str, tuple[Measurement, ...]], policy: Policy, grain_ns: float | None
) -> tuple[ImplementationRow, ...]:
    found: dict[str, Measurement] = {}
    for trial in trials:
        name = trial.implementation.name
        if trial.reason:
            found[name] = Measurement(status="failed", reason=trial.reason)
        else:
            found[name] = pooled(name, halves[name], policy, grain_ns=grain_ns)
    refuse_mixed({name: entry for name, entry in found.items() if entry.status == "ok"})
    baseline = found[trials[0].implementation.name]
    return tuple(
        ImplementationRow(
            name=trial.implementation.name,
            measurement=found[trial.implementation.name],
            halves=halves.get(trial.implementation.name, ()),
            baseline=baseline,
            baseline_halves=halves.get(trials[0].implementation.name, ()),
            difference=trial.difference,
            grain_ns=grain_ns,
        )
        for trial in trials
    )

"""Brings the trial and the race of a comparison together, and puts the caller's world back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from graphbench.analysis.implementations import ImplementationRow, grain_of
from graphbench.capture.ambient import rng_untouched
from graphbench.comparing.halves import ImplementationUnit, Race, half_of, pooled, refuse_mixed
from graphbench.comparing.implementation import Implementation, as_implementations, check_inputs
from graphbench.comparing.snapshot import Snapshot
from graphbench.comparing.table import ImplementationTable
from graphbench.comparing.trial import Trial, Trials
from graphbench.errors import UsageError, first_line
from graphbench.isolate.bench_unit import RngState
from graphbench.measuring.locking import clock_lock
from graphbench.measuring.options import MeasureOptions, Timers, policy_of, timers_for
from graphbench.records import Measurement

Given = Mapping[str, Callable[..., Any]] | Sequence[Implementation]


def compare_implementations(
    given: Given,
    inputs: Sequence[Any],
    options: MeasureOptions,
    *,
    device: str | torch.device | None = None,
    instruments: Callable[[MeasureOptions, torch.device], Timers] = timers_for,
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
    shared = Snapshot(inputs)
    own = {entry.name: Snapshot(entry.inputs) for entry in implementations if entry.inputs is not None}
    tensors = [tensor for snapshot in (shared, *own.values()) for tensor in snapshot.tensors]
    before_trial = _random_device(device, tensors)
    rng = RngState(before_trial)
    try:
        with rng_untouched():
            trials = Trials(shared, own, rng).run(implementations)
            results = [result for trial in trials for result in trial.outputs]
            anything_ran = any(not trial.reason for trial in trials)
            found = [*(tensor.device for tensor in tensors), *results]
            target = _device(device, found) if anything_ran else before_trial
            timers = instruments(options, target)
            policy = policy_of(options, timers)
            race = Race(timers.isolated, half_of(policy), timers.clocks, shared)
            with clock_lock(options, target):
                halves = race.run(_units(trials, shared, own, target, rng))
            rows = _rows(trials, halves)
    finally:
        for snapshot in (shared, *own.values()):
            snapshot.restore()
    return ImplementationTable(rows=rows, device=str(target), policy=policy)


def _random_device(given: str | torch.device | None, tensors: Sequence[torch.Tensor]) -> torch.device:
    """The device whose generator the implementations may draw from, before a trial has shown where they run."""
    if given is None and not tensors and torch.cuda.is_initialized():
        return torch.device("cuda", torch.cuda.current_device())
    return _device(given, [tensor.device for tensor in tensors])


def _units(
    trials: Sequence[Trial], shared: Snapshot, own: Mapping[str, Snapshot], device: torch.device, rng: RngState
) -> list[ImplementationUnit]:
    alone = any(trial.implementation.reset is not None for trial in trials)
    return [
        ImplementationUnit(trial, own.get(trial.implementation.name, shared), device, rng, alone=alone)
        for trial in trials
        if not trial.reason
    ]


def _rows(trials: Sequence[Trial], halves: Mapping[str, tuple[Measurement, ...]]) -> tuple[ImplementationRow, ...]:
    found: dict[str, Measurement] = {}
    grain_ns = grain_of(half for both in halves.values() for half in both)
    for trial in trials:
        name = trial.implementation.name
        if trial.reason:
            found[name] = Measurement(status="failed", reason=trial.reason)
        else:
            found[name] = pooled(name, halves[name], grain_ns=grain_ns)
    refuse_mixed({name: entry for name, entry in found.items() if entry.status == "ok"})
    baseline = found[trials[0].implementation.name]
    return tuple(
        ImplementationRow(
            name=trial.implementation.name,
            measurement=found[trial.implementation.name],
            halves=halves.get(trial.implementation.name, ()),
            baseline=baseline,
            difference=trial.difference,
            grain_ns=grain_ns,
        )
        for trial in trials
    )


def _device(given: str | torch.device | None, found: Sequence[torch.device]) -> torch.device:
    """The device asked for, else an accelerator that a tensor is on, else the CPU; with its index.

    Raises:
        UsageError: no such device, or nothing tells which one it is.
    """
    if given is not None:
        try:
            return torch.empty(0, device=given).device
        except (RuntimeError, AssertionError) as error:  # an unknown name; a torch without CUDA asserts
            message = f"device={str(given)!r}: {first_line(error)}"
            raise UsageError(message, hint="name a device of this machine, as 'cuda:0'", subject="device") from error
    if not found and torch.cuda.is_initialized():
        raise UsageError(
            "cannot tell where the implementations run: no tensor is among their inputs and results",
            hint="give device=, as 'cuda:0', or return what is computed",
            subject="device",
        )
    return next((device for device in found if device.type != "cpu"), torch.device("cpu"))

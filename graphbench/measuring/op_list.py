"""Measures an op list, and puts a profile together whose regions have no compiled side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from graphbench.capture import ambient
from graphbench.condition_records import Ambient, Policy
from graphbench.document import SCHEMA_VERSION
from graphbench.measuring.apart import apart
from graphbench.measuring.ceilings import asked_ceilings
from graphbench.measuring.environment import CpuWatch, environment, stamp_grain
from graphbench.measuring.guard import Guard
from graphbench.measuring.isolating import Isolator
from graphbench.measuring.locking import clock_lock
from graphbench.measuring.op_records import ambient_of, region_of
from graphbench.measuring.op_region import OpRegion
from graphbench.measuring.options import Timers, policy_of, timers_for
from graphbench.measuring.progress import Progress, progress
from graphbench.measuring.refining import refine
from graphbench.measuring.selection import Selection
from graphbench.measuring.spending import Purse, rough
from graphbench.measuring.whole import fault_notes, now, own_version
from graphbench.models.op_calls import function_of, import_modules
from graphbench.models.oplist import OpEntry, OpList, refuse_unknown_ops
from graphbench.options import MeasureOptions
from graphbench.probes.features import torch_notes
from graphbench.records import OP_LIST_REGION, ProfileRecord, RegionRecord
from graphbench.runs.entries import Conditions
from graphbench.runs.ledger import Ledger
from graphbench.session import Session
from graphbench.tensors import device_named

Skeletons = dict[str, tuple[RegionRecord, list[OpEntry]]]
"""Regions with nothing measured yet, by key, with their ops."""


@dataclass(frozen=True, slots=True)
class OpsJob:
    """What to measure: an op list, where, the seed of values, whether backwards too. `imports` register custom ops."""

    op_list: OpList
    device: torch.device
    seed: int = 0
    train: bool = False
    imports: tuple[str, ...] = ()


def pick_ops_device(given: str | torch.device | None) -> torch.device:
    """The device to measure on, with its index: the GPU if there is one, else the CPU.

    Raises:
        UsageError: there is none of that name.
    """
    return device_named(given if given is not None else "cuda" if torch.cuda.is_available() else "cpu")


@apart
def measure_op_list(
    job: OpsJob,
    options: MeasureOptions,
    session: Session,
    *,
    ledger: Ledger | None = None,
    leave: Callable[[], None] | None = None,
) -> ProfileRecord:
    """Measure every op of a list alone.

    Args:
        job: what to measure.
        options: how.
        session: nothing else is measured meanwhile.
        ledger: as of `whole.measure_session`.
        leave: likewise.

    Returns:
        A profile whose nodes are the ops: one region `ops`, and one more for every other ambient state that ops have.

    Raises:
        UsageError: an op that torch does not have, a custom op without `imports`, or an option that does not fit.
        SetupError: the instrument for the device is missing.
        JournalError: what was found cannot be written.
    """
    refuse_unknown_ops(job.op_list, job.imports)
    import_modules(job.imports)
    functions = {op.name: function_of(job.op_list, op) for op in job.op_list.ops}
    timers = timers_for(options, job.device)
    policy = replace(policy_of(options, timers), values="synthetic")
    skeletons = _skeletons(job)
    _check_selection(Selection.of(policy), skeletons)
    ledger = Ledger() if ledger is None else ledger
    guard = Guard(unit_timeout_s=options.unit_timeout_s, leave=leave)
    subject = options.subject or f"the ops of {Path(job.op_list.file).name}"
    lock_notes: list[str] = []
    watch = CpuWatch()
    with session.in_use("measure"), clock_lock(options, job.device, lock_notes):
        measured_on = environment(job.device, (), timers)
        if ledger.journaled:
            ledger.begin(Conditions(created=now(), subject=subject, environment=measured_on, policy=policy))
        work = _Work(job, functions, skeletons, timers, policy, guard, ledger)
        with progress(len(job.op_list.ops), options.progress) as bar:
            regions = work.measure(bar)
        grain = None if guard.lost else stamp_grain(timers.running, job.device)
        ceilings, ceiling_notes = asked_ceilings(
            options, timers.running, job.device, measured_on, regions, lost=guard.is_lost(), now=now()
        )
    return ProfileRecord(
        schema_version=SCHEMA_VERSION,
        graphbench=own_version(),
        created=now(),
        subject=subject,
        environment=replace(measured_on, stamp_grain_ns=grain),
        policy=policy,
        regions=regions,
        ceilings=ceilings,
        notes=(
            *fault_notes(guard, ledger),
            *lock_notes,
            *ceiling_notes,
            *torch_notes(),
            *(watch.notes() if job.device.type == "cpu" else ()),
        ),
    )


@dataclass(frozen=True, slots=True)
class _Work:
    """The regions of an op list, measured in one pass or, with limited time, in several."""

    job: OpsJob
    functions: dict[str, Callable[..., Any]]
    skeletons: Skeletons
    timers: Timers
    policy: Policy
    guard: Guard
    ledger: Ledger

    def measure(self, bar: Progress) -> tuple[RegionRecord, ...]:
        """Measure every op that is asked for.

        Raises:
            JournalError: what was found cannot be written.
        """
        job, policy = self.job, self.policy
        selection = Selection.of(policy)
        purse = Purse(policy.max_seconds) if policy.max_seconds is not None else None
        first = rough(policy, len(job.op_list.ops)) if purse is not None else policy
        records: dict[str, RegionRecord] = {}
        measuring: dict[str, OpRegion] = {}
        for key, (skeleton, ops) in self.skeletons.items():
            wanted = selection.rows(key, skeleton.nodes, (), ())
            isolator = Isolator(
                job.device,
                self.timers,
                _on_given_values(first),
                self.guard,
                self.ledger.book(key),
                wanted=wanted if selection.wants_region(key, "", None) else frozenset(),
                purse=purse,
                watch=bar.watch,
            )
            measuring[key] = OpRegion(
                skeleton,
                ops,
                self.functions,
                isolator,
                seed=job.seed,
                train=job.train,
                tick=bar.tick,
            )
            records[key] = measuring[key].measure()
        if purse is not None:
            refine(records, measuring, lambda _: None, (first, policy), purse, self.ledger, bar)
        return tuple(records.values())


def _skeletons(job: OpsJob) -> Skeletons:
    """A region for every ambient state, in the order in which ops ask for them, with its ops."""
    base = ambient.current()
    by_state: dict[Ambient, list[OpEntry]] = {}
    for op in job.op_list.ops:
        by_state.setdefault(ambient_of(op.state, base, job.device, train=job.train), []).append(op)
    found = {}
    for number, (state, ops) in enumerate(by_state.items(), start=1):
        key = OP_LIST_REGION if number == 1 else f"{OP_LIST_REGION}{number}"
        found[key] = region_of(job.op_list, key, job.device, state, ops), ops
    return found


def _check_selection(selection: Selection, skeletons: Skeletons) -> None:
    """Refuse patterns that mean nothing.

    Raises:
        UsageError: naming the pattern.
    """
    if selection != Selection():
        nodes = {key: skeleton.nodes for key, (skeleton, _) in skeletons.items()}
        selection.check(nodes, (), {}, [(key, "", None) for key in skeletons])


def _on_given_values(policy: Policy) -> Policy:
    """For units: their tensors hold the values that the list asks for, which are not to be made up once more."""
    return replace(policy, values="captured")

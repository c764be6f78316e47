"""Measures the ops of an op list, each alone, and puts them into a profile of regions that have no compiled side."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from graphbench.analysis.op_list import is_meant
from graphbench.capture import ambient
from graphbench.document import SCHEMA_VERSION
from graphbench.errors import DoesNotFitError, GraphbenchError, UsageError, first_line
from graphbench.measurements import JsonValue, Measurement, SourceLine, TensorSpec
from graphbench.measuring.apart import apart
from graphbench.measuring.ceilings import ceilings_of
from graphbench.measuring.environment import CpuWatch, environment, stamp_grain
from graphbench.measuring.guard import Guard
from graphbench.measuring.isolating import Call, Isolator
from graphbench.measuring.locking import clock_lock
from graphbench.measuring.options import Timers, policy_of, timers_for
from graphbench.measuring.runs import unmeasured
from graphbench.measuring.whole import now, own_version
from graphbench.models.op_calls import BuiltOp, build_op, function_of, import_modules, tensor_bytes
from graphbench.models.op_state import OpState
from graphbench.models.op_tensors import STORAGE, TensorEntry
from graphbench.models.oplist import MEASURED_DEVICE, METHOD, OpEntry, OpList, refuse_unknown_ops
from graphbench.options import MeasureOptions
from graphbench.records import (
    OP_LIST_REGION,
    OP_LIST_SIDE,
    Ambient,
    AutocastState,
    Ceiling,
    Environment,
    Fate,
    InputRecord,
    NodeKind,
    NodeRecord,
    Policy,
    ProfileRecord,
    RegionRecord,
    Side,
)
from graphbench.runs.entries import Conditions, MeasuredRegion
from graphbench.runs.ledger import Ledger
from graphbench.runs.partial import CUT_SHORT
from graphbench.session import Session
from graphbench.tensors import device_named, spec_of, tensors_of
from graphbench.torch_names import op_name

NO_ORDER = "an op list has no order of execution"
NOT_ASKED = "its backward was not asked for: --train, or train=True, does"
NOT_SELECTED = "not selected"


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
    if options.only_region:
        raise UsageError("only_region: an op list has no regions", hint="select its ops: select", subject="only_region")
    refuse_unknown_ops(job.op_list, job.imports)
    import_modules(job.imports)
    functions = {op.name: function_of(job.op_list, op) for op in job.op_list.ops}
    timers = timers_for(options, job.device)
    policy = replace(policy_of(options, timers), values="synthetic")
    ledger = Ledger() if ledger is None else ledger
    guard = Guard(unit_timeout_s=options.unit_timeout_s, leave=leave)
    lock_notes: list[str] = []
    watch = CpuWatch()
    with session.in_use("measure"), clock_lock(options, job.device, lock_notes), _progress(job, options) as tick:
        measured_on = environment(job.device, (), timers)
        if ledger.journaled:
            ledger.begin(
                Conditions(created=now(), subject=_subject(job, options), environment=measured_on, policy=policy)
            )
        groups = _Groups(job, options, functions, timers, policy, guard, ledger, tick)
        records = groups.measured()
        grain = None if guard.lost else stamp_grain(timers.running, job.device)
        ceilings, ceiling_notes = _ceilings(job, options, timers, measured_on, records, guard)
    return ProfileRecord(
        schema_version=SCHEMA_VERSION,
        graphbench=own_version(),
        created=now(),
        subject=_subject(job, options),
        environment=replace(measured_on, stamp_grain_ns=grain),
        policy=policy,
        regions=tuple(records),
        ceilings=ceilings,
        notes=(
            *(
                [f"the device's context was lost, and what came after it was skipped: {guard.lost}"]
                if guard.lost
                else []
            ),
            *lock_notes,
            *ceiling_notes,
            *(watch.notes() if job.device.type == "cpu" else ()),
        ),
    )


def _subject(job: OpsJob, options: MeasureOptions) -> str:
    return options.subject or f"the ops of {Path(job.op_list.file).name}"


def _ceilings(
    job: OpsJob,
    options: MeasureOptions,
    timers: Timers,
    measured_on: Environment,
    records: Sequence[RegionRecord],
    guard: Guard,
) -> tuple[tuple[Ceiling, ...], tuple[str, ...]]:
    if options.ceilings == "off" or guard.lost:
        return (), ()
    watch = CpuWatch()
    return ceilings_of(
        timers.running,
        job.device,
        measured_on,
        records,
        locked_mhz=options.lock_gpu_clock,
        fresh=options.ceilings == "fresh",
        quiet=lambda: job.device.type != "cpu" or not watch.notes(),
        now=now(),
    )


@contextlib.contextmanager
def _progress(job: OpsJob, options: MeasureOptions) -> Iterator[Callable[[str], None]]:
    """A progress bar on stderr that says which op is measured; by default on a terminal, after two seconds."""
    disabled = None if options.progress is None else not options.progress
    total = len(job.op_list.ops)
    with tqdm(
        total=total, desc="measuring", unit="op", file=sys.stderr, delay=2.0, leave=False, disable=disabled
    ) as bar:

        def tick(name: str) -> None:
            bar.set_postfix_str(name, refresh=False)
            bar.update()

        yield tick


@dataclass(slots=True)
class _Found:
    """What measuring one op found."""

    isolated: Measurement
    backward: Measurement
    kind: NodeKind = "compute"
    outputs: tuple[TensorSpec, ...] = ()


@dataclass(frozen=True, slots=True)
class _Groups:
    """The ops by ambient state: each a region."""

    job: OpsJob
    options: MeasureOptions
    functions: dict[str, Callable[..., Any]]
    timers: Timers
    policy: Policy
    guard: Guard
    ledger: Ledger
    tick: Callable[[str], None]
    base: Ambient = field(default_factory=ambient.current)

    def measured(self) -> list[RegionRecord]:
        """A region for every state, in the order in which ops ask for them."""
        by_state: dict[Ambient, list[OpEntry]] = {}
        for op in self.job.op_list.ops:
            by_state.setdefault(self._ambient(op.state), []).append(op)
        return [self._region(number, state, ops) for number, (state, ops) in enumerate(by_state.items())]

    def _ambient(self, state: OpState) -> Ambient:
        """The state in force for an op: what it does not ask for is as it is here, and gradients as `train` says."""
        base, device_type = self.base, self.job.device.type
        kinds = sorted({"cpu", device_type})
        own = {} if state.autocast is None else {device_type: (bool(state.autocast), state.autocast)}
        known = {entry.device_type: entry for entry in ambient.current(tuple(kinds)).autocast}
        casts = [
            AutocastState(
                device_type=kind,
                enabled=own[kind][0] if kind in own else known[kind].enabled,
                dtype=(kind in own and own[kind][1]) or known[kind].dtype,
            )
            for kind in kinds
            if kind in known
        ]
        deterministic = base.deterministic if state.deterministic is None else bool(state.deterministic)
        return replace(
            base,
            grad_enabled=self.job.train if state.grad is None else state.grad,
            inference_mode=base.inference_mode if state.inference_mode is None else state.inference_mode,
            autocast=tuple(casts),
            autocast_cache=base.autocast_cache if state.autocast_cache is None else state.autocast_cache,
            default_dtype=state.default_dtype or base.default_dtype,
            fp32_precision=tuple({**dict(base.fp32_precision), **dict(state.fp32_precision)}.items()),
            flags=tuple({**dict(base.flags), **dict(state.flags)}.items()),
            sdpa_backends=base.sdpa_backends if state.sdpa is None else state.sdpa,
            deterministic=deterministic,
            deterministic_warn_only=base.deterministic_warn_only
            if state.deterministic is None
            else state.deterministic == "warn",
            num_threads=state.num_threads or base.num_threads,
        )

    def _region(self, number: int, state: Ambient, ops: list[OpEntry]) -> RegionRecord:
        skeleton = _skeleton(self.job, f"{OP_LIST_REGION}{number + 1 if number else ''}", state, ops)
        book = self.ledger.book(skeleton.key)
        if self.ledger.journaled:
            book.known(skeleton)
        if book.measured is not None:
            return book.measured
        isolator = Isolator(self.job.device, self.timers, replace(self.policy, values="captured"), self.guard, book)
        with contextlib.ExitStack() as stack:
            stack.enter_context(ambient.rng_untouched())
            stack.enter_context(ambient.restored(state))
            if self.job.device.type == "cuda":
                stack.enter_context(torch.cuda.device(self.job.device))
            found = []
            for op in ops:
                found.append(self._op(op, isolator))
                self.tick(op.name)
        nodes = tuple(_with_found(node, what) for node, what in zip(skeleton.nodes, found, strict=True))
        record = replace(skeleton, status="ok", reason="", nodes=nodes)
        book.put(MeasuredRegion(region=record))
        self.guard.leave_if_lost()
        return record

    def _op(self, op: OpEntry, isolator: Isolator) -> _Found:
        """One op alone. Whatever it raises is the reason of its row."""
        if not _selected(op, self.options):
            return _missing(unmeasured(NOT_SELECTED))
        if self.guard.lost:
            return _missing(unmeasured(self.guard.reason))
        try:
            isolator.budget.check(tensor_bytes(op, self.job.device), "its tensors need")
            built = isolator.budget.with_room(partial(build_op, op, self.job.device, self.job.seed))
        except DoesNotFitError as error:
            return _missing(unmeasured(error.message))
        except (RuntimeError, GraphbenchError) as error:
            return _missing(_failed(f"its tensors cannot be made: {first_line(error)}"))
        return self._isolated(op, built, isolator)

    def _isolated(self, op: OpEntry, built: BuiltOp, isolator: Isolator) -> _Found:
        function = self.functions[op.name]
        call = Call(
            op.name,
            function,
            built.args,
            built.kwargs,
            identity=op.target,
            state=tuple(entry.values for entry in op.tensors.values()),
            with_grad=True,
            synthetic=True,
        )
        found = _missing(unmeasured(NOT_ASKED))
        if self.job.train:
            found.backward = isolator.isolate_backward(call)
        real = partial(self.guard.attempt, self.job.device, lambda: function(*built.args, **built.kwargs))
        try:
            result, verdict = isolator.isolate(call, real)
        except GraphbenchError as error:  # alone it has most likely raised the same
            known = isolator.book.units.get(("isolated", op.name))
            unit = known.measurement if known is not None else _failed(error.message)
            found.isolated = _failed(error.message) if unit.status == "ok" else unit
            return found
        found.isolated = verdict.measurement
        found.kind = "host" if verdict.has_effect is False else "view" if verdict.is_view else "compute"
        found.outputs = tuple(spec_of(tensor) for tensor in tensors_of(result))
        return found


def _selected(op: OpEntry, options: MeasureOptions) -> bool:
    names = (op.name, op.base, op_name(op.target))
    wanted = not options.select or is_meant(options.select, names, op.module)
    return wanted and not is_meant(options.exclude, names, op.module)


def _missing(why: Measurement) -> _Found:
    return _Found(why, why)


def _failed(reason: str) -> Measurement:
    return Measurement(status="failed", reason=reason)


def _skeleton(job: OpsJob, key: str, state: Ambient, ops: Sequence[OpEntry]) -> RegionRecord:
    """The region with nothing measured yet."""
    device = str(job.device)
    missing = unmeasured(CUT_SHORT)
    side = Side(reason=OP_LIST_SIDE)
    return RegionRecord(
        key=key,
        compile_id="",
        status="skipped",
        reason=CUT_SHORT,
        location=SourceLine(file=job.op_list.file, line=1),
        device=device,
        inputs=tuple(
            InputRecord(name=f"{op.name}.{name}", source=_source(entry), kind="tensor", spec=_spec(entry, device))
            for op in ops
            for name, entry in op.tensors.items()
        ),
        ambient=state,
        nodes=tuple(_with_found(_node(job, op, device), _missing(missing)) for op in ops),
        eager=side,
        eager_backward=side,
        forward=side,
        backward=side,
    )


def _source(entry: TensorEntry) -> str:
    return f"{entry.values}{STORAGE}{entry.storage}" if entry.storage else str(entry.values)


def _spec(entry: TensorEntry, device: str) -> TensorSpec:
    return TensorSpec(
        shape=entry.shape,
        stride=entry.stride,
        dtype=entry.dtype,
        device="cpu" if entry.on_host else device,
        storage_offset=entry.storage_offset,
        requires_grad=entry.requires_grad,
    )


def _node(job: OpsJob, op: OpEntry, device: str) -> NodeRecord:
    args = [_named(entry, op.name, device) for entry in op.args]
    kwargs: list[JsonValue] = [[name, _named(entry, op.name, device)] for name, entry in op.kwargs.items()]
    return NodeRecord(
        name=op.name,
        op="call_method" if op.is_method else "call_function",
        op_type=f"{op.target.split('.')[2]}.{op_name(op.target)}" if op.needs_import else op_name(op.target),
        kind="compute",
        inputs=tuple(f"{op.name}.{name}" for name in op.tensors),
        arguments={"args": {"tuple": args}, "kwargs": {"dict": kwargs}},
        outputs=(),
        module=op.module,
        source=SourceLine(file=job.op_list.file, line=op.line, code=f"name: {op.base}"),
        fate=Fate(kind="eager"),
        callee=op.target.removeprefix(METHOD),
    )


def _named(value: JsonValue, op: str, device: str) -> JsonValue:
    """An argument with the names that its tensors have in the profile."""
    if isinstance(value, list):
        return [_named(entry, op, device) for entry in value]
    if not isinstance(value, dict):
        return value
    if isinstance(node := value.get("node"), str):
        return {"node": f"{op}.{node}"}
    if value.get("device") == MEASURED_DEVICE:
        return {"device": device}
    return {kind: _named(held, op, device) for kind, held in value.items()}


def _with_found(node: NodeRecord, found: _Found) -> NodeRecord:
    return replace(
        node,
        kind=found.kind,
        outputs=found.outputs,
        isolated=found.isolated,
        backward_isolated=found.backward,
        in_graph=unmeasured(NO_ORDER),
        backward_in_graph=unmeasured(NO_ORDER),
    )

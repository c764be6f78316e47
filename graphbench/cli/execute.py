"""Where measuring commands meet torch: device, model, inputs, the call that is profiled, and its errors."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from graphbench import api
from graphbench.cli.common import say
from graphbench.cli.device_check import checked_once
from graphbench.cli.execution_flags import INDUCTOR, Execution
from graphbench.cli.explain import ExplainedCall
from graphbench.errors import CaptureError, SetupError, UsageError
from graphbench.inductor.compile import MOST_GROUPS, BackendOptions
from graphbench.measuring.call_inputs import input_records
from graphbench.measuring.step import WARMUP_STEPS, profile_step
from graphbench.models.input_sets import InputSet
from graphbench.models.inputs import DTYPES, SYNTAX, Inputs, as_inputs, make_inputs
from graphbench.models.losses import Loss, inputs_of, loss_named
from graphbench.models.placement import channels_last, place
from graphbench.models.saved_inputs import load_inputs
from graphbench.models.sources import BuiltModel, ModelSource, build_model
from graphbench.options import MeasureOptions
from graphbench.records import HELD_NOTE
from graphbench.runs.ledger import Ledger
from graphbench.session import backend, current
from graphbench.tensors import device_named

_FULLGRAPH_HINT = "where it breaks the graph, change the code, or leave out --fullgraph; --debug shows the traceback"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to measure: a model, its inputs, where and how it is compiled.

    `more_sets` of inputs are groups of sizes of what is compiled once: the model is called with each.
    """

    source: ModelSource
    execution: Execution
    input_set: InputSet | None = None
    more_sets: tuple[InputSet, ...] = ()

    @property
    def device(self) -> str:
        """Where it runs; `pick_device` has chosen it."""
        assert self.execution.device is not None
        return self.execution.device


def pick_device(asked: str | None) -> str:
    """The device to run on: the one asked for, else the GPU if there is one, else the CPU.

    Raises:
        UsageError: no such kind of device.
        SetupError: torch cannot use it here.
    """
    if asked is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    hint = "pass cpu, cuda, or one of several GPUs as cuda:1"
    try:
        device = torch.device(asked)
    except RuntimeError as error:
        raise UsageError(f"--device {asked!r}: expected cpu or cuda", hint=hint, subject="--device") from error
    if device.type not in {"cpu", "cuda"}:
        raise UsageError(f"--device {asked!r}: expected cpu or cuda", hint=hint, subject="--device")
    if device.type == "cpu" and device.index:
        raise UsageError(f"--device {asked!r}: there is one CPU, which has no number", hint=hint, subject="--device")
    if device.type == "cuda":
        found = torch.cuda.device_count()
        if (device.index or 0) >= found:
            raise SetupError(
                f"--device {asked}: CUDA devices that torch {torch.__version__} sees: {found or 'none'}",
                hint="check nvidia-smi, CUDA_VISIBLE_DEVICES, and that torch is a CUDA build",
                subject="--device",
            )
    return str(device)


@dataclass(frozen=True, slots=True)
class PreparedJob:
    """A model where it runs, in its mode and dtype, and inputs that fit it; `more` of other sizes."""

    module: torch.nn.Module
    inputs: Inputs
    subject: str
    device: torch.device
    more: tuple[Inputs, ...] = ()

    @property
    def sets(self) -> tuple[Inputs, ...]:
        """All sets of inputs."""
        return (self.inputs, *self.more)


def prepare_job(job: Job, options: MeasureOptions) -> PreparedJob:
    """Build the model and its inputs; nothing is compiled yet.

    Raises:
        GraphbenchError: an option or inputs that do not fit, or what building raised.
    """
    check_options(job, options)
    device = device_named(job.device)
    if device.type == "cuda":
        torch.cuda.set_device(device)  # a model that says just `cuda` means this one
    torch.manual_seed(job.execution.seed)
    built = build_model(job.source)
    sets = [_make_inputs(job, built, job.input_set), *(_make_inputs(job, built, given) for given in job.more_sets)]
    dtype = getattr(torch, DTYPES[job.execution.dtype]) if job.execution.dtype else None
    notes = [*built.notes, *place(built.module, device, dtype)]
    if job.execution.channels_last:
        laid_out = [channels_last(built.module, inputs) for inputs in sets]
        sets, notes = [inputs for inputs, _ in laid_out], [*notes, *(told for _, told in laid_out if told)]
    for note in dict.fromkeys(notes):
        say(note)
    built.module.train(job.execution.train)
    for inputs in sets:
        _check_call(built.module, inputs, built.subject)
    return PreparedJob(built.module, sets[0], built.subject, device, tuple(sets[1:]))


def measure_job(
    job: Job,
    options: MeasureOptions,
    *,
    ledger: Ledger | None = None,
    leave: Callable[[], None] | None = None,
    kept: Path | None = None,
) -> api.Profile:
    """Build the model, compile it with this backend and profile one call, or one training step.

    Args:
        job: what to measure.
        options: how.
        ledger: as of `graphbench.measuring.whole.measure_session`.
        leave: likewise.
        kept: where what is measured is kept, for the user to be told; `None` where that is no news.

    Raises:
        GraphbenchError: what went wrong, the model's own exceptions included (as `CaptureError`).
    """
    loss = loss_named(job.execution.loss)
    built = prepare_job(job, options)
    module, inputs, execution = built.module, built.inputs, job.execution
    inputs_found = () if built.more else input_records(inputs.args, inputs.kwargs)  # of several, regions tell
    compiled = torch.compile(
        module,
        backend=backend,
        options=_backend_options(execution, len(built.sets)),
        dynamic=execution.dynamic,
        fullgraph=execution.fullgraph,
    )
    what = "a training step" if execution.train else "inference"
    often = f" on each of {len(built.sets)} sets of inputs, compiled once" if built.more else ""
    say(f"measuring {built.subject}, {what}{often}, on {job.device}")
    if kept is not None:
        say(f"should this be cut short, what was measured is in {kept}")
    call = _training_step(compiled, module, built.sets, loss) if execution.train else _inference(compiled, built.sets)
    explained = ExplainedCall(checked_once(call, built), built.subject, hint=_hint(job, inputs))
    with _told_once():
        try:
            found = replace(options, subject=built.subject)
            record = profile_step(current(), explained, (), WARMUP_STEPS, (), found, ledger=ledger, leave=leave)
        except CaptureError as error:
            if explained.returned and not current().regions:
                raise _without_ops(built.subject) from error
            raise
    # Here the process ends with the command: what its session holds is nobody's concern.
    notes = tuple(note for note in record.notes if not note.startswith(HELD_NOTE))
    return api.checked(replace(record, inputs=inputs_found, notes=notes))


def check_options(job: Job, options: MeasureOptions) -> None:
    """Refuse, before a model is built, what would be refused after it was compiled."""
    on_cpu = torch.device(job.device).type == "cpu"
    if options.l2 is not None and on_cpu:
        raise UsageError(
            f"--l2 {options.l2}: only a GPU's cache can be set; on the CPU rows say `warm`",
            hint=f"leave out --l2, or pass --device cuda: --device is {job.device}",
            subject="--l2",
        )
    if options.lock_gpu_clock is not None and on_cpu:
        raise UsageError(
            f"--lock-gpu-clock {options.lock_gpu_clock}: only a GPU's clock can be locked",
            hint=f"leave out --lock-gpu-clock, or pass --device cuda: --device is {job.device}",
            subject="--lock-gpu-clock",
        )
    if options.batch is not None and on_cpu:
        raise UsageError(
            f"--batch-execute {options.batch}: calls are queued on a GPU only, but --device is {job.device}",
            hint="leave out --batch-execute: on the CPU short calls are repeated within a sample anyway",
            subject="--batch-execute",
        )
    if options.timer in ("cupti", "cuda-events") and on_cpu:
        raise UsageError(
            f"--timer {options.timer}: it times CUDA devices, but --device is {job.device}",
            hint="leave out --timer: the CPU is timed by the wall clock",
            subject="--timer",
        )
    if options.timer == "wallclock" and not on_cpu:
        raise UsageError(
            f"--timer wallclock: it cannot see the time of a device, but --device is {job.device}",
            hint="leave out --timer, or pass --device cpu",
            subject="--timer",
        )
    _check_compile_options(job.execution)


def _check_compile_options(execution: Execution) -> None:
    try:
        BackendOptions.parse(execution.compile_mode, None)
    except UsageError as error:
        raise UsageError(
            f"--compile-mode {execution.compile_mode}: no such mode", hint=error.hint, subject="--compile-mode"
        ) from error
    for key, value in execution.inductor.items():
        try:
            BackendOptions.parse(None, {"inductor": {key: value}})
        except UsageError as error:
            told = error.message.removeprefix("graphbench: ")
            raise UsageError(f"{INDUCTOR} {key}={value}: {told}", hint=error.hint, subject=INDUCTOR) from error


def _backend_options(execution: Execution, sets: int) -> dict[str, Any] | None:
    """What `torch.compile` hands to this backend; it takes `mode=` only where it takes no options."""
    given: dict[str, Any] = {"mode": execution.compile_mode, "inductor": dict(execution.inductor)}
    given["groups"] = sets if sets > MOST_GROUPS else None
    return {key: value for key, value in given.items() if value} or None


def _without_ops(subject: str) -> CaptureError:
    """The same finding in the words of the command line, where nobody calls `torch.compile`."""
    return CaptureError(
        f"{subject}: its forward runs no tensor op",
        hint="a forward that only hands its inputs on leaves nothing to measure",
        subject=subject,
    )


def _hint(job: Job, inputs: Inputs) -> str | None:
    """What to say if the model raises, where a flag is the likely cause."""
    return _dtype_hint(job, inputs) or (_FULLGRAPH_HINT if job.execution.fullgraph else None)


def _dtype_hint(job: Job, inputs: Inputs) -> str | None:
    """What to say if the model raises although only `--dtype` and the dtype of given inputs disagree."""
    dtype = job.execution.dtype
    if dtype is None:
        return None
    wanted: torch.dtype = getattr(torch, DTYPES[dtype])
    short = {name: key for key, name in DTYPES.items()}
    for tensor in tree_leaves((inputs.args, dict(inputs.kwargs))):
        if isinstance(tensor, torch.Tensor) and tensor.is_floating_point() and tensor.dtype != wanted:
            found = str(tensor.dtype).removeprefix("torch.")
            return (
                f"--dtype {dtype} casts the model, not inputs that are given: an input of {inputs.origin} is "
                f"{short.get(found, found)}; give it as {dtype}, or leave out --dtype"
            )
    return None


@contextlib.contextmanager
def _told_once() -> Iterator[None]:
    """Keep torch from logging a traceback of an error that is raised as well; `--debug` shows the raised one."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def _make_inputs(job: Job, built: BuiltModel, given: InputSet | None) -> Inputs:
    """The first source that there is: given specs, a file of tensors, the model file's example, the zoo's knowledge.

    Only a model of another batch size knows what that is called with: it is built for it, and let go of.
    """
    dtype, seed = job.execution.dtype, job.execution.seed
    if given is not None and given.batch_size not in (None, job.source.batch_size):
        built = build_model(replace(job.source, batch_size=given.batch_size, checkpoint=None))
    if given is not None and given.file is not None:
        return load_inputs(given.file, device=job.device)
    if given is not None and given.specs:
        return make_inputs(given.specs, device=job.device, seed=seed, origin=given.flag)
    if built.make_example is not None:
        torch.manual_seed(seed)
        made = built.make_example()
        return as_inputs(made, origin=built.example_origin, device=job.device, dtype=dtype)
    if built.specs:
        specs = [replace(spec, dtype=dtype) if dtype and spec.is_float else spec for spec in built.specs]
        say(f"inputs: {' '.join(map(str, specs))}")
        return make_inputs(specs, device=job.device, seed=seed, origin="the zoo")
    raise UsageError(
        f"{built.subject}: its inputs are not known; give each with --input, or all with --example-inputs",
        hint=SYNTAX,
        subject=built.subject,
    )


def _check_call(module: torch.nn.Module, inputs: Inputs, subject: str) -> None:
    """Refuse inputs that `forward` does not take, before anything is compiled."""
    expected = signature(module.forward)
    try:
        expected.bind(*inputs.args, **inputs.kwargs)
    except TypeError as error:
        raise UsageError(
            f"{subject}: inputs from {inputs.origin} do not fit forward: {error}",
            hint=f"forward takes {', '.join(expected.parameters)}",
            subject=subject,
        ) from error


def _inference(compiled: Callable[..., Any], sets: Sequence[Inputs]) -> Callable[[], object]:
    def call() -> object:
        result: object = None
        with torch.no_grad():
            for inputs in sets:
                result = compiled(*inputs.args, **inputs.kwargs)
        return result

    return call


def _training_step(
    compiled: Callable[..., Any], module: torch.nn.Module, sets: Sequence[Inputs], loss_of: Loss
) -> Callable[[], object]:
    given = [inputs_of(inputs.args, inputs.kwargs) for inputs in sets]

    def step() -> object:
        for inputs, known in zip(sets, given, strict=True):
            module.zero_grad(set_to_none=True)
            loss = loss_of(compiled(*inputs.args, **inputs.kwargs), known)
            loss.backward()
            result = loss.detach()
            del loss  # what its graph keeps alive is not there while the next set runs
        return result

    return step

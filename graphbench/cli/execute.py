"""Where measuring commands meet torch: device, model, inputs, the call that is profiled, and its errors."""

from __future__ import annotations

import contextlib
import logging
import re
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from graphbench import api
from graphbench.cli.common import MeasureOptions, say
from graphbench.errors import CaptureError, GraphbenchError, SetupError, UsageError
from graphbench.models.inputs import DTYPES, SYNTAX, Inputs, InputSpec, as_inputs, load_inputs, make_inputs
from graphbench.models.sources import BuiltModel, ModelSource, build_model
from graphbench.models.zoo import first_line
from graphbench.session import backend

_DYNAMO_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to measure: a model, its inputs, where and how it is compiled."""

    source: ModelSource
    inputs: tuple[InputSpec, ...] = ()
    example_inputs: Path | None = None
    device: str
    dtype: str | None = None
    seed: int = 0
    train: bool = False
    compile_mode: str | None = None
    dynamic: bool | None = None


def pick_device(asked: str | None) -> str:
    """The device to run on: the one asked for, else the GPU if there is one, else the CPU.

    Raises:
        UsageError: no such kind of device.
        SetupError: torch cannot use it here.
    """
    if asked is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(asked)
    except RuntimeError as error:
        raise UsageError(f"--device {asked!r}: {first_line(error)}", subject="--device") from error
    if device.type not in {"cpu", "cuda"}:
        raise UsageError(f"--device {asked!r}: expected cpu or cuda", subject="--device")
    if device.type == "cuda":
        found = torch.cuda.device_count()
        if (device.index or 0) >= found:
            raise SetupError(
                f"--device {asked}: torch {torch.__version__} sees {found} CUDA devices",
                hint="check nvidia-smi, CUDA_VISIBLE_DEVICES, and that torch is a CUDA build",
                subject="--device",
            )
    return str(device)


def measure_job(job: Job, options: MeasureOptions) -> api.Profile:
    """Build the model, compile it with this backend and profile one call, or one training step.

    Raises:
        GraphbenchError: what went wrong, the model's own exceptions included (as `CaptureError`).
    """
    if options.l2 is not None and torch.device(job.device).type == "cpu":
        raise UsageError(
            f"--l2 {options.l2}: only a GPU's cache can be set; on the CPU rows say `warm`", subject="--l2"
        )
    torch.manual_seed(job.seed)
    built = build_model(job.source)
    inputs = _make_inputs(job, built)
    module = built.module.to(device=job.device, dtype=getattr(torch, DTYPES[job.dtype]) if job.dtype else None)
    module.train(job.train)
    _check_call(module, inputs, built.subject)
    compiled = torch.compile(module, backend=backend, mode=job.compile_mode, dynamic=job.dynamic)
    say(f"measuring {built.subject}, {'a training step' if job.train else 'inference'}, on {job.device}")
    call = (_training_step if job.train else _inference)(compiled, module, inputs)
    with _told_once():
        return api.profile(_explained(call, built.subject), subject=built.subject, **options.keywords())


@contextlib.contextmanager
def _told_once() -> Iterator[None]:
    """Keep torch from logging a traceback of an error that is raised as well; `--debug` shows the raised one."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def _make_inputs(job: Job, built: BuiltModel) -> Inputs:
    """The first source that there is: given specs, a file of tensors, the model file's example, the zoo's knowledge."""
    if job.inputs:
        return make_inputs(job.inputs, device=job.device, seed=job.seed)
    if job.example_inputs is not None:
        return load_inputs(job.example_inputs, device=job.device)
    if built.make_example is not None:
        torch.manual_seed(job.seed)
        made = built.make_example()
        return as_inputs(made, origin="example_inputs()", device=job.device, dtype=job.dtype)
    if built.specs:
        specs = [replace(spec, dtype=job.dtype) if job.dtype and spec.is_float else spec for spec in built.specs]
        say(f"inputs: {' '.join(map(str, specs))}")
        return make_inputs(specs, device=job.device, seed=job.seed, origin="the zoo")
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


def _inference(compiled: Callable[..., Any], module: torch.nn.Module, inputs: Inputs) -> Callable[[], object]:
    def call() -> object:
        with torch.no_grad():
            result: object = compiled(*inputs.args, **inputs.kwargs)
        return result

    return call


def _training_step(compiled: Callable[..., Any], module: torch.nn.Module, inputs: Inputs) -> Callable[[], object]:
    def step() -> object:
        module.zero_grad(set_to_none=True)
        loss = training_loss(compiled(*inputs.args, **inputs.kwargs))
        loss.backward()
        return loss.detach()

    return step


def training_loss(outputs: object) -> torch.Tensor:
    """The loss that the model computed itself (`outputs.loss`), else the sum of everything that has a gradient.

    Raises:
        CaptureError: nothing has one.
    """
    own = outputs.get("loss") if isinstance(outputs, Mapping) else getattr(outputs, "loss", None)
    if isinstance(own, torch.Tensor):
        return own
    terms = [leaf.sum() for leaf in tree_leaves(outputs) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if not terms:
        raise CaptureError(
            "the model's outputs have no gradient: there is no backward to measure", hint="leave out --train"
        )
    return torch.stack([term.float() for term in terms]).sum() if len(terms) > 1 else terms[0]


def _explained(call: Callable[[], object], subject: str) -> Callable[[], object]:
    """Wrap the profiled call, so that whatever the model raises becomes one line that names the place."""

    def explained() -> object:
        try:
            return call()
        except GraphbenchError:
            raise
        except Exception as error:
            inner = getattr(error, "inner_exception", None)  # torch wraps what a backend raises
            if isinstance(inner, GraphbenchError):
                raise inner from error
            raise CaptureError(
                f"{subject}: running it raised {type(error).__name__}: {first_line(error)}{_place(error)}",
                hint="does the model run without torch.compile on these inputs? --debug shows the traceback",
                subject=subject,
            ) from error

    return explained


def _place(error: BaseException) -> str:
    """Where the user's code stood: as Dynamo's text says, else the innermost frame outside torch and graphbench.

    Source: `torch._dynamo.exc.augment_exc_message`, "from user code:" and its innermost frame last (torch 2.13).
    """
    told = _DYNAMO_FRAME.findall(str(error).partition("from user code:")[2])
    if told:
        file, line, function = told[-1]
        return f" ({Path(file).name}:{line}, in {function})"
    own = {Path(torch.__file__).parent, Path(api.__file__).parent}
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not own & set(Path(frame.filename).parents) and not frame.filename.startswith("<"):
            return f" ({Path(frame.filename).name}:{frame.lineno}, in {frame.name})"
    return ""

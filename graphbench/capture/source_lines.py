"""Finds the user's line in stack traces: the innermost frame that is not of torch, graphbench or what torch needs."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import torch

from graphbench.measurements import SourceLine

FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>[^\n]+)(?:\n\s+(?P<code>[^\n]+))?')
LIBRARY = (str(Path(torch.__file__).parent), str(Path(__file__).parent.parent))
STDLIB = sysconfig.get_paths()["stdlib"] + os.sep
INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
COMPILERS = tuple(f"{os.sep}{name}{os.sep}" for name in ("jinja2", "mpmath", "networkx", "numpy", "sympy", "triton"))
GENERATED = re.compile(r"[/\\](?P<folder>[a-z2-7]{2})[/\\]c(?P=folder)[a-z2-7]{40,}\.py$")
"""Inductor's own code: named by its hash, in a folder that its first letters name.

Source: `torch._inductor.codecache.get_path`, `code_hash`, torch 2.11 to 2.14.
"""
CELL = "<ipython-input-"
"""How a terminal of IPython names a cell, where a notebook has a file. Source: `IPython.core.compilerop`, IPython 9."""
RESUMED = re.compile(r"torch_dynamo_resume_in_(.+)_at_\d+$")
AUTOGRAD = str(Path(LIBRARY[0], "autograd"))
OPTIMIZERS = tuple(
    str(Path(LIBRARY[0], *place)) for place in (("optim",), ("amp", "grad_scaler.py"), ("nn", "utils", "clip_grad.py"))
)


def user_function(name: str) -> str:
    """The user's name of a function whose rest, behind a graph break, Dynamo made a function of its own.

    Source: `torch._dynamo.resume_execution.TORCH_DYNAMO_RESUME_IN_PREFIX`, torch 2.11 to 2.14.
    """
    match = RESUMED.match(name)
    return match[1] if match else name


def from_text(stack_trace: str | None) -> SourceLine | None:
    """The user's line of a node's `meta["stack_trace"]`, or the innermost line when all are torch's."""
    frames = [
        SourceLine(
            file=match["file"],
            line=int(match["line"]),
            function=user_function(match["function"]),
            code=(match["code"] or "").strip(),
        )
        for match in FRAME.finditer(stack_trace or "")
    ]
    return _innermost_user(frames)


def from_summary(frames: Iterable[traceback.FrameSummary]) -> SourceLine | None:
    """The user's line of a Dynamo `user_stack`."""
    return _innermost_user([from_frame(frame) for frame in frames])


def from_frame(frame: traceback.FrameSummary) -> SourceLine:
    """One frame of a stack."""
    return SourceLine(
        file=frame.filename,
        line=frame.lineno or 0,
        function=user_function(frame.name),
        code=(frame.line or "").strip(),
    )


def is_library(file: str) -> bool:
    """Whether a file is torch's or graphbench's own, beneath torch, or made by Inductor."""
    return file.startswith(LIBRARY) or is_beneath_torch(file) or GENERATED.search(file) is not None


def is_beneath_torch(file: str) -> bool:
    """Whether a file is Python's own, or of a package that torch's compiler is built on."""
    if any(folder in file for folder in INSTALLED):
        return any(package in file for package in COMPILERS)
    return file.startswith((STDLIB, "<frozen "))


def _innermost_user(frames: list[SourceLine]) -> SourceLine | None:
    users = [frame for frame in frames if not is_library(frame.file)]
    found = users or frames
    return found[-1] if found else None


class Caller(NamedTuple):
    """Where a running op was called from: the user's line, and what of torch's own stands between the op and it.

    `optimizer`: an optimizer, a gradient scaler or gradient clipping is at work. `engine`: autograd's engine called it,
    so that `source` is the line that started the backward.
    """

    source: SourceLine | None
    optimizer: bool
    engine: bool


def of_caller(grad_enabled: bool | None = None) -> Caller:
    """Who calls, found from the inside out, without building a traceback.

    Code of the user's inside an optimizer of torch's is a closure where grad mode is on; where it is off, it is the
    user's own optimizer, whose `step` torch wraps. What lies outside of autograd's engine says nothing of the call.

    Args:
        grad_enabled: grad mode of the user's code; by default as it is now.

    Source: `torch.optim.Optimizer.profile_hook_step`; `torch.autograd.graph._engine_run_backward`,
        `torch.autograd._make_grads`, torch 2.11 to 2.14.
    """
    frame = sys._getframe(1)
    source: SourceLine | None = None
    optimizer = engine = False
    while frame is not None:
        code = frame.f_code
        kind = _kind(code.co_filename)
        if kind == _OPTIMIZER and not engine:
            optimizer = True
            if source is not None:
                break
        elif kind == _AUTOGRAD and code.co_name in _STARTS_BACKWARD:
            engine = source is None and not optimizer
            if not engine:
                break
        elif kind == _USER and source is None and code.co_name not in _PASSED_THROUGH:
            source = _line(code.co_filename, frame.f_lineno, code.co_name)
            if optimizer or engine or (torch.is_grad_enabled() if grad_enabled is None else grad_enabled):
                break
        if frame.f_back is None:
            break
        frame = frame.f_back
    return Caller(source, optimizer, engine)


_USER, _LIBRARY, _OPTIMIZER, _AUTOGRAD = range(4)
# Every op under a mode of the user's own has the same line there.
_PASSED_THROUGH = ("__torch_dispatch__", "__torch_function__")
_STARTS_BACKWARD = ("_engine_run_backward", "_make_grads")


@lru_cache(maxsize=4096)
def _kind(file: str) -> int:
    """Whose file it is. Asked for every frame of every op, so it is remembered."""
    if file.startswith(OPTIMIZERS):
        return _OPTIMIZER
    if file.startswith(AUTOGRAD):
        return _AUTOGRAD
    generated = file.startswith("<") and not file.startswith(CELL)
    return _LIBRARY if is_library(file) or generated else _USER


@lru_cache(maxsize=4096)
def _line(file: str, line: int, code_name: str) -> SourceLine:
    return SourceLine(file=file, line=line, function=user_function(code_name))

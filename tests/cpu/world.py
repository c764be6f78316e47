"""One snapshot of everything that graphbench might touch in a process, for an exact comparison before and after."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import thread as pools
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import nn, overrides
from torch._inductor.output_code import CompiledFxGraph
from torch.utils import _python_dispatch as dispatch

import graphbench
from graphbench import session
from graphbench.capture import ambient, user_phases
from graphbench.inductor import hook
from graphbench.timing import cupti_setup
from tests.cpu.stories import world

PATCHED: tuple[tuple[Any, str], ...] = (
    (threading.Thread, "_bootstrap_inner"),
    (pools._WorkItem, "run"),
    (dispatch.TorchDispatchMode, "__enter__"),
    (torch.cuda.CUDAGraph, "replay"),
    (CompiledFxGraph, "__call__"),
    *((import_module(module), hook.HOOK) for module in ("torch._inductor.debug",)),
    *((import_module(f"torch._inductor.codegen.{name}"), hook.HOOK) for name in ("triton", "cpp")),
)
"""All that graphbench ever stands in front of, but for Triton's `JITFunction.run` and what belongs to one graph."""
OURS = (str(Path(graphbench.__file__).parent), contextlib.__file__)


def everything(module: nn.Module, *tensors: torch.Tensor) -> dict[str, Any]:
    """The user's tensors and random state, torch's state of this thread and process, Python's, and all patches."""
    return {
        **world(module, *tensors),
        **_torch_state(),
        **_graph_state(),
        **_python_state(),
        **_cuda_state(),
    }


def _torch_state() -> dict[str, Any]:
    autograd: Any = torch._C._autograd
    return {
        "ambient state of all devices": ambient.current(ambient.DEVICE_TYPES),
        "dispatch modes": [id(mode) for mode in dispatch._get_current_dispatch_mode_stack()],
        "function modes": [id(mode) for mode in overrides._get_current_function_mode_stack()],
        "functorch layers": torch._C._functorch.get_dynamic_layer_stack_depth(),
        "saved-tensor hooks": (
            autograd._saved_tensors_hooks_is_enabled(),
            autograd._top_saved_tensors_default_hooks(True),
        ),
        "autograd's threads": torch._C._is_multithreading_enabled(),
        "anomaly mode": torch.is_anomaly_enabled(),
        "autocast nesting": ambient._autocast_depth(),
        "Dynamo's callback": torch._C._dynamo.eval_frame.get_eval_frame_callback(),
        "a backward in progress": torch._C._current_graph_task_id(),
        "Inductor's settings": import_module("torch._inductor.config").get_hash(),
        "AOTAutograd's settings": import_module("torch._functorch.config").get_hash(),
        "profiler": torch.autograd._profiler_enabled(),
    }


def _graph_state() -> dict[str, Any]:
    """Patches, code objects of Inductor's wrappers, and the session's own state."""
    found: dict[str, Any] = {
        f"{owner.__name__}.{name}": (name in vars(owner), getattr(owner, name)) for owner, name in PATCHED
    }
    jit = sys.modules.get("triton.runtime.jit")
    if jit is not None:
        found["Triton's JITFunction.run"] = ("run" in vars(jit.JITFunction), jit.JITFunction.run)
    current = session.current()
    found["regions"] = [(region.key, len(region.graphs)) for region in current.regions]
    found["captured bytes"] = current.captured_bytes
    found["the session's user"] = current._use
    found["phases heard"] = (tuple(user_phases._CLOCKS), tuple(user_phases._Thread.entered))
    for region in current.regions:
        for graph in region.graphs:
            if graph.artifact is not None:
                where = f"{region.key} {graph.phase}"
                call = type(graph.artifact.compiled_fn_runner).call
                functions = {name: value for name, value in call.__globals__.items() if hasattr(value, "__code__")}
                found[f"code of {where}"] = [call.__code__, *(value.__code__ for value in functions.values())]
                found[f"names in the module of {where}"] = list(call.__globals__)
                found[f"callable of {where}"] = graph.artifact.current_callable
    return found


def _python_state() -> dict[str, Any]:
    timers = ("ITIMER_REAL", "ITIMER_VIRTUAL", "ITIMER_PROF")
    return {
        "garbage collection": (gc.isenabled(), gc.get_threshold()),
        "warning filters": list(warnings.filters),
        "signal handlers": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "signal mask": signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        "timers that run": [signal.getitimer(getattr(signal, name)) != (0.0, 0.0) for name in timers],
        "tracing": (sys.gettrace(), sys.getprofile()),
        "hooks": (sys.excepthook, sys.unraisablehook, threading.excepthook, sys.displayhook),
        "streams of text": (sys.stdin, sys.stdout, sys.stderr),
        "import path": (list(sys.path), list(sys.meta_path)),
        "recursion limit": sys.getrecursionlimit(),
        "environment": dict(os.environ),
        "folder": Path.cwd(),
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "child processes": _children(),
        "open files": _open_files(),
    }


def _children() -> set[str]:
    return {child for file in Path("/proc/self/task").glob("*/children") for child in file.read_text().split()}


def _open_files() -> list[str]:
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the one that lists the folder
            found.append(f"{entry.name}: {entry.readlink()}")
    return sorted(name for name in found if "/fd" not in name.partition(": ")[2])


def _cuda_state() -> dict[str, Any]:
    found: dict[str, Any] = {"CUPTI": _cupti_state()}
    if torch.cuda.is_initialized():
        devices = range(torch.cuda.device_count())
        found["current device"] = torch.cuda.current_device()
        for index in devices:
            found[f"streams of cuda:{index}"] = (
                torch.cuda.current_stream(index).cuda_stream,
                torch.cuda.default_stream(index).cuda_stream,
            )
            found[f"random state of cuda:{index}"] = torch.cuda.get_rng_state(index)
    return found


def _cupti_state() -> str:
    """`off`, or what is still on."""
    if not cupti_setup.load.cache_info().currsize:
        return "off"
    return "recording" if cupti_setup.load()._active else "off"


@contextlib.contextmanager
def interrupted_at(number: int, exception: Callable[[], BaseException]) -> Iterator[list[int]]:
    """Raise in the `number`-th call, or resumption, of a function of graphbench's or of contextlib's: as Ctrl-C does.

    Python looks for signals where functions start, where generators resume and behind calls. Generator expressions are
    left out: one that is dropped half way resumes only to be closed, where nothing can be raised. The list returned
    holds how many such places were passed.

    Args:
        number: from 1; 0 only counts.
        exception: makes what is raised.
    """
    passed = [0]

    def trace(frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(OURS) and code.co_name != "<genexpr>":
            passed[0] += 1
            if passed[0] == number:
                raise exception()

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield passed
    finally:
        sys.settrace(before)

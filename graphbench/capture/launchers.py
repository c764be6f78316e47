"""Launches that pass torch's dispatcher by: Triton kernels called from Python, and CUDA graphs replayed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from graphbench.put_back import replaced

Launch = Callable[[str, Callable[[], Any]], Any]
"""`on_launch(name, call)`: must make the call and return its result."""


@contextlib.contextmanager
def launches_heard(on_launch: Launch) -> Iterator[None]:
    """While inside, such launches go through `on_launch`. Kernels of Inductor's are launched another way.

    Source: `triton.runtime.jit.JITFunction.run` (Triton 3.6), which autotuned and heuristic kernels call too;
        `torch.cuda.CUDAGraph.replay`, torch 2.11 to 2.14.
    """
    with contextlib.ExitStack() as undo:
        undo.enter_context(_heard(torch.cuda.CUDAGraph, "replay", lambda graph: "CUDAGraph.replay", on_launch))
        jit = _triton()
        if jit is not None:
            undo.enter_context(_heard(jit, "run", _kernel_name, on_launch))
        yield


def _triton() -> Any:
    """Triton's kernel class, or `None` where it was never loaded: then nobody has a kernel of it."""
    import sys

    module = sys.modules.get("triton.runtime.jit")
    return None if module is None else module.JITFunction


def _kernel_name(kernel: Any) -> str:
    return f"triton.{kernel.__name__}"


@contextlib.contextmanager
def _heard(owner: Any, name: str, name_of: Callable[[Any], str], on_launch: Launch) -> Iterator[None]:
    below = getattr(owner, name)

    def heard(self: Any, *args: Any, **kwargs: Any) -> Any:
        return on_launch(name_of(self), lambda: below(self, *args, **kwargs))

    with replaced(owner, name, heard):
        yield

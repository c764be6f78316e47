"""Measuring apart from what surrounds the call: the user's modes hear nothing of it, and Dynamo compiles none of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial, wraps
from typing import ParamSpec, TypeVar

import torch
from torch import overrides
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import _disable_current_modes

from graphbench.capture import ambient
from graphbench.capture.gaps import modes_put_back
from graphbench.errors import UsageError
from graphbench.put_back import all_put_back, put_back

P = ParamSpec("P")
R = TypeVar("R")


def apart(function: Callable[P, R]) -> Callable[P, R]:
    """A function that measures, so wrapped that it may be called under dispatch and function modes, and compiled.

    Raises:
        UsageError: it is called within a transform of torch's (`vmap`, `grad`) or while a CUDA graph is captured: both
            would hear every replay.

    Source: `torch.compiler.disable`; `torch.utils._python_dispatch._disable_current_modes`;
        `torch._C._functorch.get_dynamic_layer_stack_depth`; `torch.cuda.is_current_stream_capturing`. torch 2.11, 2.13
        and 2.14.
    """

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        _refuse_what_cannot_be_left()
        with all_put_back(), ambient.kept(), modes_put_back(), _disable_current_modes(), _function_modes_left():
            return function(*args, **kwargs)

    outside: Callable[P, R] = torch.compiler.disable(called)
    return outside


def _refuse_what_cannot_be_left() -> None:
    where = ""
    if torch._C._functorch.get_dynamic_layer_stack_depth():
        where = "a function that torch transforms (vmap, grad)"
    elif torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
        where = "the capture of a CUDA graph"
    if where:
        raise UsageError(
            f"graphbench cannot measure here: within {where}, which would hear every replay",
            hint="call it after that",
        )


@contextlib.contextmanager
def _function_modes_left() -> Iterator[None]:
    """No function mode is on inside, but that of `torch.set_default_device`, which is ambient state.

    Source: `torch.overrides._get_current_function_mode_stack`, `_pop_mode`, `_push_mode`, torch 2.11, 2.13 and 2.14.
    """
    modes = overrides._get_current_function_mode_stack()
    if all(isinstance(mode, DeviceContext) for mode in modes):
        yield
        return
    kept = [mode for mode in modes if isinstance(mode, DeviceContext)]
    with put_back(partial(_set_function_modes, modes)):
        _set_function_modes(kept)
        yield


def _set_function_modes(modes: Sequence[overrides.TorchFunctionMode]) -> None:
    while overrides._get_current_function_mode_stack():
        overrides._pop_mode()
    for mode in modes:
        overrides._push_mode(mode)

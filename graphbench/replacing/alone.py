"""Original and candidate timed against each other, each by itself, on copies of the node's arguments."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from graphbench.comparing.compare import compare_implementations
from graphbench.comparing.implementation import Implementation
from graphbench.comparing.table import ImplementationTable
from graphbench.execution.backward import Backward, edges_of
from graphbench.options import MeasureOptions
from graphbench.replacing.checking import Checked
from graphbench.replacing.live_call import LiveCall
from graphbench.tensors import random_tangent, tensors_of

ORIGINAL = "original"
CANDIDATE = "candidate"


def time_alone(
    call: LiveCall, candidate: Callable[..., Any], checked: Checked, options: MeasureOptions
) -> ImplementationTable:
    """Time both, A B B A. Where they write to their arguments, each call starts from fresh values.

    The ambient state of the node must be in force.
    """
    functions = {ORIGINAL: call.function, CANDIDATE: candidate}
    if checked.writes:
        entries = [_writing(name, call, function) for name, function in functions.items()]
        return compare_implementations(entries, (), options)
    args, kwargs = call.arguments()
    if not tensors_of(kwargs):
        bound = {name: partial(function, **kwargs) for name, function in functions.items()}
        return compare_implementations(bound, args, options)
    spread = {name: partial(_spread, function) for name, function in functions.items()}
    return compare_implementations(spread, (args, kwargs), options)


def _spread(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return function(*args, **kwargs)


def _writing(name: str, call: LiveCall, function: Callable[..., Any]) -> Implementation:
    """An implementation with arguments of its own. None requires grad: autograd would note down every call."""
    pool = call.writable()
    args, kwargs = pool.tree(with_grad=False)
    written = pool.blocks_of(tensors_of(pool.originals))
    return Implementation(
        name, partial(_spread, function), inputs=(tuple(args), dict(kwargs)), reset=partial(pool.restore, written)
    )


def time_backward_alone(call: LiveCall, candidate: Callable[..., Any], options: MeasureOptions) -> ImplementationTable:
    """Time the eager backward of both, from the same random tangents. Autocast is off, as where users call it."""
    tangents: list[torch.Tensor] = []
    calls = {
        ORIGINAL: _backward(call, call.function, tangents),
        CANDIDATE: _backward(call, candidate, tangents),
    }
    with contextlib.ExitStack() as outside:
        for state in call.state.autocast:
            if state.enabled:
                outside.enter_context(torch.autocast(state.device_type, enabled=False))
        return compare_implementations(calls, (), options, device=tangents[0].device)


def _backward(
    call: LiveCall, function: Callable[..., Any], tangents: list[torch.Tensor]
) -> Callable[[], tuple[torch.Tensor | None, ...]]:
    args, kwargs = call.arguments()
    edges = edges_of([*args, *kwargs.values()])
    outputs = [tensor for tensor in tensors_of(function(*args, **kwargs)) if tensor.requires_grad]
    if not tangents:
        tangents += [random_tangent(output.detach()) for output in outputs]
    return Backward(outputs, edges, tangents, repeatable=True).run

"""Whether a candidate does a node's work: one call of each on copies, results, layouts and effects compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch

from graphbench.errors import UsageError, raised_by
from graphbench.isolate.bench_unit import RngState
from graphbench.isolate.compare import compare_trees
from graphbench.measurements import Comparison
from graphbench.replacing.live_call import LiveCall
from graphbench.tensors import device_of, has_storage, tensors_of


@dataclass(frozen=True, slots=True)
class Checked:
    """What one call of the original and of a candidate showed.

    `writes`: both write to their arguments. `draws`: one of them draws random numbers. `has_backward`: the result of
    both requires grad.
    """

    difference: Comparison
    writes: bool
    draws: bool
    has_backward: bool


@dataclass(frozen=True, slots=True)
class _Outcome:
    """Of one call. `tensors` are those of its arguments afterwards, `written` the positions of those that it wrote."""

    results: list[torch.Tensor]
    tensors: list[torch.Tensor]
    written: set[int]
    draws: bool


def check_candidate(call: LiveCall, candidate: Callable[..., Any], tolerance: float) -> Checked:
    """Call both once, from the same random state, in the ambient state of the node.

    Args:
        call: the node's call.
        candidate: what is to stand in its place.
        tolerance: factor on the relative tolerance of each dtype; `inf` takes any values.

    Raises:
        UsageError: the candidate's result has other tensors, layouts or values, it writes to other arguments, or its
            result does not require grad though the original's does.
        CaptureError: the candidate raised.
    """
    generators = RngState(device_of(tensors_of(call.arguments(with_grad=False))))
    original = _outcome(call, call.function, generators)
    with raising(call):
        outcome = _outcome(call, candidate, generators)
    if outcome.written - original.written:
        raise UsageError(
            f"{call.name}: the candidate writes to its argument {min(outcome.written - original.written)}, "
            "which the node does not",
            hint="let it work on a copy: what reads that tensor later would get other values",
            subject=call.name,
        )
    _check_layouts(call.name, outcome.results, original.results)
    written = sorted(original.written)
    found, expected = (
        [*each.results, *(each.tensors[position] for position in written)] for each in (outcome, original)
    )
    difference = compare_trees(found, expected, tolerance=tolerance)
    if difference.equal is False and not (difference.max_abs is not None and math.isinf(tolerance)):
        raise _differs(call.name, difference)
    grads = False if written else _has_backward(call, candidate)
    return Checked(difference, bool(written), original.draws or outcome.draws, grads)


def raising(call: LiveCall) -> AbstractContextManager[None]:
    """Say of whatever is raised inside that the candidate for a node raised it.

    Raises:
        CaptureError: anything but graphbench's own errors and interrupts was raised inside.
    """
    hint = f"it is called with the node's own arguments: candidate{call.as_text()}"
    return raised_by(f"{call.name}: the candidate", hint=hint, subject=call.name)


def _outcome(call: LiveCall, function: Callable[..., Any], generators: RngState) -> _Outcome:
    """Call once on fresh copies, and find what it wrote: by version counters, and by bytes that no version tells of."""
    pool = call.writable()
    args, kwargs = pool.tree(with_grad=False)
    tensors = tensors_of((args, kwargs))
    versions = [_version(tensor) for tensor in tensors]
    generators.restore()
    results = tensors_of(function(*args, **kwargs))
    draws = generators.moved()
    generators.restore()
    changed = pool.changed()
    originals = tensors_of(pool.originals)
    written = {
        position
        for position, (tensor, version) in enumerate(zip(tensors, versions, strict=True))
        if _version(tensor) != version or pool.blocks_of([originals[position]]) & changed
    }
    return _Outcome(results, tensors, written, draws)


def _version(tensor: torch.Tensor) -> int | None:
    return None if tensor.is_inference() else tensor._version


def _check_layouts(name: str, found: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> None:
    if len(found) != len(expected):
        raise UsageError(f"{name}: the candidate returns {len(found)} tensors, expected {len(expected)}", subject=name)
    for one, other in zip(found, expected, strict=True):
        if _layout(one) != _layout(other):
            raise UsageError(
                f"{name}: the candidate returns {_layout(one)}, expected {_layout(other)}",
                hint="what reads the result in the graph relies on its shape, dtype and strides",
                subject=name,
            )


def _layout(tensor: torch.Tensor) -> str:
    """Everything that must fit, as text; the strides of dimensions of size 1 mean nothing."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    if not has_storage(tensor):
        return f"{dtype} of {tensor.layout} on {tensor.device}"
    steps = [step if size > 1 else 0 for size, step in zip(tensor.shape, tensor.stride(), strict=True)]
    shown = steps if tensor.numel() else []
    return f"{dtype}{list(tensor.shape)} on {tensor.device}, strides {shown}"


def _differs(name: str, difference: Comparison) -> UsageError:
    size = difference.note or f"largest difference {difference.max_abs:.3g}"
    return UsageError(
        f"{name}: the candidate's result is not the node's: {size}",
        hint="where that is meant, allow a multiple of the usual tolerance, 10 or inf: tolerance=, --replace-tolerance",
        subject=name,
    )


def _has_backward(call: LiveCall, candidate: Callable[..., Any]) -> bool:
    """Whether both results require grad.

    Raises:
        UsageError: only the original's does.
    """
    args, kwargs = call.arguments()
    if not any(tensor.requires_grad for tensor in tensors_of((args, kwargs))):
        return False
    original = _requires_grad(call.function(*args, **kwargs))
    with raising(call):
        theirs = _requires_grad(candidate(*args, **kwargs))
    if original and not theirs:
        raise UsageError(
            f"{call.name}: the candidate's result does not require grad, the node's does",
            hint="give it a backward (torch.autograd.Function, torch.library.register_autograd), or replace in a model "
            "that runs under torch.no_grad",
            subject=call.name,
        )
    return original


def _requires_grad(result: Any) -> bool:
    return any(tensor.requires_grad for tensor in tensors_of(result))

"""Control flow run eagerly: branches and loops as Python has them, through which autograd differentiates as ever.

torch's own ops do the same where no gradient is wanted. With gradients they trace their bodies anew at every call, or
ask for a compiler's fake tensors: that would be timed instead of what the bodies do.

Source: what Dynamo calls the ops of `torch.ops.higher_order` with, and what these register for
`DispatchKey.CompositeExplicitAutograd`; torch 2.11, 2.13 and 2.14.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

Body = Callable[..., Any]
EAGERLY: dict[str, Body] = {}


def eagerly(target: Any) -> Any:
    """What a node's target is called instead of when it runs eagerly: itself, unless it is control flow."""
    is_op = isinstance(target, torch._ops.HigherOrderOperator)
    return EAGERLY.get(target.__name__, target) if is_op else target


def compilable(target: Any) -> Any:
    """The op that `eagerly` replaced."""
    return getattr(torch.ops.higher_order, target.__name__) if target in EAGERLY.values() else target


def _stands_for_op(function: Body) -> Body:
    """In records it is known by the name of the op that it stands for (`calls.callee`)."""
    vars(function)["stands_for"] = f"torch.ops.higher_order.{function.__name__}"
    EAGERLY[function.__name__] = function
    return function


@_stands_for_op
def invoke_subgraph(body: Body, name: str, *operands: Any) -> Any:
    """Run the body of a `nested_compile_region`."""
    return body(*operands)


@_stands_for_op
def cond(pred: Any, true_fn: Body, false_fn: Body, operands: Sequence[Any] = ()) -> Any:
    """Run one of two branches."""
    return true_fn(*operands) if pred else false_fn(*operands)


@_stands_for_op
def while_loop(
    cond_fn: Body, body_fn: Body, carried_inputs: Sequence[Any], additional_inputs: Sequence[Any] = (), **_: Any
) -> tuple[Any, ...]:
    """Run the body until the condition is false; without any run the carried values are copied."""
    if not cond_fn(*carried_inputs, *additional_inputs):
        return tuple(value.clone() if isinstance(value, torch.Tensor) else value for value in carried_inputs)
    carried = tuple(body_fn(*carried_inputs, *additional_inputs))
    while cond_fn(*carried, *additional_inputs):
        carried = tuple(body_fn(*carried, *additional_inputs))
    return carried


@_stands_for_op
def map_impl(f: Body, xs: Sequence[torch.Tensor], pos_args: Sequence[Any], **_: Any) -> Any:
    """Run the body on every slice along the first dimension."""
    return _stacked([f(*slices, *pos_args) for slices in zip(*xs, strict=True)])


@_stands_for_op
def scan(
    combine_fn: Body,
    init: Sequence[torch.Tensor],
    xs: Sequence[torch.Tensor],
    additional_inputs: Sequence[Any] = (),
    **_: Any,
) -> tuple[Any, ...]:
    """Run the body on every slice along the first dimension, with what the run before it handed on."""
    carry = tuple(init)
    rows: list[tuple[Any, ...]] = []
    for slices in zip(*xs, strict=True):
        result = tuple(combine_fn(*carry, *slices, *additional_inputs))
        carry = result[: len(carry)]
        rows.append(result[len(carry) :])
    return (*carry, *_stacked(rows))


def _stacked(rows: Sequence[Sequence[torch.Tensor | None]]) -> list[Any]:
    """Results of several runs, each in one tensor; a body may return `None` among them."""
    return [None if column[0] is None else torch.stack(list(column)) for column in zip(*rows, strict=True)]

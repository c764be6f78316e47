"""Isolates the gap ops of a recorded step, each from the arguments that its row's first call had."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from graphbench.errors import first_line
from graphbench.isolate.held import CHANGED_INDEX, HeldArguments
from graphbench.measurements import Measurement
from graphbench.measuring.gap_ops import GapOp
from graphbench.measuring.isolating import Call, Isolator

NO_ARGUMENTS = "launched past torch's dispatcher, so its arguments are not known"
HIGHER_ORDER = "a higher-order op: it calls code of the user's"


def isolate_gap_ops(ops: Iterable[GapOp], isolator: Isolator, tick: Callable[[], None]) -> dict[str, Measurement]:
    """Time every gap op alone; equal ones are measured once. What is held of an op is let go of.

    Args:
        ops: rows of a step that is over.
        isolator: times the units.
        tick: called after every row.

    Returns:
        Measurements by row; those made of tensors that were not kept are `synthetic`.
    """
    found = {}
    with _below_autograd(isolator.device):
        for op in ops:
            found[op.name] = _isolated(op, isolator)
            op.held = None
            tick()
    return found


def _isolated(op: GapOp, isolator: Isolator) -> Measurement:
    if op.held is None or op.function is None:
        return Measurement(status="skipped", reason=NO_ARGUMENTS)
    if isinstance(op.function, torch._ops.HigherOrderOperator):
        return Measurement(status="skipped", reason=HIGHER_ORDER)
    if op.held.changed_index(_written(op.function, op.held)):
        return Measurement(status="skipped", reason=CHANGED_INDEX)
    try:
        args, kwargs = op.held.arguments()
    except RuntimeError as error:  # out of memory, say
        reason = f"its arguments cannot be made again: {first_line(error)}"
        return Measurement(status="failed", reason=reason)
    call = Call(op.name, op.function, args, kwargs, identity=op.function)
    return isolator.alone(call, synthetic=not op.held.whole)


def _written(function: Any, held: HeldArguments) -> Callable[[Any], bool]:
    """Which arguments a call writes, by its schema."""
    args, kwargs = torch.utils._pytree.tree_unflatten(held.leaves, held.tree)
    schema = function._schema.arguments
    given = [(argument, args[i] if i < len(args) else kwargs.get(argument.name)) for i, argument in enumerate(schema)]
    written = [
        leaf
        for argument, value in given
        if argument.alias_info is not None and argument.alias_info.is_write
        for leaf in torch.utils._pytree.tree_leaves(value)
    ]
    return lambda leaf: any(leaf is entry for entry in written)


@contextlib.contextmanager
def _below_autograd(device: torch.device) -> Iterator[None]:
    """As the ops ran: what a dispatch mode hears comes after autograd and autocast."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        for kind in {"cpu", device.type}:
            stack.enter_context(torch.autocast(kind, enabled=False))
        yield

"""Isolates the gap ops of a recorded step, each from the arguments that its row's first call had."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from graphbench.errors import FaultError, IsolationError, first_line
from graphbench.isolate.held import CHANGED, HeldArguments
from graphbench.measurements import Measurement
from graphbench.measuring.calls import Call
from graphbench.measuring.gap_ops import GapOp
from graphbench.measuring.isolating import Isolator

NO_ARGUMENTS = "launched past torch's dispatcher, so its arguments are not known"
HIGHER_ORDER = "a higher-order op: it calls code of the user's"


def isolate_gap_ops(ops: Iterable[GapOp], isolator: Isolator, tick: Callable[[], None]) -> dict[str, Measurement]:
    """Time every gap op alone; equal ones are measured once.

    Args:
        ops: rows of a step that is over.
        isolator: times the units.
        tick: called after every row.

    Returns:
        Measurements by row; those made of tensors that were not kept are `synthetic`. A row that was measured before,
        and cannot be any more, keeps that.
    """
    found = {}
    with _below_autograd(isolator.device):
        for op in ops:
            measured = _isolated(op, isolator)
            known = isolator.book.units.get(("isolated", op.name))
            stands = known is not None and known.measurement.status == "ok" and measured.status != "ok"
            found[op.name] = known.measurement if known is not None and stands else measured
            tick()
    return found


def _isolated(op: GapOp, isolator: Isolator) -> Measurement:
    if op.held is None or op.function is None:
        return Measurement(status="skipped", reason=NO_ARGUMENTS)
    if isinstance(op.function, torch._ops.HigherOrderOperator):
        return Measurement(status="skipped", reason=HIGHER_ORDER)
    if isolator.guard.lost:
        return Measurement(status="skipped", reason=isolator.guard.reason)
    if op.held.changed(_written(op.function, op.held)):
        return Measurement(status="skipped", reason=CHANGED)
    try:
        isolator.budget.check(op.held.missing_bytes, "its arguments, which are made again, need")
        args, kwargs = isolator.budget.with_room(op.held.made)
    except IsolationError as error:
        return Measurement(status="skipped", reason=error.message)
    except (RuntimeError, FaultError) as error:
        reason = f"its arguments cannot be made again: {first_line(error)}"
        return Measurement(status="failed", reason=reason)
    call = Call(op.name, op.function, args, kwargs, identity=op.function, synthetic=not op.held.whole)
    return isolator.alone(call)


def _written(function: Any, held: HeldArguments) -> Callable[[torch.Tensor], bool]:
    """Which tensors a call writes, by its schema."""
    arguments = function._schema.arguments
    given = {argument.name: value for argument, value in zip(arguments, held.args, strict=False)} | held.kwargs
    values = [
        given.get(argument.name)
        for argument in arguments
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    written = [entry for value in values for entry in (value if isinstance(value, list) else [value])]
    return lambda tensor: any(tensor is entry for entry in written)


@contextlib.contextmanager
def _below_autograd(device: torch.device) -> Iterator[None]:
    """As the ops ran: what a dispatch mode hears comes after autograd and autocast."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        for kind in {"cpu", device.type}:
            stack.enter_context(torch.autocast(kind, enabled=False))
        yield

"""Measures the ops of one region of an op list: each alone, on tensors that are made for it and dropped afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from graphbench.capture import ambient
from graphbench.condition_records import Policy
from graphbench.errors import ContextLostError, DoesNotFitError, GraphbenchError, first_line
from graphbench.measurements import Measurement, TensorSpec
from graphbench.measuring.calls import Call
from graphbench.measuring.isolating import Isolator
from graphbench.measuring.runs import unmeasured
from graphbench.measuring.spending import TIME_UP, Key, Purse
from graphbench.models.op_calls import BuiltOp, build_op, tensor_bytes
from graphbench.models.oplist import OpEntry
from graphbench.records import NOT_SELECTED, NodeKind, NodeRecord, RegionRecord
from graphbench.runs.entries import MeasuredRegion
from graphbench.tensors import spec_of, tensors_of

NOT_ASKED = "its backward was not asked for: --train, or train=True, does"


@dataclass(slots=True)
class _Found:
    """What measuring one op found."""

    isolated: Measurement
    backward: Measurement
    kind: NodeKind = "compute"
    outputs: tuple[TensorSpec, ...] = ()


class OpRegion:
    """Ops of one ambient state being measured. What an op raises is the reason of its row.

    Args:
        skeleton: the region with nothing measured.
        ops: its ops, in the order of its nodes.
        functions: what they call, by name.
        isolator: measures them; it knows their device, and which of them are wanted.
        seed: of the values.
        train: also their backwards.
        tick: called after every op.
    """

    def __init__(
        self,
        skeleton: RegionRecord,
        ops: Sequence[OpEntry],
        functions: Mapping[str, Callable[..., Any]],
        isolator: Isolator,
        *,
        seed: int,
        train: bool,
        tick: Callable[[], None],
    ) -> None:
        self._record = skeleton
        self._ops = ops
        self._functions = functions
        self._isolator = isolator
        self._seed = seed
        self._train = train
        self._tick = tick

    def measure(self) -> RegionRecord:
        """Measure every op, or take what an earlier process measured.

        Raises:
            JournalError: what was found cannot be written.
        """
        book = self._isolator.book
        if book.measured is not None:
            self._record = book.measured
            return self._record
        if book.ledger.journaled:
            book.known(self._record)
        self._run(self._ops)
        book.put(MeasuredRegion(region=self._record))
        self._isolator.guard.leave_if_lost()
        return self._record

    def again(self, rows: set[Key], policy: Policy, purse: Purse) -> RegionRecord:
        """Measure some rows again, and those that time was up for; a row that fails the second time keeps its first.

        Raises:
            ContextLostError: the device was lost meanwhile: what was measured before stands.
            JournalError: what was found cannot be written.
        """
        # Their tensors hold the values that the list asks for, which are not to be made up once more.
        self._isolator.policy = replace(policy, values="captured")
        self._isolator.again, self._isolator.purse = set(rows), purse
        names = {name for _, name in rows}
        names |= {node.name for node in self._record.nodes if node.isolated.reason == TIME_UP}
        for node in self._record.nodes:
            if not names.isdisjoint((node.isolated.shared_with, node.backward_isolated.shared_with)):
                names.add(node.name)
        before = self._record
        self._run([op for op in self._ops if op.name in names])
        if self._isolator.guard.lost:
            self._record = before
            raise ContextLostError(self._isolator.guard.reason)
        return self._record

    def _run(self, ops: Sequence[OpEntry]) -> None:
        """Measure ops, in the state that they ask for."""
        device, state = self._isolator.device, self._record.ambient
        assert state is not None
        found: dict[str, _Found] = {}
        try:
            with contextlib.ExitStack() as stack:
                stack.enter_context(ambient.rng_untouched())
                stack.enter_context(ambient.restored(state))
                if device.type == "cuda":
                    stack.enter_context(torch.cuda.device(device))
                for op in ops:
                    found[op.name] = self._op(op)
                    self._tick()
        except RuntimeError:  # a device that is lost has no generator to put back
            if not (len(found) == len(ops) and self._isolator.guard.lost):
                raise
        nodes = tuple(_filled(node, found.get(node.name)) for node in self._record.nodes)
        self._record = replace(self._record, status="ok", reason="", nodes=nodes)

    def _op(self, op: OpEntry) -> _Found:
        isolator = self._isolator
        if isolator.wanted is not None and op.name not in isolator.wanted:
            return _missing(unmeasured(NOT_SELECTED))
        if isolator.guard.lost:
            return _missing(unmeasured(isolator.guard.reason))
        if isolator.purse is not None and isolator.purse.is_empty and not self._is_known(op):
            return _missing(unmeasured(TIME_UP))
        try:
            isolator.budget.check(tensor_bytes(op, isolator.device), "its tensors need")
            built = isolator.budget.with_room(partial(build_op, op, isolator.device, self._seed))
        except DoesNotFitError as error:
            return self._earlier(op) or _missing(unmeasured(error.message))
        except (RuntimeError, GraphbenchError) as error:
            return self._earlier(op) or _missing(_failed(f"its tensors cannot be made: {first_line(error)}"))
        return self._isolated(op, built)

    def _earlier(self, op: OpEntry) -> _Found | None:
        """What an earlier pass measured of an op, which stands; `None` where that is nothing."""
        node = next(node for node in self._record.nodes if node.name == op.name)
        units = self._isolator.book.units
        isolated, backward = units.get(("isolated", op.name)), units.get(("backward", op.name))
        if node.isolated.status != "ok" or isolated is None:
            return None
        timed = backward.measurement if backward is not None else node.backward_isolated
        return _Found(isolated.measurement, timed, node.kind, node.outputs)

    def _is_known(self, op: OpEntry) -> bool:
        return ("isolated", op.name) in self._isolator.book.units

    def _isolated(self, op: OpEntry, built: BuiltOp) -> _Found:
        isolator, function = self._isolator, self._functions[op.name]
        call = Call(
            op.name,
            function,
            built.args,
            built.kwargs,
            identity=op.target,
            state=tuple(entry.values for entry in op.tensors.values()),
            with_grad=True,
            synthetic=True,
        )
        found = _missing(unmeasured(NOT_ASKED))
        if self._train:
            found.backward = isolator.isolate_backward(call)
        real = partial(isolator.guard.attempt, isolator.device, lambda: function(*built.args, **built.kwargs))
        try:
            result, verdict = isolator.isolate(call, real)
        except GraphbenchError as error:  # alone it has most likely raised the same
            earlier = self._earlier(op)
            if earlier is not None:
                return earlier
            known = isolator.book.units.get(("isolated", op.name))
            found.isolated = known.measurement if known is not None else _failed(error.message)
            if found.isolated.status == "ok":
                found.isolated = _failed(error.message)
            return found
        found.isolated = verdict.measurement
        found.kind = "host" if verdict.has_effect is False else "view" if verdict.is_view else "compute"
        found.outputs = tuple(spec_of(tensor) for tensor in tensors_of(result))
        return found


def _missing(why: Measurement) -> _Found:
    return _Found(why, why)


def _failed(reason: str) -> Measurement:
    return Measurement(status="failed", reason=reason)


def _filled(node: NodeRecord, found: _Found | None) -> NodeRecord:
    if found is None:
        return node
    return replace(
        node, kind=found.kind, outputs=found.outputs, isolated=found.isolated, backward_isolated=found.backward
    )

"""Isolates one call, times it, and says what happened as a measurement: number, shared number, or reason."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import fx

from graphbench.analysis.device import BATCH_BELOW_NS
from graphbench.analysis.stats import quantile
from graphbench.analysis.warning_kinds import NO_BATCH
from graphbench.errors import DoesNotFitError, GraphbenchError, first_line
from graphbench.execution.backward import backward_on_this_thread
from graphbench.isolate.backward_unit import BackwardUnit
from graphbench.isolate.bench_unit import BenchUnit, RngState
from graphbench.isolate.pool import copies_bytes
from graphbench.isolate.specs import unit_key
from graphbench.measurements import Comparison, Measurement
from graphbench.measuring.options import Timers
from graphbench.memory import MemoryBudget, forget, is_out_of_memory
from graphbench.records import Policy
from graphbench.tensors import spec_of, tensors_of
from graphbench.timing import loop
from graphbench.timing.batch import CudaHold, batch_times

UNDEFINED = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted"}
NO_BACKWARD = "none of its results requires grad"


COLLECTIVE = "a collective: alone, ranks would not call it equally often"
COLLECTIVES = ("_c10d_functional", "_c10d_functional_autograd", "c10d_functional", "c10d", "_dtensor", "symm_mem")


def is_collective(function: object) -> bool:
    """Whether a call waits for other ranks, which would wait for ever if each timed it in its own number of samples.

    Source: `torch.ops._c10d_functional` and its kin, whose overloads have a `namespace` and whose packets a
        `_qualified_op_name`; `torch.distributed._functional_collectives`, torch 2.13.
    """
    packet = str(getattr(function, "_qualified_op_name", ""))
    namespace = getattr(function, "namespace", None) or packet.split("::")[0]
    module = str(getattr(function, "__module__", "") or "")
    return namespace in COLLECTIVES or module.startswith("torch.distributed")


@dataclass(frozen=True, slots=True)
class Call:
    """A call to isolate. `identity` is its target, for equal units; `state` whatever else changes its cost.

    `result_bytes` is what its results will take, as far as that is known before the call.
    """

    row: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    identity: object
    state: tuple[object, ...] = ()
    written: tuple[torch.Tensor, ...] = ()
    with_grad: bool = False
    on_device: bool = False
    result_bytes: int = 0


def waits_for_ranks(call: Call) -> bool:
    """Whether a call is a collective, or runs a graph that calls one, as the body of a checkpoint."""
    bodies = [argument for argument in call.args if isinstance(argument, fx.GraphModule)]
    graphs = [module for body in bodies for module in body.modules() if isinstance(module, fx.GraphModule)]
    return is_collective(call.function) or any(
        is_collective(node.target) for graph in graphs for node in graph.graph.nodes
    )


@dataclass(slots=True)
class Verdict:
    """What isolating a call found. `is_view` and `has_effect` are `None` when its trial failed."""

    measurement: Measurement
    is_view: bool | None = None
    has_effect: bool | None = None


@dataclass(slots=True)
class Isolator:
    """Isolates calls on one device; equal ones are measured once and refer to the row that was.

    A call whose copies would not fit into `budget` is skipped: one shared with another isolator, or the policy's.
    """

    device: torch.device
    timers: Timers
    policy: Policy
    shared_budget: MemoryBudget | None = None
    budget: MemoryBudget = field(init=False)
    done: dict[tuple[object, ...], tuple[str, Verdict]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Take the policy's budget where none is shared."""
        self.budget = self.shared_budget or MemoryBudget(self.device, self.policy.memory_budget_bytes)

    def isolate(self, call: Call, real: Callable[[], Any]) -> tuple[Any, Verdict]:
        """Time a call on pooled copies, then make the real call and compare.

        Args:
            call: the call, with its live arguments.
            real: makes the real call.

        Returns:
            The real call's result, and the verdict. Only the real call's exceptions leave this function.
        """
        if waits_for_ranks(call):
            return real(), Verdict(Measurement(status="skipped", reason=COLLECTIVE))
        key = self._key(call)
        if key in self.done:
            first, verdict = self.done[key]
            shared = replace(verdict.measurement, shared_with=first, fidelity=None)
            return real(), replace(verdict, measurement=shared)
        unit, verdict = self._measure(call)
        result = real()
        if unit is not None:
            verdict.measurement = replace(verdict.measurement, fidelity=_compared(unit, result))
        if verdict.measurement.status == "ok":
            self.done[key] = (call.row, verdict)
        return result, verdict

    def _key(self, call: Call) -> tuple[object, ...]:
        kwargs = {name: value for name, value in call.kwargs.items() if name != "stream"}
        return unit_key(call.identity, call.args, kwargs, call.state, self.policy)

    def alone(self, call: Call, *, synthetic: bool = False) -> Measurement:
        """Time a call on pooled copies; the real call was made long ago, so there is nothing to compare with.

        Args:
            call: the call, with arguments like those that it had.
            synthetic: some of them were made for this, with random values.
        """
        if waits_for_ranks(call):
            return Measurement(status="skipped", reason=COLLECTIVE)
        key = self._key(call)
        if key in self.done:
            first, verdict = self.done[key]
            return replace(verdict.measurement, shared_with=first, fidelity=None)
        _, verdict = self._measure(call)
        if synthetic and verdict.measurement.values is not None:
            verdict.measurement = replace(verdict.measurement, values="synthetic")
        if verdict.measurement.status == "ok":
            self.done[key] = (call.row, verdict)
        return verdict.measurement

    def isolate_backward(self, call: Call) -> Measurement:
        """Time the backward of a call on pooled copies, from random tangents. The real call is not made.

        Args:
            call: the call, with its live arguments, before it is made.

        Returns:
            A measurement, skipped for a call without backward. `shared_with` names the row whose backward was measured
            in this one's place.
        """
        if waits_for_ranks(call):
            return Measurement(status="skipped", reason=COLLECTIVE)
        if not torch.is_grad_enabled() or not any(
            tensor.requires_grad for tensor in tensors_of((call.args, dict(call.kwargs)))
        ):
            return Measurement(status="skipped", reason=NO_BACKWARD)
        key = ("backward", self._key(call))
        if key in self.done:
            first, verdict = self.done[key]
            return replace(verdict.measurement, shared_with=first)
        measurement = self._alone(lambda _: self._backward(call))
        if measurement.status == "ok":
            self.done[key] = (call.row, Verdict(measurement))
        return measurement

    def _backward(self, call: Call) -> Measurement:
        def ready() -> BackwardUnit:
            unit = BackwardUnit(call.row, call.function, call.args, call.kwargs, values=self.policy.values)
            if unit.has_backward:
                unit.trial()
            return unit

        self.budget.check(self._backward_bytes(call))
        with backward_on_this_thread():
            unit = ready()
            if not unit.has_backward:
                return Measurement(status="skipped", reason=NO_BACKWARD)
            measurement = self._batched(self._timed(unit), unit, ready, self._backward_bytes(call))
        return measurement if measurement.values is None else replace(measurement, values="synthetic")

    def _measure(self, call: Call) -> tuple[BenchUnit | None, Verdict]:
        units: list[BenchUnit] = []

        def timed(stream: int | None) -> Measurement:
            self.budget.check(self._bytes(call))
            try:
                units.append(self._unit(call, stream))
                return self._batched(
                    self._timed(units[0]), units[0], lambda: self._unit(call, stream), self._bytes(call)
                )
            except Exception as error:
                if is_out_of_memory(error):
                    units.clear()  # its copies are in the way of the next attempt
                raise

        measurement = self._alone(timed)
        if not units:
            return None, Verdict(measurement)
        return units[0], Verdict(measurement, units[0].is_view, units[0].has_effect)

    def _alone(self, timed: Callable[[int | None], Measurement]) -> Measurement:
        """What `timed(stream)` measures, or a failed measurement that says what it raised."""
        rng = RngState(self.device)
        try:
            with _own_stream(self.device) as stream:
                return self.budget.with_room(lambda: timed(stream))
        except DoesNotFitError as error:
            return Measurement(status="skipped", reason=error.message)
        except GraphbenchError as error:
            return Measurement(status="failed", reason=error.message)
        except Exception as error:  # noqa: BLE001 - whatever the user's op raises fails its row, not the run
            reason = f"alone it raises {type(error).__name__}: {first_line(error)}"
            return Measurement(status="failed", reason=reason)
        finally:
            rng.restore()  # the real call must draw what it would have drawn

    def _timed(self, unit: BenchUnit | BackwardUnit) -> Measurement:
        if unit.device == "cpu" != self.device.type and not unit.may_launch_nothing:
            return Measurement(status="skipped", reason=f"runs on the CPU, not on {self.device}")
        timers, policy = self.timers, self.policy
        return loop.measure(timers.isolated, unit, policy, values=policy.values, clocks=timers.clocks)

    def _batched(
        self, measurement: Measurement, first: loop.Unit, another: Callable[[], loop.Unit], unit_bytes: int
    ) -> Measurement:
        """The measurement, with the batch times of a tiny unit beside its own; each takes `unit_bytes`."""
        samples, size = measurement.samples, self.policy.batch
        if samples is None or size is None or not 0 < quantile(samples.busy_ns, 0.5) < BATCH_BELOW_NS:
            return measurement
        hold = CudaHold(first.device) if self.device.type == "cuda" else None
        units: list[loop.Unit] = []
        try:
            self.budget.check(size * unit_bytes, f"{size} times its copies need")
            units = [first, *(another() for _ in range(size - 1))]
            return replace(measurement, batch_ns=batch_times(self.timers.running, units, self.policy, hold=hold))
        except GraphbenchError as error:
            reason = error.message
        except Exception as error:  # noqa: BLE001 - out of memory for the copies, say: the row keeps what it has
            units.clear()
            forget(error)
            reason = f"{type(error).__name__}: {first_line(error)}"
        return replace(measurement, warnings=(*measurement.warnings, f"{NO_BATCH}: {reason}"))

    def _bytes(self, call: Call) -> int:
        """What a call's unit takes: copies, the made-up values to put back, what it wrote, and two results of it."""
        copies = copies_bytes(tensors_of((call.args, dict(call.kwargs))), self.device)
        saved = copies if self.policy.values == "synthetic" else 0
        return copies + saved + copies_bytes(call.written, self.device) + 2 * call.result_bytes

    def _backward_bytes(self, call: Call) -> int:
        """What its backward takes: copies, the made-up values, a result and a tangent like it, and gradients."""
        tensors = tensors_of((call.args, dict(call.kwargs)))
        copies = copies_bytes(tensors, self.device)
        saved = copies if self.policy.values == "synthetic" else 0
        gradients = copies_bytes([tensor for tensor in tensors if tensor.requires_grad], self.device)
        return copies + saved + gradients + 2 * call.result_bytes

    def _unit(self, call: Call, stream: int | None) -> BenchUnit:
        kwargs = dict(call.kwargs)
        if "stream" in kwargs and stream is not None:
            kwargs["stream"] = stream
        return BenchUnit(
            call.row,
            call.function,
            call.args,
            kwargs,
            written=call.written,
            with_grad=call.with_grad and torch.is_grad_enabled(),
            values=self.policy.values,
            device=self.device,
            draws_apart="_scaled_dot_product" in call.row,
            undefined=not UNDEFINED.isdisjoint(_names(call)),
        )


def result_bytes(example: Any) -> int:
    """Bytes of what an op returns, by the values that it was traced with; sizes that are not known count as 0."""
    specs = [spec_of(tensor) for tensor in tensors_of(example)]
    return sum(math.prod(max(size, 0) for size in spec.shape) * getattr(torch, spec.dtype).itemsize for spec in specs)


def _compared(unit: BenchUnit, real: Any) -> Comparison:
    """How a unit's result differs from the real one, where there is memory left to tell."""
    try:
        return unit.compare(real)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        forget(error)
        return Comparison(equal=None, max_abs=None, note="not compared: out of memory")


def _names(call: Call) -> set[str]:
    """What a call's target is called: a function's or method's name, an `OpOverload`'s without its overload."""
    function = call.function
    return {getattr(function, "__name__", ""), getattr(function, "_opname", ""), str(call.identity)}


@contextlib.contextmanager
def _own_stream(device: torch.device) -> Iterator[int | None]:
    """A side stream of the device, ordered after and before everything else; its raw handle, `None` on the CPU."""
    if device.type != "cuda":
        yield None
        return
    torch.cuda.synchronize(device)
    stream = torch.cuda.Stream(device)
    with torch.cuda.device(device), torch.cuda.stream(stream):
        try:
            yield stream.cuda_stream
        finally:
            torch.cuda.synchronize(device)

"""Isolates one call, times it, and says what happened as a measurement: number, shared number, or reason."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from graphbench.analysis.device import BATCH_BELOW_NS
from graphbench.analysis.stats import quantile
from graphbench.analysis.warning_kinds import NO_BATCH
from graphbench.condition_records import Policy
from graphbench.errors import DoesNotFitError, GraphbenchError, IsolationError, RaisedError, first_line
from graphbench.execution.backward import backward_on_this_thread
from graphbench.isolate.backward_unit import BackwardUnit
from graphbench.isolate.bench_unit import BenchUnit, RngState
from graphbench.isolate.compare import NEW_NAN
from graphbench.isolate.costs import counting
from graphbench.isolate.specs import unit_key
from graphbench.measurements import Comparison, Measurement
from graphbench.measuring.calls import Call, Verdict, counted_call, not_isolated
from graphbench.measuring.collectives import COLLECTIVE, waits_for_ranks
from graphbench.measuring.custom_calls import ByHand, refused, stamped, without_backward
from graphbench.measuring.guard import Guard
from graphbench.measuring.options import Timers
from graphbench.measuring.spending import TIME_UP, Key, Purse
from graphbench.measuring.unit_sizes import backward_bytes, unit_bytes
from graphbench.memory import MemoryBudget, forget, is_out_of_memory
from graphbench.records import NOT_SELECTED
from graphbench.runs.entries import UnitKind, UnitRow, WorkKind
from graphbench.runs.ledger import Book, Ledger
from graphbench.timing import loop
from graphbench.timing.batch import CudaHold, batch_times

NO_BACKWARD = "none of its results requires grad"


@dataclass(slots=True)
class Isolator:
    """Isolates calls on one device; equal ones are measured once and refer to the row that was.

    `guard` turns what units do into rows; `book` has what is known already, and is told what is found. A call whose
    copies would not fit into `budget` is skipped: one shared with another isolator, or the policy's. Only `wanted` rows
    are isolated, all where it is `None`, and nothing any more once `purse` is empty; `again` are rows that are measured
    though they are known. `watch` is told the row that comes next. `by_hand` knows which calls cannot be repeated.
    """

    device: torch.device
    timers: Timers
    policy: Policy
    guard: Guard = field(default_factory=Guard)
    book: Book = field(default_factory=lambda: Ledger().book(""))
    shared_budget: MemoryBudget | None = None
    wanted: Collection[str] | None = None
    purse: Purse | None = None
    watch: Callable[[str], None] = lambda _: None
    again: set[Key] = field(default_factory=set)
    budget: MemoryBudget = field(init=False)
    done: dict[tuple[object, ...], tuple[str, Verdict]] = field(default_factory=dict)
    by_hand: ByHand = field(default_factory=ByHand)

    def __post_init__(self) -> None:
        """Take the policy's budget where none is shared."""
        self.budget = self.shared_budget or MemoryBudget(self.device, self.policy.memory_budget_bytes)

    def isolate(self, call: Call, real: Callable[[], Any]) -> tuple[Any, Verdict]:
        """Time a call on pooled copies, then make the real call and compare.

        Args:
            call: the call, with its live arguments.
            real: makes the real call.

        Returns:
            The real call's result, and the verdict. What is raised comes from the real call or from comparing with it.
        """
        if waits_for_ranks(call.function, call.args):
            return real(), Verdict(Measurement(status="skipped", reason=COLLECTIVE))
        if not self._is_wanted(call.row):
            return not_isolated(call, real, NOT_SELECTED)
        key = self._key(call)
        known = self._known("isolated", call, key)
        if known is not None:
            result, counted = counted_call(call, real)
            return result, replace(known, counted=counted)
        if self._time_is_up:
            return not_isolated(call, real, TIME_UP)
        self.guard.settle(self.device)  # what the calls before launched is not this one's fault
        self._begin("isolated", call.row)
        unit, verdict = self._measure(call)
        try:
            result, verdict.counted = counted_call(call, real)
            verdict.measurement = replace(verdict.measurement, work=verdict.counted.work)
            if unit is not None and verdict.measurement.status == "ok":
                fidelity = _compared(unit, result)
                by_hand = self.by_hand.differing(call.custom, fidelity)
                verdict.measurement = by_hand or _faithful(verdict.measurement, fidelity)
        except Exception:
            self._note("isolated", call.row, key, verdict)
            raise
        self._note("isolated", call.row, key, verdict)  # not after Ctrl-C: the run that goes on compares it
        return result, verdict

    def _known(self, kind: UnitKind, call: Call, key: tuple[object, ...]) -> Verdict | None:
        """What is known of a call: from an earlier process, or from an equal unit."""
        entry = self._recalled(kind, call.row)
        if entry is not None:
            verdict = Verdict(entry.measurement, entry.is_view, entry.has_effect)
            if entry.measurement.status == "ok" and entry.measurement.shared_with is None:
                self.done.setdefault(key, (call.row, verdict))
            return verdict
        if key not in self.done or (kind, call.row) in self.again:
            return None
        first, verdict = self.done[key]
        shared = _stamped(call, replace(verdict.measurement, shared_with=first, fidelity=None))
        verdict = replace(verdict, measurement=shared)
        self._put(kind, call.row, verdict)
        return verdict

    def _recalled(self, kind: UnitKind, row: str) -> UnitRow | None:
        """What is known of a row, unless it is to be measured again."""
        is_due = (kind, row) in self.again and not self._time_is_up
        return None if is_due else self.book.units.get((kind, row))

    @property
    def _time_is_up(self) -> bool:
        return self.purse is not None and self.purse.is_empty

    def _begin(self, kind: WorkKind, row: str) -> None:
        self.watch(row)
        self.book.begin(kind, row)

    def _is_wanted(self, row: str) -> bool:
        return self.wanted is None or row in self.wanted

    def _note(self, kind: UnitKind, row: str, key: tuple[object, ...], verdict: Verdict) -> None:
        """Keep what was found; a process that has lost its device may end here."""
        known = self.book.units.get((kind, row))
        self.again.discard((kind, row))
        if known is not None and known.measurement.status == "ok" != verdict.measurement.status:
            verdict.measurement = known.measurement  # the first time it went well
        if verdict.measurement.status == "ok":
            self.done[key] = (row, verdict)
        self._put(kind, row, verdict)
        if known is not None:
            self._share_again(kind, row, verdict.measurement)
        self.guard.leave_if_lost()

    def _share_again(self, kind: UnitKind, first: str, measured: Measurement) -> None:
        """Give the rows that share a row's measurement its new one, at once: they may not be come to any more."""
        for unit in list(self.book.units.values()):
            if unit.kind == kind and unit.measurement.shared_with == first:
                shared = replace(measured, shared_with=first, fidelity=None, values=unit.measurement.values)
                self.book.put(replace(unit, measurement=shared))

    def _put(self, kind: UnitKind, row: str, verdict: Verdict) -> None:
        self.book.put(
            UnitRow(
                region=self.book.key,
                kind=kind,
                row=row,
                measurement=verdict.measurement,
                is_view=verdict.is_view,
                has_effect=verdict.has_effect,
            )
        )

    def _key(self, call: Call) -> tuple[object, ...]:
        kwargs = {name: value for name, value in call.kwargs.items() if name != "stream"}
        return unit_key(call.identity, call.args, kwargs, call.state, self.policy)

    def alone(self, call: Call) -> Measurement:
        """Time a call on pooled copies; the real call was made long ago, so there is nothing to compare with.

        Args:
            call: the call, with arguments like those that it had.
        """
        if waits_for_ranks(call.function, call.args):
            return Measurement(status="skipped", reason=COLLECTIVE)
        if not self._is_wanted(call.row):
            return Measurement(status="skipped", reason=NOT_SELECTED)
        key = self._key(call)
        known = self._known("isolated", call, key)
        if known is not None:
            return known.measurement
        if self._time_is_up:
            return Measurement(status="skipped", reason=TIME_UP)
        self._begin("isolated", call.row)
        _, verdict = self._measure(call)
        self._note("isolated", call.row, key, verdict)
        return verdict.measurement

    def isolate_backward(self, call: Call) -> Measurement:
        """Time the backward of a call on pooled copies, from random tangents. The real call is not made.

        Args:
            call: the call, with its live arguments, before it is made.

        Returns:
            A measurement, skipped for a call without backward. `shared_with` names the row whose backward was measured
            in this one's place.
        """
        if waits_for_ranks(call.function, call.args):
            return Measurement(status="skipped", reason=COLLECTIVE)
        if not torch.is_grad_enabled() or not any(tensor.requires_grad for tensor in call.tensors):
            return Measurement(status="skipped", reason=NO_BACKWARD)
        if not self._is_wanted(call.row):
            return Measurement(status="skipped", reason=NOT_SELECTED)
        key = ("backward", self._key(call))
        known = self._known("backward", call, key)
        if known is not None:
            return known.measurement
        if self._time_is_up:
            return Measurement(status="skipped", reason=TIME_UP)
        self.guard.settle(self.device)
        self._begin("backward", call.row)
        measurement = self._alone(call, lambda _: self._backward(call), backward=True)
        self._note("backward", call.row, key, Verdict(measurement))
        return measurement

    def _backward(self, call: Call) -> Measurement:
        def ready() -> BackwardUnit:
            bench = call.custom.bench
            unit = BackwardUnit(call.row, call.function, call.args, call.kwargs, values=values, bench=bench)
            if unit.has_backward:
                unit.trial()
            return unit

        values = call.values(self.policy)
        nbytes = backward_bytes(call.tensors, self.device, values, call.result_bytes)
        self.budget.check(nbytes)
        with backward_on_this_thread():
            unit = ready()
            if not unit.has_backward:
                return without_backward(call.custom, NO_BACKWARD)
            measurement = self._batched(self._timed(unit), unit, ready, nbytes)
            with counting() as counter:
                work = counter.work(unit.run())
        return replace(measurement, work=work)

    def _measure(self, call: Call) -> tuple[BenchUnit | None, Verdict]:
        units: list[BenchUnit] = []

        def timed(stream: int | None) -> Measurement:
            values = call.values(self.policy)
            nbytes = unit_bytes(call.tensors, call.written, self.device, values, call.result_bytes)
            self.budget.check(nbytes)
            try:
                units.append(self._unit(call, stream))
                measurement = self._batched(self._timed(units[0]), units[0], lambda: self._unit(call, stream), nbytes)
                units[0].finish()
                return measurement
            except Exception as error:
                if is_out_of_memory(error):
                    units.clear()  # its copies are in the way of the next attempt
                raise

        measurement = _stamped(call, self._alone(call, timed))
        if not units:
            return None, Verdict(measurement)
        return units[0], Verdict(measurement, units[0].is_view, units[0].has_effect)

    def _alone(self, call: Call, timed: Callable[[int | None], Measurement], *, backward: bool = False) -> Measurement:
        """What `timed(stream)` measures, or a measurement that says why nothing could be."""

        def on_own_stream() -> Measurement:
            with _own_stream(self.device) as stream:
                return self.budget.with_room(lambda: timed(stream))

        if self.guard.lost:
            return Measurement(status="skipped", reason=self.guard.reason)
        by_hand = self.by_hand.untried(call.custom)
        if by_hand is not None:
            return by_hand
        rng = RngState(self.device)
        try:
            return stamped(call.custom, self.guard.attempt(self.device, on_own_stream))
        except DoesNotFitError as error:
            return Measurement(status="skipped", reason=error.message)
        except IsolationError as error:
            return refused(call.custom, error.message)
        except RaisedError as error:
            # A forward that raises for good ends the run; whether a backward would, nobody knows yet.
            return _failed(error.message) if backward else refused(call.custom, error.message)
        except GraphbenchError as error:
            return _failed(error.message)
        finally:
            if not self.guard.lost:
                rng.restore()  # the real call must draw what it would have drawn

    def _timed(self, unit: BenchUnit | BackwardUnit) -> Measurement:
        if unit.device == "cpu" != self.device.type and not unit.may_launch_nothing:
            return Measurement(status="skipped", reason=f"runs on the CPU, not on {self.device}")
        timers, policy = self.timers, self.policy
        return loop.measure(timers.isolated, unit, policy, values=unit.values, clocks=timers.clocks)

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
            values=call.values(self.policy),
            device=self.device,
            draws_apart="_scaled_dot_product" in call.row,
            undefined=call.is_undefined,
            bench=call.custom.bench,
        )


def _failed(reason: str) -> Measurement:
    return Measurement(status="failed", reason=reason)


def _compared(unit: BenchUnit, real: Any) -> Comparison:
    """How a unit's result differs from the real one, where there is memory left to tell."""
    try:
        return unit.compare(real)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        forget(error)
        return Comparison(equal=None, max_abs=None, note="not compared: out of memory")


def _stamped(call: Call, measurement: Measurement) -> Measurement:
    """The measurement with what the call's values really are."""
    return measurement if not call.synthetic or measurement.values is None else replace(measurement, values="synthetic")


def _faithful(measurement: Measurement, fidelity: Comparison) -> Measurement:
    """The measurement with how its result compares; it fails where the unit made NaN of what is none."""
    if measurement.status == "ok" and NEW_NAN in fidelity.note:
        return replace(
            measurement, status="failed", reason=f"alone it makes {NEW_NAN}", samples=None, fidelity=fidelity
        )
    return replace(measurement, fidelity=fidelity)


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

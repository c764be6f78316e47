"""Measures one region: both sides as wholes and in order, every unit alone, and puts the records together."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from graphbench.capture import ambient
from graphbench.condition_records import Policy
from graphbench.errors import CaptureError, ContextLostError, GraphbenchError
from graphbench.isolate.compare import compare_trees
from graphbench.measurements import Comparison
from graphbench.measuring.compiled import CompiledSide, held_nodes
from graphbench.measuring.compiled_runs import AnySide, backward_run, forward_run, pending_backward
from graphbench.measuring.eager import EagerResults, eager_run, isolate_nodes, node_records
from graphbench.measuring.eager_backward import EagerBackward, with_backward
from graphbench.measuring.isolating import Isolator
from graphbench.measuring.means import Means
from graphbench.measuring.opaque import COMPILED_BY, OpaqueSide, opaque_sides
from graphbench.measuring.peaks import eager_peak, with_device_peak, with_peak, with_peaks
from graphbench.measuring.runs import Label, MeasuredSide, WholeRun, measure_side, replaying, undisturbed
from graphbench.measuring.selection import Selection
from graphbench.measuring.spending import NODES_PART, OPS_PART, ROWS_PART, Key, Purse
from graphbench.measuring.unfused import isolating_ops, quartered
from graphbench.measuring.unmeasured_region import (
    PHASES,
    graph_inputs_of,
    post_grad_of,
    skipped,
    ungrouped_note,
    with_fates,
)
from graphbench.records import KernelRecord, NodeRecord, RegionRecord, Side
from graphbench.regions import Region
from graphbench.runs.entries import SideRow
from graphbench.runs.ledger import Book
from graphbench.runs.partial import CUT_SHORT
from graphbench.tensors import without_graph

RANDOM = "random ops draw other numbers when compiled"


class RegionMeasuring:
    """A captured region being measured. What fails is a row or a side with its reason; its own result is not touched.

    Args:
        region: what to measure.
        means: how.
        book: has what is known already, and is told what is found.
    """

    def __init__(self, region: Region, means: Means, book: Book) -> None:
        self._region = region
        self._means = means
        self._book = book
        self._steps: _Measuring | None = None

    def measure(self) -> RegionRecord:
        """Measure it.

        Raises:
            CaptureError: an input was replaced since capture.
            JournalError: what was found cannot be written.
        """
        self._region.check_inputs()

        def whole() -> RegionRecord:
            self._steps = _Measuring(self._region, self._means, self._book)
            return self._steps.record()

        return self._as_called(whole)

    def again(self, rows: Iterable[Key], policy: Policy, purse: Purse) -> RegionRecord:
        """Measure some rows again, and those for which time was up; a row that fails the second time keeps its first.

        Args:
            rows: that have been measured.
            policy: by which.
            purse: the time for it.

        Raises:
            CaptureError: an input was replaced since capture.
            ContextLostError: the device was lost meanwhile: what was measured before stands.
            JournalError: what was found cannot be written.
        """
        self._region.check_inputs()
        steps = self._steps
        assert steps is not None
        record = self._as_called(lambda: steps.again(frozenset(rows), policy, purse))
        if self._means.guard.lost:
            raise ContextLostError(self._means.guard.reason)
        return record

    def _as_called(self, work: Callable[[], RegionRecord]) -> RegionRecord:
        """Work with the region's inputs, in the state in which it was called."""
        capture = self._region.capture
        assert capture is not None
        record: list[RegionRecord] = []
        try:
            with contextlib.ExitStack() as stack:
                stack.enter_context(self._region.inputs_present())
                stack.enter_context(ambient.rng_untouched())
                stack.enter_context(ambient.restored(capture.ambient))
                if capture.device.type == "cuda":
                    stack.enter_context(torch.cuda.device(capture.device))
                record.append(work())
        except RuntimeError:  # a device that is lost has no generator to put back; all that is the host's has been
            if not (record and self._means.guard.lost):
                raise
        return record[0]


class _Measuring:
    """The steps of measuring one region, and what each leaves behind."""

    def __init__(self, region: Region, means: Means, book: Book) -> None:
        assert region.capture is not None
        self.region = region
        self.device = region.capture.device
        self.means = means
        self.book = book
        self.notes: list[str] = []
        self.problem = ""
        self.has_backward = self._has_backward()
        self.sides = self._sides()
        if book.ledger.journaled:
            book.known(skipped(region, CUT_SHORT))
        for side in self.sides.values():
            side.recall(book.units)
            self.notes += side.graph_notes()
        if region.groups.ungrouped:
            self.notes.append(ungrouped_note(region))
        self.isolator = unit = Isolator(
            self.device,
            means.timers,
            means.rough or means.policy,
            means.guard,
            book,
            wanted=self._wanted(Selection.of(means.policy)),
            watch=means.watch,
        )
        self.purse = means.purse
        self.least_s = ROWS_PART * means.purse.left_s if means.purse is not None else 0.0
        self.op_isolator = replace(unit, policy=quartered(unit.policy), shared_budget=unit.budget, done={})

    def _wanted(self, selection: Selection) -> frozenset[str] | None:
        if selection.takes_all:
            return None
        known = skipped(self.region, "")
        return selection.rows(self.region.key, known.nodes, known.kernels, known.post_grad)

    def _has_backward(self) -> bool:
        """Whether the region's results require grad; running it once also makes Inductor compile the backward."""
        try:
            with replaying(f"{self.region.key} compiled"):
                pending = pending_backward(self.region)
                if pending is not None:
                    pending.run()
        except CaptureError as error:
            self.problem = error.message
            return False
        return pending is not None

    def _sides(self) -> dict[str, AnySide]:
        if self.region.backend:
            self.notes.append(COMPILED_BY.format(backend=self.region.backend))
            return {**opaque_sides(self.region, has_backward=self.has_backward)}
        found: dict[str, AnySide] = {}
        for phase in PHASES:
            graph = self.region.graph(phase)
            if graph is not None:
                found[phase] = CompiledSide.of(graph)
                if graph.fault:
                    self.notes.append(f"{phase}: kernels could not be mapped to nodes: {graph.fault}")
        if "forward" not in found or not found["forward"].rows():
            self.notes.append(
                "Inductor made no kernels of the forward graph: it does nothing, or only returns its inputs"
            )
        return found

    def again(self, rows: frozenset[Key], policy: Policy, purse: Purse) -> RegionRecord:
        """The record with some rows measured again, and those for which time was up."""
        self.purse, self.least_s = purse, 0.0
        for isolator, its_policy in ((self.isolator, policy), (self.op_isolator, quartered(policy))):
            isolator.policy, isolator.again, isolator.purse = its_policy, set(rows), purse
        for side in self.sides.values():
            side.unfused_ran = False
        return self.record()

    def record(self) -> RegionRecord:
        measured = self._measured_sides()
        if self.purse is not None and self.purse.left_s < self.least_s:
            self.purse = Purse(self.least_s)  # whole runs took long: it takes longer, or no row had a time
        absent = MeasuredSide(Side(reason=self._no_backward()))
        eager, forward = measured["eager"], measured["forward"]
        backward, eager_backward = measured.get("backward", absent), measured.get("eager_backward", absent)
        found, outputs = self._isolate()
        nodes = node_records(self.region, found, eager.rows, eager.side.reason)
        peak = None if self.means.guard.lost else eager_peak(self.region, self.notes)
        nodes = with_peaks(with_backward(nodes, eager_backward.rows, eager_backward.side.reason), peak)
        for side in self.sides.values():
            if isinstance(side, OpaqueSide):
                side.nodes = nodes  # by now it is known which are views
        kernels = self._kernels(forward) + self._kernels(backward, "backward")
        sides = (eager.side, eager_backward.side, forward.side, backward.side)
        return with_peak(self._assemble(nodes, kernels, sides, outputs), peak)

    def _measured_sides(self) -> dict[str, MeasuredSide]:
        """Every side of the region: all without an instrument first, then each labelled."""
        label = Label()
        runs = self._runs(label)
        measured = {name: MeasuredSide.recalled(self.book.sides[name]) for name in runs if name in self.book.sides}
        before: dict[str, Side] = {}
        for name, (run, _) in runs.items():
            if name not in measured:
                found = self._side(name, partial(self._undisturbed, run))
                before[name] = found.side
                if found.side.reason:
                    measured[name] = self._put(name, found, ())
        for name, (run, rows) in runs.items():
            if name not in measured:
                notes: list[str] = []
                found = self._side(name, partial(self._labelled, before[name], run, label, rows, notes))
                measured[name] = self._put(name, found, notes)
        for name in runs:
            self.notes += [note for note in self.book.sides[name].notes if note not in self.notes]
        return measured

    def _undisturbed(self, run: WholeRun) -> MeasuredSide:
        side = with_device_peak(undisturbed(run, self.means.timers, self.means.side_policy), run)
        return MeasuredSide.failed(side, side.reason) if side.reason else MeasuredSide(side)

    def _labelled(
        self, side: Side, run: WholeRun, label: Label, rows: Callable[[], list[str]], notes: list[str]
    ) -> MeasuredSide:
        return measure_side(side, run, label, rows, self.means.timers, self.means.side_policy, notes)

    def _put(self, name: str, found: MeasuredSide, notes: Sequence[str]) -> MeasuredSide:
        """Note a side; a process that has lost its device may end here."""
        self.book.put(
            SideRow(
                region=self.region.key,
                row=name,
                side=found.side,
                rows=tuple(found.rows.items()),
                calls=tuple(found.calls.items()),
                notes=tuple(notes),
            )
        )
        self.means.guard.leave_if_lost()
        return found

    def _side(self, name: str, work: Callable[[], MeasuredSide]) -> MeasuredSide:
        """Do a part of a side's work. What keeps it from being done is its reason."""
        self.book.begin("side", name)
        try:
            found = self.means.guard.attempt(self.device, work, side=True)
            if found.side.reason:
                self.means.guard.look(self.device, None)
        except GraphbenchError as error:
            return MeasuredSide.failed(Side(), error.message)
        return found

    def _runs(self, label: Label) -> dict[str, tuple[WholeRun, Callable[[], list[str]]]]:
        """Every whole run of the region by its side's name, with the rows that it labels."""
        region, forward, backward = self.region, self.sides.get("forward"), self.sides.get("backward")
        runs: dict[str, tuple[WholeRun, Callable[[], list[str]]]] = {
            "eager": (eager_run(region, label), lambda: [node.name for node in region.nodes]),
            "forward": (forward_run(region, label, forward), forward.rows if forward else list),
        }
        if self.has_backward or self.problem:  # a compiled replay that failed says nothing of eager's
            eager_backward = EagerBackward(region, label)
            runs["eager_backward"] = (eager_backward.whole_run(), eager_backward.rows)
        if self.has_backward and backward is not None:
            runs["backward"] = (backward_run(region, label, backward), backward.rows)
        return runs

    def _no_backward(self) -> str:
        if not self.has_backward:
            return self.problem or "the region has no backward: none of its results requires grad"
        return "Inductor made no kernels of the backward graph"

    def _isolate(self) -> tuple[EagerResults, Comparison | None]:
        """Every unit alone: nodes in one eager run, kernels in one compiled run of each phase."""
        forward = self.sides.get("forward")
        single = {node.name for node in self.region.nodes if len(node.outputs) == 1}
        held = held_nodes(forward, single) if isinstance(forward, CompiledSide) else {}
        if self.purse is not None:
            self.isolator.purse = self.purse.part(NODES_PART)
        found = isolate_nodes(self.region, self.isolator, set(held.values()), self.means.tick)
        if self.purse is not None:
            self.isolator.purse, self.op_isolator.purse = self.purse, self.purse.part(OPS_PART)
        values = {} if found.draws else found.values
        expected = {post_grad: (node, values[node]) for post_grad, node in held.items() if node in values}
        result = self._isolate_kernels(forward, expected)
        if found.draws:
            self.notes.append(f"{RANDOM}: eager and compiled values are not compared")
            return found, Comparison(equal=None, max_abs=None, note=RANDOM)
        if found.stopped or self.problem:
            return found, Comparison(equal=None, max_abs=None, note=found.stopped or self.problem)
        return found, compare_trees(result, found.result, tolerance=10.0)

    def _isolate_kernels(self, forward: AnySide | None, expected: dict[str, tuple[str, torch.Tensor]]) -> Any:
        """The compiled result; when the replay fails, `None`, and the kernels behind it have no isolated times."""
        result = None
        try:
            with self._pass("forward kernels"):
                run = forward_run(self.region, Label(), None)
                run.prepare()
                with self._isolating(forward, expected) if forward else contextlib.nullcontext():
                    result = without_graph(run.run())  # which would keep all that it saved for backward
            backward = self.sides.get("backward")
            if self.has_backward and backward is not None:
                with self._pass("backward kernels"):
                    pending = backward_run(self.region, Label(), backward)
                    pending.prepare()
                    with self._isolating(backward, {}):
                        pending.run()
        except (CaptureError, ContextLostError) as error:
            lost = self.means.guard.lost and self.means.guard.reason
            self.problem = self.problem or lost or error.message
            for side in self.sides.values():
                side.stopped = self.problem
                side.recall(self.book.units)
        return result

    @contextlib.contextmanager
    def _pass(self, name: str) -> Iterator[None]:
        """A run of a compiled graph during which its kernels are isolated.

        Raises:
            CaptureError: an earlier process died of it.
        """
        if name in self.book.stopped:
            raise CaptureError(self.book.stopped[name])
        self.means.guard.settle(self.device)
        self.book.begin("pass", name)
        try:
            yield
        except ContextLostError as error:
            self.book.stop(name, error.message)
            self.means.guard.leave_if_lost()
            raise

    @contextlib.contextmanager
    def _isolating(self, side: AnySide, expected: dict[str, tuple[str, torch.Tensor]]) -> Iterator[None]:
        """While inside, the side's first call is preceded by its ops alone, and each of its kernels is isolated."""
        tick = self.means.tick
        if isinstance(side, OpaqueSide):  # the whole graph, which ran alone already
            yield
            return
        with side.isolating(self.isolator, expected, tick), isolating_ops(side, self.op_isolator, tick):
            yield

    def _kernels(self, measured: MeasuredSide, phase: str = "forward") -> tuple[KernelRecord, ...]:
        compiled = self.sides.get(phase)
        return compiled.records(measured) if compiled else ()

    def _assemble(
        self,
        nodes: tuple[NodeRecord, ...],
        kernels: tuple[KernelRecord, ...],
        sides: tuple[Side, Side, Side, Side],
        outputs: Comparison | None,
    ) -> RegionRecord:
        region, capture, compiled_backward = self.region, self.region.capture, self.region.graph("backward")
        assert capture is not None
        was_compiled = compiled_backward is not None and not region.shapes_of  # with the first group of sizes
        backward_ns = compiled_backward.compile_ns if compiled_backward is not None and was_compiled else None
        return RegionRecord(
            key=region.key,
            compile_id=region.compile_id,
            status="ok",
            location=region.location,
            device=str(capture.device),
            calls=region.calls,
            shapes_of=region.shapes_of,
            sizes=tuple(region.sizes.items()),
            backend=region.backend,
            inputs=capture.records,
            ambient=capture.ambient,
            nodes=with_fates(region, nodes, self.sides.values(), kernels),
            post_grad=post_grad_of(self.sides.values(), self.problem),
            graph_inputs=graph_inputs_of(self.sides.values()),
            kernels=kernels,
            code=tuple(side.code() for side in self.sides.values() if isinstance(side, CompiledSide)),
            refusals=tuple(refusal for side in self.sides.values() for refusal in side.refusals()),
            eager=sides[0],
            eager_backward=sides[1],
            forward=replace(sides[2], compile_ns=None if region.shapes_of else region.compile_ns),
            backward=replace(sides[3], compile_ns=backward_ns),
            outputs=outputs,
            captured_bytes=capture.nbytes,
            spilled_bytes=sum((capture.spilled.host_bytes, capture.spilled.disk_bytes)) if capture.spilled else 0,
            notes=tuple(dict.fromkeys(self.notes)),
        )

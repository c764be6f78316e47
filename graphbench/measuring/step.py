"""Records a whole live step: kernels of compiled graphs and the eager ops around them, each under its label."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from time import perf_counter_ns
from typing import Any

import torch

from graphbench.capture.gaps import CompiledDepth, GapMode, GapOp
from graphbench.errors import CaptureError, GraphbenchError, UsageError, first_line
from graphbench.inductor import wrapper as wrappers
from graphbench.inductor.sites import Site
from graphbench.measurements import Measurement
from graphbench.measuring.compiled import CompiledSide
from graphbench.measuring.locking import clock_lock
from graphbench.measuring.options import MeasureOptions, timers_for
from graphbench.measuring.runs import Label
from graphbench.measuring.whole import measure_session, nothing_captured
from graphbench.records import ProfileRecord
from graphbench.session import Session
from graphbench.step_records import StepRecord, StepRow
from graphbench.timing import loop
from graphbench.timing.base import Session as TimingSession
from graphbench.timing.base import Timer


def profile_step(
    session: Session,
    fn: Callable[..., Any],
    args: Sequence[Any],
    warmup_steps: int,
    restore: Sequence[Any],
    options: MeasureOptions,
) -> ProfileRecord:
    """Warm up, record one call of `fn`, then measure the regions that it ran.

    Raises:
        CaptureError: `fn` raised, nothing was captured, or the recorded step ran nothing compiled.
        UsageError: fewer than one warm-up step.
    """
    if warmup_steps < 1:
        raise UsageError(f"warmup_steps={warmup_steps}: expected at least 1, since the first step compiles")
    step = compiled_first(fn)
    with _state_put_back(restore):
        timed = [_timed(session, step, args)]
        if not session.regions:
            raise nothing_captured(session)
        device = next((region.capture.device for region in session.regions if region.capture), torch.device("cpu"))
        recorder = StepRecorder(session, timers_for(options, device).running)
        lock_notes: list[str] = []
        with clock_lock(options, device, lock_notes):
            if options.lock_gpu_clock is not None:
                timed.clear()  # wall times are shown of steps under the recorded one's clock
            timed += [_timed(session, step, args) for _ in range(warmup_steps - 1)]
            before = _compiles(session), session.tick
            record = recorder.record(step, args, [wall_ns for wall_ns, compiled in timed if not compiled])
    if before == (_compiles(session), session.tick):
        raise CaptureError(
            "the recorded step ran no code compiled with backend='graphbench'",
            hint="let it call what torch.compile(model, backend='graphbench') returned; where it does, "
            "torch._dynamo.explain(model)(*inputs) says why that ran eagerly",
        )
    record = replace(record, notes=(*record.notes, *lock_notes))
    return measure_session(session, options, step=record, reached=recorder.reached)


def compiled_first(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The callable itself, or a module in which nothing is compiled yet, compiled.

    Source: `torch._dynamo.eval_frame.OptimizedModule`, `nn.Module._compiled_call_impl`, torch 2.13.
    """
    if not isinstance(fn, torch.nn.Module):
        return fn
    optimized = torch._dynamo.eval_frame.OptimizedModule
    if any(isinstance(module, optimized) or module._compiled_call_impl is not None for module in fn.modules()):
        return fn
    from graphbench.session import backend

    compiled: Callable[..., Any] = torch.compile(fn, backend=backend)
    return compiled


@contextlib.contextmanager
def _state_put_back(owners: Sequence[Any]) -> Iterator[None]:
    states = [copy.deepcopy(owner.state_dict()) for owner in owners]
    try:
        yield
    finally:
        for owner, state in zip(owners, states, strict=True):
            owner.load_state_dict(state)


def _timed(session: Session, step: Callable[..., Any], args: Sequence[Any]) -> tuple[int, bool]:
    """Wall time of one whole step in nanoseconds, the device drained before and after; and whether it compiled."""
    before = _compiles(session)
    _drain()
    start_ns = perf_counter_ns()
    _call(step, args)
    _drain()
    return perf_counter_ns() - start_ns, _compiles(session) != before


def _compiles(session: Session) -> tuple[int, int, int]:
    """What has been compiled so far: regions, their graphs (a backward compiles late), and Dynamo's own count."""
    graphs = sum(len(region.graphs) for region in session.regions)
    return len(session.regions), graphs, int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


def _drain() -> None:
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _call(step: Callable[..., Any], args: Sequence[Any]) -> Any:
    try:
        return step(*args)
    except GraphbenchError:
        raise
    except Exception as error:  # the user's own code: whatever it raises, the message names it
        inner = getattr(error, "inner_exception", None)  # torch wraps what a backend raises
        if isinstance(inner, GraphbenchError):
            raise inner from error
        cause = inner if isinstance(inner, Exception) else error
        raise CaptureError(
            f"the step raised {type(cause).__name__}: {first_line(cause)}",
            hint="run it without graphbench to see where; the traceback is this error's cause (--debug shows it)",
        ) from error


class StepRecorder:
    """Labels one live step. `reached` are the keys of the regions that it ran."""

    def __init__(self, session: Session, timer: Timer) -> None:
        self._session = session
        self._timer = timer
        self._label = Label()
        self._depth = CompiledDepth()
        self._gaps: dict[str, GapOp] = {}
        self._calls: dict[str, int] = {}
        self._kernels: dict[str, tuple[str, str, str]] = {}
        self.reached: set[str] = set()

    def record(self, step: Callable[..., Any], args: Sequence[Any], walls_ns: Sequence[int]) -> StepRecord:
        """Record one call of `step`; `walls_ns` are the wall times of earlier, uninstrumented calls."""
        before = {region.key: region.calls for region in self._session.regions}
        compiled = _compiles(self._session)

        def body(session: TimingSession) -> None:
            self._label.session = session
            try:
                with session.window(0), GapMode(self._depth, self._on_gap):
                    _call(step, args)
            finally:
                self._label.session = None

        with self._instrumented():
            recording = self._timer.record(body, repeats=0)
        self.reached = {region.key for region in self._session.regions if region.calls > before.get(region.key, 0)}
        found = loop.in_graph(
            recording, list(self._calls), 1, timer=self._timer.name, cache=self._timer.cache, values="captured"
        )
        return StepRecord(
            run=loop.run_record(recording, 1),
            rows=tuple(self._row(name, measurement) for name, measurement in found.items()),
            plain_wall_ns=tuple(map(float, walls_ns)),
            notes=_notes(walls_ns, compiled=_compiles(self._session) != compiled),
        )

    @contextlib.contextmanager
    def _instrumented(self) -> Iterator[None]:
        """Labels in every compiled graph of the session, and a guard that tells their own calls from gap ops."""
        with contextlib.ExitStack() as stack:
            for region in self._session.regions:
                for graph in region.graphs:
                    if graph.artifact is not None:
                        side = CompiledSide.of(graph)
                        stack.enter_context(wrappers.labelled(side.wrapper, self._on_kernel(region.key, side)))
                        stack.enter_context(wrappers.around_calls(graph, self._inside))
            yield

    @contextlib.contextmanager
    def _inside(self) -> Iterator[None]:
        self._depth.depth += 1
        try:
            yield
        finally:
            self._depth.depth -= 1

    def _on_kernel(self, region: str, side: CompiledSide) -> wrappers.KernelHook:
        def on_kernel(site: Site, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            row = f"{region}/{side.row(site)}"
            self._kernels[row] = (region, side.row(site), site.kind)
            self._calls[row] = self._calls.get(row, 0) + 1
            return self._label.call(row, lambda: function(*args, **kwargs))

        return on_kernel

    def _on_gap(self, op: GapOp, call: Callable[[], Any]) -> Any:
        self._gaps[op.row] = op
        self._calls[op.row] = self._calls.get(op.row, 0) + 1
        return self._label.call(op.row, call)

    def _row(self, name: str, measurement: Measurement) -> StepRow:
        if name in self._kernels:
            region, kernel, kind = self._kernels[name]
            return StepRow(
                name=name,
                op_type=kind,
                in_graph=measurement,
                region=region,
                kernel=kernel,
                calls=self._calls[name],
                phase="backward" if kernel.startswith("backward") else "forward",
            )
        op = self._gaps[name]
        return StepRow(
            name=name,
            op_type=op.op_type,
            in_graph=measurement,
            calls=self._calls[name],
            phase=op.phase,
            source=op.source,
        )


def _notes(walls_ns: Sequence[int], *, compiled: bool) -> tuple[str, ...]:
    """What makes the recorded step, or its wall times, unlike an ordinary step's."""
    notes = []
    if compiled:
        notes.append("the recorded step compiled something, so it is no ordinary step: use more warmup_steps")
    if not walls_ns:
        notes.append("every warm-up step compiled, so the step has no uninstrumented time: use more warmup_steps")
    return tuple(notes)

"""The current session and the backend that `torch.compile` finds by entry point.

Not measuring, Inductor's own callable runs behind one counter. The session holds what was captured until `reset`.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter_ns
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor

from graphbench.capture import graphs
from graphbench.capture.breaks import BreakLog
from graphbench.errors import SetupError, UsageError
from graphbench.inductor import compile as inductor
from graphbench.measurements import SourceLine, TensorSpec
from graphbench.memory import available_bytes
from graphbench.probes.features import why_not
from graphbench.put_back import put_back
from graphbench.regions import Capture, Region
from graphbench.step_records import GraphBreak, Recompile

CAPTURE_BUDGET_BYTES = 8 << 30
MEMORY_PARTS = 4


class ProcessLock:
    """A lock that a forked child finds open: the thread that held it at the fork does not live there."""

    def __init__(self) -> None:
        self._locks: dict[int, threading.RLock] = {}

    def here(self) -> threading.RLock:
        """The lock of this process, for a `with` statement; a thread may take it again while it has it."""
        return self._locks.setdefault(os.getpid(), threading.RLock())


@dataclass(frozen=True, slots=True, eq=False)
class _Use:
    """What a thread uses a session for: `measure` or `record`."""

    what: str
    thread: threading.Thread

    def refusal(self, what: str) -> UsageError:
        """The error for whoever wants to `what` meanwhile."""
        if self.thread is threading.current_thread():
            return UsageError(
                f"graphbench cannot {what} here: it is called within what graphbench is about to {self.what}",
                hint="call it after that",
            )
        return UsageError(
            f"graphbench cannot {what} now: thread {self.thread.name!r} has graphbench {self.what}, and one thread at "
            "a time can do either",
            hint="wait for that thread, or put a lock of your own around both",
            subject=self.thread.name,
        )


class Session:
    """Everything captured since the last `reset`, in the order in which it was compiled.

    `unfit` says why graphs were compiled of which nothing is known; "" where none were.

    Args:
        capture_budget_bytes: what captured inputs may hold beside the models' own parameters and buffers; what is more
            is spilled. By default 8 GiB, and at most a quarter of the memory that there would be without them.
        breaks: where breaks and recompiles are read. The first session reads from the start of the process: it is made
            when a graph is captured, and what broke before would be lost.
    """

    def __init__(self, capture_budget_bytes: int | None = None, breaks: BreakLog | None = None) -> None:
        self.regions: list[Region] = []
        self.empty_graphs = 0
        self.unfit = ""
        self.tick = 0
        self._compiled = 0
        self._use: _Use | None = None
        self._budget = capture_budget_bytes
        self._breaks = breaks or BreakLog()
        self._lock = ProcessLock()
        self._process = os.getpid()

    def __reduce__(self) -> Any:
        """Refuse: compiled code and what was captured belong to this process.

        Raises:
            UsageError: always.
        """
        raise UsageError(
            "a session cannot be copied or pickled: it belongs to the process that compiled its graphs",
            hint="save a profile, or compile in the other process",
        )

    @property
    def captured_bytes(self) -> int:
        """Bytes that captured inputs keep alive beside the models' own parameters and buffers."""
        return sum(region.capture.nbytes for region in self.regions if region.capture is not None)

    @property
    def spilled_bytes(self) -> tuple[int, int]:
        """Bytes of captured inputs in pinned host memory, and on disk."""
        spilled = [capture.spilled for region in self.regions if (capture := region.capture) and capture.spilled]
        return sum(entry.host_bytes for entry in spilled), sum(entry.disk_bytes for entry in spilled)

    def budget_left_bytes(self, device: torch.device) -> int:
        """Bytes that captured values may still keep alive on a device."""
        held, budget = self.captured_bytes, self._budget
        if budget is None:
            free = available_bytes(device)
            budget = CAPTURE_BUDGET_BYTES if free is None else min(CAPTURE_BUDGET_BYTES, (free + held) // MEMORY_PARTS)
        return max(0, budget - held)

    @contextmanager
    def in_use(self, what: str) -> Iterator[None]:
        """Nothing else is recorded or measured while inside.

        Raises:
            UsageError: something is, in this thread or in another one, which the message names; or this is a fork of
                the process that captured, without the threads that the work needs.
        """
        self._refuse_lost_threads(what)
        use = _Use(what, threading.current_thread())
        with put_back(partial(self._no_longer, use)):
            with self._lock.here():
                if self._use is None or self._use.thread not in threading.enumerate():  # left behind by a fork
                    self._use = use
                holder = self._use
            if holder is not use:
                raise holder.refusal(what)
            yield

    def _refuse_lost_threads(self, what: str) -> None:
        """A fork has none of OpenMP's threads, and hangs in the first op that wants several. On one thread all is well.

        Source: `at::parallel_for` over GNU OpenMP, for which torch's own `DataLoader` sets one thread in its workers,
            torch 2.11 to 2.14.
        """
        wanted = [region.capture.ambient.num_threads for region in self.regions if region.capture is not None]
        most = max(wanted, default=1)
        if os.getpid() != self._process and most > 1:
            raise UsageError(
                f"graphbench cannot {what} in process {os.getpid()}, a fork of {self._process}, where a model ran on "
                f"{most} threads: those do not live in a fork, and it would hang",
                hint="start it with multiprocessing's `spawn`, or call torch.set_num_threads(1) before compiling",
                subject="fork",
            )

    def _no_longer(self, use: _Use) -> None:
        if self._use is use:
            self._use = None

    def compile(
        self, gm: fx.GraphModule, example_inputs: Sequence[Any], options: inductor.BackendOptions
    ) -> Callable[..., Any]:
        """Compile one Dynamo graph and return the callable that Dynamo will run."""
        if not any(node.op.startswith("call_") for node in gm.graph.nodes):
            self.empty_graphs += 1
        region = self._new_region(gm, options)
        started_ns = perf_counter_ns()
        try:
            if options.inner is not None:
                region.compiled = options.inner(gm, example_inputs)
            else:
                region.compiled = inductor.compile_region(gm, example_inputs, options, region.graphs.append)
            region.compile_ns = perf_counter_ns() - started_ns
        except torch._dynamo.exc.RestartAnalysis:
            self.regions.remove(region)  # Dynamo thinks again and comes back with another graph for the same code
            self._breaks.graph_abandoned(_reason(gm), region.compile_id)
            raise
        except BaseException:
            region.problem = "its compilation failed"
            raise
        return self._entry(region)

    def pass_by(
        self, gm: fx.GraphModule, example_inputs: Sequence[Any], options: inductor.BackendOptions, unfit: str
    ) -> Callable[..., Any]:
        """As `compile`, but keep nothing, which could be wrong with this torch; `unfit` says why."""
        self.unfit = unfit
        warnings.warn(f"graphbench measures nothing of this model: {unfit}", RuntimeWarning, stacklevel=2)
        return inductor.compile_plainly(gm, example_inputs, options)

    def _new_region(self, gm: fx.GraphModule, options: inductor.BackendOptions) -> Region:
        with self._lock.here():
            key = f"r{self._compiled}"
            self._compiled += 1
            compile_id = str(torch._guards.CompileContext.current_compile_id() or "")
            copied = graphs.copy_graph(gm)
            nodes = graphs.node_records(copied)
            region = Region(
                key=key,
                compile_id=compile_id,
                gm=copied,
                nodes=nodes,
                location=_location(nodes),
                frame=compile_id.rpartition("/")[0],
                options=inductor.options_in_force(options),
                backend_options=options,
            )
            self.regions.append(region)
            self._breaks.graph_made(_reason(gm), key, compile_id, region.location)
        return region

    def _entry(self, region: Region) -> Callable[..., Any]:
        """What Dynamo calls: count, and run what Inductor returned; the first call is recorded.

        Dynamo disables itself around a backend's callable, as AOTAutograd already did around its own. One of the two is
        enough, and the inner one, at over 1 µs a call, would be paid by graphbench's users alone.

        Source: `torch._dynamo.eval_frame.innermost_fn`, torch 2.11, 2.13 and 2.14.
        """
        assert region.compiled is not None
        compiled = torch._dynamo.eval_frame.innermost_fn(region.compiled)

        def run(*args: Any) -> Any:
            if region.wants_capture and _is_rehearsal(args):
                return compiled(*args)
            self.tick = region.last_tick = self.tick + 1
            region.calls += 1
            if region.wants_capture:
                return self._record(region, args)
            return compiled(*args)

        def run_group(*args: Any) -> Any:
            if region.wants_capture and _is_rehearsal(args):
                return compiled(*args)
            group = region.group_of(args) or self._new_group(region, args)
            if group is None:
                region.groups.ungrouped += 1
                return compiled(*args)
            self.tick = group.last_tick = self.tick + 1
            group.calls += 1
            if group.wants_capture:
                return self._record(group, args)
            return compiled(*args)

        return run_group if region.takes_any_sizes else run

    def _new_group(self, region: Region, args: tuple[Any, ...]) -> Region | None:
        """The region of a call's sizes, which stands behind those of the same graph."""
        with self._lock.here():
            found = region.group_of(args) or region.new_group(args)
            if found is not None and found not in self.regions:
                self.regions.insert(self.regions.index(region) + len(region.groups.by_values) - 1, found)
            return found

    def _record(self, region: Region, args: tuple[Any, ...]) -> Any:
        with self._lock.here():
            first = region.wants_capture
            region.wants_capture = False
        if not first:
            return region.compiled_call(args)
        region.first_tick = region.first_tick or region.last_tick
        try:
            return region.record_call(args, self.budget_left_bytes)
        except BaseException:
            region.wants_capture = True  # a later call may succeed
            raise

    def superseded(self, region: Region) -> Region | None:
        """The recompiled region that took over from this one, which was never called since.

        It has the same code and parameters, inputs of the same specs and the same ambient state: a region for another
        model, for other shapes or for evaluation is no successor.
        """
        took_over = [
            other for other in self.regions if other.first_tick > region.last_tick and _same_work(region, other)
        ]
        return took_over[0] if took_over else None

    def compile_ns(self, region: Region) -> int | None:
        """Wall time until a region's forward could run: as Dynamo tells it, or without its tracing where it forgot."""
        with self._lock.here():
            self._breaks.read()
        return self._breaks.frame_ns.get(region.compile_id, region.compile_ns)

    @contextmanager
    def unheard(self) -> Iterator[None]:
        """What Dynamo compiles inside is graphbench's own work: its breaks and recompiles are none of the session's."""
        with self._breaks.unheard():  # without the lock: whoever compiles meanwhile holds Dynamo's and waits for ours
            yield

    def recompiles(self) -> list[Recompile]:
        """Every recompilation, with the guard that failed."""
        with self._lock.here():
            return self._breaks.recompiles()

    def breaks(self) -> list[GraphBreak]:
        """Every graph break: those that ended graphs and, once the frame is given up, those that kept graphs away."""
        with self._lock.here():
            return self._breaks.breaks()


def _is_rehearsal(args: Sequence[Any]) -> bool:
    """Whether a call is the compiler's own, on tensors without values, to find out what comes next.

    Source: `torch._dynamo.backends.distributed.SubmodCompiler.run_node` calls each part of a graph that DDP splits,
        torch 2.11 to 2.14.
    """
    return any(isinstance(value, FakeTensor) for value in args)


def _reason(gm: fx.GraphModule) -> Any:
    """Why Dynamo ended the graph; graphs that it did not make have none."""
    return getattr(gm, "compile_subgraph_reason", None)


def _same_work(region: Region, other: Region) -> bool:
    if region.capture is None or other.capture is None or region.frame != other.frame:
        return False
    if region.location != other.location or region.capture.ambient != other.capture.ambient:
        return False
    specs, parameters = zip(
        *((_specs(side), _parameters(side)) for side in (region.capture, other.capture)), strict=True
    )
    return specs[0] == specs[1] and (parameters[0] == parameters[1] or not parameters[0].isdisjoint(parameters[1]))


def _specs(capture: Capture) -> dict[str, tuple[TensorSpec, bool]]:
    """By Dynamo's expression: their order is that in which the graph first reads them."""
    return {entry.source: (entry.spec, entry.mutated) for entry in capture.records if entry.spec is not None}


def _parameters(capture: Capture) -> set[int]:
    return {id(entry.value) for entry in capture.values if entry.is_parameter}


def _location(nodes: Sequence[Any]) -> SourceLine | None:
    """Where a region starts: the line of its first node that has one."""
    return next((replace(node.source) for node in nodes if node.source is not None), None)


class _Current:
    """Holder of the one session of the process."""

    session: Session | None = None


def current() -> Session:
    """The current session, made on first use."""
    if _Current.session is None:
        _Current.session = Session()
    return _Current.session


def reset() -> None:
    """Forget everything captured, and everything that Dynamo compiled."""
    inductor.reset_cuda_graphs()
    torch._dynamo.reset()
    _Current.session = Session(breaks=BreakLog.from_now())


def backend(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """The `torch.compile` backend: Inductor's result, and a captured region to measure.

    Args:
        gm: the graph that Dynamo captured.
        example_inputs: fake or real tensors and sizes, as Dynamo passes them.
        mode: as `torch.compile(mode=...)`.
        options: `{"mode": ..., "inductor": {...}}`, or `{"inner": another backend}`.

    Raises:
        SetupError: torch is older than 2.11, or takes modes and options another way than is known.
        UsageError: an unknown option.

    Source: entry-point group `torch_dynamo_backends`, `torch._dynamo.backends.registry`, torch 2.13.
    """
    if not inductor.torch_is_supported():
        raise SetupError(
            f"graphbench needs torch 2.11 or newer, found {torch.__version__}", hint="pip install 'torch>=2.11'"
        )
    parsed = inductor.BackendOptions.parse(mode, options)
    unfit = why_not("capturing") or ("" if parsed.inner is not None else why_not("compiling"))
    if unfit:
        return current().pass_by(gm, example_inputs, parsed, unfit)
    return current().compile(gm, example_inputs, parsed)

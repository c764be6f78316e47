"""The current session and the backend that `torch.compile` finds by entry point.

Not measuring, Inductor's own callable runs behind one counter. The session holds what was captured until `reset`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from graphbench.capture import breaks, graphs
from graphbench.errors import SetupError
from graphbench.inductor import compile as inductor
from graphbench.measurements import SourceLine, TensorSpec
from graphbench.regions import Capture, Region
from graphbench.step_records import GraphBreak, Recompile

CAPTURE_BUDGET_BYTES = 8 << 30


class Session:
    """Everything captured since the last `reset`, in the order in which it was compiled.

    Args:
        capture_budget_bytes: what captured inputs may hold beside the models' own parameters and buffers.
        breaks_before: Dynamo's count of break reasons when the session began. The first one counts from the start of
            the process: it is made when a graph is captured, and what broke before would be lost.
    """

    def __init__(
        self, capture_budget_bytes: int = CAPTURE_BUDGET_BYTES, breaks_before: Mapping[str, int] | None = None
    ) -> None:
        self.regions: list[Region] = []
        self.empty_graphs = 0
        self.tick = 0
        self._compiled = 0
        self._budget = capture_budget_bytes
        self._reasons = dict(breaks_before or {})
        self._lock = threading.Lock()

    @property
    def captured_bytes(self) -> int:
        """Bytes that captured inputs keep alive beside the models' own parameters and buffers."""
        return sum(region.capture.nbytes for region in self.regions if region.capture is not None)

    @property
    def budget_left_bytes(self) -> int:
        """Bytes that captured values may still keep alive."""
        return max(0, self._budget - self.captured_bytes)

    def compile(
        self, gm: fx.GraphModule, example_inputs: Sequence[Any], options: inductor.BackendOptions
    ) -> Callable[..., Any]:
        """Compile one Dynamo graph and return the callable that Dynamo will run."""
        if not any(node.op.startswith("call_") for node in gm.graph.nodes):
            self.empty_graphs += 1
        region = self._new_region(gm, options)
        try:
            region.compiled = inductor.compile_region(gm, example_inputs, options, region.graphs.append)
        except torch._dynamo.exc.RestartAnalysis:
            self.regions.remove(region)  # Dynamo thinks again and comes back with another graph for the same code
            raise
        except BaseException:
            region.problem = "its compilation failed"
            raise
        return self._entry(region)

    def _new_region(self, gm: fx.GraphModule, options: inductor.BackendOptions) -> Region:
        with self._lock:
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
                ended_by=breaks.break_after(gm, key),
                options=inductor.options_in_force(options),
            )
            self.regions.append(region)
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
            self.tick = region.last_tick = self.tick + 1
            region.calls += 1
            if region.wants_capture:
                return self._record(region, args)
            return compiled(*args)

        return run

    def _record(self, region: Region, args: tuple[Any, ...]) -> Any:
        with self._lock:
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

    def recompiles(self) -> list[Recompile]:
        """Regions of code that Dynamo had compiled before, as its compile ids (`frame/count`) tell."""
        return [
            Recompile(compile_id=region.compile_id, source=region.location, region=region.key)
            for region in self.regions
            if region.compile_id.rpartition("/")[2] not in ("", "0")
        ]

    def breaks(self) -> list[GraphBreak]:
        """Every graph break known: those that ended a captured graph, then those counted by Dynamo alone."""
        placed = [region.ended_by for region in self.regions if region.ended_by is not None]
        return placed + breaks.unplaced(self._reasons, breaks.counted(), placed)


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
    _Current.session = Session(breaks_before=breaks.counted())


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
        options: `{"mode": ..., "inductor": {...}}`.

    Raises:
        SetupError: torch is older than 2.11.
        UsageError: an unknown option.

    Source: entry-point group `torch_dynamo_backends`, `torch._dynamo.backends.registry`, torch 2.13.
    """
    if not inductor.torch_is_supported():
        raise SetupError(
            f"graphbench needs torch 2.11 or newer, found {torch.__version__}", hint="pip install 'torch>=2.11'"
        )
    return current().compile(gm, example_inputs, inductor.BackendOptions.parse(mode, options))

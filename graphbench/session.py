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
from graphbench.records import GraphBreak, SourceLine
from graphbench.regions import Region

CAPTURE_BUDGET_BYTES = 8 << 30


class Session:
    """Everything captured since the last `reset`, in the order in which it was compiled."""

    def __init__(self, capture_budget_bytes: int = CAPTURE_BUDGET_BYTES) -> None:
        self.regions: list[Region] = []
        self.empty_graphs = 0
        self.tick = 0
        self._budget = capture_budget_bytes
        self._reasons = breaks.counted()
        self._lock = threading.Lock()

    @property
    def captured_bytes(self) -> int:
        """Bytes that captured inputs keep alive beside the models' own parameters and buffers."""
        return sum(region.capture.nbytes for region in self.regions if region.capture is not None)

    def compile(
        self, gm: fx.GraphModule, example_inputs: Sequence[Any], options: inductor.BackendOptions
    ) -> Callable[..., Any]:
        """Compile one Dynamo graph and return the callable that Dynamo will run."""
        if not any(node.op.startswith("call_") for node in gm.graph.nodes):
            self.empty_graphs += 1
        region = self._new_region(gm, options)
        region.compiled = inductor.compile_region(gm, example_inputs, options, region.graphs.append)
        return self._entry(region)

    def _new_region(self, gm: fx.GraphModule, options: inductor.BackendOptions) -> Region:
        with self._lock:
            key = f"r{len(self.regions)}"
            compile_id = str(torch._guards.CompileContext.current_compile_id() or "")
            copied = graphs.copy_graph(gm)
            nodes = graphs.node_records(copied)
            region = Region(
                key=key,
                compile_id=compile_id,
                gm=copied,
                nodes=nodes,
                location=_location(nodes),
                frame=compile_id.split("/")[0],
                ended_by=breaks.break_after(gm, key),
                options=inductor.options_in_force(options),
            )
            self.regions.append(region)
        return region

    def _entry(self, region: Region) -> Callable[..., Any]:
        compiled = region.compiled
        assert compiled is not None

        def run(*args: Any) -> Any:
            self.tick = region.last_tick = self.tick + 1
            region.calls += 1
            if region.calls == 1:
                region.first_tick = self.tick
                return region.record_first_call(args, self._budget - self.captured_bytes)
            return compiled(*args)

        return run

    def superseded(self, region: Region) -> Region | None:
        """The recompiled region of the same frame that took over from this one, which was never called since."""
        younger = [
            other for other in self.regions if other.frame == region.frame and other.compile_id != region.compile_id
        ]
        took_over = [
            other
            for other in younger
            if other.calls and other.first_tick > region.last_tick and _resumes(region, other)
        ]
        return took_over[0] if region.calls and took_over else None

    def recompiles(self) -> int:
        """How often Dynamo compiled code again that it had compiled before: compile ids beyond the first of a frame."""
        ids = {region.compile_id for region in self.regions if region.compile_id}
        return len(ids) - len({compile_id.split("/")[0] for compile_id in ids})

    def breaks(self) -> list[GraphBreak]:
        """Every graph break known: those that ended a captured graph, then those counted by Dynamo alone."""
        placed = [region.ended_by for region in self.regions if region.ended_by is not None]
        return placed + breaks.unplaced(self._reasons, breaks.counted(), placed)


def _resumes(region: Region, other: Region) -> bool:
    return region.location == other.location


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
    _Current.session = None
    torch._dynamo.reset()


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

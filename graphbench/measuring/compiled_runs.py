"""Whole runs of the compiled side of a region, forward and backward, with the labels of their rows."""

from __future__ import annotations

from typing import Any

import torch

from graphbench.execution.backward import Backward, edges_of
from graphbench.execution.replay import Storages, shadow
from graphbench.inductor import cuda_graphs
from graphbench.measuring.compiled import CompiledSide
from graphbench.measuring.opaque import OpaqueSide
from graphbench.measuring.runs import Label, WholeRun
from graphbench.regions import Region

AnySide = CompiledSide | OpaqueSide


def forward_run(region: Region, label: Label, side: AnySide | None) -> WholeRun:
    """The compiled forward, exactly as a call of the model would run it."""
    capture = region.capture
    assert capture is not None
    kept = _kept(side)
    run = WholeRun(f"{region.key} forward", str(capture.device), lambda: _arguments(region, kept), region.compiled_call)
    if isinstance(side, OpaqueSide):
        row = side.row
        run.body = lambda args: label.call(row, lambda: region.compiled_call(args))
    elif side is not None:
        _label_kernels(run, label, side)
    return run


def backward_run(region: Region, label: Label, side: AnySide) -> WholeRun:
    """The compiled backward. A forward is run for each, untimed: compiled graphs give their saved buffers away."""
    capture = region.capture
    assert capture is not None

    def body(pending: Backward | None) -> Any:
        assert pending is not None
        return label.call(side.row, pending.run) if isinstance(side, OpaqueSide) else pending.run()

    kept = _kept(side)
    run = WholeRun(
        f"{region.key} backward",
        str(capture.device),
        lambda: pending_backward(region, kept),
        body,
        values="synthetic",  # its tangents are random
        follows_forward=True,
    )
    if isinstance(side, CompiledSide):
        _label_kernels(run, label, side)
    return run


def _label_kernels(run: WholeRun, label: Label, side: CompiledSide) -> None:
    run.instrumented = lambda: side.labelling(label)
    run.replays_graphs = cuda_graphs.replays(side.graph)
    if run.replays_graphs:
        run.uncaptured = lambda: cuda_graphs.passed_by(side.graph)
        run.outside = side.outside_graphs()


def _kept(side: AnySide | None) -> Storages | None:
    """Where copies of what is mutated stay, if CUDA graphs may be replayed on them."""
    asked = isinstance(side, CompiledSide) and side.graph.asked_for_cuda_graphs
    return {} if asked else None


def pending_backward(region: Region, kept: Storages | None = None) -> Backward | None:
    """Run the forward on fresh arguments and return its backward, or `None` when there is none."""
    args = _arguments(region, kept)
    edges = edges_of(args) if torch.is_grad_enabled() else []
    return Backward.of_run(region.compiled_call(args), edges)


def _arguments(region: Region, kept: Storages | None) -> list[Any]:
    """Fresh arguments. Where CUDA graphs may be replayed this is a new step, whose results need none of the last's.

    Source: `torch.compiler.cudagraph_mark_step_begin`, without which a forward whose backward never comes is captured
        again and again, torch 2.11 to 2.14.
    """
    assert region.capture is not None
    if kept is not None:
        torch.compiler.cudagraph_mark_step_begin()
    return shadow(region.capture.values, kept)

"""The backward of a region's eager run: as a whole, and every node's part of it under the node's label."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import torch

from graphbench.errors import CaptureError
from graphbench.execution.autograd_nodes import AutogradNodes
from graphbench.execution.backward import Backward, edges_of
from graphbench.execution.interpreter import run_eager
from graphbench.execution.replay import shadow
from graphbench.measurements import Measurement
from graphbench.measuring.isolating import NO_BACKWARD
from graphbench.measuring.runs import Label, WholeRun, unmeasured
from graphbench.records import NodeRecord
from graphbench.regions import Region

NOT_RECORDED = "autograd recorded nothing for it: it returns what it was given"


class EagerBackward:
    """The backward of a region's own graph. An eager forward is run for each, untimed: a backward uses it up.

    While labels are taken, a row's label is open from the start of one of its autograd nodes until the next node
    starts. So what the engine does after a node, as adding up gradients or reducing broadcast ones, is the node's.

    Source: `torch.autograd.graph.Node.register_prehook`; `Engine::evaluate_function` and `validate_outputs`
        (torch/csrc/autograd/engine.cpp). torch 2.11 to 2.14.
    """

    def __init__(self, region: Region, label: Label) -> None:
        self._region = region
        self._label = label
        self._hooked = False
        self._rows: dict[str, None] = {}
        self._open: AbstractContextManager[None] | None = None

    def whole_run(self) -> WholeRun:
        """The run; tangents are random."""
        capture = self._region.capture
        assert capture is not None
        return WholeRun(
            f"{self._region.key} eager backward",
            str(capture.device),
            self._forward,
            self._backward,
            instrumented=self._hooking,
            values="synthetic",
            follows_forward=True,
        )

    def rows(self) -> list[str]:
        """Nodes for which autograd recorded something; known after a labelled run."""
        return list(self._rows)

    @contextlib.contextmanager
    def _hooking(self) -> Iterator[None]:
        self._hooked = True
        try:
            yield
        finally:
            self._hooked = False

    def _forward(self) -> Backward:
        capture = self._region.capture
        assert capture is not None
        torch.clear_autocast_cache()  # as every step's own forward finds it
        args = shadow(capture.values)
        edges = edges_of(args)
        results = self._hooked_forward(args) if self._hooked else self._region.gm(*args)
        pending = Backward.of_run(results, edges)
        if pending is None:
            raise CaptureError(
                f"{self._region.key} eager: {NO_BACKWARD}, though they do when compiled", subject=self._region.key
            )
        return pending

    def _hooked_forward(self, args: list[Any]) -> Any:
        nodes = AutogradNodes()
        results = run_eager(self._region.gm, args, nodes.visit)
        nodes.claim_results(self._region.gm, results)
        for node, row in nodes.owners.items():
            node.register_prehook(self._opening(row))
            self._rows[row] = None
        return results

    def _opening(self, row: str) -> Callable[[Any], None]:
        def start(_: Any) -> None:
            self._close()
            if self._label.session is not None:
                self._open = self._label.session.label(row, self._label.sample)
                self._open.__enter__()

        return start

    def _close(self) -> None:
        opened, self._open = self._open, None
        if opened is not None:
            opened.__exit__(None, None, None)

    def _backward(self, pending: Backward) -> Any:
        capture = self._region.capture
        assert capture is not None
        kind = capture.device.type
        # Users call backward outside of autocast, whatever their forward ran under.
        outside = torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else contextlib.nullcontext()
        try:
            with outside:
                return pending.run()
        finally:
            self._close()


def with_backward(
    nodes: Iterable[NodeRecord], in_graph: Mapping[str, Measurement], reason: str
) -> tuple[NodeRecord, ...]:
    """Nodes with what their part of the eager backward cost; `reason` says why that run is missing."""
    return tuple(
        replace(node, backward_in_graph=in_graph.get(node.name, unmeasured(_why_not(node, reason)))) for node in nodes
    )


def _why_not(node: NodeRecord, reason: str) -> str:
    if node.kind == "state":
        return "sets state only"
    if reason:
        return reason
    return NOT_RECORDED if any(output.requires_grad for output in node.outputs) else NO_BACKWARD

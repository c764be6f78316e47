"""The backward of one call, again and again: its forward runs once on pooled copies, its gradients each time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch.autograd.graph import GradientEdge, get_gradient_edge

from graphbench.isolate.custom_ops import CustomBench
from graphbench.isolate.pool import TensorPool
from graphbench.isolate.values import synthesize
from graphbench.measurements import ValuePolicy
from graphbench.tensors import device_allocations, device_of, random_tangent, shares_storage, tensors_of


class BackwardUnit:
    """A `timing.loop.Unit` over the gradients of one call, from random tangents.

    Building it makes the call on the copies; `has_backward` says whether autograd recorded anything. `trial` must then
    run once before it is timed. Saved tensors are kept, so that `run` repeats. Both draw from the global generators;
    the caller puts those back, and lets autograd launch from its own thread.

    What is timed ends at the call's own arguments: gradients are asked for at the edges that the copies had before the
    call, so that an argument written in place counts too and no node but the call's own runs.

    Args:
        name: the row that the unit is measured for.
        function: what is called, with grad mode on.
        args: positional arguments, originals. Gradients are taken for those that require grad.
        kwargs: keyword arguments, likewise.
        values: what the copies hold; tangents are random whatever it says.
        bench: how the op wants to be benchmarked; what that makes is called in its place, once.

    Raises:
        IsolationError: an argument cannot be copied.
        Exception: whatever the call itself raises.

    Source: `torch.autograd.graph.get_gradient_edge`; `torch.autograd.grad` takes edges as inputs and runs nothing
        behind them. torch 2.11 to 2.14.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        *,
        values: ValuePolicy = "captured",
        bench: CustomBench | None = None,
    ) -> None:
        self.name = name
        self.values: ValuePolicy = "synthetic"  # its tangents are
        self.may_launch_nothing = False
        self.needs_restore = False
        pool = TensorPool((args, dict(kwargs)))
        if values == "synthetic":
            pool.fill(synthesize)
        copies, keywords = pool.tree(with_grad=True)
        self._copies = _distinct(tensors_of((copies, keywords)))
        wanted = [copy for copy in self._copies if copy.requires_grad]
        before = {id(copy): copy.grad_fn for copy in self._copies}
        self._edges: list[GradientEdge] = [get_gradient_edge(copy) for copy in wanted]
        made = function(*copies, **keywords) if bench is None else bench.ready(copies, keywords)()
        self._results = tensors_of(made)
        written = [copy for copy in self._copies if copy.grad_fn is not before[id(copy)]]
        found = _distinct([*self._results, *written])
        self._outputs = [output for output in found if output.requires_grad and output.grad_fn is not None]
        self.has_backward = bool(self._outputs and self._edges)
        with torch.no_grad():
            self.tangents = [random_tangent(output) for output in self._outputs]
        self._device = device_of([*self._copies, *self._results])
        self.device = str(self._device)
        self._autocast = torch.is_autocast_enabled(self._device.type)

    def trial(self) -> None:
        """Run once, and see whether any gradient is more than a view of what was there before."""
        known = [*self.tangents, *self._copies, *self._results]
        gradients = [gradient for gradient in self.run() if gradient is not None]
        self.may_launch_nothing = not any(
            gradient.numel() for gradient in gradients if not shares_storage(gradient, known)
        )

    def prepare(self) -> None:
        """Nothing: a backward leaves what it reads as it was."""

    def run(self) -> tuple[torch.Tensor | None, ...]:
        """The gradients, one per distinct argument that requires grad. Autocast is off, as it is where users call it.

        Source: torch's autocast documentation: backward under autocast is not recommended, its ops run in the dtypes
            that autocast chose for the forward. torch 2.13.
        """
        if not self._autocast:
            return self._gradients()
        torch.set_autocast_enabled(self._device.type, False)
        try:
            return self._gradients()
        finally:
            torch.set_autocast_enabled(self._device.type, True)

    def _gradients(self) -> tuple[torch.Tensor | None, ...]:
        return torch.autograd.grad(self._outputs, self._edges, self.tangents, retain_graph=True, allow_unused=True)

    def allocations(self) -> int | None:
        """Device allocations so far."""
        return device_allocations(self._device)


def _distinct(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    return list({id(tensor): tensor for tensor in tensors}.values())

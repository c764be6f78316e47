"""Backwards that can be timed: gradients as a result, nobody's `.grad` touched, launched from the calling thread."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.graph import GradientEdge, get_gradient_edge

from graphbench.errors import UsageError
from graphbench.tensors import random_tangent, spec_of, tensors_of

Gradients = tuple[torch.Tensor | None, ...]


@contextlib.contextmanager
def backward_on_this_thread() -> Iterator[None]:
    """Let the autograd engine launch from the calling thread, whose labels it would otherwise not carry.

    Source: `torch.autograd.set_multithreading_enabled`; with it off, `Engine::ready_queue`
    (torch/csrc/autograd/engine.cpp) gives every device the calling thread's queue. torch 2.11 to 2.14.
    """
    with torch.autograd.set_multithreading_enabled(False):
        yield


@dataclass(slots=True)
class Backward:
    """The backward of a forward run.

    `run()` may be called once, since compiled graphs give their buffers away, or again and again with `repeatable`.
    """

    outputs: list[torch.Tensor]
    inputs: Sequence[torch.Tensor] | Sequence[GradientEdge]
    tangents: list[torch.Tensor]
    repeatable: bool = False
    allow_unused: bool = True

    @classmethod
    def of_run(cls, results: Any, inputs: Sequence[GradientEdge]) -> Backward | None:
        """The backward from a run's results to its inputs, with random tangents, or `None` when there is none.

        Args:
            results: what the forward returned.
            inputs: `edges_of` its arguments, taken before it ran.
        """
        found = {id(tensor): tensor for tensor in tensors_of(results)}.values()  # one tangent each
        outputs = [tensor for tensor in found if tensor.requires_grad and tensor.grad_fn is not None]
        if not outputs or not inputs:
            return None
        with torch.no_grad():
            tangents = [random_tangent(output) for output in outputs]
        return cls(outputs, inputs, tangents)

    def run(self) -> Gradients:
        """Gradients of the inputs; nobody's `.grad` is touched."""
        with backward_on_this_thread():
            return torch.autograd.grad(
                self.outputs,
                self.inputs,
                self.tangents,
                retain_graph=self.repeatable,
                allow_unused=self.allow_unused,
            )


def edges_of(args: Sequence[Any]) -> list[GradientEdge]:
    """Where gradients of arguments arrive, also after a run has written those in place.

    Source: `torch.autograd.graph.get_gradient_edge`, torch 2.11 to 2.14.
    """
    return [get_gradient_edge(tensor) for tensor in tensors_of(list(args)) if tensor.requires_grad]


def backward_of(
    out: torch.Tensor | Sequence[torch.Tensor],
    inputs: torch.Tensor | Sequence[torch.Tensor] | None = None,
    grad_outputs: torch.Tensor | Sequence[torch.Tensor] | None = None,
) -> Callable[[], Gradients]:
    """The backward of `out` as a call that can be timed; see `graphbench.backward_of`."""
    outputs = _listed(out)
    for position, output in enumerate(outputs):
        if output.grad_fn is None:
            what = "is a leaf that nothing computed" if output.requires_grad else "does not require grad"
            raise UsageError(
                f"backward of output {position}, of shape {spec_of(output).shape}: it {what}",
                hint="pass what a forward returned while grad mode was on and an input required grad",
                subject=str(position),
            )
    tangents = _tangents(outputs, grad_outputs)
    nodes = _nodes(outputs)
    _refuse_retained(nodes)
    wanted = _leaves(nodes) if inputs is None else _listed(inputs)
    return Backward(outputs, wanted, tangents, repeatable=True, allow_unused=inputs is None).run


def _listed(tensors: torch.Tensor | Sequence[torch.Tensor]) -> list[torch.Tensor]:
    found: list[Any] = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
    strange = [type(entry).__name__ for entry in found if not isinstance(entry, torch.Tensor)]
    if strange or not found:
        raise UsageError(
            f"backward: found {', '.join(strange) or 'nothing'}, expected a tensor or a sequence of tensors",
            hint="pick the tensors out of a nested result first",
        )
    return found


def _tangents(outputs: list[torch.Tensor], given: torch.Tensor | Sequence[torch.Tensor] | None) -> list[torch.Tensor]:
    """What flows in from above: as given, or ones."""
    if given is None:
        return [torch.ones_like(output, requires_grad=False) for output in outputs]
    tangents = _listed(given)
    shapes = [spec_of(tangent).shape for tangent in tangents]
    expected = [spec_of(output).shape for output in outputs]
    if shapes != expected:
        raise UsageError(
            f"backward: grad_outputs of shapes {shapes}, expected {expected}",
            hint="give one per output, of its shape, or none for ones",
            subject="grad_outputs",
        )
    return tangents


def _nodes(outputs: list[torch.Tensor]) -> dict[Any, None]:
    """The autograd nodes below the outputs, each once, in the order in which a walk from the first output reaches them.

    Source: `torch.autograd.graph.Node.next_functions`, torch 2.11 to 2.14.
    """
    seen: dict[Any, None] = {}
    pending: list[Any] = [output.grad_fn for output in reversed(outputs)]
    while pending:
        node = pending.pop()
        if node is not None and node not in seen:
            seen[node] = None
            pending.extend(below for below, _ in reversed(node.next_functions))
    return seen


def _leaves(nodes: Iterable[Any]) -> list[torch.Tensor]:
    """The leaves among the nodes.

    Source: `torch._C._functions.AccumulateGrad.variable`, torch 2.11 to 2.14.
    """
    accumulate: Any = torch._C._functions.AccumulateGrad  # type: ignore[attr-defined]
    return [node.variable for node in nodes if isinstance(node, accumulate)]


def _refuse_retained(nodes: Collection[Any]) -> None:
    """Refuse a graph with tensors that retain their gradient: `autograd.grad` adds to their `.grad` in every call.

    No node tells its tensor, so that all living tensors are asked, tens of ms once.

    Raises:
        UsageError: there is one.

    Source: `torch.Tensor.retains_grad`; the hooks that `retain_grad` leaves run for every node that the engine
        executes (torch/csrc/autograd/engine.cpp, `call_tensor_pre_hooks`). torch 2.11 to 2.14.
    """
    with torch._C.DisableTorchFunctionSubclass():
        for found in gc.get_objects():
            # By type: objects that stand in for others (weak proxies) must not be asked for their class.
            if issubclass(type(found), torch.Tensor) and found.retains_grad and found.grad_fn in nodes:
                raise UsageError(
                    f"backward: a tensor of shape {spec_of(found).shape}, made by {found.grad_fn.name()}, retains its "
                    "gradient: every call would add to its .grad, and the time for that would be counted",
                    hint="run the forward without retain_grad(); its gradient is also returned when it is in inputs=",
                    subject=found.grad_fn.name(),
                )

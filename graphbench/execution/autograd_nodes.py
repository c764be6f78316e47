"""Which FX node of an eager run recorded which autograd nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import fx

from graphbench.tensors import tensors_of


class AutogradNodes:
    """Owners of the autograd nodes that a run records; its `visit` is an `execution.interpreter.NodeVisit`.

    `owners` maps autograd node to the name of its FX node. It holds the nodes' Python wrappers, whose identity lasts
    only as long as one of them lives, and with them the autograd graph: drop it before the backward runs.

    Source: `torch.autograd.graph.Node.next_functions`; accessing `grad_fn` of a view whose base was written since makes
        a new node (torch/csrc/autograd/variable.cpp, `VariableHooks::grad_fn`). torch 2.11 to 2.14.
    """

    def __init__(self) -> None:
        self.owners: dict[Any, str] = {}

    def visit(self, node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any], call: Callable[[], Any]) -> Any:
        """Make a node's call, and give it what autograd recorded below its results and below what it wrote."""
        for source, value in _pairs((node.args, node.kwargs), (args, kwargs)):
            if source.op.startswith("call_"):
                self.claim(source.name, value)  # a view that an op in between made stale belongs to who made the view
        result = call()
        self.claim(node.name, (result, args, kwargs))
        return result

    def claim_results(self, gm: fx.GraphModule, results: Any) -> None:
        """Give stale views among a graph's results to the nodes that made them."""
        output = next(node for node in gm.graph.nodes if node.op == "output")
        for source, value in _pairs(output.args[0], results):
            self.claim(source.name, value)

    def claim(self, owner: str, tree: Any) -> None:
        """Give an owner what has none yet below the tensors of a nested structure. Leaves' accumulation needs none."""
        accumulate: Any = torch._C._functions.AccumulateGrad  # type: ignore[attr-defined]
        pending: list[Any] = [tensor.grad_fn for tensor in tensors_of(tree) if tensor.requires_grad]
        while pending:
            found = pending.pop()
            if found is not None and found not in self.owners and not isinstance(found, accumulate):
                self.owners[found] = owner
                pending.extend(below for below, _ in found.next_functions)


def _pairs(tree: Any, values: Any) -> Iterator[tuple[fx.Node, Any]]:
    """The nodes of an FX argument, each with its value."""
    if isinstance(tree, fx.Node):
        yield tree, values
    elif isinstance(tree, (list, tuple)):
        for entry, value in zip(tree, values, strict=True):
            yield from _pairs(entry, value)
    elif isinstance(tree, dict):
        for key, entry in tree.items():
            yield from _pairs(entry, values[key])

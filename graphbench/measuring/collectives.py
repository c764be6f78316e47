"""Collectives wait for other ranks; they are never isolated."""

from __future__ import annotations

from typing import Any

from torch import fx

COLLECTIVE = "a collective: alone, ranks would not call it equally often"
COLLECTIVES = ("_c10d_functional", "_c10d_functional_autograd", "c10d_functional", "c10d", "_dtensor", "symm_mem")


def is_collective(function: object) -> bool:
    """Whether a call waits for other ranks, which would wait for ever if each timed it in its own number of samples.

    Source: `torch.ops._c10d_functional` and its kin, whose overloads have a `namespace` and whose packets a
        `_qualified_op_name`; `torch.distributed._functional_collectives`, torch 2.13.
    """
    packet = str(getattr(function, "_qualified_op_name", ""))
    namespace = getattr(function, "namespace", None) or packet.split("::")[0]
    module = str(getattr(function, "__module__", "") or "")
    return namespace in COLLECTIVES or module.startswith("torch.distributed")


def waits_for_ranks(function: object, args: tuple[Any, ...]) -> bool:
    """Whether a call is of a collective, or runs a graph that calls one, as the body of a checkpoint."""
    return is_collective(function) or any(is_collective(node.target) for node in body_nodes(args))


def body_nodes(args: tuple[Any, ...]) -> list[fx.Node]:
    """All nodes of the graphs among a call's arguments, and of those inside them."""
    bodies = [argument for argument in args if isinstance(argument, fx.GraphModule)]
    graphs = [module for body in bodies for module in body.modules() if isinstance(module, fx.GraphModule)]
    return [node for graph in graphs for node in graph.graph.nodes]

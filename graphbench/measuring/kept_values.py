"""Calls that keep their captured values whatever the policy says: drawn ones could index what is not there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import fx

from graphbench.analysis.indexing import ITEMS, indexes
from graphbench.measuring.collectives import body_nodes
from graphbench.records import PostGradNode


def body_indexes(args: tuple[Any, ...]) -> bool:
    """Whether a graph among a call's arguments indexes, perhaps by what it computes from its inputs."""
    return any(_indexes(node) for node in body_nodes(args))


def _indexes(node: fx.Node) -> bool:
    target = node.target
    name = str(getattr(target, "_opname", None) or getattr(target, "__name__", target)).partition(".")[0]
    by_tensor = name in ITEMS and bool(_nodes_in(node.args[1:2]))
    return node.op.startswith("call_") and (by_tensor or indexes(name))


def _nodes_in(arguments: Any) -> list[fx.Node]:
    found: list[fx.Node] = []
    fx.node.map_arg(arguments, lambda node: found.append(node))
    return found


def kernel_indexes(executed: Iterable[str], nodes: Mapping[str, PostGradNode]) -> bool:
    """Whether a generated kernel indexes, perhaps by what it computes from its inputs.

    Args:
        executed: the post-grad nodes that it executes.
        nodes: post-grad nodes by name.
    """
    return any(indexes(nodes[name].target.partition(".")[0]) for name in executed if name in nodes)

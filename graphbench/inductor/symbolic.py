"""What of a compiled graph's records depends on the sizes that it is called with, for graphs that take any."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from graphbench.provenance.claims import KernelOrigins
from graphbench.records import GraphInput, PostGradNode
from graphbench.symbolic import NO_SIZES, SizeInput, size_in, value_in
from graphbench.tensors import fake_specs

if TYPE_CHECKING:
    from graphbench.inductor.compile import CompiledGraph


@dataclass(frozen=True, slots=True)
class SymbolicParts:
    """The lowered graph's nodes by the names of their records, and of kernels' IR nodes the bytes that they move.

    `moved` has sympy expressions by kernel and number of the IR node, for those whose bytes are no number. `inputs`
    tell what sizes a call is of.
    """

    nodes: Mapping[str, fx.Node]
    moved: Mapping[tuple[str, int], Any]
    inputs: tuple[SizeInput, ...]


def for_sizes(graph: CompiledGraph, sizes: Mapping[str, int]) -> CompiledGraph:
    """The graph with records as of a call where its symbols have these values; itself where it takes but one size."""
    parts = graph.symbolic
    if parts is None:
        return graph
    return replace(
        graph,
        post_grad=tuple(_node(record, parts.nodes[record.name], sizes) for record in graph.post_grad),
        inputs=tuple(_input(record, parts.nodes[record.name], sizes) for record in graph.inputs),
        kernels=tuple(_kernel(record, parts.moved, sizes) for record in graph.kernels),
    )


def _node(record: PostGradNode, node: fx.Node, sizes: Mapping[str, int]) -> PostGradNode:
    moves = record.moved_bytes is None or record.moved_bytes > 0
    return replace(
        record,
        outputs=tuple(fake_specs(node.meta.get("val"), sizes)),
        moved_bytes=moved_bytes(node, sizes) if moves else 0,
    )


def _input(record: GraphInput, node: fx.Node, sizes: Mapping[str, int]) -> GraphInput:
    value = node.meta.get("val")
    if record.spec is not None:
        return replace(record, spec=fake_specs(value, sizes)[0])
    return replace(record, value=known_size(value, sizes)) if isinstance(value, torch.SymInt) else record


def _kernel(record: KernelOrigins, moved: Mapping[tuple[str, int], Any], sizes: Mapping[str, int]) -> KernelOrigins:
    irs = (
        replace(ir, moved_bytes=value_in(moved[record.key, index], sizes)) if (record.key, index) in moved else ir
        for index, ir in enumerate(record.irs)
    )
    return replace(record, irs=tuple(irs))


def moved_bytes(node: fx.Node, sizes: Mapping[str, int] = NO_SIZES) -> int | None:
    """Bytes of a node's distinct tensor inputs and its outputs; `None` when a size has neither value nor example."""
    values = [source.meta.get("val") for source in node.all_input_nodes]
    values.append(node.meta.get("val"))
    total = 0
    for value in values:
        for tensor in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(tensor, torch.Tensor):
                size = known_size(tensor.numel(), sizes)
                if size is None:
                    return None
                total += size * tensor.element_size()
    return total


def known_size(size: int | torch.SymInt, sizes: Mapping[str, int] = NO_SIZES) -> int | None:
    """A size where symbols have these values; `None` when it has neither value nor example."""
    found = size_in(size, sizes)
    return found if found >= 0 else None

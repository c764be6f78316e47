"""What a kernel reads from outside itself: results of other kernels and inputs of its graph. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from graphbench.records import KernelRecord, PostGradNode


def external_inputs(kernel: KernelRecord, post_grad: Iterable[PostGradNode]) -> tuple[str, ...]:
    """Names of the post-grad nodes and graph inputs whose values a kernel reads, views looked through, in order.

    An input that several kernels name is read once by each.

    Args:
        kernel: one kernel of a region.
        post_grad: the region's post-grad nodes; inputs of the graph are not among them.
    """
    nodes = {node.name: node for node in post_grad if node.phase == kernel.phase}
    own = set(kernel.executes)
    found: dict[str, None] = {}
    for name in kernel.executes:
        node = nodes.get(name)
        if node is None or node.is_view:
            continue
        for source in node.inputs:
            base = _base(source, nodes)
            if base not in own:
                found[base] = None
    return tuple(found)


def _base(name: str, nodes: dict[str, PostGradNode]) -> str:
    """What a view, or an item of a call with several results, comes from."""
    while name in nodes and (nodes[name].is_view or nodes[name].target == "getitem") and nodes[name].inputs:
        name = nodes[name].inputs[0]
    return name

"""Which post-grad nodes a kernel executes: a slice of the post-grad graph. Pure; no torch.

Inductor's `origins` name every node that ever contributed to a buffer, also those whose result is merely read from
another kernel's buffer. What a kernel executes is the part of the graph between what it writes and what others wrote.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from graphbench.provenance.claims import Claims, Graph, KernelOrigins
from graphbench.records import PostGradNode


@dataclass(slots=True)
class Ownership:
    """What a kernel executes, recomputes, prepares for, only reads; `holds`: buffers known to hold a node's value."""

    executes: set[str] = field(default_factory=set)
    recomputes: set[str] = field(default_factory=set)
    prepares: set[str] = field(default_factory=set)
    contributes: set[str] = field(default_factory=set)
    holds: dict[str, str] = field(default_factory=dict)


def owned(nodes: Iterable[PostGradNode], kernels: Sequence[KernelOrigins]) -> dict[str, Ownership]:
    """Attribute post-grad nodes to kernels.

    Args:
        nodes: one post-grad graph (nested graphs included, with qualified names), in program order.
        kernels: the kernels of that graph, in the order in which Inductor emitted them.

    Returns:
        An `Ownership` per kernel key. A node in the slices of several kernels is executed by the first, and by those
        that write it; the others need it only as an intermediate and recompute it.
    """
    graph = Graph(nodes)
    claims = Claims(graph, kernels)
    written = {key: set(names.values()) for key, names in claims.written.items()}
    realized = {member for names in written.values() for name in names for member in graph.family(name)}
    result: dict[str, Ownership] = {}
    computed: set[str] = set()
    for kernel in kernels:
        found = _slice(graph, kernel, written[kernel.key], realized)
        recomputes = found & computed - written[kernel.key]
        executes = found - recomputes
        computed |= executes
        origins = {name for ir in kernel.irs for name in graph.known(ir.origins)}
        prepares = {claims.copied[ir.buffer] for ir in kernel.irs if ir.buffer in claims.copied}
        if not found and not prepares:
            prepares = origins or _consumers(graph, kernel)
        result[kernel.key] = Ownership(
            executes=executes,
            recomputes=recomputes,
            prepares=prepares,
            contributes=origins - found - prepares,
            holds=claims.holds(kernel),
        )
    return result


def _slice(graph: Graph, kernel: KernelOrigins, outputs: set[str], realized: set[str]) -> set[str]:
    """The nodes between what a kernel writes and what others wrote, as far as they are among its origins."""
    origins = {name for ir in kernel.irs for name in graph.known(ir.origins)}
    own = {member for name in outputs for member in graph.family(name)}
    found: set[str] = set()
    stack = list(outputs)
    while stack:
        name = stack.pop()
        if name in found:
            continue
        found.add(name)
        if kernel.is_extern:  # a library call computes its op and nothing before it
            continue
        stack.extend(
            source
            for source in graph.nodes[name].inputs
            if source in graph.nodes and graph.computes(source) and (source in own or source not in realized)
        )
    return found & (origins | outputs)


def _consumers(graph: Graph, kernel: KernelOrigins) -> set[str]:
    """Who a copy is made for whose only origins are graph inputs: the nodes that read those inputs."""
    inputs = {name for ir in kernel.irs for name in ir.origins if name in graph.nodes}
    return {user for name in inputs for user in graph.users.get(name, ()) if graph.computes(user)}

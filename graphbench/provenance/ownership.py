"""Which post-grad nodes a kernel executes: a slice of the post-grad graph. Pure; no torch.

Inductor's `origins` name every node that ever contributed to a buffer, also those whose result is merely read from
another kernel's buffer. What a kernel executes is the part of the graph between what it writes and what others wrote.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from graphbench.provenance.claims import Claims, Graph, KernelOrigins
from graphbench.records import PostGradNode


@dataclass(slots=True)
class Ownership:
    """What a kernel executes, recomputes, prepares for, got from others; `holds`: buffers known to hold a node's value.

    `reads` are the nodes and graph inputs whose values come from outside of it, in order. `parts` are the fractions of
    executed nodes of which other kernels execute the rest; over all kernels they add up to 1.
    """

    executes: set[str] = field(default_factory=set)
    recomputes: set[str] = field(default_factory=set)
    prepares: set[str] = field(default_factory=set)
    contributes: set[str] = field(default_factory=set)
    holds: dict[str, str] = field(default_factory=dict)
    parts: dict[str, float] = field(default_factory=dict)
    reads: tuple[str, ...] = ()


def owned(nodes: Iterable[PostGradNode], kernels: Sequence[KernelOrigins]) -> dict[str, Ownership]:
    """Attribute post-grad nodes to kernels.

    Args:
        nodes: one post-grad graph (nested graphs included, with qualified names), in program order.
        kernels: the kernels of that graph, in the order in which Inductor emitted them.

    Returns:
        An `Ownership` per kernel key. A node in the slices of several kernels is executed by the first, or by those
        that write it, each a part; the others need it only as an intermediate and recompute it.
    """
    graph = Graph(nodes)
    claims = Claims(graph, kernels)
    written = {
        key: {*map(graph.producer, names.values()), *claims.joined[key]} for key, names in claims.written.items()
    }
    realized = {member for names in written.values() for name in names for member in graph.family(name)}
    realized |= graph.runs_graphs()
    seen = {name for kernel in kernels for ir in kernel.irs for name in ir.origins}
    result: dict[str, Ownership] = {}
    computed = {name for names in written.values() for name in names}
    for kernel in kernels:
        found = _slice(graph, kernel, written[kernel.key], realized, seen, claims.finishes)
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
            reads=_reads(graph, claims, kernel, found),
        )
    for kernel in kernels:
        left = _left_to(graph, claims, kernel) - computed
        computed |= left
        result[kernel.key].executes |= left
        result[kernel.key].contributes -= left
    _divide(graph, claims, kernels, result)
    return result


def _left_to(graph: Graph, claims: Claims, kernel: KernelOrigins) -> set[str]:
    """Of a kernel's origins those whose arguments it reads itself.

    A library's call may leave a part of its work to the kernel behind it, with what comes before that part: the cast of
    the bias that a convolution does not add.
    """
    if kernel.is_extern:
        return set()
    held = {buffer: node for names in claims.written.values() for buffer, node in names.items()}
    read = {held.get(buffer, buffer) for ir in kernel.irs for buffer in ir.reads}
    origins = [graph.nodes[name] for ir in kernel.irs for name in graph.known(ir.origins)]
    computing = [node for node in origins if not node.is_view and node.target != "getitem" and node.inputs]
    return {node.name for node in computing if {graph.origin(source) for source in node.inputs} <= read}


def _divide(graph: Graph, claims: Claims, kernels: Sequence[KernelOrigins], result: Mapping[str, Ownership]) -> None:
    """Note the parts of nodes that several kernels execute, by the bytes that each moves for it."""
    together: dict[str, dict[str, float]] = {}
    for kernel in kernels:
        for name in result[kernel.key].executes:
            moved = [claims.joined[kernel.key].get(name)] if name in claims.joined[kernel.key] else []
            moved += [
                graph.nodes[name].moved_bytes if kernel.is_extern else ir.moved_bytes
                for ir in kernel.irs
                if graph.producer(claims.written[kernel.key].get(ir.buffer, name)) == name
                and ir.buffer in claims.written[kernel.key]
            ]
            together.setdefault(name, {})[kernel.key] = float(sum(size or 0 for size in moved))
    for name, sizes in together.items():
        total = sum(sizes.values())
        for key, size in sizes.items() if len(sizes) > 1 else ():
            result[key].parts[name] = size / total if all(sizes.values()) else 1 / len(sizes)


def _reads(graph: Graph, claims: Claims, kernel: KernelOrigins, found: Collection[str]) -> tuple[str, ...]:
    """What a kernel's nodes read from outside it, views looked through; of what another kernel began, that part."""
    values: dict[str, None] = {}
    computing = [name for name in graph.nodes if name in found and not graph.nodes[name].is_view]
    for name in computing:
        if name in claims.joined[kernel.key]:
            continue
        if (kernel.key, name) in claims.finishes:
            values[name] = None
            continue
        for source in graph.nodes[name].inputs:
            base = graph.origin(source)
            if base not in found:
                values[base] = None
    if not computing:  # a copy: of a graph input, or of what another kernel wrote
        held = {buffer: node for names in claims.written.values() for buffer, node in names.items()}
        values = {held.get(buffer, buffer): None for ir in kernel.irs for buffer in ir.reads}
    return tuple(name for name in values if name in graph.nodes)


def _slice(
    graph: Graph,
    kernel: KernelOrigins,
    outputs: set[str],
    realized: Collection[str],
    seen: Collection[str],
    finishes: Collection[tuple[str, str]],
) -> set[str]:
    """The nodes between what a kernel writes and what others wrote: those among its origins, or among nobody's."""
    origins = {name for ir in kernel.irs for name in graph.known(ir.origins)}
    own = {member for name in outputs for member in graph.family(name)}
    found: set[str] = set()
    stack = list(outputs)
    while stack:
        name = stack.pop()
        if name in found:
            continue
        found.add(name)
        if kernel.is_extern or (kernel.key, name) in finishes:  # a library call computes its op and nothing before it
            continue
        stack.extend(
            source
            for source in graph.nodes[name].inputs
            if source in graph.nodes and graph.computes(source) and (source in own or source not in realized)
        )
    return {name for name in found if name in origins or name in outputs or name not in seen}


def _consumers(graph: Graph, kernel: KernelOrigins) -> set[str]:
    """Who a copy is made for whose only origins are graph inputs: the nodes that read those inputs."""
    inputs = {name for ir in kernel.irs for name in ir.origins if name in graph.nodes}
    return {user for name in inputs for user in graph.users.get(name, ()) if graph.computes(user)}

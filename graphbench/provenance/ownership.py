"""Which post-grad nodes a kernel executes: a slice of the post-grad graph. Pure; no torch.

Inductor's `origins` name every node that ever contributed to a buffer, also those whose result is merely read from
another kernel's buffer. What a kernel executes is the part of the graph between what it writes and what others wrote.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from graphbench.records import PostGradNode

GRAPH_INPUTS = ("placeholder", "get_attr")


@dataclass(frozen=True, slots=True)
class IrNode:
    """One buffer that a kernel writes. `exact` is the node whose value it holds, `origins` all that contributed.

    `reads` are the buffers that an extern or fallback call takes as its tensor arguments, in order.
    """

    buffer: str
    exact: str | None
    origins: tuple[str, ...]
    reads: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KernelOrigins:
    """One kernel as Inductor's scheduler announced it. `key` is `name:handle`."""

    key: str
    is_extern: bool
    irs: tuple[IrNode, ...]


@dataclass(slots=True)
class Ownership:
    """What a kernel executes, recomputes, prepares for, only reads; `holds`: buffers known to hold a node's value."""

    executes: set[str] = field(default_factory=set)
    recomputes: set[str] = field(default_factory=set)
    prepares: set[str] = field(default_factory=set)
    contributes: set[str] = field(default_factory=set)
    holds: dict[str, str] = field(default_factory=dict)


class _Graph:
    """The post-grad graph with the few questions that ownership asks of it."""

    def __init__(self, nodes: Iterable[PostGradNode]) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.position = {name: index for index, name in enumerate(self.nodes)}
        self.getitems: dict[str, list[str]] = {}
        self.users: dict[str, list[str]] = {}
        for node in self.nodes.values():
            for source in node.inputs:
                self.users.setdefault(source, []).append(node.name)
            if node.target == "getitem" and node.inputs:
                self.getitems.setdefault(node.inputs[0], []).append(node.name)

    def producer(self, name: str) -> str:
        """The call behind a chain of `getitem`s: a multi-output node and its items are one."""
        node = self.nodes[name]
        while node.target == "getitem" and node.inputs and node.inputs[0] in self.nodes:
            node = self.nodes[node.inputs[0]]
        return node.name

    def family(self, name: str) -> set[str]:
        """The node and all `getitem`s that hang off it."""
        found, stack = {name}, [name]
        while stack:
            for item in self.getitems.get(stack.pop(), ()):
                if item not in found:
                    found.add(item)
                    stack.append(item)
        return found

    def computes(self, name: str) -> bool:
        return self.nodes[name].op not in GRAPH_INPUTS

    def computed(self, name: str | None) -> str | None:
        """The name of a node of this graph that computes something; a copy of a graph input is exactly no such node."""
        return name if name is not None and name in self.nodes and self.computes(name) else None

    def last(self, names: Collection[str]) -> str:
        return max(names, key=lambda name: self.position[name])


def owned(nodes: Iterable[PostGradNode], kernels: Sequence[KernelOrigins]) -> dict[str, Ownership]:
    """Attribute post-grad nodes to kernels.

    Args:
        nodes: one post-grad graph (nested graphs included, with qualified names), in program order.
        kernels: the kernels of that graph, in the order in which Inductor emitted them.

    Returns:
        An `Ownership` per kernel key. A node in the slices of several kernels is `executes` in each; all but the first
        that need it only as an intermediate are flagged `recomputes`.
    """
    graph = _Graph(nodes)
    written, arguments = _written_nodes(graph, kernels)
    realized = {member for names in written.values() for name in names.values() for member in graph.family(name)}
    result: dict[str, Ownership] = {}
    computed: set[str] = set()
    for kernel in kernels:
        ownership = _slice(graph, kernel, set(written[kernel.key].values()), realized)
        ownership.holds = _certain(kernel, written[kernel.key], arguments)
        ownership.recomputes = ownership.executes & computed - set(written[kernel.key].values())
        ownership.executes -= ownership.recomputes
        computed |= ownership.executes
        result[kernel.key] = ownership
    return result


def _written_nodes(graph: _Graph, kernels: Sequence[KernelOrigins]) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    """Per kernel: buffer -> node at which its slice starts. Beside it: buffer -> node, for arguments of extern calls.

    Extern calls claim first, then exact origins, then arguments made for extern calls, then the last origin left.
    """
    written: dict[str, dict[str, str]] = {kernel.key: {} for kernel in kernels}
    owner: dict[str, str] = {}
    for kernel in kernels:
        if kernel.is_extern:
            for ir in kernel.irs:
                claimed = _called_node(graph, kernel, ir)
                if claimed is not None:
                    written[kernel.key][ir.buffer] = claimed
                    owner[claimed] = kernel.key
    for kernel in kernels:
        if not kernel.is_extern:
            for ir in kernel.irs:
                exact = graph.computed(ir.exact)
                if exact is not None and _unclaimed(graph, owner, kernel, exact):
                    written[kernel.key][ir.buffer] = exact
                    owner.setdefault(exact, kernel.key)
    arguments = _arguments(graph, kernels, written)
    for kernel in kernels:
        if not kernel.is_extern:
            for ir in kernel.irs:
                argument = arguments.get(ir.buffer)
                if graph.computed(ir.exact) is None and argument is not None and argument in ir.origins:
                    written[kernel.key][ir.buffer] = argument
    for kernel in kernels:
        if not kernel.is_extern:
            for ir in kernel.irs:
                if ir.buffer in written[kernel.key]:
                    continue
                free = [name for name in _known(graph, ir.origins) if _unclaimed(graph, owner, kernel, name)]
                if free:
                    written[kernel.key][ir.buffer] = graph.last(free)
    return written, arguments


def _certain(kernel: KernelOrigins, written: Mapping[str, str], arguments: Mapping[str, str]) -> dict[str, str]:
    """Buffers that hold exactly their node's value. Others may hold a step on the way to it, as a mean's sum."""
    exact = {ir.buffer: ir.exact for ir in kernel.irs}
    return {
        buffer: node
        for buffer, node in written.items()
        if kernel.is_extern or node in (exact[buffer], arguments.get(buffer))
    }


def _arguments(
    graph: _Graph, kernels: Sequence[KernelOrigins], written: Mapping[str, Mapping[str, str]]
) -> dict[str, str]:
    """Buffer -> node, for buffers made as an argument of an extern call: the node at the same place in its arguments.

    Copies into the layout that attention wants all have the same origins and no exact one; only their place tells which
    is the query and which the mask.
    """
    found: dict[str, str] = {}
    for kernel in kernels:
        for ir in kernel.irs if kernel.is_extern else ():
            called = written[kernel.key].get(ir.buffer)
            inputs = graph.nodes[called].inputs if called is not None else ()
            if len(inputs) == len(ir.reads):
                computed = ((buffer, graph.computed(name)) for buffer, name in zip(ir.reads, inputs, strict=True))
                found.update((buffer, name) for buffer, name in computed if name is not None)
    return found


def _called_node(graph: _Graph, kernel: KernelOrigins, ir: IrNode) -> str | None:
    """The origin that an extern or fallback call executes: the one whose target is the op that it calls."""
    words = kernel.key.rsplit(":", 1)[0].replace("::", ".").split(".")
    candidates = {graph.producer(name) for name in _known(graph, ir.origins)}
    called = {name for name in candidates if graph.nodes[name].target in words} or candidates
    computed = graph.computed(ir.exact)
    exact = graph.producer(computed) if computed is not None else None
    if exact in called:
        return exact
    return graph.last(called) if called else exact


def _unclaimed(graph: _Graph, owner: Mapping[str, str], kernel: KernelOrigins, name: str) -> bool:
    """Whether nobody else claimed the node, nor the call that it is an item of."""
    return all(owner.get(member, kernel.key) == kernel.key for member in (name, graph.producer(name)))


def _known(graph: _Graph, origins: Iterable[str]) -> list[str]:
    return [name for name in origins if name in graph.nodes and graph.computes(name)]


def _slice(graph: _Graph, kernel: KernelOrigins, outputs: set[str], realized: set[str]) -> Ownership:
    origins = {name for ir in kernel.irs for name in _known(graph, ir.origins)}
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
    executes = found & (origins | outputs)
    prepares = set() if executes else origins or _consumers(graph, kernel)
    return Ownership(executes=executes, prepares=prepares, contributes=origins - executes - prepares)


def _consumers(graph: _Graph, kernel: KernelOrigins) -> set[str]:
    """Who a copy is made for whose only origins are graph inputs: the nodes that read those inputs."""
    inputs = {name for ir in kernel.irs for name in ir.origins if name in graph.nodes}
    return {user for name in inputs for user in graph.users.get(name, ()) if graph.computes(user)}

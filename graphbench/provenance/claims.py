"""Which buffers of a post-grad graph hold which node's value: what each kernel starts from. Pure; no torch."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from graphbench.records import PostGradNode

GRAPH_INPUTS = ("placeholder", "get_attr")


@dataclass(frozen=True, slots=True)
class IrNode:
    """One buffer that a kernel writes. `exact` is the node whose value it holds, `origins` all that contributed.

    `reads` are the buffers that it is computed from; for an extern or fallback call its tensor arguments, in order.
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


class Graph:
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
        """Whether a node of this graph is a call, not an input."""
        return self.nodes[name].op not in GRAPH_INPUTS

    def computed(self, name: str | None) -> str | None:
        """The name of a node of this graph that computes something; a copy of a graph input is exactly no such node."""
        return name if name is not None and name in self.nodes and self.computes(name) else None

    def known(self, origins: Iterable[str]) -> list[str]:
        """Those of the origins that are calls of this graph."""
        return [name for name in origins if name in self.nodes and self.computes(name)]

    def last(self, names: Collection[str]) -> str:
        """The one that stands last in program order."""
        return max(names, key=lambda name: self.position[name])


class Claims:
    """Who writes what, claimed in order of certainty.

    Extern and fallback calls claim the op that they call; then exact origins are taken; then buffers made as argument
    of an extern call; then the last origin that nobody claimed.

    Attributes:
        written: per kernel key, buffer -> node at which the kernel's slice starts.
        copied: buffer -> the call that it is made for, where it is a mere copy of an input or of another buffer.
    """

    def __init__(self, graph: Graph, kernels: Sequence[KernelOrigins]) -> None:
        self._graph = graph
        self._kernels = kernels
        self._owner: dict[str, str] = {}
        self._certain: set[str] = set()
        self.written: dict[str, dict[str, str]] = {kernel.key: {} for kernel in kernels}
        self.copied: dict[str, str] = {}
        self._claim_calls()
        self._claim_exact()
        self._claim_arguments()
        self._claim_the_rest()

    def holds(self, kernel: KernelOrigins) -> dict[str, str]:
        """Buffers known to hold exactly their node's value. Others may hold a step towards it, as a mean's sum."""
        return {buffer: node for buffer, node in self.written[kernel.key].items() if buffer in self._certain}

    def _generated(self) -> Iterator[tuple[KernelOrigins, IrNode]]:
        return ((kernel, ir) for kernel in self._kernels if not kernel.is_extern for ir in kernel.irs)

    def _calls(self) -> Iterator[tuple[KernelOrigins, IrNode]]:
        return ((kernel, ir) for kernel in self._kernels if kernel.is_extern for ir in kernel.irs)

    def _claim(self, kernel: KernelOrigins, ir: IrNode, node: str) -> None:
        self.written[kernel.key][ir.buffer] = node
        self._certain.add(ir.buffer)

    def _claim_calls(self) -> None:
        for kernel, ir in self._calls():
            called = _called_node(self._graph, kernel, ir)
            if called is not None:
                self._claim(kernel, ir, called)
                self._owner[called] = kernel.key

    def _claim_exact(self) -> None:
        for kernel, ir in self._generated():
            exact = self._graph.computed(ir.exact)
            if exact is not None and self._is_free(kernel, exact):
                self._claim(kernel, ir, exact)
                self._owner.setdefault(exact, kernel.key)

    def _claim_arguments(self) -> None:
        """Buffers made as an argument of an extern call hold the node at the same place in the call's arguments.

        Copies into the layout that attention or a convolution wants all have the same origins and no exact one; only
        their place tells which is the query and which the mask. A copy of a graph input, or of what another buffer
        holds already, executes nothing.
        """
        holders = {node: buffer for written in self.written.values() for buffer, node in written.items()}
        arguments = dict(self._arguments())
        for kernel, ir in self._generated():
            if ir.buffer in self.written[kernel.key] or ir.buffer not in arguments:
                continue
            argument, called = arguments[ir.buffer]
            if not self._graph.computes(argument) or holders.get(argument) in ir.reads:
                self.copied[ir.buffer] = called
            elif argument in ir.origins:
                self._claim(kernel, ir, argument)

    def _arguments(self) -> Iterator[tuple[str, tuple[str, str]]]:
        """Buffer -> (node at its place in the arguments of an extern call, node of that call)."""
        for kernel, ir in self._calls():
            called = self.written[kernel.key].get(ir.buffer)
            inputs = self._graph.nodes[called].inputs if called is not None else ()
            if called is not None and len(inputs) == len(ir.reads):
                for buffer, name in zip(ir.reads, inputs, strict=True):
                    if name in self._graph.nodes:
                        yield buffer, (name, called)

    def _claim_the_rest(self) -> None:
        for kernel, ir in self._generated():
            if ir.buffer in self.written[kernel.key] or ir.buffer in self.copied:
                continue
            free = [name for name in self._graph.known(ir.origins) if self._is_free(kernel, name)]
            if free:
                self.written[kernel.key][ir.buffer] = self._graph.last(free)

    def _is_free(self, kernel: KernelOrigins, name: str) -> bool:
        """Whether nobody else claimed the node, nor the call that it is an item of."""
        members = (name, self._graph.producer(name))
        return all(self._owner.get(member, kernel.key) == kernel.key for member in members)


def _called_node(graph: Graph, kernel: KernelOrigins, ir: IrNode) -> str | None:
    """The origin that an extern or fallback call executes: the one whose target is the op that it calls."""
    words = kernel.key.rsplit(":", 1)[0].replace("::", ".").split(".")
    candidates = {graph.producer(name) for name in graph.known(ir.origins)}
    called = {name for name in candidates if graph.nodes[name].target in words} or candidates
    computed = graph.computed(ir.exact)
    exact = graph.producer(computed) if computed is not None else None
    if exact in called:
        return exact
    return graph.last(called) if called else exact

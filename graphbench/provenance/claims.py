"""Which buffers of a post-grad graph hold which node's value: what each kernel starts from. Pure; no torch."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from graphbench.records import PostGradNode

GRAPH_INPUTS = ("placeholder", "get_attr")
RUN_GRAPHS = ("cond", "while_loop", "invoke_subgraph", "map_impl", "scan")
"""Higher-order ops that Inductor lowers to calls of other graphs (torch 2.11, 2.13 and 2.14)."""


@dataclass(frozen=True, slots=True)
class IrNode:
    """One buffer that a kernel writes. `exact` is the node whose value it holds, `origins` all that contributed.

    `reads` are the buffers that it is computed from; for an extern or fallback call its tensor arguments, in order.
    `mutates` are the buffers that it writes into instead of one of its own; `moved_bytes` what it reads and writes.
    """

    buffer: str
    exact: str | None
    origins: tuple[str, ...]
    reads: tuple[str, ...] = ()
    mutates: tuple[str, ...] = ()
    moved_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class KernelOrigins:
    """One kernel as Inductor's scheduler announced it, or a call found in the wrapper alone. `key` is `name:handle`."""

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

    def base(self, name: str) -> str:
        """What a view views, through any number of views; any other node itself."""
        while name in self.nodes and self.nodes[name].is_view and self.nodes[name].inputs:
            name = self.nodes[name].inputs[0]
        return name

    def origin(self, name: str) -> str:
        """The call, or the graph input, behind views and items."""
        while True:
            base = self.base(name)
            made = self.producer(base) if base in self.nodes else base
            if made == name:
                return name
            name = made

    def runs_graphs(self) -> set[str]:
        """Calls that only run graphs inside, whose own kernels are announced, with their items."""
        calls = [name for name, node in self.nodes.items() if node.target in RUN_GRAPHS]
        return {member for name in calls for member in self.family(name)}

    def last(self, names: Collection[str]) -> str:
        """The one that stands last in program order."""
        return max(names, key=lambda name: self.position[name])


class Claims:
    """Who writes what, claimed in order of certainty.

    Extern and fallback calls claim the op that they call; then exact origins are taken, and what is written into their
    buffers later; then buffers made as argument of an extern call; then steps towards what another kernel finishes;
    then the last origin that nobody claimed; at last what is concatenated by being written in place.

    Attributes:
        written: per kernel key, buffer -> node at which the kernel's slice starts.
        joined: per kernel key, nodes that it writes a part of beside those, and the bytes moved for it.
        copied: buffer -> the call that it is made for, where it is a mere copy of an input or of another buffer.
        finishes: pairs of a kernel and a node that another kernel began to compute; its inputs were read there.
    """

    def __init__(self, graph: Graph, kernels: Sequence[KernelOrigins]) -> None:
        self._graph = graph
        self._kernels = kernels
        self._owner: dict[str, str] = {}
        self._certain: set[str] = set()
        self._made_by = {ir.buffer: kernel.key for kernel in kernels for ir in kernel.irs}
        self.written: dict[str, dict[str, str]] = {kernel.key: {} for kernel in kernels}
        self.joined: dict[str, dict[str, int | None]] = {kernel.key: {} for kernel in kernels}
        self.copied: dict[str, str] = {}
        self.finishes: set[tuple[str, str]] = set()
        self._claim_calls()
        self._claim_exact()
        self._claim_mutations()
        self._claim_arguments()
        self._claim_steps()
        self._claim_the_rest()
        self._claim_pieces()

    def holds(self, kernel: KernelOrigins) -> dict[str, str]:
        """Buffers known to hold exactly their node's value. Others may hold a step towards it, as a mean's sum."""
        return {buffer: node for buffer, node in self.written[kernel.key].items() if buffer in self._certain}

    def _generated(self) -> Iterator[tuple[KernelOrigins, IrNode]]:
        """Buffers of generated kernels that nobody has claimed anything for yet."""
        for kernel in self._kernels:
            for ir in kernel.irs:
                if not kernel.is_extern and ir.buffer not in self.written[kernel.key] and ir.buffer not in self.copied:
                    yield kernel, ir

    def _calls(self) -> Iterator[tuple[KernelOrigins, IrNode]]:
        return ((kernel, ir) for kernel in self._kernels if kernel.is_extern for ir in kernel.irs)

    def _claim(self, kernel: KernelOrigins, ir: IrNode, node: str, *, certain: bool = True) -> None:
        self.written[kernel.key][ir.buffer] = node
        if certain:
            self._certain.add(ir.buffer)

    def _claim_calls(self) -> None:
        exact = {ir.buffer: ir.exact for kernel in self._kernels for ir in kernel.irs if not kernel.is_extern}
        for kernel, ir in sorted(self._calls(), key=lambda call: not call[1].origins):
            if ir.origins:
                called = _called_node(self._graph, kernel, ir)
            else:  # nobody announced it: it writes into a buffer that was made for its op, or is the first of its name
                into = [self._graph.computed(exact.get(buffer)) for buffer in ir.mutates]
                called = next(filter(None, into), None) or self._unclaimed(_words(kernel))
            if called is not None:
                self._claim(kernel, ir, called)
                self._owner.setdefault(called, kernel.key)

    def _unclaimed(self, words: Collection[str]) -> str | None:
        """The first node that nobody claimed and whose target, in place or not, is among the words."""
        named = (
            name
            for name, node in self._graph.nodes.items()
            if self._graph.computes(name) and not {node.target, f"{node.target}_"}.isdisjoint(words)
        )
        return next((name for name in named if name not in self._owner), None)

    def _claim_exact(self) -> None:
        for kernel, ir in self._generated():
            exact = self._graph.computed(ir.exact)
            if exact is None or exact not in ir.origins:
                continue  # made for the node, whose value is written into it later
            if self._is_free(kernel, exact):
                self._claim(kernel, ir, exact)
                self._owner.setdefault(exact, kernel.key)
                continue
            called = [self._made_by.get(buffer) == self._owner_of(exact) for buffer in ir.reads]
            if called and all(called):
                self.copied[ir.buffer] = self._graph.producer(exact)  # what a call wrote, in another layout
            elif any(called):
                self._claim(kernel, ir, exact)  # what a call began: the bias of a convolution is added
                self.finishes.add((kernel.key, self._graph.producer(exact)))

    def _claim_mutations(self) -> None:
        """What is written into a buffer that was made for a node is that node: the adding of `index_put`, say."""
        made_for = {ir.buffer: ir.exact for kernel in self._kernels for ir in kernel.irs}
        for kernel, ir in self._generated():
            for node in (self._graph.computed(made_for.get(buffer)) for buffer in ir.mutates):
                if node is not None and node in ir.origins:
                    self._claim(kernel, ir, node)
                    self._certain -= set(ir.mutates)
                    self._owner.setdefault(node, kernel.key)

    def _claim_arguments(self) -> None:
        """Buffers made as an argument of an extern call hold the node at the same place in the call's arguments.

        Copies into the layout that attention or a convolution wants all have the same origins and no exact one; only
        their place tells which is the query and which the mask. A copy of a graph input, or of what another buffer
        holds already, executes nothing.
        """
        holders = {node: buffer for written in self.written.values() for buffer, node in written.items()}
        held = {buffer: node for node, buffer in holders.items()}
        arguments: dict[str, tuple[str | None, str]] = {}
        for buffer, place in self._arguments():  # the first call counts: one that mutates hands the buffer on
            arguments.setdefault(buffer, place)
        for kernel, ir in self._generated():
            if ir.buffer not in arguments:
                continue
            argument, called = arguments[ir.buffer]
            if argument is None:
                inputs = {self._graph.base(name) for name in self._graph.nodes[called].inputs}
                computed = [
                    name for name in self._graph.known(ir.origins) if name in inputs and self._is_free(kernel, name)
                ]
                if len(ir.reads) == 1 and held.get(ir.reads[0], ir.reads[0]) in inputs:
                    self.copied[ir.buffer] = called
                elif len(computed) == 1:
                    self._claim(kernel, ir, computed[0], certain=False)
            elif not self._graph.computes(argument) or holders.get(argument) in ir.reads:
                self.copied[ir.buffer] = called
            elif argument in ir.origins:
                self._claim(kernel, ir, argument)

    def _arguments(self) -> Iterator[tuple[str, tuple[str | None, str]]]:
        """Buffer -> (node at its place in the arguments of an extern call, if that is known; node of that call)."""
        for kernel, ir in self._calls():
            called = self.written[kernel.key].get(ir.buffer)
            if called is None:
                continue
            inputs: Sequence[str | None] = self._graph.nodes[called].inputs
            if len(inputs) != len(ir.reads):  # a bias that is added later is no argument
                inputs = [None] * len(ir.reads)
            for buffer, name in zip(ir.reads, inputs, strict=True):
                if name is None or name in self._graph.nodes:
                    yield buffer, (name, called)

    def _claim_steps(self) -> None:
        """A buffer that another kernel reads to finish one of its origins holds a part of that: a split reduction."""
        finished: dict[str, dict[str, str]] = {}
        for kernel in self._kernels:
            if kernel.is_extern:
                continue
            nodes = {self._graph.producer(node): kernel.key for node in self.written[kernel.key].values()}
            for buffer in (buffer for ir in kernel.irs for buffer in ir.reads):
                if self._made_by.get(buffer) != kernel.key:
                    finished.setdefault(buffer, {}).update(nodes)
        for kernel, ir in self._generated():
            readers = finished.get(ir.buffer, {})
            steps = [node for node in readers if self._graph.family(node) & set(ir.origins)]
            if steps:
                step = self._graph.last(steps)
                self._claim(kernel, ir, step, certain=False)
                self.finishes.add((readers[step], step))

    def _claim_the_rest(self) -> None:
        for kernel, ir in self._generated():
            made_for = self._graph.computed(ir.exact)
            free = [name for name in self._graph.known(ir.origins) if name != made_for and self._is_free(kernel, name)]
            if free:
                self._claim(kernel, ir, self._graph.last(free), certain=False)
            elif made_for is not None:
                self._claim(kernel, ir, made_for, certain=False)

    def _claim_pieces(self) -> None:
        """Kernels that write what is concatenated write it in place, where no kernel that concatenates reads it."""
        inlined = {name for kernel in self._kernels for ir in kernel.irs for name in ir.origins}
        writers: dict[str, list[tuple[str, IrNode]]] = {}
        claimed: dict[str, set[str]] = {}
        for kernel in self._kernels:
            for ir in kernel.irs:
                held = self.written[kernel.key].get(ir.buffer)
                if held is not None:
                    writers.setdefault(self._graph.origin(held), []).append((kernel.key, ir))
                    claimed.setdefault(held, set()).update(ir.reads)
        for name, node in self._graph.nodes.items():
            if node.target != "cat" or (name not in claimed and name in inlined):
                continue
            for source in dict.fromkeys(map(self._graph.origin, node.inputs)):
                for key, ir in writers.get(source, ()):
                    if ir.buffer not in claimed.get(name, ()):
                        self.joined[key][name] = ir.moved_bytes
                        self.finishes.add((key, name))

    def _owner_of(self, name: str) -> str | None:
        return self._owner.get(name) or self._owner.get(self._graph.producer(name))

    def _is_free(self, kernel: KernelOrigins, name: str) -> bool:
        """Whether nobody else claimed the node, nor the call that it is an item of."""
        members = (name, self._graph.producer(name))
        return all(self._owner.get(member, kernel.key) == kernel.key for member in members)


def _called_node(graph: Graph, kernel: KernelOrigins, ir: IrNode) -> str | None:
    """The origin that an extern or fallback call executes: the one whose target is the op that it calls."""
    words = _words(kernel)
    candidates = {graph.producer(name) for name in graph.known(ir.origins)}
    called = {name for name in candidates if graph.nodes[name].target in words} or candidates
    computed = graph.computed(ir.exact)
    exact = graph.producer(computed) if computed is not None else None
    if exact in called:
        return exact
    return graph.last(called) if called else exact


def _words(kernel: KernelOrigins) -> list[str]:
    """The parts of the name of what a kernel calls, such as `torch.ops.aten.topk.default`."""
    return kernel.key.rsplit(":", 1)[0].replace("::", ".").split(".")

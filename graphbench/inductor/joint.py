"""Reads the joint graph before Inductor's passes: what came from where, and what every backward node differentiates."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from torch import fx

from graphbench.inductor.origins import DynamoGraphs, Lineage, Names, inputs_of, op_name
from graphbench.probes.features import why_not
from graphbench.provenance.rewrites import OUTPUT, Replaced, made_for, stand_ins
from graphbench.provenance.vanished import Traced, vanished
from graphbench.put_back import replaced
from graphbench.records import Fate, Phase

Pass = Callable[[fx.Graph], Any]
T = TypeVar("T")
_SCALARS: Final = "_apply_tensorify_python_scalars"
TANGENT = "tangents_"  # how AOTAutograd names what flows into a backward


NESTED: Final = "invoke_subgraph"


class JointGraph:
    """One region's graph of forward and backward as it was traced; without a backward, its forward graph.

    Args:
        graphs: the graphs that Dynamo made for the region.

    Attributes:
        fault: why it could not be read; "" if it could.
        shown: whether Inductor has shown it to its first pass.
    """

    def __init__(self, graphs: DynamoGraphs) -> None:
        self._graphs = graphs
        self._by_number: dict[int, Names] = {}
        self._traced = Traced()
        self._n_results: int | None = None
        self._differentiates: dict[str, Names] = {}
        self._sums: set[str] = set()
        self._rewrote: set[str] = set()
        self._ops: dict[str, str] = {}
        self._of_scalars: dict[str, Lineage] = {}
        self._numbers_of_scalars: dict[int, Names] = {}
        self.fault = ""
        self.shown = False

    def read(self, graph: fx.Graph) -> None:
        """Note where every node came from, and what every backward node differentiates.

        A backward node carries the sequence number that autograd gave the op it differentiates. Of forward's nodes the
        first in program order with a number counts: ops that are not differentiable carry the number of the op before
        them. The graph is read before common subexpressions are merged, since a merged node loses its number.

        Source: `meta["seq_nr"]` and `meta["partitioner_tag"]` of AOTAutograd's joint graph, torch 2.11, 2.13 and 2.14.
        """
        if self._is_inside(graph):
            return
        self._forget()  # Inductor's passes see graphs inside a graph before it
        self._graphs.compare()
        backward: list[fx.Node] = []
        for node in graph.nodes:
            self._traced.inputs[node.name] = inputs_of(node)
            if node.op != "call_function":
                continue
            self._ops[node.name] = op_name(node)
            self._traced.calls[node.name] = _call_text(node)
            sources, differentiates, rewrote = self._traced_lineage(node)
            self._traced.sources[node.name] = sources
            if rewrote:
                self._rewrote.add(node.name)
            if differentiates:
                self._differentiates[node.name] = differentiates
            elif node.meta.get("partitioner_tag") == "is_backward":
                backward.append(node)
            elif sources and "seq_nr" in node.meta:
                self._by_number.setdefault(node.meta["seq_nr"], sources)
        for node in backward:
            self._differentiates[node.name] = self._differentiated(node)
        if backward:
            gradients = [
                position
                for position, name in enumerate(self._traced.inputs[OUTPUT])
                if name in self._differentiates or name.startswith(TANGENT)
            ]
            self._n_results = gradients[0] if gradients else None

    def _is_inside(self, graph: fx.Graph) -> bool:
        """Whether a graph is the body of a `nested_compile_region`, which is shown by itself, also after the whole."""
        names = {node.name for node in self._graphs.top.nodes if op_name(node) == NESTED}
        found = {name for node in graph.nodes for name in self._graphs.lineage_of(node).sources}
        return bool(found) and found <= names and not any(op_name(node) == NESTED for node in graph.nodes)

    def _traced_lineage(self, node: fx.Node) -> Lineage:
        """What a node's own meta data tells; of a node with a scalar made a tensor, what was noted of it."""
        found = self._graphs.lineage_of(node)
        known = self._of_scalars.get(node.name)
        if known is None or found.sources or found.differentiates:
            return found
        for number, names in self._numbers_of_scalars.items():
            self._by_number.setdefault(number, names)
        return known

    def read_scalars(self, graph: fx.Graph) -> Callable[[Replaced], None] | None:
        """Read the graph before AOTAutograd makes tensors of Python numbers.

        Where a graph is compiled for any value of a float, ops on it become ops on a tensor of no dimension, without
        any meta data.

        Returns:
            To be called when that is done, with the names of the nodes that were replaced and of what was put in the
            place of each: notes where the new nodes come from. `None` for a graph that is not of this region: Inductor
            traces the patterns that it looks for when it first needs them.
        """
        if not any(self._graphs.lineage_of(node).sources for node in graph.nodes):
            return None
        self.read(graph)
        before, numbers = dict(self._traced.inputs), dict(self._by_number)
        sources, differentiates = dict(self._traced.sources), dict(self._differentiates)

        def compare(replaced: Replaced) -> None:
            after = {node.name: inputs_of(node) for node in graph.nodes}
            for name, gone in made_for(replaced, before, after).items():
                found = Lineage(_together(sources, gone), _together(differentiates, gone))
                self._of_scalars[name] = found._replace(differentiates=()) if found.sources else found
            self._numbers_of_scalars = numbers if self._of_scalars else {}

        return compare

    def noting(self, work: Callable[[], T]) -> T | None:
        """Read something; what cannot be read is a `fault`, and the user's model compiles all the same."""
        try:
            return work()
        except Exception as error:  # noqa: BLE001 - the user's model must compile whatever we fail to read; reports say so
            self.fault = f"the joint graph: {type(error).__name__}: {error}"
            return None

    def _forget(self) -> None:
        self._traced, self._n_results = Traced(), None
        for table in (self._by_number, self._differentiates, self._ops):
            table.clear()
        self._sums.clear()
        self._rewrote.clear()

    def _differentiated(self, node: fx.Node) -> Names:
        if self._traced.sources[node.name]:
            return ()  # forward, computed again
        by_number = self._by_number.get(node.meta.get("seq_nr", -1), ())
        arguments = node.all_input_nodes
        if op_name(node) != "add" or len(arguments) != len(node.args):
            return by_number
        gradients = [source for source in arguments if source.name in self._differentiates]
        numbers = [None if source.name in self._sums else source.meta.get("seq_nr") for source in gradients]
        known = len(gradients) == len(arguments) and node.meta.get("seq_nr") in numbers
        if gradients and not (known and by_number):
            # Autograd adds up the gradients of a tensor that is used twice outside of any op's backward; the number it
            # happens to carry is that of the last op of all. It belongs to what both sides differentiate.
            self._sums.add(node.name)
            return tuple(dict.fromkeys(name for source in gradients for name in self._differentiates[source.name]))
        return by_number

    def lineage_of(self, node: fx.Node, phase: Phase, *, nested: bool = False) -> Lineage:
        """Where a node of a lowered graph comes from; one of a graph inside it may have the name of another.

        What was traced under its name is believed first: when a pass removes a no-op, torch 2.14 gives the node before
        it the no-op's meta data.
        """
        if not nested and self._ops.get(node.name) == op_name(node) and not self._is_other(node, phase):
            sources = self._traced.sources[node.name]
            differentiates = () if sources else self._differentiates.get(node.name, ())
            return Lineage(sources, differentiates, rewrote=node.name in self._rewrote)
        found = self._graphs.lineage_of(node)
        if found.sources or found.differentiates or phase == "forward":
            return found
        return Lineage((), self._by_number.get(node.meta.get("seq_nr", -1), ()))

    def _is_other(self, node: fx.Node, phase: Phase) -> bool:
        """Whether a node of a lowered graph has the name of another one that was traced.

        Names are unique within a graph: what a pass puts into the forward graph can be called as something of the
        backward is. A node that the partitioner moved from one to the other still reads what it did.
        """
        if node.op != "call_function" or node.name not in self._ops:
            return False
        if inputs_of(node) == self._traced.inputs[node.name]:
            return False
        found = self._graphs.lineage_of(node)
        if phase == "forward" and node.name in self._differentiates:
            return not found.differentiates and node.meta.get("partitioner_tag") != "is_backward"
        known = self._traced.sources[node.name]
        return bool(known and found.sources) and set(known).isdisjoint(found.sources)

    def vanished(self, graph: fx.Graph) -> dict[str, Fate]:
        """The fates of the Dynamo nodes that the lowered forward graph does not name; none if the joint is unknown."""
        if not self._traced.calls or self.fault:
            return {}
        return vanished(self._graphs.calls, self._traced, {node.name: inputs_of(node) for node in graph.nodes})

    def stood_in_for(self, graph: fx.Graph, phase: Phase) -> dict[str, Lineage]:
        """Where every node that a pass has put into `graph` comes from: from what it replaced."""
        found = {}
        lowered = {node.name: inputs_of(node) for node in graph.nodes}
        ops = {node.name: op_name(node) for node in graph.nodes}
        others = {node.name for node in graph.nodes if self._is_other(node, phase)}
        before = {name: inputs for name, inputs in self._traced.inputs.items() if name not in others}
        gone = stand_ins(before, lowered, phase, n_results=self._n_results)
        # A backward graph lacks most of the forward, which is therefore not gone: only where nothing else is known.
        gone_here = stand_ins(before, lowered, phase, n_results=self._n_results, within=self._differentiates)
        for name, nodes in gone.items():
            for choice in (gone_here[name], nodes) if phase == "backward" else (nodes,):
                found[name] = self._in_the_place_of(choice, ops[name], phase)
                if found[name].sources or found[name].differentiates:
                    break
        return found

    def _in_the_place_of(self, nodes: Names, op: str, phase: Phase) -> Lineage:
        """Where a new node comes from that stands for some that were traced, and runs an op."""
        if phase == "backward":  # of forward's nodes none is in a backward graph, so that none of them is gone
            nodes = tuple(node for node in nodes if node in self._differentiates) or nodes
        sources, differentiates = (_together(table, nodes) for table in (self._traced.sources, self._differentiates))
        same_op = {self._ops[node] for node in nodes if node in self._ops} == {op}
        return Lineage(sources, differentiates, rewrote=not same_op)


def _together(names: Mapping[str, Names], nodes: Names) -> Names:
    return tuple(dict.fromkeys(name for node in nodes for name in names.get(node, ())))


def _call_text(node: fx.Node) -> str:
    """An op and its arguments as text, equal for equal calls."""
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda source: f"%{source.name}%")
    return f"{node.target} {args!r} {kwargs!r}"


@contextlib.contextmanager
def reading_scalars(joint: JointGraph) -> Iterator[None]:
    """Let `joint` see what AOTAutograd makes of Python numbers, which it does before any pass can be asked for.

    Source: `torch._functorch._aot_autograd.graph_compile._apply_tensorify_python_scalars`, which puts one node in the
    place of another, and `fx.GraphModule._set_replace_hook`, which tells of each: torch 2.11, 2.13 and 2.14. A torch
    without either is measured all the same: such nodes have no source then, and the report says so.
    """
    from torch._functorch._aot_autograd import graph_compile

    if why_not("scalars"):
        yield
        return
    given = getattr(graph_compile, _SCALARS)

    def see(module: fx.GraphModule) -> None:
        compare, gone = joint.noting(lambda: joint.read_scalars(module.graph)), dict[str, str]()

        def note(old: fx.Node, new: str, user: fx.Node) -> None:
            gone[old.name] = new

        with module._set_replace_hook(note):
            given(module)
        if compare is not None:
            joint.noting(lambda: compare(gone))

    with replaced(graph_compile, _SCALARS, see):
        yield


def reading(joint: JointGraph, given: Any) -> Mapping[str, Any]:
    """Inductor's options by which `joint` sees the graph, before passes that the user `given`.

    Source: `torch._inductor.config.joint_custom_pre_pass`, torch 2.11, 2.13 and 2.14; a list of passes since 2.13. It
        is called for graphs without a backward too.
    """
    passes: Sequence[Pass] = given if isinstance(given, (list, tuple)) else [given] if given is not None else []

    def see(graph: fx.Graph) -> None:
        joint.shown = True
        joint.noting(lambda: joint.read(graph))
        for other in passes:
            other(graph)

    return {"joint_custom_pre_pass": see}

"""Reads the joint graph before Inductor's passes: what came from where, and what every backward node differentiates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import fx

from graphbench.inductor.origins import DynamoGraphs, Lineage, Names, inputs_of, op_name
from graphbench.provenance.rewrites import OUTPUT, stand_ins
from graphbench.provenance.vanished import Traced, vanished
from graphbench.records import Fate, Phase

Pass = Callable[[fx.Graph], Any]
TANGENT = "tangents_"  # how AOTAutograd names what flows into a backward


class JointGraph:
    """One region's graph of forward and backward as it was traced; without a backward, its forward graph.

    Args:
        graphs: the graphs that Dynamo made for the region.

    Attributes:
        fault: why it could not be read; "" if it could.
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
        self.fault = ""

    def read(self, graph: fx.Graph) -> None:
        """Note where every node came from, and what every backward node differentiates.

        A backward node carries the sequence number that autograd gave the op it differentiates. Of forward's nodes the
        first in program order with a number counts: ops that are not differentiable carry the number of the op before
        them. The graph is read before common subexpressions are merged, since a merged node loses its number.

        Source: `meta["seq_nr"]` and `meta["partitioner_tag"]` of AOTAutograd's joint graph, torch 2.11, 2.13 and 2.14.
        """
        self._forget()  # Inductor's passes see graphs inside a graph before it
        self._graphs.compare()
        backward: list[fx.Node] = []
        for node in graph.nodes:
            self._traced.inputs[node.name] = inputs_of(node)
            if node.op != "call_function":
                continue
            self._ops[node.name] = op_name(node)
            self._traced.calls[node.name] = _call_text(node)
            sources, differentiates, rewrote = self._graphs.lineage_of(node)
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
        if not nested and self._ops.get(node.name) == op_name(node):
            sources = self._traced.sources[node.name]
            differentiates = () if sources else self._differentiates.get(node.name, ())
            return Lineage(sources, differentiates, rewrote=node.name in self._rewrote)
        found = self._graphs.lineage_of(node)
        if found.sources or found.differentiates or phase == "forward":
            return found
        return Lineage((), self._by_number.get(node.meta.get("seq_nr", -1), ()))

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
        for name, replaced in stand_ins(self._traced.inputs, lowered, phase, n_results=self._n_results).items():
            if phase == "backward":  # of forward's nodes none is in a backward graph, so that none of them is gone
                replaced = tuple(node for node in replaced if node in self._differentiates) or replaced
            sources, differentiates = (
                tuple(dict.fromkeys(entry for node in replaced for entry in table.get(node, ())))
                for table in (self._traced.sources, self._differentiates)
            )
            same_op = {self._ops[node] for node in replaced if node in self._ops} == {ops[name]}
            found[name] = Lineage(sources, differentiates, rewrote=not same_op)
        return found


def _call_text(node: fx.Node) -> str:
    """An op and its arguments as text, equal for equal calls."""
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda source: f"%{source.name}%")
    return f"{node.target} {args!r} {kwargs!r}"


def reading(joint: JointGraph, given: Any) -> Mapping[str, Any]:
    """Inductor's options by which `joint` sees the graph, before passes that the user `given`.

    Source: `torch._inductor.config.joint_custom_pre_pass`, torch 2.11, 2.13 and 2.14; a list of passes since 2.13. It
        is called for graphs without a backward too.
    """
    passes: Sequence[Pass] = given if isinstance(given, (list, tuple)) else [given] if given is not None else []

    def see(graph: fx.Graph) -> None:
        try:
            joint.read(graph)
        except Exception as error:  # noqa: BLE001 - the user's model must compile whatever we fail to read; reports say so
            joint.fault = f"the joint graph: {type(error).__name__}: {error}"
        for other in passes:
            other(graph)

    return {"joint_custom_pre_pass": see}

"""Reads the joint graph before Inductor's passes: what came from where, and what every backward node differentiates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from torch import fx

from graphbench.provenance.rewrites import stand_ins
from graphbench.records import Phase

Pass = Callable[[fx.Graph], Any]
Names = tuple[str, ...]


class Lineage(NamedTuple):
    """As the fields of `records.PostGradNode`."""

    sources: Names
    differentiates: Names = ()
    rewrote: bool = False


class JointGraph:
    """One region's graph of forward and backward as it was traced; without a backward, its forward graph.

    Args:
        sources_of: names of the Dynamo nodes that a node's `meta["from_node"]` leads to.

    Attributes:
        fault: why it could not be read; "" if it could.
    """

    def __init__(self, sources_of: Callable[[fx.Node], Names]) -> None:
        self._sources_of = sources_of
        self._by_number: dict[int, Names] = {}
        self._inputs: dict[str, Names] = {}
        self._sources: dict[str, Names] = {}
        self._differentiates: dict[str, Names] = {}
        self._sums: set[str] = set()
        self._ops: dict[str, str] = {}
        self.fault = ""

    def read(self, graph: fx.Graph) -> None:
        """Note where every node came from, and what every backward node differentiates.

        A backward node carries the sequence number that autograd gave the op it differentiates. Of forward's nodes the
        first in program order with a number counts: ops that are not differentiable carry the number of the op before
        them. The graph is read before common subexpressions are merged, since a merged node loses its number.

        Source: `meta["seq_nr"]` and `meta["partitioner_tag"]` of AOTAutograd's joint graph, torch 2.11, 2.13 and 2.14.
        """
        backward: list[fx.Node] = []
        for node in graph.nodes:
            self._inputs[node.name] = inputs_of(node)
            if node.op != "call_function":
                continue
            self._ops[node.name] = op_name(node)
            self._sources[node.name] = sources = self._sources_of(node)
            if node.meta.get("partitioner_tag") == "is_backward":
                backward.append(node)
            elif sources and "seq_nr" in node.meta:
                self._by_number.setdefault(node.meta["seq_nr"], sources)
        for node in backward:
            self._differentiates[node.name] = self._differentiated(node)

    def _differentiated(self, node: fx.Node) -> Names:
        if self._sources[node.name]:
            return ()  # forward, computed again
        gradients = [source for source in node.all_input_nodes if source.name in self._differentiates]
        numbers = [None if source.name in self._sums else source.meta.get("seq_nr") for source in gradients]
        if op_name(node) == "add" and len(gradients) == len(node.args) and node.meta.get("seq_nr") not in numbers:
            # Autograd adds up the gradients of a tensor that is used twice outside of any op's backward; the number it
            # happens to carry is that of the last op of all. It belongs to what both sides differentiate.
            self._sums.add(node.name)
            return tuple(dict.fromkeys(name for source in gradients for name in self._differentiates[source.name]))
        return self._by_number.get(node.meta.get("seq_nr", -1), ())

    def differentiated_by(self, node: fx.Node) -> Names:
        """The Dynamo nodes whose backward a node of a backward graph is part of."""
        return self._differentiates.get(node.name) or self._by_number.get(node.meta.get("seq_nr", -1), ())

    def stood_in_for(self, graph: fx.Graph, phase: Phase) -> dict[str, Lineage]:
        """Where every node that a pass has put into `graph` comes from: from what it replaced."""
        found = {}
        lowered = {node.name: inputs_of(node) for node in graph.nodes}
        ops = {node.name: op_name(node) for node in graph.nodes}
        for name, replaced in stand_ins(self._inputs, lowered, phase).items():
            sources, differentiates = (
                tuple(dict.fromkeys(entry for node in replaced for entry in table.get(node, ())))
                for table in (self._sources, self._differentiates)
            )
            same_op = {self._ops[node] for node in replaced if node in self._ops} == {ops[name]}
            found[name] = Lineage(sources, differentiates, rewrote=not same_op)
        return found


def inputs_of(node: fx.Node) -> Names:
    """The nodes among a node's arguments, in order, repeated where one stands there twice."""
    found: list[str] = []
    fx.map_arg((node.args, node.kwargs), lambda source: found.append(source.name))
    return tuple(found)


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


def op_name(node: fx.Node) -> str:
    """`addmm` of `aten.addmm.default`, `getitem` of `operator.getitem`, the name of any other target."""
    target = node.target
    return str(getattr(target, "_opname", None) or getattr(target, "__name__", target))

"""The graphs that Dynamo made for a region, and the way from any later node back to their calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import fx

from graphbench.provenance.rewrites import stand_ins

Names = tuple[str, ...]


class Lineage(NamedTuple):
    """As the fields of `records.PostGradNode`."""

    sources: Names
    differentiates: Names = ()
    rewrote: bool = False


def together(lineages: Iterable[Lineage]) -> Lineage:
    """That of a node that stands for several."""
    found = list(lineages)
    return Lineage(
        tuple(dict.fromkeys(name for entry in found for name in entry.sources)),
        tuple(dict.fromkeys(name for entry in found for name in entry.differentiates)),
        rewrote=any(entry.rewrote for entry in found),
    )


@dataclass(frozen=True, slots=True)
class DynamoGraphs:
    """A region's Dynamo graph and the graphs inside it.

    Bodies of `checkpoint`, `cond`, ... are graphs inside; what they compute belongs to the call that the user sees. So
    does what the backward body of an `autograd.Function` computes, but that differentiates it.

    Attributes:
        top: the top graph, which Inductor's passes change in place.
        calls: names of its calls as Dynamo made it, in order.
        inputs: what each of its nodes read then.
        owners: `id` of every graph -> the call of the top graph that runs it; `None` for the top graph itself.
        backward: those of them that are the backward of a call.
        replaced: calls that Inductor's passes put into the top graph before it was traced -> those that they replaced.
    """

    top: fx.Graph
    calls: Mapping[str, None]
    owners: Mapping[int, str | None]
    backward: frozenset[int]
    inputs: Mapping[str, Names]
    replaced: dict[str, Names] = field(default_factory=dict)

    @classmethod
    def of(cls, gm: fx.GraphModule) -> DynamoGraphs:
        """Read them before Inductor changes the graph.

        Source: `torch.ops.higher_order.autograd_function_apply`, whose second argument is its backward body, torch
            2.11, 2.13 and 2.14.
        """
        owners: dict[int, str | None] = {id(gm.graph): None}
        backward: set[int] = set()

        def visit(module: fx.GraphModule, owner: str | None) -> None:
            for node in module.graph.nodes:
                body = getattr(module, node.target, None) if node.op == "get_attr" and "." not in node.target else None
                if isinstance(body, fx.GraphModule):
                    for user in node.users:
                        owners.setdefault(id(body.graph), owner or user.name)
                        if op_name(user) == "autograd_function_apply" and user.args[1] is node:
                            backward.add(id(body.graph))
                    visit(body, owners[id(body.graph)])

        visit(gm, None)
        calls = dict.fromkeys(node.name for node in gm.graph.nodes if node.op.startswith("call_"))
        return cls(gm.graph, calls, owners, frozenset(backward), _inputs(gm.graph))

    def compare(self) -> None:
        """Find what passes have put into the top graph since, as a convolution in the place of it and a BatchNorm."""
        self.replaced.update(stand_ins(self.inputs, _inputs(self.top)))

    def lineage_of(self, node: fx.Node) -> Lineage:
        """The Dynamo nodes that a node came from, in order, as far as its own meta data tells.

        A node that was made of a Dynamo node came from that alone, whatever it has taken the place of since.

        Source: `meta["from_node"]`, a list of `torch.fx.traceback.NodeSource`, torch 2.11, 2.13 and 2.14.
        """
        from_node = list(node.meta.get("from_node") or ())
        direct = [source for source in from_node if self._knows(source)]
        sources: dict[str, None] = {}
        differentiates: dict[str, None] = {}
        rewrote = False
        for info in self._leads(direct or from_node):
            found = differentiates if info.graph_id in self.backward else sources
            name = self.owners[info.graph_id] or info.name
            rewrote = rewrote or name in self.replaced
            found.update(dict.fromkeys(self.replaced.get(name, (name,))))
        return Lineage(
            tuple(name for name in sources if name in self.calls),
            tuple(name for name in differentiates if name in self.calls),
            rewrote,
        )

    def _knows(self, source: Any) -> bool:
        return source.node_info is not None and source.node_info.graph_id in self.owners

    def _leads(self, from_node: Iterable[Any]) -> Iterable[Any]:
        stack = list(reversed(list(from_node)))
        while stack:
            source = stack.pop()
            if self._knows(source):
                yield source.node_info
            stack.extend(reversed(source.from_node or []))


def _inputs(graph: fx.Graph) -> dict[str, Names]:
    return {node.name: inputs_of(node) for node in graph.nodes}


def inputs_of(node: fx.Node) -> Names:
    """The nodes among a node's arguments, in order, repeated where one stands there twice."""
    found: list[str] = []
    fx.map_arg((node.args, node.kwargs), lambda source: found.append(source.name))
    return tuple(found)


def op_name(node: fx.Node) -> str:
    """`addmm` of `aten.addmm.default`, `getitem` of `operator.getitem`, the name of any other target."""
    target = node.target
    return str(getattr(target, "_opname", None) or getattr(target, "__name__", target))

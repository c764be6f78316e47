"""Parts of a graph inside `vmap` or `func.grad`, whose values lie in no memory of their own: each is one unit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from torch import fx
from torch.utils import _pytree as pytree

OPENS: Final = ("_vmap_increment_nesting", "_grad_increment_nesting", "_jvp_increment_nesting")
CLOSES: Final = ("_vmap_decrement_nesting", "_grad_decrement_nesting", "_jvp_decrement_nesting")


@dataclass(slots=True)
class Transformed:
    """The calls between entering a transform and leaving it, the outermost of those that nest.

    `given` are the values from outside that they read, as far as they have been seen. `row` is the call by whose name
    the whole is known: the last whose value is used outside. `module` runs all of them on what is given, in its order.

    Source: `torch._C._functorch._vmap_increment_nesting`, `_vmap_decrement_nesting` and their like, which Dynamo calls
        around a transform's body, torch 2.11 to 2.14.
    """

    nodes: tuple[fx.Node, ...]
    inputs: tuple[fx.Node, ...]
    row: str
    module: fx.GraphModule
    given: dict[str, Any] = field(default_factory=dict)

    @property
    def last(self) -> str:
        """The call that leaves the transform."""
        return self.nodes[-1].name

    def see(self, node: fx.Node, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Take note of the values that a call of the part is made with."""
        names, _ = pytree.tree_flatten((node.args, dict(node.kwargs)), is_leaf=_is_node)
        values, _ = pytree.tree_flatten((args, dict(kwargs)))
        if len(names) == len(values):
            for name, value in zip(names, values, strict=True):
                if name in self.inputs:
                    self.given[name.name] = value

    def arguments(self) -> tuple[Any, ...] | None:
        """What the part was given, in order; `None` where a value was not seen."""
        if any(node.name not in self.given for node in self.inputs):
            return None
        return tuple(self.given[node.name] for node in self.inputs)


def _is_node(value: Any) -> bool:
    return isinstance(value, fx.Node)


def transformed(gm: fx.GraphModule) -> dict[str, Transformed]:
    """The parts of a graph inside transforms, by the name of each of their calls."""
    found = {}
    for nodes in _brackets(list(gm.graph.nodes)):
        part = _part(gm, nodes)
        found.update({node.name: part for node in nodes})
    return found


def _brackets(nodes: Sequence[fx.Node]) -> Iterator[list[fx.Node]]:
    inside: list[fx.Node] = []
    depth = 0
    for node in nodes:
        name = str(getattr(node.target, "__name__", node.target))
        depth += name in OPENS
        if depth:
            inside.append(node)
        if name in CLOSES and depth:
            depth -= 1
            if not depth:
                yield inside
                inside = []


def _part(gm: fx.GraphModule, nodes: list[fx.Node]) -> Transformed:
    """The calls as a graph of their own, with what is used outside as its results; if nothing is, what comes last."""
    members = set(nodes)
    inputs = list(dict.fromkeys(source for node in nodes for source in node.all_input_nodes if source not in members))
    leaving = [node for node in nodes if any(user not in members for user in node.users)] or nodes[-2:-1]
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for source in inputs:
        copies[source] = graph.placeholder(source.name)
    for node in nodes:
        copies[node] = graph.node_copy(node, lambda source: copies[source])
    graph.output(tuple(copies[node] for node in leaving))
    return Transformed(tuple(nodes), tuple(inputs), leaving[-1].name, fx.GraphModule(gm, graph))

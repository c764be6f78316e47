"""What a pass puts into one graph may be called as something of the other is: it is not taken for that."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx
from torch.fx.traceback import NodeSource

from graphbench.inductor.joint import JointGraph
from graphbench.inductor.origins import DynamoGraphs, Lineage

aten = torch.ops.aten


def dynamo() -> fx.GraphModule:
    """`cos(sin(x))`, as Dynamo makes it."""
    graph = fx.Graph()
    sin = graph.call_function(torch.sin, (graph.placeholder("x"),), name="sin")
    graph.output((graph.call_function(torch.cos, (sin,), name="cos"),))
    return fx.GraphModule({}, graph)


def called(graph: fx.Graph, target: Any, args: tuple[Any, ...], name: str, **meta: Any) -> fx.Node:
    node = graph.call_function(target, args, name=name)
    node.meta.update(meta)
    return node


def joint_of(gm: fx.GraphModule) -> JointGraph:
    """Its forward, of the names that Dynamo gave, and a backward that takes a pair apart."""
    sources = {node.name: [NodeSource(node, "traced")] for node in gm.graph.nodes}
    graph = fx.Graph()
    x = graph.placeholder("primals_1")
    tangent = graph.placeholder("tangents_1")
    sin = called(graph, aten.sin.default, (x,), "sin", seq_nr=1, from_node=sources["sin"])
    cos = called(graph, aten.cos.default, (sin,), "cos", seq_nr=2, from_node=sources["cos"])
    backward: dict[str, Any] = {"seq_nr": 2, "partitioner_tag": "is_backward"}
    pair = called(graph, aten.max.dim, (tangent, 0), "pair", **backward)
    taken = called(graph, operator.getitem, (pair, 0), "getitem", **backward)
    graph.output((cos, called(graph, aten.neg.default, (taken,), "neg", **backward)))
    joint = JointGraph(DynamoGraphs.of(gm))
    joint.read(graph)
    return joint


def test_what_takes_a_name_of_the_backward_stands_in_for_nothing_of_it() -> None:
    joint = joint_of(dynamo())
    forward = fx.Graph()
    new = forward.call_function(aten.min.dim, (forward.placeholder("primals_1"), 0), name="new")
    taken = forward.call_function(operator.getitem, (new, 0), name="getitem")
    forward.output((forward.call_function(aten.cos.default, (taken,), name="cos"),))
    expected = Lineage(("sin",), (), rewrote=True)
    assert joint.stood_in_for(forward, "forward") == {"new": expected, "getitem": expected}


def test_what_the_partitioner_moved_into_the_forward_is_what_it_was() -> None:
    joint = joint_of(dynamo())
    forward = fx.Graph()
    tangent = forward.placeholder("tangents_1")
    merged = forward.call_function(aten.neg.default, (tangent,), name="merged")  # by a pass, with what `pair` read
    pair = called(forward, aten.max.dim, (merged, 0), "pair", seq_nr=2, partitioner_tag="is_backward")
    assert joint.lineage_of(pair, "forward") == Lineage((), ("cos",))


def test_what_is_computed_again_in_the_backward_was_made_for_nothing_before_it() -> None:
    joint = joint_of(dynamo())
    backward = fx.Graph()
    x = backward.placeholder("primals_1")
    again = backward.call_function(aten.tan.default, (x,), name="new")  # in the place of cos, whose sin is not here
    pair = backward.call_function(aten.max.dim, (backward.placeholder("tangents_1"), 0), name="pair")
    taken = backward.call_function(operator.getitem, (pair, 0), name="getitem")
    neg = backward.call_function(aten.neg.default, (taken,), name="neg")
    backward.output((neg,))
    joint._traced.inputs["neg"] = ("cos",)  # as if the backward read what is computed again
    neg.args = (again,)
    assert joint.stood_in_for(backward, "backward") == {"new": Lineage(("cos",), (), rewrote=True)}

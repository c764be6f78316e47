"""Roles of Dynamo nodes in kernels, and their fates."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphbench.provenance.fates import fates
from graphbench.provenance.ownership import Ownership
from graphbench.provenance.sources import roles
from graphbench.provenance.vanished import NO_OPERATION
from graphbench.records import Fate, NodeRole, PostGradNode
from tests import factories


def post(
    name: str,
    *sources: str,
    inputs: tuple[str, ...] = (),
    moved: int = 8,
    phase: str = "forward",
    is_view: bool = False,
) -> PostGradNode:
    node = PostGradNode(name=name, phase="forward", op="call_function", target=name, inputs=inputs, sources=sources)
    return replace(node, moved_bytes=moved, is_view=is_view, phase=phase)


def by_name(*nodes: PostGradNode) -> dict[str, PostGradNode]:
    return {node.name: node for node in nodes}


def test_bytes_of_a_nodes_chain_add_up_in_its_role() -> None:
    nodes = by_name(post("var", "layer_norm", moved=10), post("rsqrt", "layer_norm", moved=6), post("add", "add"))
    found = roles(Ownership(executes={"var", "rsqrt"}, contributes={"add"}), nodes)
    assert found == (
        NodeRole(node="layer_norm", role="executes", post_grad=("var", "rsqrt"), moved_bytes=16),
        NodeRole(node="add", role="contributes", post_grad=("add",), moved_bytes=8),
    )


def test_a_node_that_executes_is_not_listed_again_as_read() -> None:
    nodes = by_name(post("a", "norm"), post("b", "norm"))
    found = roles(Ownership(executes={"b"}, contributes={"a"}), nodes)
    assert [(role.node, role.role) for role in found] == [("norm", "executes")]


def test_a_post_grad_node_of_two_sources_gives_each_half_of_its_bytes() -> None:
    found = roles(Ownership(executes={"addmm"}), by_name(post("addmm", "matmul", "add", moved=10)))
    assert {role.node: role.moved_bytes for role in found} == {"matmul": 5, "add": 5}


def test_a_kernel_that_only_reshapes_a_result_does_not_execute_its_node() -> None:
    nodes = by_name(post("view", "linear", moved=0, is_view=True), post("add", "add"))
    assert [role.node for role in roles(Ownership(executes={"view", "add"}), nodes)] == ["add"]


def test_a_forward_op_in_a_backward_kernel_is_recomputed() -> None:
    found = roles(Ownership(executes={"mul"}), by_name(post("mul", "gelu", phase="backward")))
    assert [(role.node, role.role) for role in found] == [("gelu", "recomputes")]


def region_fates(*kernels_nodes: tuple[str, ...]) -> dict[str, str]:
    nodes = [factories.node("linear"), factories.node("relu", inputs=("linear",)), factories.node("unused")]
    kernels = [
        factories.kernel(f"k{index}", roles=tuple(factories.executes(name) for name in names))
        for index, names in enumerate(kernels_nodes)
    ]
    return {name: fate.kind for name, fate in fates(nodes, [], kernels, ["relu"]).items()}


@pytest.mark.parametrize(
    ("kernels", "expected"),
    [
        ((("linear",), ("relu",)), {"linear": "kernel", "relu": "kernel", "unused": "dead"}),
        ((("linear", "relu"),), {"linear": "fused", "relu": "fused", "unused": "dead"}),
        ((("linear",), ("linear", "relu")), {"linear": "split", "relu": "fused", "unused": "dead"}),
        ((("linear",),), {"linear": "kernel", "relu": "unknown", "unused": "dead"}),
    ],
)
def test_fates(kernels: tuple[tuple[str, ...], ...], expected: dict[str, str]) -> None:
    assert region_fates(*kernels) == expected


def test_what_backward_alone_computes_has_its_fate_there() -> None:
    nodes = [factories.node("relu")]
    kernel = factories.kernel("k", phase="backward", roles=(factories.executes("relu"),))
    assert fates(nodes, [], [kernel], ["relu"])["relu"] == Fate(kind="kernel", kernels=("backward/k:0",))


def test_backward_adds_nothing_to_a_fate_that_forward_decides() -> None:
    nodes = [factories.node("relu")]
    kernels = [
        factories.kernel("f", roles=(factories.executes("relu"),)),
        factories.kernel("b", phase="backward", roles=(factories.executes("relu"),)),
    ]
    assert fates(nodes, [], kernels, ["relu"])["relu"] == Fate(kind="kernel", kernels=("forward/f:0",))


def test_what_lowers_to_views_only_is_a_view() -> None:
    nodes = [factories.node("flatten")]
    assert fates(nodes, [post("view", "flatten", is_view=True)], [], ["flatten"])["flatten"].kind == "view"


def test_an_op_that_writes_in_place_is_not_dead() -> None:
    nodes = [factories.node("add_", op_type="add_")]
    assert fates(nodes, [], [], [])["add_"].kind == "unknown"


def fate_of(became: PostGradNode, *others: PostGradNode, owner: bool = False) -> Fate:
    """The fate of `op`, which became that; with `owner` a kernel executes it."""
    kernels = [factories.kernel("k", roles=(factories.executes("op"),))] if owner else []
    return fates([factories.node("op")], [*others, became], kernels, ["op"])["op"]


def test_an_op_on_constants_that_no_kernel_executes_is_folded() -> None:
    assert fate_of(post("mul", "op", inputs=("full",)), post("full", "ones")).kind == "folded"


def test_an_op_on_an_input_that_no_kernel_executes_is_unknown_not_folded() -> None:
    # `arg0_1` is an input: inputs are not among the nodes.
    assert fate_of(post("mul", "op", inputs=("arg0_1",))).kind == "unknown"
    assert fate_of(post("mul", "op", inputs=("full", "arg0_1")), post("full", "ones")).kind == "unknown"


@pytest.mark.parametrize(("target", "kind"), [("addmm", "rewritten"), ("full", "folded")])
def test_what_a_pass_made_of_an_op_decides_its_fate(target: str, kind: str) -> None:
    found = fate_of(replace(post("new", "op"), target=target, rewrote=True), owner=True)
    assert (found.kind, found.note, found.kernels) == (kind, target, ("forward/k:0",))


def test_a_backward_node_is_part_of_the_backward_of_what_it_differentiates() -> None:
    nodes = by_name(
        replace(post("mul", moved=8, phase="backward"), differentiates=("gelu",)),
        replace(post("mul_1", moved=4, phase="backward"), differentiates=("gelu", "sin")),
        post("erf", "gelu", moved=2, phase="backward"),
    )
    found = {(role.node, role.role): role.moved_bytes for role in roles(Ownership(executes=set(nodes)), nodes)}
    assert found == {("gelu", "differentiates"): 10, ("sin", "differentiates"): 2, ("gelu", "recomputes"): 2}


def test_a_kernel_that_copies_an_expanded_gradient_belongs_to_what_that_differentiates() -> None:
    nodes = by_name(replace(post("expand", moved=0, is_view=True, phase="backward"), differentiates=("sum",)))
    found = roles(Ownership(executes={"expand"}), nodes)
    assert [(role.node, role.role) for role in found] == [("sum", "differentiates")]


def test_a_trace_that_was_lost_is_unknown_and_no_folded_op() -> None:
    nodes = [factories.node("mm"), factories.node("c", op_type="contiguous")]
    gone = {name: Fate(kind="folded", note=NO_OPERATION) for name in ("mm", "c")}
    found = fates(nodes, [], [], ["mm", "c"], gone)
    assert (found["mm"].kind, found["c"].kind) == ("unknown", "folded")

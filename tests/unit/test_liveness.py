"""Which nodes matter: what a result reads, and in-place writes to what is read afterwards or comes from outside."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphbench.provenance.fates import fates
from graphbench.provenance.liveness import live
from graphbench.records import NodeRecord, PostGradNode
from tests import factories

MEASURED = factories.steady(100.0)


def node(name: str, *inputs: str, op: str = "", kind: str = "compute", outputs: int = 1) -> NodeRecord:
    made = factories.node(name, inputs=inputs, isolated=MEASURED)
    specs = (factories.spec(4),) * outputs
    return replace(made, op_type=op or name, kind=kind, outputs=specs)  # type: ignore[arg-type]


def alive(*nodes: NodeRecord, result: str = "out") -> set[str]:
    return live(nodes, [result], may_alias={"reshape"})


def test_what_no_result_depends_on_is_dead() -> None:
    assert alive(node("a", "x"), node("b", "a"), node("out", "a")) == {"a", "out"}


def test_a_write_to_an_input_of_the_graph_matters() -> None:
    assert "add_" in alive(node("add_", "x", op="add_"), node("out", "y"))


def test_a_write_to_a_view_of_an_input_matters() -> None:
    assert "add_" in alive(node("v", "x", op="view", kind="view"), node("add_", "v", op="add_"), node("out", "y"))


def test_a_write_to_what_is_read_afterwards_matters() -> None:
    assert "clamp_" in alive(node("a", "x"), node("clamp_", "a", op="clamp_"), node("out", "a"))


def test_a_write_to_what_is_read_through_a_view_afterwards_matters() -> None:
    nodes = (node("a", "x"), node("clamp_", "a", op="clamp_"), node("v", "a", op="view", kind="view"))
    assert "clamp_" in alive(*nodes, node("out", "v"))


def test_a_write_to_what_was_read_before_and_never_after_is_dead() -> None:
    assert "clamp_" not in alive(node("a", "x"), node("out", "a"), node("clamp_", "a", op="clamp_"))


def test_results_of_one_op_have_memory_of_their_own() -> None:
    nodes = (
        node("sort", "x", outputs=2),
        node("values", "sort", op="getitem", kind="view"),
        node("order", "sort", op="getitem", kind="view"),
        node("clamp_", "values", op="clamp_"),
        node("out", "order"),
    )
    assert alive(*nodes) == {"sort", "order", "out"}


def test_pieces_of_a_split_share_the_memory_of_what_was_split() -> None:
    nodes = (
        node("a", "x"),
        node("split", "a", kind="view", outputs=2),
        node("first", "split", op="getitem", kind="view"),
        node("add_", "first", op="add_"),
        node("out", "a"),
    )
    assert "add_" in alive(*nodes)


def test_an_op_that_was_not_measured_and_may_return_its_input_is_taken_to_do_so() -> None:
    reshaped = replace(node("r", "a", op="reshape"), isolated=replace(MEASURED, status="skipped", samples=None))
    assert "add_" in alive(node("a", "x"), reshaped, node("add_", "r", op="add_"), node("out", "a"))


@pytest.mark.parametrize(("constants", "kind"), [((), "unknown"), (("_tensor_constant0",), "folded")])
def test_what_depends_on_constants_alone_and_no_kernel_executes_is_folded(
    constants: tuple[str, ...], kind: str
) -> None:
    lifted = PostGradNode(
        name="lift_fresh_copy",
        phase="forward",
        op="call_function",
        target="lift_fresh_copy",
        inputs=("_tensor_constant0",),
        sources=("tensor",),
    )
    found = fates([node("tensor")], [lifted], [], ["tensor"], constants=constants)
    assert found["tensor"].kind == kind

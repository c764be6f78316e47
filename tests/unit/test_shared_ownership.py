"""Nodes that several kernels compute together, and calls that nobody announced."""

from __future__ import annotations

import pytest

from graphbench.inductor.sites import Site, all_kernels
from graphbench.provenance.claims import IrNode
from graphbench.provenance.ownership import owned
from tests.post_grad import extern, fused, placeholder, post


def test_both_kernels_of_a_split_reduction_execute_it_by_the_bytes_that_they_move() -> None:
    graph = [placeholder("x"), post("mul", "x"), post("sum", "mul")]
    kernels = [
        fused("first:1", IrNode("buf0", None, ("sum", "mul"), ("x",), moved_bytes=90)),
        fused("second:2", IrNode("buf1", "sum", ("sum", "mul"), ("buf0",), moved_bytes=10)),
    ]
    found = owned(graph, kernels)
    assert found["first:1"].executes == {"sum", "mul"}
    assert found["second:2"].executes == {"sum"}
    assert found["second:2"].recomputes == set()
    assert found["first:1"].parts == {"sum": pytest.approx(0.9)}
    assert found["second:2"].parts == {"sum": pytest.approx(0.1)}
    assert (found["first:1"].reads, found["second:2"].reads) == (("x",), ("sum",))


def test_the_kernel_that_adds_a_convolutions_bias_executes_a_part_of_it_and_nothing_before_it() -> None:
    graph = [
        placeholder("x"),
        placeholder("w"),
        placeholder("b"),
        post("sin", "x"),
        post("convolution", "sin", "w", "b"),
    ]
    kernels = [
        fused("sin:1", IrNode("buf0", "sin", ("sin",), ("x",))),
        extern("extern_kernels.convolution:2", IrNode("buf1", None, ("convolution", "sin"), ("buf0", "w"))),
        fused("bias:3", IrNode("buf2", "convolution", ("convolution", "sin"), ("buf1", "b"), moved_bytes=100)),
    ]
    found = owned(graph, kernels)
    assert found["extern_kernels.convolution:2"].executes == {"convolution"}
    assert found["bias:3"].executes == {"convolution"}
    assert found["bias:3"].recomputes == set()
    assert found["bias:3"].parts == {"convolution": pytest.approx(0.25)}
    assert found["extern_kernels.convolution:2"].parts == {"convolution": pytest.approx(0.75)}


def test_the_cast_of_a_bias_is_executed_where_the_bias_is_added() -> None:
    graph = [
        placeholder("x"),
        placeholder("b"),
        post("cast", "b"),
        post("convolution", "x", "cast"),
        post("relu", "convolution"),
    ]
    origins = ("relu", "convolution", "cast")
    kernels = [
        extern("extern_kernels.convolution:1", IrNode("buf0", None, ("convolution", "cast"), ("x",))),
        fused("relu:2", IrNode("buf1", None, origins, ("buf0", "b"))),
        fused("last:3", IrNode("buf2", "relu", origins, ("buf1",))),
    ]
    found = owned(graph, kernels)
    assert found["extern_kernels.convolution:1"].executes == {"convolution"}
    assert "cast" in found["relu:2"].executes
    assert "cast" not in found["last:3"].executes | found["last:3"].recomputes


def test_a_copy_of_a_convolutions_weight_only_prepares_for_it() -> None:
    graph = [
        placeholder("x"),
        placeholder("w"),
        placeholder("b"),
        post("exp", "x"),
        post("convolution", "exp", "w", "b"),
    ]
    kernels = [
        fused("exp:1", IrNode("buf0", "exp", ("exp",), ("x",))),
        fused("weight:2", IrNode("buf1", None, ("convolution", "exp"), ("w",))),
        extern("extern_kernels.convolution:3", IrNode("buf2", None, ("convolution", "exp"), ("buf0", "buf1"))),
    ]
    found = owned(graph, kernels)["weight:2"]
    assert found.executes == set()
    assert found.prepares == {"convolution"}
    assert found.reads == ("w",)


def test_kernels_that_write_pieces_in_place_execute_the_concatenation() -> None:
    graph = [placeholder("x"), post("sin", "x"), post("cos", "x"), post("cat", "sin", "cos")]
    kernels = [
        fused("sin:1", IrNode("buf0", "sin", ("sin",), ("x",), moved_bytes=60)),
        fused("cos:2", IrNode("buf1", "cos", ("cos",), ("x",), moved_bytes=20)),
    ]
    found = owned(graph, kernels)
    assert found["sin:1"].executes == {"sin", "cat"}
    assert found["cos:2"].executes == {"cos", "cat"}
    assert found["sin:1"].parts == {"cat": pytest.approx(0.75)}
    assert found["sin:1"].reads == ("x",)


def test_a_concatenation_that_a_kernel_computes_inline_is_that_kernels_alone() -> None:
    graph = [placeholder("x"), post("mm", "x"), post("neg", "mm"), post("cat", "neg", "mm"), post("mul", "cat")]
    kernels = [
        extern("extern_kernels.mm:1", IrNode("buf0", "mm", ("mm",), ("x",))),
        fused("mul:2", IrNode("buf1", "mul", ("mul", "cat", "neg"), ("buf0",))),
    ]
    found = owned(graph, kernels)
    assert found["extern_kernels.mm:1"].executes == {"mm"}
    assert found["mul:2"].executes == {"neg", "cat", "mul"}
    assert found["mul:2"].reads == ("mm",)


def test_what_is_added_into_a_buffer_made_for_an_index_put_is_the_index_put() -> None:
    graph = [
        placeholder("i"),
        placeholder("g"),
        post("full", target="full"),
        post("where", "i", "g"),
        post("index_put", "full", "i", "where"),
    ]
    kernels = [
        fused("fill:1", IrNode("buf0", "index_put", ("full",))),
        fused("add:2", IrNode("buf1", None, ("index_put", "full", "where"), ("i", "g", "buf0"), mutates=("buf0",))),
    ]
    found = owned(graph, kernels)
    assert found["fill:1"].executes == {"full"}
    assert found["add:2"].executes == {"where", "index_put"}
    assert found["fill:1"].holds == {}


def test_a_call_that_nobody_announced_executes_the_op_that_its_buffer_was_made_for() -> None:
    graph = [
        placeholder("i"),
        placeholder("g"),
        post("full", target="full"),
        post("view", "g", view=True),
        post("scatter_add", "full", "i", "view"),
    ]
    site = Site(
        "unmarked.aten.scatter_reduce_.two:9", 2, "unmarked.aten.scatter_reduce_.two", None, "fallback",
        ("buf0", None, "i", "buf2"), None,
    )  # fmt: skip
    kernels = [
        fused(
            "fill:1",
            IrNode("buf0", "scatter_add", ("scatter_add", "full", "view")),
            IrNode("buf2", None, ("scatter_add", "full", "view"), ("g",)),
        ),
    ]
    found = owned(graph, all_kernels(kernels, [site]))
    assert found[site.key].executes == {"scatter_add"}
    assert "full" in found["fill:1"].executes
    assert "scatter_add" not in found["fill:1"].executes


def test_a_reduction_that_ends_on_its_workspace_is_shared_by_kernel_and_last_step() -> None:
    graph = [placeholder("x"), post("mul", "x"), post("sum_1", "mul"), post("add", "sum_1")]
    last = Site("workspace.sum:9", 2, "workspace.sum", None, "fallback", ("workspace_0",), "buf1")
    kernels = [
        fused(
            "mix:1",
            IrNode("buf0", "mul", ("mul",), ("x",)),
            IrNode("buf1", "sum_1", ("mul", "sum_1"), ("x",)),
        ),
        fused("add:2", IrNode("buf2", "add", ("add",), ("buf1",))),
    ]
    found = owned(graph, all_kernels(kernels, [last]))
    assert found["mix:1"].executes == {"mul", "sum_1"}
    assert found[last.key].executes == {"sum_1"}
    assert found["mix:1"].parts["sum_1"] + found[last.key].parts["sum_1"] == 1
    assert found["add:2"].executes == {"add"}


def test_what_no_kernel_names_is_executed_by_whoever_needs_it() -> None:
    graph = [placeholder("x"), post("iota"), post("add", "x", "iota")]
    found = owned(graph, [fused("add:1", IrNode("buf0", "add", ("add",), ("x",)))])
    assert found["add:1"].executes == {"iota", "add"}


def test_what_is_made_for_a_call_that_writes_into_it_is_not_that_call() -> None:
    graph = [placeholder("x"), post("sin", "x"), post("all_reduce", "sin"), post("wait", "all_reduce")]
    kernels = [
        fused("sin:1", IrNode("buf0", "wait", ("all_reduce", "sin"), ("x",))),
        extern("c10d.all_reduce_.default:2", IrNode("buf1", None, ("all_reduce", "sin"), ("buf0",))),
        extern("c10d.wait.default:3", IrNode("buf2", None, ("wait",), ("buf0",))),
    ]
    assert [ownership.executes for ownership in owned(graph, kernels).values()] == [{"sin"}, {"all_reduce"}, {"wait"}]


def test_an_input_that_two_kernels_need_is_read_by_both() -> None:
    graph = [placeholder("x"), post("view", "x", view=True), post("sum", "x"), post("amax", "view")]
    kernels = [
        fused("sum:1", IrNode("buf0", "sum", ("sum",), ("x",))),
        fused("amax:2", IrNode("buf1", "amax", ("amax", "view"), ("x",))),
    ]
    assert [ownership.reads for ownership in owned(graph, kernels).values()] == [("x",), ("x",)]


def test_the_last_step_of_a_reduction_may_stand_behind_another_of_its_kernel() -> None:
    graph = [placeholder("x"), post("mean", "x")]
    kernels = [
        fused("first:1", IrNode("buf0", None, ("mean",), ("x",), moved_bytes=90)),
        fused(
            "second:2",
            IrNode("buf1", None, ("mean",), ("buf0",), moved_bytes=5),
            IrNode("buf2", "mean", ("mean",), ("buf1",), moved_bytes=5),
        ),
    ]
    found = owned(graph, kernels)
    assert [ownership.executes for ownership in found.values()] == [{"mean"}, {"mean"}]
    assert found["second:2"].reads == ("mean",)
    assert found["first:1"].parts["mean"] + found["second:2"].parts["mean"] == pytest.approx(1.0)


def test_a_result_of_a_call_copied_into_another_layout_only_prepares() -> None:
    graph = [placeholder("x"), placeholder("w"), post("convolution", "x", "w")]
    kernels = [
        extern("extern_kernels.convolution:1", IrNode("buf0", None, ("convolution",), ("x", "w"))),
        fused("copy:2", IrNode("buf1", "convolution", ("convolution",), ("buf0",))),
    ]
    found = owned(graph, kernels)
    assert found["extern_kernels.convolution:1"].executes == {"convolution"}
    assert found["extern_kernels.convolution:1"].parts == {}
    assert (found["copy:2"].executes, found["copy:2"].prepares) == (set(), {"convolution"})


def _site(key: str, *arguments: str) -> Site:
    name, _, handle = key.partition(":")
    return Site(key, int(handle), name, int(handle), "triton", arguments, None)


def test_kernels_announced_for_what_they_write_together_have_what_their_calls_are_given() -> None:
    graph = [placeholder("x"), placeholder("y"), post("mul", "x"), post("add", "mul"), post("neg", "y")]
    both = (IrNode("buf1", "add", ("mul", "add"), ("x",)), IrNode("buf2", "neg", ("neg",), ("y",)))
    kernels = [fused("combo:1", *both), fused("combo:2", *both)]
    found = owned(graph, all_kernels(kernels, [_site("combo:1", "x", "buf1"), _site("combo:2", "y", "buf2")]))
    assert found["combo:1"].executes == {"mul", "add"}
    assert found["combo:2"].executes == {"neg"}
    assert found["combo:1"].parts == found["combo:2"].parts == {}


def test_a_kernel_that_writes_inputs_has_those_that_its_call_is_given() -> None:
    graph = [placeholder("x"), placeholder("y"), post("one", "x"), post("other", "y")]
    both = (
        IrNode("buf0", "one", ("one",), ("x",), mutates=("x",)),
        IrNode("buf1", "other", ("other",), ("y",), mutates=("y",)),
    )
    kernels = [fused("combo:1", *both), fused("combo:2", *both)]
    found = owned(graph, all_kernels(kernels, [_site("combo:1", "x"), _site("combo:2", "y")]))
    assert (found["combo:1"].executes, found["combo:2"].executes) == ({"one"}, {"other"})

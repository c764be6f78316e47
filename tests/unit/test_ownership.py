"""Ownership by slice, on post-grad graphs small enough to judge by eye."""

from __future__ import annotations

from graphbench.provenance.claims import IrNode
from graphbench.provenance.ownership import owned
from tests.post_grad import extern, fused, placeholder, post


def test_a_kernel_executes_the_chain_up_to_what_others_wrote() -> None:
    graph = [placeholder("x"), post("mm", "x"), post("sin", "mm"), post("add", "sin")]
    kernels = [
        extern("extern_kernels.mm:1", IrNode("buf0", "mm", ("mm",))),
        fused("cpp_fused_0:2", IrNode("buf1", "add", ("add", "sin", "mm"))),
    ]
    found = owned(graph, kernels)
    assert found["extern_kernels.mm:1"].executes == {"mm"}
    assert found["cpp_fused_0:2"].executes == {"sin", "add"}
    assert found["cpp_fused_0:2"].contributes == {"mm"}


def test_a_custom_op_owns_only_its_own_call() -> None:
    graph = [placeholder("x"), post("sin", "x"), post("foo", "sin"), post("add", "foo")]
    kernels = [
        fused("cpp_fused_foo_sin_0:1", IrNode("buf0", None, ("foo", "sin"))),
        extern("torch.ops.gb.foo.default:2", IrNode("buf1", None, ("foo", "sin"))),
        fused("cpp_fused_add_1:3", IrNode("buf2", "add", ("add", "foo"))),
    ]
    found = owned(graph, kernels)
    assert found["cpp_fused_foo_sin_0:1"].executes == {"sin"}
    assert found["torch.ops.gb.foo.default:2"].executes == {"foo"}
    assert found["cpp_fused_add_1:3"].executes == {"add"}


def test_an_intermediate_needed_twice_is_executed_once_and_recomputed_once() -> None:
    graph = [placeholder("x"), post("cos", "x"), post("add", "cos"), post("mul", "cos")]
    kernels = [
        fused("a:1", IrNode("buf0", "add", ("add", "cos"))),
        fused("b:2", IrNode("buf1", "mul", ("mul", "cos"))),
    ]
    found = owned(graph, kernels)
    assert found["a:1"].executes == {"cos", "add"}
    assert found["b:2"].executes == {"mul"}
    assert found["b:2"].recomputes == {"cos"}


def test_a_multi_output_call_and_its_items_are_one() -> None:
    graph = [
        placeholder("x"),
        post("topk", "x"),
        post("getitem", "topk", target="getitem"),
        post("getitem_1", "topk", target="getitem"),
        post("neg", "getitem"),
    ]
    kernels = [
        extern("torch.ops.aten.topk.default:1", IrNode("buf0", None, ("topk", "getitem"))),
        fused("neg:2", IrNode("buf1", "neg", ("neg", "getitem", "topk"))),
    ]
    found = owned(graph, kernels)
    assert found["torch.ops.aten.topk.default:1"].executes == {"topk"}
    assert found["neg:2"].executes == {"neg"}


def test_a_copy_of_a_parameter_prepares_for_its_consumer() -> None:
    graph = [placeholder("x"), placeholder("weight"), post("convolution", "x", "weight")]
    kernels = [
        fused("cpp_fused_convolution_0:1", IrNode("buf0", None, ("weight",))),
        extern("extern_kernels.convolution:2", IrNode("buf1", "convolution", ("convolution",))),
    ]
    found = owned(graph, kernels)
    assert found["cpp_fused_convolution_0:1"].prepares == {"convolution"}
    assert not found["cpp_fused_convolution_0:1"].executes
    assert found["extern_kernels.convolution:2"].executes == {"convolution"}


def test_a_copy_whose_only_origin_is_claimed_by_the_call_only_prepares() -> None:
    graph = [placeholder("x"), post("convolution", "x")]
    kernels = [
        fused("cpp_fused_convolution_0:1", IrNode("buf0", None, ("convolution",))),
        extern("extern_kernels.convolution:2", IrNode("buf1", "convolution", ("convolution",))),
    ]
    found = owned(graph, kernels)
    assert found["cpp_fused_convolution_0:1"].prepares == {"convolution"}
    assert found["extern_kernels.convolution:2"].executes == {"convolution"}


def test_a_kernel_without_origins_owns_nothing() -> None:
    found = owned([placeholder("x")], [extern("aten.randint.low_out:1", IrNode("buf0", None, ()))])
    assert found["aten.randint.low_out:1"].executes == set()
    assert found["aten.randint.low_out:1"].prepares == set()


def test_only_an_exact_buffer_is_said_to_hold_its_nodes_value() -> None:
    graph = [placeholder("x"), post("exp", "x"), post("mean", "exp")]
    kernels = [fused("k:1", IrNode("buf0", "exp", ("exp",)), IrNode("buf1", None, ("mean", "exp")))]
    found = owned(graph, kernels)["k:1"]
    assert found.holds == {"buf0": "exp"}
    assert found.executes == {"exp", "mean"}


def test_copies_made_for_an_extern_call_belong_to_the_argument_at_their_place() -> None:
    graph = [
        placeholder("x"),
        post("rotary", "x"),
        post("key", "x"),
        post("where", "x"),
        post("attention", "rotary", "key", "where"),
    ]
    everything = ("rotary", "key", "where", "attention")
    kernels = [
        fused("copy:1", IrNode("buf0", None, everything)),
        fused("copy:2", IrNode("buf1", None, everything)),
        fused("copy:3", IrNode("buf2", None, everything)),
        extern("aten.attention:4", IrNode("buf3", None, everything, reads=("buf0", "buf1", "buf2"))),
    ]
    found = owned(graph, kernels)
    assert [found[kernel.key].executes for kernel in kernels] == [{"rotary"}, {"key"}, {"where"}, {"attention"}]


def test_a_weight_copied_inside_another_kernel_is_prepared_and_claims_nothing() -> None:
    graph = [
        placeholder("x"),
        placeholder("weight"),
        post("relu", "x"),
        post("convolution", "relu", "weight"),
        post("batch_norm", "convolution"),
    ]
    upstream = ("relu", "convolution")
    kernels = [
        fused("relu:1", IrNode("buf0", "relu", ("relu",)), IrNode("buf1", None, upstream, reads=("weight",))),
        extern("extern_kernels.convolution:2", IrNode("buf2", "convolution", upstream, reads=("buf0", "buf1"))),
        fused("norm:3", IrNode("buf3", "batch_norm", ("batch_norm",))),
    ]
    found = owned(graph, kernels)
    assert (found["relu:1"].executes, found["relu:1"].prepares) == ({"relu"}, {"convolution"})
    assert found["norm:3"].executes == {"batch_norm"}


def test_all_weights_copied_up_front_claim_nothing_of_later_layers() -> None:
    graph = [
        *(placeholder(name) for name in ("x", "w1", "w2")),
        post("convolution", "x", "w1"),
        post("norm", "convolution"),
        post("convolution_1", "norm", "w2"),
    ]
    later = ("convolution_1", "norm")
    kernels = [
        fused("pack:1", IrNode("buf0", None, ("convolution",), ("w1",)), IrNode("buf1", None, later, ("w2",))),
        extern("convolution:2", IrNode("buf2", "convolution", ("convolution",), reads=("x", "buf0"))),
        fused("norm:3", IrNode("buf3", "norm", ("norm",), reads=("buf2",))),
        extern("convolution:4", IrNode("buf4", "convolution_1", later, reads=("buf3", "buf1"))),
    ]
    found = owned(graph, kernels)
    assert (found["pack:1"].executes, found["pack:1"].prepares) == (set(), {"convolution", "convolution_1"})
    assert found["norm:3"].executes == {"norm"}


def test_a_copy_of_what_another_buffer_holds_executes_nothing() -> None:
    graph = [placeholder("x"), post("relu", "x"), post("attention", "relu")]
    kernels = [
        fused("relu:1", IrNode("buf0", "relu", ("relu",), reads=("x",))),
        fused("copy:2", IrNode("buf1", None, ("relu", "attention"), reads=("buf0",))),
        extern("aten.attention:3", IrNode("buf2", "attention", ("relu", "attention"), reads=("buf1",))),
    ]
    found = owned(graph, kernels)["copy:2"]
    assert (found.executes, found.recomputes, found.prepares) == (set(), set(), {"attention"})

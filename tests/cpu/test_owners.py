"""Who owns a kernel and what became of a node, where upstream's own provenance is known to go wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - the name that every PyTorch program gives it

import graphbench
from graphbench import session
from graphbench.measuring.region import skipped
from graphbench.records import KernelRecord, Phase, RegionRecord, Role
from tests.cpu.stories import compiled, node
from tests.suite.owners import executed_times, not_once, unowned


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    graphbench.reset()
    yield
    graphbench.reset()


@torch.library.custom_op("graphbench_tests::exp", mutates_args=())
def custom_exp(x: torch.Tensor) -> torch.Tensor:
    return x.exp()


@custom_exp.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("graphbench_tests::increment", mutates_args=("x",))
def increment(x: torch.Tensor) -> None:
    x.add_(1)


class Doubled(torch.autograd.Function):
    """A sine with a backward of its own."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.sin() * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return gradient * x.cos() * 2


def leaf(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, requires_grad=True)


def mapped(model: Callable[..., Any], *args: Any) -> RegionRecord:
    """The only region of a model, its backward included if it has one; nothing is timed.

    Every kernel has an owner, every post-grad node is executed once and every node has a fate.
    """
    result = compiled(model)(*args)
    if result.requires_grad:
        result.sum().backward()
    (region,) = session.current().regions
    record = skipped(region, "only mapped")
    assert unowned(record.kernels) == []
    assert not_once(executed_times(record.post_grad, record.kernels)) == {}
    assert [node.name for node in record.nodes if node.fate.kind == "unknown"] == []
    return record


def part(kernel: KernelRecord, *roles: Role) -> set[str]:
    return {role.node for role in kernel.roles if role.role in roles}


def fate(region: RegionRecord, op_type: str) -> str:
    return node(region, op_type).fate.kind


def phase(region: RegionRecord, name: Phase) -> list[KernelRecord]:
    return [kernel for kernel in region.kernels if kernel.phase == name]


def test_a_custom_op_owns_only_its_own_row() -> None:
    region = mapped(lambda x: custom_exp(x.sin()) + 1, torch.randn(8))
    custom = node(region, "graphbench_tests.exp").name
    owners = {kernel.kind: part(kernel, "executes") for kernel in region.kernels if kernel.kind == "custom"}
    assert owners == {"custom": {custom}}
    assert [part(kernel, "executes") for kernel in region.kernels] == [{"sin"}, {custom}, {"add"}]


def test_the_op_before_a_mutating_custom_op_does_not_belong_to_it() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        increment(y)
        return y.cos()

    region = mapped(model, torch.randn(8))
    custom = node(region, "graphbench_tests.increment").name
    assert [part(kernel, "executes") for kernel in region.kernels] == [{"y"}, {custom}, {"cos"}]


def test_a_write_back_to_an_input_belongs_to_the_op_that_writes() -> None:
    region = mapped(lambda x, y: (x.add_(y.sin()), y.cos())[1], torch.randn(8), torch.randn(8))
    (copy,) = [entry for entry in region.post_grad if entry.target == "copy_"]
    assert copy.sources == (node(region, "add_").name,)


def test_seeds_belong_to_the_random_op_that_consumes_them() -> None:
    region = mapped(lambda x: F.dropout(x.exp(), 0.5), leaf(64))
    seeds = [kernel for kernel in region.kernels if any("seed" in name for name in kernel.executes)]
    assert seeds
    assert all("dropout" in part(kernel, "executes") for kernel in seeds)


def test_the_backward_of_a_custom_function_differentiates_it_also_in_a_chain() -> None:
    region = mapped(lambda x: Doubled.apply(Doubled.apply(x)), leaf(64))
    first, second = (entry.name for entry in region.nodes if entry.op_type == "autograd_function_apply")
    (kernel,) = phase(region, "backward")
    assert part(kernel, "differentiates") == {first, second}
    assert part(kernel, "recomputes") == {first}


def test_what_a_checkpoint_computes_again_is_flagged() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        kept = torch.utils.checkpoint.checkpoint(lambda y: y.sin().exp(), x, use_reentrant=False)
        assert isinstance(kept, torch.Tensor)
        return kept.relu()

    region = mapped(model, leaf(64))
    checkpoint = node(region, "tag_activation_checkpoint").name
    recomputing = [kernel for kernel in phase(region, "backward") if checkpoint in part(kernel, "recomputes")]
    assert recomputing
    assert all(checkpoint in part(kernel, "differentiates") for kernel in recomputing)


def test_a_sum_over_equal_calls_computes_one_and_merges_the_other() -> None:
    region = mapped(lambda x: x.sin() + x.sin(), leaf(64))
    first, second = (entry for entry in region.nodes if entry.op_type == "sin")
    assert (second.fate.kind, second.fate.note) == ("merged", first.name)
    (kernel,) = phase(region, "backward")
    assert {first.name, second.name} <= part(kernel, "differentiates")


def test_a_copy_that_nothing_needs_is_folded() -> None:
    region = mapped(lambda x: x.float().contiguous().clone().sin(), torch.randn(8))
    assert [fate(region, op) for op in ("float", "contiguous", "clone", "sin")] == ["folded"] * 3 + ["kernel"]


def test_an_index_put_owns_what_writes_into_the_buffer_made_for_it() -> None:
    region = mapped(
        lambda i, v: torch.zeros(16, 4).index_put_((i,), v.sin(), accumulate=True),
        torch.tensor([1, 1]),
        torch.randn(2, 4),
    )
    put = node(region, "index_put_").name
    assert any(put in part(kernel, "executes") for kernel in region.kernels)


def test_a_fallback_that_inductor_never_announced_has_an_owner() -> None:
    def model(x: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return x.clone().scatter_add_(0, i, v).sin()

    region = mapped(model, torch.randn(8, 4), torch.zeros(2, 4, dtype=torch.long), torch.randn(2, 4))
    fallbacks = [kernel for kernel in region.kernels if kernel.handle is None]
    assert [part(kernel, "executes") for kernel in fallbacks] == [{"scatter_add_"}]


def test_pieces_written_in_place_make_the_concatenation() -> None:
    region = mapped(
        lambda x, y, i: torch.cat([x[i], y[i, None]], 1), torch.randn(8, 4), torch.randn(8), torch.arange(4)
    )
    cat = node(region, "cat")
    assert cat.fate.kernels
    assert all(cat.name in part(kernel, "executes") for kernel in region.kernels if kernel.key in cat.fate.kernels)


def test_a_product_used_twice_beside_a_comparison_loses_nothing_in_forward() -> None:
    region = mapped(
        lambda x, w: ((x @ w).sin() + (x @ w).cos()) * (x.cos() > 0), torch.randn(16, 16), torch.randn(16, 16)
    )
    products = [part(kernel, "executes") for kernel in region.kernels if kernel.kind == "extern"]
    assert products == [{"matmul"}, {"matmul_1"}]
    (rest,) = [kernel for kernel in region.kernels if kernel.kind != "extern"]
    assert part(rest, "executes") == {"sin", "cos", "add", "cos_1", "gt", "mul"}


def test_the_fused_kernels_around_attention_do_not_own_its_backward() -> None:
    region = mapped(
        lambda q, k, v: F.scaled_dot_product_attention(q.sin(), k, v).cos(), *(leaf(1, 2, 16, 32) for _ in range(3))
    )
    attention = node(region, "scaled_dot_product_attention").name
    owners = {kernel.key: part(kernel, "executes", "differentiates") for kernel in region.kernels}
    owning = [key for key, names in owners.items() if attention in names]
    assert len(owning) == 2
    assert all("scaled_dot_product" in key.split("cpp_fused")[0] for key in owning)


class Rotated(nn.Module):
    """A root-mean-square norm, a projection, and a rotary embedding."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.project = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        normed = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        left, right = (projected := self.project(normed)).chunk(2, -1)
        return projected * cos + torch.cat([-right, left], -1) * sin


def test_a_norm_computed_again_in_backward_is_flagged_and_not_counted_twice() -> None:
    region = mapped(Rotated(32), leaf(4, 8, 32), torch.randn(8, 32), torch.randn(8, 32))
    again = {name for kernel in phase(region, "backward") for name in part(kernel, "recomputes")}
    assert again
    assert again <= {entry.name for entry in region.nodes if entry.op_type in ("mul", "pow", "mean", "add", "rsqrt")}
    assert not again & {name for kernel in phase(region, "backward") for name in part(kernel, "executes")}


def test_attention_rewritten_in_training_owns_neither_what_comes_behind_it_nor_its_backward_the_forward() -> None:
    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        q = q @ w
        return ((q @ k.transpose(-2, -1) / 4.0).softmax(-1) @ v).tanh()

    region = mapped(attention, leaf(1, 2, 16, 32), leaf(1, 2, 16, 32), leaf(1, 2, 16, 32), leaf(32, 32))
    assert fate(region, "tanh") == "kernel"
    (call,) = [kernel for kernel in phase(region, "forward") if "scaled_dot_product" in kernel.key]
    assert "tanh" not in part(call, "executes", "differentiates")
    (gradient,) = [k for k in phase(region, "backward") if "flash_attention_for_cpu_backward.default" in k.key]
    assert part(gradient, "recomputes") == set()
    assert {"softmax", "truediv"} <= {
        entry.op_type for entry in region.nodes if entry.name in part(gradient, "differentiates")
    }


def test_an_op_of_a_branch_is_not_the_op_of_that_name_outside() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda v: v.sin(), lambda v: v.cos(), (x,)).sin() + x.cos()

    region = mapped(model, leaf(8))
    branching = node(region, "cond").name
    inside = [kernel for kernel in region.kernels if any("." in name for name in kernel.executes)]
    assert len(inside) == 4
    for kernel in inside:
        wanted: Role = "executes" if kernel.phase == "forward" else "differentiates"
        assert part(kernel, wanted) == {branching}
    assert not any(branching in part(kernel, "executes") for kernel in region.kernels if kernel not in inside)


def test_a_result_of_a_call_that_is_copied_into_a_concatenation_leaves_it_to_the_copy() -> None:
    region = mapped(lambda x, y: torch.cat([x.cumsum(0), y], 0), torch.randn(8, 8), torch.randn(8, 8))
    assert [part(kernel, "executes") for kernel in region.kernels] == [{"cumsum"}, {"cat"}]


def test_what_is_computed_with_a_float_that_may_have_any_value_has_its_node_and_its_backward() -> None:
    def model(x: torch.Tensor, by: float) -> torch.Tensor:
        scaled = x / by
        return (scaled.sin() * (by + 1)).cos() - by

    call, x = compiled(model), leaf(64, 64)
    for by in (2.0, 3.0):  # the second value compiles it for any
        call(x, by).sum().backward()
    region = skipped(session.current().regions[-1], "only mapped")
    assert unowned(region.kernels) == []
    fates = {entry.name: entry.fate.kind for entry in region.nodes if entry.kind == "compute"}
    assert set(fates.values()) == {"fused"}
    computed = [part(kernel, "executes") for kernel in phase(region, "forward")]
    differentiated = [part(kernel, "differentiates") for kernel in phase(region, "backward")]
    assert set().union(*computed) - {"add"} == set(fates)  # `by + 1` is the host's, and yet a part of the kernel
    assert {name for name in fates if not name.startswith("sub")} == set().union(*differentiated)


def test_of_ops_on_floats_that_follow_each_other_each_is_where_it_is_computed() -> None:
    def model(x: torch.Tensor, w: torch.Tensor, first: float, second: float) -> torch.Tensor:
        shifted = x + first
        moved = shifted + second
        return torch.softmax(moved @ w, 0) + shifted

    call = compiled(model)
    for first, second in ((2.0, 3.0), (4.0, 5.0)):  # the second values compile it for any
        call(torch.randn(64, 64), torch.randn(64, 64), first, second)
    region = skipped(session.current().regions[-1], "only mapped")
    before, product, behind = region.kernels
    assert part(before, "executes") == {"shifted", "moved"}
    assert part(product, "executes") == {"matmul"}
    assert part(behind, "recomputes") == {"shifted"}
    assert {node.name: node.fate.kind for node in region.nodes if node.name in ("shifted", "moved")} == {
        "shifted": "split",
        "moved": "fused",
    }

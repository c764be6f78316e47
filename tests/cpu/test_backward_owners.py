"""Backward kernels name the forward nodes that they differentiate: all of them, and no others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - the name that every PyTorch program gives it

import graphbench
from graphbench import session
from graphbench.inductor.joint import JointGraph
from graphbench.measuring.compiled import CompiledSide
from graphbench.measuring.runs import MeasuredSide
from graphbench.records import KernelRecord, Side
from graphbench.regions import Region


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    graphbench.reset()
    yield
    graphbench.reset()


def leaf(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, requires_grad=True)


def regions_of(model: Callable[..., Any], *args: Any) -> list[Region]:
    torch.compile(model, backend="graphbench")(*args).sum().backward()
    return session.current().regions


def backward(region: Region) -> dict[str, KernelRecord]:
    """The backward kernels of a region, by key; nothing is measured."""
    graph = region.graph("backward")
    assert graph is not None
    return {kernel.key: kernel for kernel in CompiledSide.of(graph).records(MeasuredSide(Side(reason="not run")))}


def differentiated(kernel: KernelRecord) -> set[str]:
    return {role.node for role in kernel.roles if role.role == "differentiates"}


def test_the_backward_of_gelu_names_gelu() -> None:
    (region,) = regions_of(lambda x: F.gelu(x).sin(), leaf(64))
    (kernel,) = backward(region).values()
    assert differentiated(kernel) == {"gelu", "sin"}


def test_regions_that_compile_one_after_the_other_do_not_mix() -> None:
    linear = nn.Linear(16, 16)
    names = []
    for model in (linear, lambda x: F.gelu(x), lambda x: x.tanh()):
        torch.compile(model, backend="graphbench")(leaf(4, 16)).sum().backward()
    for region in session.current().regions:
        own = {node.name for node in region.nodes}
        found = set().union(*(differentiated(kernel) for kernel in backward(region).values()))
        assert found
        assert found <= own
        names.append(sorted(found))
    assert [len(entry) for entry in names] == [1, 1, 1]


def test_a_product_used_twice_beside_an_op_without_gradient_has_no_false_owner() -> None:
    def model(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return ((x @ w).sin() + (x @ w).cos()) * (x.cos() > 0)

    (region,) = regions_of(model, leaf(8, 16), leaf(16, 16))
    kernels = backward(region)
    products = [kernel for kernel in kernels.values() if kernel.kind == "extern"]
    assert {name for kernel in products for name in differentiated(kernel)} == {"matmul", "matmul_1"}
    assert all(differentiated(kernel) for kernel in kernels.values())
    assert not any({"gt", "cos_1"} & differentiated(kernel) for kernel in kernels.values())


def test_gradients_of_a_shared_weight_are_summed_for_both_its_uses() -> None:
    linear = nn.Linear(16, 16)
    (region,) = regions_of(lambda x: linear(linear(x).relu()), leaf(4, 16))
    sums = [kernel for key, kernel in backward(region).items() if "addmm" in key]
    assert [differentiated(kernel) for kernel in sums] == [{"linear", "linear_1"}]


def test_the_fused_backward_of_a_norm_does_not_own_the_convolutions() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
    (region,) = regions_of(model, torch.randn(2, 3, 8, 8))
    names = {node.op_type: node.name for node in region.nodes}
    owners = {key: differentiated(kernel) for key, kernel in backward(region).items()}
    convolution = next(found for key, found in owners.items() if "convolution_backward.default" in key)
    assert convolution == {names["conv2d"]}
    others = [found for key, found in owners.items() if "convolution_backward.default" not in key]
    assert not any(names["conv2d"] in found for found in others)
    assert any({names["batch_norm"], names["relu"]} <= found for found in others)


def test_a_recomputed_op_is_flagged_beside_what_is_differentiated() -> None:
    (region,) = regions_of(lambda x: (F.gelu(x) * x).sin(), leaf(64))
    (kernel,) = backward(region).values()
    assert {role.node for role in kernel.roles if role.role == "recomputes"} == {"gelu", "mul"}
    assert differentiated(kernel) == {"gelu", "mul", "sin"}


def test_every_backward_kernel_of_a_transformer_has_an_owner(transformer_training: Any) -> None:
    (region,) = transformer_training.first.regions
    without = [kernel.key for kernel in region.kernels if kernel.phase == "backward" and not kernel.roles]
    assert without == []


def test_a_joint_graph_that_cannot_be_read_is_a_note_and_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: JointGraph, graph: Any) -> None:
        raise KeyError("seq_nr")

    monkeypatch.setattr(JointGraph, "read", broken)
    torch.compile(lambda x: x.sin(), backend="graphbench")(leaf(8)).sum().backward()
    (region,) = graphbench.measure(repeat=2, warmup=1).record.regions
    assert any(
        "kernels could not be mapped to nodes: the joint graph: KeyError: 'seq_nr'" in note for note in region.notes
    )


def test_the_users_own_pass_over_the_joint_graph_still_runs() -> None:
    seen: list[int] = []
    options = {"inductor": {"joint_custom_pre_pass": lambda graph: seen.append(len(graph.nodes))}}
    model = torch.compile(lambda x: F.gelu(x), backend="graphbench", options=options)
    model(leaf(8)).sum().backward()
    (region,) = session.current().regions
    assert seen
    assert all(differentiated(kernel) == {"gelu"} for kernel in backward(region).values())

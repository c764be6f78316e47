"""Nodes that a pass of the compiler replaced say what they became."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import graphbench
from graphbench.conservation import check
from graphbench.records import Fate, RegionRecord
from tests.cpu.stories import measured
from tests.factories import profile
from tests.suite.owners import executed_times, not_once, unowned


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    graphbench.reset()
    yield
    graphbench.reset()


def fates(model: Callable[..., Any], *args: Any) -> tuple[RegionRecord, dict[str, Fate]]:
    with torch.no_grad():
        region = measured(model, *args)
    return region, {node.name: node.fate for node in region.nodes}


def test_attention_written_by_hand_is_rewritten_to_one_kernel() -> None:
    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.softmax((q @ k.transpose(-2, -1)) / 8.0, -1) @ v

    region, found = fates(attention, *(torch.randn(1, 2, 16, 64) for _ in range(3)))
    (kernel,) = region.kernels
    written = {name: fate for name, fate in found.items() if name != "transpose"}
    assert {(fate.kind, fate.kernels) for fate in written.values()} == {("rewritten", (kernel.key,))}
    assert all("scaled_dot_product" in fate.note for fate in written.values())
    assert {"matmul", "truediv", "softmax", "matmul_1"} <= {role.node for role in kernel.roles}


def test_a_product_and_a_sum_become_one_library_call() -> None:
    _, found = fates(lambda x, w, b: (x @ w + b).relu(), torch.randn(8, 8), torch.randn(8, 8), torch.randn(8))
    assert [(found[name].kind, found[name].note) for name in ("matmul", "add")] == [("rewritten", "addmm")] * 2
    assert found["relu"].kind == "kernel"


def test_what_is_computed_of_constants_is_folded() -> None:
    _, found = fates(lambda x: x * (torch.ones(4) * 2 + 1), torch.randn(4))
    assert {name: found[name].kind for name in ("ones", "mul", "add")} == dict.fromkeys(
        ("ones", "mul", "add"), "folded"
    )
    assert found["mul_1"].kind in ("kernel", "fused")


def test_a_constant_that_a_kernel_writes_is_no_folded_one() -> None:
    _, found = fates(lambda x: torch.full((8,), 3.0), torch.randn(4))
    assert found["full"].kind == "kernel"


def test_a_batch_norm_folded_into_its_convolution_is_rewritten_and_the_profile_holds() -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8)).eval()
    with torch.no_grad():
        region = measured(
            model, torch.randn(1, 3, 8, 8), options={"inductor": {"efficient_conv_bn_eval_fx_passes": True}}
        )
    folded = {node.op_type: node.fate.kind for node in region.nodes}
    assert folded == {"conv2d": "rewritten", "batch_norm": "rewritten"}
    assert not_once(executed_times(region.post_grad, region.kernels)) == {}
    assert unowned(region.kernels) == []
    check(profile(region))

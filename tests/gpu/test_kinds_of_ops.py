"""Kinds of ops that only a GPU has kernels for: each measured whole, every kernel owned, every node with a fate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import graphbench
from graphbench.records import ProfileRecord
from tests.suite.checks import faults

pytestmark = pytest.mark.gpu
DEVICE = "cuda"
Step = Callable[[], Any]


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    graphbench.reset()
    yield
    graphbench.reset()


def measured(fn: Callable[..., Any], *args: Any, train: bool = False, **options: Any) -> ProfileRecord:
    """A function compiled, called once and measured; nothing of its map may be missing."""
    with torch.set_grad_enabled(train):
        result = torch.compile(fn, backend="graphbench", **options)(*args)
        if train:
            result.sum().backward()
    record: ProfileRecord = graphbench.measure(progress=False, warmup=1, repeat=3).record
    assert faults(record, "training" if train else "inference") == []
    return record


def kinds(record: ProfileRecord) -> set[str]:
    return {kernel.kind for region in record.regions for kernel in region.kernels}


def randn(*shape: int, grad: bool = False, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, device=DEVICE, dtype=dtype, requires_grad=grad)


@pytest.mark.parametrize("train", [False, True])
def test_flex_attention_with_a_mask_and_a_score_function(train: bool) -> None:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 256, 256, device=DEVICE)
    q, k, v = (randn(2, 4, 256, 64, grad=train, dtype=torch.bfloat16) for _ in range(3))

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + (i - j), block_mask=mask)

    record = measured(attend, q, k, v, train=train)
    assert "template" in kinds(record)
    (node,) = [node for node in record.regions[0].nodes if node.op_type == "flex_attention"]
    assert node.fate.kernels


def test_ops_over_lists_of_tensors_of_several_sizes_are_kernels_of_their_own() -> None:
    many = [randn(size, 64) for size in (64, 64, 1024, 1024)]

    def shrink(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        return list(torch._foreach_add(torch._foreach_mul(tensors, 0.9), 1.0))

    (region,) = measured(shrink, many).regions
    written = [set(kernel.executes) for kernel in region.kernels]
    assert all(one.isdisjoint(other) for i, one in enumerate(written) for other in written[:i])


def test_combo_kernels_execute_what_was_fused_into_them() -> None:
    x, y = randn(64, 64), randn(256, 32)
    measured(
        lambda x, y: ((x * 2).relu(), (y + 1).exp(), x.sum(1)), x, y, options={"inductor": {"combo_kernels": True}}
    )


@pytest.mark.parametrize("fused", ["epilogue", "prologue"])
def test_templates_with_what_is_fused_into_them(fused: str) -> None:
    a, b = randn(512, 512, dtype=torch.bfloat16), randn(512, 512, dtype=torch.bfloat16)
    functions = {"epilogue": lambda a, b: (a @ b).relu() + 1, "prologue": lambda a, b: (a.relu() * 2) @ b}
    settings = {"max_autotune": True, "max_autotune_gemm_backends": "TRITON", "prologue_fusion": True}
    record = measured(functions[fused], a, b, options={"inductor": settings})
    assert "template" in kinds(record)


def test_a_product_in_8_bit_floats() -> None:
    a, b = randn(64, 64).to(torch.float8_e4m3fn), randn(64, 64).to(torch.float8_e4m3fn).t()
    one = torch.ones((), device=DEVICE)

    def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch._scaled_mm(a, b, one, one, out_dtype=torch.bfloat16).relu()

    record = measured(product, a, b)
    assert {node.op_type: node.isolated.status for node in record.regions[0].nodes}["_scaled_mm"] == "ok"


def test_a_product_of_8_bit_integers() -> None:
    a = torch.randint(-8, 8, (64, 64), dtype=torch.int8, device=DEVICE)
    record = measured(lambda a, b: torch._int_mm(a, b).float() * 0.1, a, a.t())
    work = {node.op_type: node.isolated.work for node in record.regions[0].nodes}["_int_mm"]
    assert work is not None
    assert work.flops == 2 * 64**3


def test_an_associative_scan_is_one_kernel() -> None:
    from torch._higher_order_ops.associative_scan import associative_scan

    record = measured(lambda x: associative_scan(lambda a, b: a + b, x, dim=0) * 2, randn(128, 64))
    assert kinds(record) <= {"triton"}


def test_a_recurrent_network_of_the_library() -> None:
    lstm = nn.LSTM(32, 64, batch_first=True).to(DEVICE)
    with torch._dynamo.config.patch(allow_rnn=True):
        record = measured(lambda x: lstm(x)[0], randn(4, 8, 32))
    assert {node.isolated.status for node in record.regions[0].nodes if node.op_type == "lstm"} == {"ok"}


def test_a_users_kernel_with_autotuning() -> None:
    from tests.gpu.kernels import doubled

    record = measured(lambda x: doubled(x).relu(), randn(4096))
    assert "user-triton" in kinds(record)

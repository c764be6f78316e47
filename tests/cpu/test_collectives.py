"""A collective is run as often as the model runs it: other ranks would wait for a sample of ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import distributed

from graphbench.measuring.collectives import COLLECTIVE
from tests.cpu.stories import compiled, node, quick


@pytest.fixture
def one_rank(tmp_path: Path) -> Iterator[None]:
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def test_a_collective_is_never_isolated_and_owns_its_own_kernel(one_rank: None) -> None:
    from torch.distributed import _functional_collectives as collectives

    with torch.no_grad():
        compiled(lambda x: collectives.all_reduce(x.sin(), "sum", [0]).cos())(torch.randn(8))
    (region,) = quick().regions
    reduce = node(region, "all_reduce")
    assert (reduce.isolated.status, reduce.isolated.reason) == ("skipped", COLLECTIVE)
    called = [kernel for kernel in region.kernels if kernel.kind == "collective"]
    assert {kernel.isolated.reason for kernel in called} == {COLLECTIVE}
    owners = [{role.node for role in kernel.roles if role.role == "executes"} for kernel in region.kernels]
    assert owners == [{"sin"}, {reduce.name}, {node(region, "wait_tensor").name}, {"cos"}]


def test_a_checkpoint_that_calls_a_collective_is_not_isolated_either(one_rank: None) -> None:
    from torch.distributed import _functional_collectives as collectives

    def model(x: torch.Tensor) -> torch.Tensor:
        inner = lambda v: collectives.all_reduce(v.sin(), "sum", [0]).cos()  # noqa: E731 - a body to checkpoint
        kept = torch.utils.checkpoint.checkpoint(inner, x, use_reentrant=False)
        assert isinstance(kept, torch.Tensor)
        return kept * 2

    with torch.no_grad():
        compiled(model)(torch.randn(8))
    (region,) = quick().regions
    assert node(region, "tag_activation_checkpoint").isolated.reason == COLLECTIVE

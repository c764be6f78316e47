"""Owners of kernels that only a GPU has: split reductions, layout copies, kernels that users wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import graphbench
from graphbench.analysis.fusion import fusion_rows
from graphbench.records import RegionRecord
from tests.suite.owners import executed_times, not_once, unowned

pytestmark = pytest.mark.gpu


def measured(model: Callable[..., Any], *args: Any) -> RegionRecord:
    """The only region of a model, measured: every kernel has an owner, every post-grad node is executed once."""
    graphbench.reset()
    with torch.no_grad():
        torch.compile(model, backend="graphbench")(*args)
    (region,) = graphbench.measure(progress=False).record.regions
    graphbench.reset()
    assert unowned(region.kernels) == []
    assert not_once(executed_times(region.post_grad, region.kernels)) == {}
    return region


def executed(region: RegionRecord) -> dict[str, set[str]]:
    return {kernel.key: {r.node for r in kernel.roles if r.role == "executes"} for kernel in region.kernels}


def test_a_mean_over_a_strided_dimension_is_split_over_two_kernels() -> None:
    region = measured(lambda t: t.mean(1), torch.empty_strided((256, 4096), (1, 256), device="cuda").normal_())
    (mean,) = [node for node in region.nodes if node.kind == "compute"]
    assert mean.fate.kind == "split"
    assert mean.fate.kernels == tuple(kernel.key for kernel in region.kernels)
    (verdict,) = {row.verdict for row in fusion_rows(region)}
    assert verdict is not None


def test_a_weight_copied_into_the_layout_that_a_convolution_wants_prepares_for_it() -> None:
    model = nn.Conv2d(64, 64, 3, padding=1, bias=False).cuda()
    region = measured(model, torch.randn(8, 64, 56, 56, device="cuda"))
    (convolution,) = [node.name for node in region.nodes if node.kind == "compute"]
    copies = [kernel for kernel in region.kernels if kernel.kind == "triton"]
    assert len(copies) >= 2
    assert {(r.node, r.role) for kernel in copies for r in kernel.roles} == {(convolution, "prepares")}


def test_a_kernel_that_a_user_wrote_owns_its_own_call_alone() -> None:
    from tests.gpu.kernels import increment

    region = measured(lambda x: increment(x.sin()), torch.randn(4096, device="cuda"))
    (call,) = [node.name for node in region.nodes if node.op_type == "triton_kernel_wrapper_mutation"]
    owners = {kernel.kind: names for kernel, names in zip(region.kernels, executed(region).values(), strict=True)}
    assert owners["user-triton"] == {call}
    assert call not in owners["triton"]


def test_two_reductions_of_one_input_in_different_directions_read_it_twice() -> None:
    region = measured(lambda x: (x.sum(0), x.amax(1)), torch.randn(4096, 4096, device="cuda"))
    readers = [kernel.key for kernel in region.kernels if "arg0_1" in kernel.reads]
    assert len(readers) == 2

"""Costs and limits on a GPU: a gated MLP against its paper figures and the device's own ceilings."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

import graphbench
from graphbench.analysis.costs import kernel_cost, node_cost, of_phase
from graphbench.analysis.fusion import FusionRow, fusion_rows
from graphbench.analysis.roofline import Ceilings, limit_of
from graphbench.analysis.stats import quantile
from graphbench.analysis.views import node_rows
from graphbench.api import Profile
from graphbench.measurements import Measurement
from graphbench.records import NodeRecord, RegionRecord

pytestmark = pytest.mark.gpu
ROWS, WIDTH, HIDDEN = 8192, 1024, 3072
INTERMEDIATE = ROWS * HIDDEN * 2  # bytes, 50 MB


class GatedMlp(torch.nn.Module):
    """`gelu(x @ g) * (x @ u)`, without the product that follows in a model."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = torch.nn.Parameter(torch.randn(WIDTH, HIDDEN) / 32)
        self.up = torch.nn.Parameter(torch.randn(WIDTH, HIDDEN) / 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(x @ self.gate) * (x @ self.up)


@pytest.fixture(scope="module")
def profile() -> Iterator[Profile]:
    graphbench.reset()
    torch.manual_seed(0)
    model = torch.compile(GatedMlp().cuda().bfloat16(), backend="graphbench")
    with torch.no_grad():
        model(torch.randn(ROWS, WIDTH, device="cuda", dtype=torch.bfloat16))
    yield graphbench.measure(ceilings="fresh", progress=False)
    graphbench.reset()


@pytest.fixture
def region(profile: Profile) -> RegionRecord:
    return profile.record.regions[0]


@pytest.fixture
def ceilings(profile: Profile, region: RegionRecord) -> Ceilings:
    return Ceilings.of(profile.record.ceilings, region.device)


def fused(region: RegionRecord, ceilings: Ceilings) -> FusionRow:
    (row,) = [row for row in fusion_rows(region, ceilings=ceilings) if row.kind == "triton"]
    return row


def median_ns(measured: Measurement) -> float:
    assert measured.samples is not None, measured.reason
    return quantile(measured.samples.busy_ns, 0.5)


def named(region: RegionRecord, op_type: str) -> NodeRecord:
    return next(node for node in region.nodes if node.op_type == op_type)


def test_nodes_have_the_flops_and_bytes_of_paper(region: RegionRecord) -> None:
    matmul, gelu, mul = (node_cost(named(region, op_type)) for op_type in ("matmul", "gelu", "mul"))
    assert matmul.flops == 2 * ROWS * WIDTH * HIDDEN
    assert matmul.arithmetic == "bfloat16"
    assert (matmul.read_bytes, matmul.written_bytes) == ((ROWS * WIDTH + WIDTH * HIDDEN) * 2, INTERMEDIATE)
    assert (gelu.read_bytes, gelu.written_bytes) == (INTERMEDIATE, INTERMEDIATE)
    assert (mul.read_bytes, mul.written_bytes) == (2 * INTERMEDIATE, INTERMEDIATE)


def test_fusing_gelu_and_mul_removed_two_passes_over_the_intermediate(region: RegionRecord, ceilings: Ceilings) -> None:
    row = fused(region, ceilings)
    assert set(row.nodes) == {named(region, "gelu").name, named(region, "mul").name}
    assert row.moved_bytes == 3 * INTERMEDIATE
    assert row.removed_bytes == 2 * INTERMEDIATE  # 100 MB: the gelu's result, written and read again
    assert row.verdict == "faster"


def test_the_fused_kernel_stands_at_a_part_of_the_copy_ceiling(region: RegionRecord, ceilings: Ceilings) -> None:
    row = fused(region, ceilings)
    assert row.fused_ns is not None
    assert row.limit.bound == "memory"
    assert row.limit.time_ns is not None
    assert row.limit.part == pytest.approx(row.limit.time_ns / row.fused_ns)
    assert ceilings.copy is not None
    # 100 MB are read and 50 written: at least as long as copying 100 MB takes, at most as long as copying 150.
    assert 2 * INTERMEDIATE / ceilings.copy * 1e9 < row.limit.time_ns <= 3.01 * INTERMEDIATE / ceilings.copy * 1e9
    assert 0.3 < (row.limit.part or 0.0) <= 1.1


def test_the_products_are_bound_by_compute_and_below_their_ceiling(region: RegionRecord, ceilings: Ceilings) -> None:
    kernels = [kernel for kernel in region.kernels if kernel.kind == "extern"]
    assert len(kernels) == 2
    for kernel in kernels:
        cost = kernel_cost(kernel, of_phase(region, "forward"))
        limit = limit_of(cost, median_ns(kernel.isolated), ceilings)
        assert limit.bound == "compute"
        assert 0.5 < (limit.part or 0.0) < 1.1


def test_ceilings_are_those_of_a_device(ceilings: Ceilings) -> None:
    assert ceilings.copy is not None
    assert ceilings.read is not None
    assert ceilings.launch_ns is not None
    assert 1e11 < ceilings.copy < 2e13  # bytes per second: any card of the last ten years
    assert 0.7 < ceilings.read / ceilings.copy < 1.5
    assert 300 < ceilings.launch_ns < 10_000
    assert ceilings.matmul["bfloat16"] > 1e13


def test_a_copy_of_more_than_the_cache_reaches_the_copy_ceiling(ceilings: Ceilings) -> None:
    graphbench.reset()
    model = torch.compile(lambda x: x * 2.0, backend="graphbench")
    x = torch.randn(1 << 28, device="cuda")
    model(x)
    (region,) = graphbench.measure(repeat=10, warmup=3, ceilings="off", progress=False).record.regions
    (kernel,) = region.kernels
    limit = limit_of(kernel_cost(kernel, of_phase(region, "forward")), median_ns(kernel.isolated), ceilings)
    assert limit.bound == "memory"
    assert 0.85 < (limit.part or 0.0) < 1.05


def test_every_node_and_kernel_has_a_limit(region: RegionRecord, ceilings: Ceilings, profile: Profile) -> None:
    assert all(row.limit.part is not None for row in node_rows(profile.record))
    assert all(row.limit.part is not None for row in fusion_rows(region, ceilings=ceilings))

"""Costs, limits and traffic of real models: sums that must agree, and the traffic that one fusion removed."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn

from graphbench.analysis.costs import node_cost
from graphbench.analysis.fusion import all_fusion_rows
from graphbench.analysis.fusion_totals import fusion_totals
from graphbench.analysis.group_by import GroupBy
from graphbench.analysis.groups import group_rows
from graphbench.analysis.missing import expected_backwards
from graphbench.analysis.rows import profile_rows
from graphbench.analysis.shares import TIMED_KINDS
from graphbench.records import ProfileRecord
from tests.cpu.stories import Story, clean, compiled, quick
from tests.factories import ceilings

STORIES = ("regularised_training", "regularised_inference", "transformer_training")


class GatedMLP(nn.Module):
    """`gelu(x @ g) * (x @ u)`."""

    def __init__(self) -> None:
        super().__init__()
        self.g = nn.Linear(16, 64, bias=False)
        self.u = nn.Linear(16, 64, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[n, 16] to [n, 64]."""
        return nn.functional.gelu(self.g(x)) * self.u(x)


def limited(record: ProfileRecord) -> ProfileRecord:
    """With ceilings that do not depend on the machine."""
    return dataclasses.replace(record, ceilings=ceilings())


@pytest.fixture(scope="module")
def gated() -> ProfileRecord:
    with clean(), torch.inference_mode():
        model = compiled(GatedMLP().eval())
        model(torch.randn(128, 16))
        return limited(quick())


@pytest.fixture(params=STORIES)
def record(request: pytest.FixtureRequest) -> ProfileRecord:
    story: Story = request.getfixturevalue(request.param)
    return limited(story.first)


def test_fusing_gelu_and_mul_removes_writing_and_reading_what_lies_between_them(gated: ProfileRecord) -> None:
    hidden_bytes = 128 * 64 * 4
    (row,) = (row for row in all_fusion_rows(gated) if set(row.nodes) == {"gelu", "mul"})
    assert (row.eager_bytes, row.moved_bytes, row.removed_bytes) == (
        *(5 * hidden_bytes, 3 * hidden_bytes),
        2 * hidden_bytes,
    )
    removed = fusion_totals(gated.regions, profile_rows(gated)).removed
    assert removed is not None
    assert (removed.whole, removed.removed_bytes) == (True, 2 * hidden_bytes)


def test_every_kernel_and_node_of_a_gated_mlp_has_a_limit(gated: ProfileRecord) -> None:
    rows = profile_rows(gated)
    assert [row.limit.reason for row in (*rows.nodes, *rows.fusions)] == [""] * (len(rows.nodes) + len(rows.fusions))


@pytest.mark.parametrize("by", ["module", "source", "shape"])
def test_groups_of_a_real_model_add_up_to_its_kernels_and_nodes(record: ProfileRecord, by: GroupBy) -> None:
    groups, total = group_rows(record, by)
    fusions = all_fusion_rows(record)
    (region,) = record.regions
    nodes = [node_cost(node) for node in region.nodes if node.kind in TIMED_KINDS]
    nodes += [node_cost(node, "backward") for node in expected_backwards(region)]
    expected = {
        "unfused_ns": sum(row.unfused_ns or 0.0 for row in fusions),
        "limit_ns": sum(row.limit_ns or 0.0 for row in fusions),
        "moved_bytes": sum(row.moved_bytes or 0.0 for row in fusions),
        "unfused_bytes": sum(row.unfused_bytes or 0.0 for row in fusions),
        "eager_bytes": sum(cost.moved_bytes or 0.0 for cost in nodes),
    }
    for name, amount in expected.items():
        assert sum(getattr(row, name) or 0.0 for row in groups) == pytest.approx(amount), name
        assert getattr(total, name) == pytest.approx(amount), name
    assert sum(row.share or 0.0 for row in groups) == pytest.approx(1.0)


def test_removed_traffic_is_the_same_of_groups_and_of_the_profile(record: ProfileRecord) -> None:
    removed = fusion_totals(record.regions, profile_rows(record)).removed
    assert removed is not None
    _, total = group_rows(record, "module")
    assert (total.uncounted == 0) is removed.whole
    if removed.whole:
        assert total.removed_bytes == pytest.approx(removed.removed_bytes)

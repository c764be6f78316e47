"""Replaced nodes and compared configurations on a real device: Triton candidates, CUDA graphs, wall beside busy."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - the name that every PyTorch program gives it

import graphbench
from graphbench.replacing.replacement import Replacement

pytestmark = pytest.mark.gpu

QUICK: dict[str, Any] = {"repeat": 10, "warmup": 4}
DEVICE = "cuda"
WIDTH = 2048


def gated(x: torch.Tensor) -> torch.Tensor:
    return F.gelu(x) * x


def replaced(mode: str | None, candidate: Any) -> Replacement:
    graphbench.reset()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Softplus()).to(DEVICE)

    def fn(x: torch.Tensor) -> torch.Tensor:
        return gated(model(x))

    x = torch.randn(1024, WIDTH, device=DEVICE)
    with torch.no_grad():
        compiled = torch.compile(fn, backend="graphbench", mode=mode)
        for _ in range(3):
            compiled(x)
        return graphbench.replace("gelu", candidate, **QUICK)


def test_the_same_op_changes_nothing_in_the_graph() -> None:
    found = replaced(None, lambda x: F.gelu(x))
    row = found.row("in graph")
    assert (found.policy.timer, found.policy.cache) == ("cupti", "cold-read")
    assert row.kernels is not None
    assert row.kernels[0] == row.kernels[1]
    assert row.verdict in ("same", "unclear")
    assert row.difference is not None
    assert row.difference.equal is True


def test_a_triton_kernel_of_the_users_is_traced_into_the_graph() -> None:
    from tests.gpu.kernels import increment

    def candidate(x: torch.Tensor) -> torch.Tensor:
        return increment(F.gelu(x)) * 0.5 - 1

    row = replaced(None, candidate).row("in graph")
    assert row.reason == ""
    assert row.kernels is not None
    assert row.kernels[1] > row.kernels[0]
    assert row.verdict == "slower"
    assert row.difference is not None
    assert row.difference.equal is True


def test_a_graph_that_is_replayed_is_timed_as_a_replay() -> None:
    row = replaced("reduce-overhead", lambda x: F.gelu(x)).row("in graph")
    assert row.reason == ""
    assert row.difference is not None
    assert row.difference.equal is True


def test_configurations_have_device_and_wall_times() -> None:
    graphbench.reset()
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()).to(DEVICE)
    x = torch.randn(1024, WIDTH, device=DEVICE)
    found = graphbench.compare_configurations(model, (x,), ["eager", "default", "reduce-overhead"], **QUICK)
    rows = found.result.rows
    assert [row.reason for row in rows] == ["", "", ""]
    for row in rows:
        assert row.step_ns is not None
        assert row.wall_p50_ns is not None
        assert row.wall_p50_ns > row.step_ns
    assert list(found.profiles) == ["default", "reduce-overhead"]


def test_a_training_step_has_all_its_kernels() -> None:
    graphbench.reset()
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()).to(DEVICE)
    x = torch.randn(1024, WIDTH, device=DEVICE)
    found = graphbench.compare_configurations(model, (x,), ["eager", "default"], train=True, **QUICK)
    counts = [row.row.n_kernels for row in found.result.rows if row.row is not None]
    assert len(counts) == 2
    assert all(count is not None and count >= 4 for count in counts)  # forward, its activation, both backwards

"""Graphs that DDP splits so that gradients travel while the backward goes on: a region for each part."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import distributed, nn
from torch._subclasses.fake_tensor import FakeTensor

import graphbench
from graphbench import session
from graphbench.records import ProfileRecord
from tests.cpu.stories import QUICK
from tests.suite.checks import faults

WIDTH = 512  # of whose weights, 1 MiB each, no two are in a bucket


@pytest.fixture
def one_rank(tmp_path: Path) -> Iterator[None]:
    store = distributed.FileStore(str(tmp_path / "store"), 1)
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


@pytest.mark.usefixtures("one_rank")
def test_the_parts_of_a_split_graph_are_captured_from_real_calls_and_measured() -> None:
    graphbench.reset()
    layers = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(3)])

    class Chain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = layers

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = layer(x).relu()
            return x

    model = torch.compile(
        nn.parallel.DistributedDataParallel(Chain(), bucket_cap_mb=1),
        backend="graphbench",
    )
    model(torch.randn(4, WIDTH)).sum().backward()
    regions = session.current().regions
    assert len(regions) == 3
    assert [region.calls for region in regions] == [1, 1, 1]
    values = [entry.value for region in regions if region.capture for entry in region.capture.values]
    assert values
    assert not any(isinstance(value, FakeTensor) for value in values)
    record: ProfileRecord = graphbench.measure(**QUICK).record
    assert [region.status for region in record.regions] == ["ok"] * 3
    assert faults(record, "inference") == []
    assert all(region.backward.run is not None for region in record.regions)
    graphbench.reset()

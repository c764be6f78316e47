"""A torch that is built for CUDA has what graphbench relies on, and Triton's kernels are those that it announced."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import graphbench
from graphbench.probes import features
from graphbench.probes.relied_on import FEATURES, FeatureName

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", FEATURES)
def test_the_installed_torch_has_what_a_feature_relies_on(name: FeatureName) -> None:
    features.forget()
    assert features.faults(name) == ()
    assert all(probe.applies for probe in FEATURES[name].probes)


def test_a_training_step_of_generated_and_library_kernels_is_mapped() -> None:
    graphbench.reset()
    net = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 8)).cuda()
    model = torch.compile(net, backend="graphbench")
    model(torch.randn(16, 64, device="cuda")).pow(2).sum().backward()
    record = graphbench.measure(warmup=1, repeat=3).record
    graphbench.reset()
    (region,) = record.regions
    assert [note for note in region.notes if "could not be mapped" in note] == []
    assert {kernel.kind for kernel in region.kernels} >= {"triton", "extern"}
    assert all(kernel.roles for kernel in region.kernels)

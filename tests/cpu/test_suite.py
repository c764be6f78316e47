"""Every model of the suite on the CPU: five in CI, the others under the marker `slow`."""

from __future__ import annotations

import pytest

from tests.cpu.stories import QUICK
from tests.suite.checks import MODES, faults, measured
from tests.suite.models import MODELS

IN_CI = ("resnet", "vit", "gpt2", "mixture_of_experts", "detection")
options = {name: value for name, value in QUICK.items() if name != "progress"}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "name", [name if name in IN_CI else pytest.param(name, marks=pytest.mark.slow) for name in MODELS]
)
def test_every_kernel_has_an_owner_and_every_node_a_fate(name: str, mode: str) -> None:
    assert faults(measured(name, mode, "cpu", **options), mode) == []

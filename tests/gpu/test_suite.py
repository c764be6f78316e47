"""Every model of the suite on a GPU."""

from __future__ import annotations

import pytest

from tests.suite.checks import MODES, faults, measured
from tests.suite.models import MODELS


@pytest.mark.gpu
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", MODELS)
def test_every_kernel_has_an_owner_and_every_node_a_fate(name: str, mode: str) -> None:
    assert faults(measured(name, mode, "cuda", repeat=3, warmup=1), mode) == []

"""Provenance recorded on a GPU, mapped anew: the pure part of owners and fates, on real graphs and without torch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.recorded_provenance import read, regions
from tests.suite.owners import executed_times, not_once, unowned

FILES = sorted((Path(__file__).parents[1] / "data" / "provenance").glob("*.json.gz"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.removesuffix(".json.gz"))
def test_every_kernel_has_an_owner_every_node_a_fate_and_the_sums_are_exact(path: Path) -> None:
    found = regions(read(path))
    assert found
    for region in found:
        backward = [kernel for kernel in region.kernels if kernel.phase == "backward"]
        differentiated = {role.node for kernel in backward for role in kernel.roles if role.role == "differentiates"}
        assert bool(backward) == bool(differentiated) == ("training" in path.name)
        assert unowned(region.kernels) == []
        post_grad = [node for graph in region.graphs for node in graph.post_grad]
        assert not_once(executed_times(post_grad, region.kernels)) == {}
        assert [node.name for node in post_grad if node.sources and node.differentiates] == []
        compute = [node.name for node in region.nodes if node.kind == "compute"]
        assert [name for name in compute if region.fates[name].kind == "unknown"] == []


def test_all_models_are_recorded_in_both_modes() -> None:
    assert len(FILES) == 24

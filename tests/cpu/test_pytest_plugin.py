"""The fixture `graphbench_profile` with a real model."""

from __future__ import annotations

import importlib.metadata

import pytest

from graphbench import document

pytest_plugins = ("pytester",)


def test_a_model_is_profiled_and_its_profile_kept(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_model="""
        import torch

        def test_speed(graphbench_profile):
            with torch.no_grad():
                profile = graphbench_profile(torch.nn.Linear(8, 8), torch.ones(4, 8), repeat=3, ceilings="off")
            assert [node.op_type for node in profile.record.regions[0].nodes] == ["linear"]
        """
    )
    registered = importlib.metadata.entry_points(group="pytest11", name="graphbench")
    plugin = "graphbench" if registered else "graphbench.plugins.pytest_plugin"
    pytester.runpytest_subprocess("-p", plugin, "--graphbench-dir=kept").assert_outcomes(passed=1)
    (region,) = document.read(pytester.path / "kept" / "test_model.py" / "test_speed.json").regions
    assert region.nodes[0].isolated.status == "ok"

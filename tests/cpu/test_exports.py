"""What other programs read of a profile that was just measured."""

from __future__ import annotations

import json

import networkx
import pytest

from graphbench.analysis.graph import profile_graph
from graphbench.facade import Profile
from graphbench.report import REPORTERS
from graphbench.report.json_schema import profile_schema
from tests.cpu.stories import Story


def test_its_json_fits_the_published_schema(transformer_training: Story) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="needs the extra `test`")
    printed = json.loads(REPORTERS["json"].render(transformer_training.first))
    jsonschema.Draft202012Validator(profile_schema()).validate(printed)


def test_its_graphml_reads_back_equal(transformer_training: Story) -> None:
    found = networkx.parse_graphml(REPORTERS["graphml"].render(transformer_training.first))
    assert dict(found.nodes(data=True)) == dict(profile_graph(transformer_training.first).nodes(data=True))


def test_every_timed_node_and_kernel_is_in_the_overlay(transformer_training: Story) -> None:
    (place,) = transformer_training.first.regions
    found = json.loads(REPORTERS["model-explorer"].render(transformer_training.first, metric="compiled"))
    assert {name: set(graph["results"]) for name, graph in found.items() if name != "r0"} == {
        f"r0/{phase}": {kernel.key for kernel in place.kernels if kernel.phase == phase}
        for phase in ("forward", "backward")
    }


def test_the_shares_of_its_frame_add_up(transformer_training: Story) -> None:
    pytest.importorskip("pandas", reason="needs the extra `pandas`")
    frame = Profile(transformer_training.first).nodes.to_pandas()
    assert frame["share_percent"].sum() == pytest.approx(100)
    by_type = frame.groupby("op_type", observed=True)["isolated_p50_ns"].sum()
    assert by_type.sum() == pytest.approx(frame["isolated_p50_ns"].sum())

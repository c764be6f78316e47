"""Model Explorer's graphs and node data: ids that fit each other, values that are the profile's."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from graphbench.errors import UsageError
from graphbench.records import Fate, ProfileRecord
from graphbench.report import REPORTERS
from graphbench.report.graph.overlay import METRICS
from tests.factories import FAILED, ceilings, executes, kernel, node, profile, region, steady, worked
from tests.hostile import RECORDS, TEXTS
from tests.recorded import recorded_profile
from tests.samples import cpu_profile

PROFILES = [*RECORDS, lambda: recorded_profile("training_step")]


def graphs(record: ProfileRecord) -> Mapping[str, Any]:
    """Graphs by id, each with its nodes by id."""
    collection = json.loads(REPORTERS["model-explorer-graph"].render(record))
    found = {graph["id"]: {entry["id"]: entry for entry in graph["nodes"]} for graph in collection["graphs"]}
    assert [len(graph["nodes"]) for graph in collection["graphs"]] == [len(nodes) for nodes in found.values()]
    return found


def overlay(record: ProfileRecord, metric: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(REPORTERS["model-explorer"].render(record, metric=metric))
    return found


def values(record: ProfileRecord, metric: str, graph: str = "r0") -> Mapping[str, object]:
    return {name: entry["value"] for name, entry in overlay(record, metric)[graph]["results"].items()}


def attributes(entry: Mapping[str, Any]) -> Mapping[str, str]:
    return {pair["key"]: pair["value"] for pair in entry["attrs"]}


def gelu() -> ProfileRecord:
    """One kernel that executes both nodes of a block, in half their time."""
    fate = Fate(kind="fused", kernels=("forward/k:0",))
    nodes = [
        node("h", 30_000.0, op_type="linear", fate=fate, module="net.layers.0.up", in_graph=steady(31_000.0)),
        node("gelu", 10_000.0, fate=fate, module="net.layers.0", inputs=("x", "h"), backward=7_000.0),
    ]
    return profile(region(nodes, [kernel("k", 20_000.0, roles=(executes("h", 300), executes("gelu", 100)))]))


@pytest.mark.parametrize("make", PROFILES)
@pytest.mark.parametrize("metric", METRICS)
def test_every_id_of_an_overlay_is_in_the_graph(make: Callable[[], ProfileRecord], metric: str) -> None:
    record = make()
    known = graphs(record)
    for graph, data in overlay(record, metric).items():
        assert set(data["results"]) <= set(known.get(graph, ()))


@pytest.mark.parametrize("make", PROFILES)
def test_edges_come_from_nodes_of_the_same_graph(make: Callable[[], ProfileRecord]) -> None:
    for nodes in graphs(make()).values():
        assert {edge["sourceNodeId"] for entry in nodes.values() for edge in entry["incomingEdges"]} <= set(nodes)


def test_a_region_has_a_graph_of_nodes_and_one_of_each_phases_kernels() -> None:
    found = {name: list(nodes) for name, nodes in graphs(gelu()).items()}
    assert found == {"r0": ["h", "gelu"], "r0/forward": ["forward/k:0"]}


def test_nodes_are_nested_as_their_modules_and_kernels_in_what_their_nodes_have_in_common() -> None:
    found = graphs(gelu())
    assert [entry["namespace"] for entry in found["r0"].values()] == ["net/layers/0/up", "net/layers/0"]
    assert found["r0/forward"]["forward/k:0"]["namespace"] == "net/layers/0"


def test_a_node_says_what_became_of_it_and_reads_only_nodes() -> None:
    entry = graphs(gelu())["r0"]["gelu"]
    assert attributes(entry)["fate"] == "fused → k:0"
    assert attributes(entry)["isolated"] == "10.00 µs"
    assert [edge["sourceNodeId"] for edge in entry["incomingEdges"]] == ["h"]
    assert entry["outputsMetadata"][0]["attrs"] == [{"key": "tensor_shape", "value": "f32[4,8]"}]


def test_a_module_with_a_slash_is_one_level() -> None:
    record = profile(region([node("a", 1.0, module="a/b;c.d")]))
    assert graphs(record)["r0"]["a"]["namespace"] == "a\\/b,c/d"


@pytest.mark.parametrize(
    ("metric", "nodes", "kernels"),
    [
        ("isolated", {"h": 30.0, "gelu": 10.0}, {"forward/k:0": 40.0}),
        ("backward_isolated", {"gelu": 7.0}, {}),
        ("in_graph", {"h": 31.0}, {}),
        ("compiled", {"h": 15.0, "gelu": 5.0}, {"forward/k:0": 20.0}),
        ("speedup", {"h": 2.0, "gelu": 2.0}, {"forward/k:0": 2.0}),
        ("verdict", {"h": "faster", "gelu": "faster"}, {"forward/k:0": "faster"}),
        ("fate", {"h": "fused", "gelu": "fused"}, {"forward/k:0": "cpp"}),
    ],
)
def test_a_metric_is_the_profiles(metric: str, nodes: Mapping[str, object], kernels: Mapping[str, object]) -> None:
    assert values(gelu(), metric) == nodes
    assert values(gelu(), metric, "r0/forward") == kernels


def test_bounds_are_words_with_a_colour_and_limits_percent() -> None:
    measured = worked(steady(100_000.0, timer="wallclock"), 400_000, 400_000)
    record = dataclasses.replace(profile(region([node("a", measured)])), ceilings=ceilings(gb_per_s=10.0))
    (bound,) = overlay(record, "bound")["r0"]["results"].values()
    assert bound == {"value": "memory", "bgColor": "#56B4E9"}
    assert values(record, "limit") == {"a": 80.0}


def test_what_is_not_known_is_left_out() -> None:
    assert values(profile(region([node("a", FAILED), node("b", 5_000.0)])), "isolated") == {"b": 5.0}


def test_the_default_is_eager_time_with_its_unit_in_the_name() -> None:
    found = json.loads(REPORTERS["model-explorer"].render(cpu_profile()))
    assert found == overlay(cpu_profile(), "isolated")
    assert found["r0"]["name"] == "eager, isolated p50 (µs)"
    assert [stop["stop"] for stop in found["r0"]["gradient"]] == [0, 1]


@pytest.mark.parametrize("name", TEXTS, ids=ascii)
def test_ids_stay_apart_and_fit_whatever_a_name_holds(name: str) -> None:
    record = profile(region([node(name, 1_000.0), node(f"{name}\x01", 2_000.0), node(f"{name}\x02", 3_000.0)]))
    assert sorted(values(record, "isolated").values(), key=float) == [1.0, 2.0, 3.0]  # type: ignore[arg-type]
    assert list(graphs(record)["r0"]) == list(values(record, "isolated"))


def test_an_unknown_metric_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UsageError, match="unknown metric 'speed'") as caught:
        REPORTERS["model-explorer"].render(profile(), metric="speed")
    assert caught.value.hint == f"the metrics are: {', '.join(METRICS)}"


def test_an_option_of_tables_is_refused() -> None:
    with pytest.raises(UsageError, match="the model-explorer-graph report takes no option 'top'"):
        REPORTERS["model-explorer-graph"].render(profile(), top=3)

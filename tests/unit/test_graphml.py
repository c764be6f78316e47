"""A profile as GraphML: it reads back the same, whatever names are in it, and has no word for what is missing."""

from __future__ import annotations

import dataclasses
import xml.etree.ElementTree
from collections.abc import Callable
from typing import Any

import networkx
import pytest

from graphbench.analysis.graph import profile_graph
from graphbench.errors import UsageError
from graphbench.records import ProfileRecord
from graphbench.report import REPORTERS
from tests.factories import FAILED, executes, kernel, measurement, node, profile, region
from tests.hostile import RECORDS, TEXTS
from tests.recorded import recorded_profile


def read_back(record: ProfileRecord) -> Any:
    return networkx.parse_graphml(REPORTERS["graphml"].render(record))


@pytest.mark.parametrize("make", [*RECORDS, lambda: recorded_profile("training_step")])
def test_vertices_edges_and_values_read_back_equal(make: Callable[[], ProfileRecord]) -> None:
    record = make()
    graph, found = profile_graph(record), read_back(record)
    assert dict(found.nodes(data=True)) == dict(graph.nodes(data=True))
    assert {(a, b): facts for a, b, facts in found.edges(data=True)} == {
        (a, b): facts for a, b, facts in graph.edges(data=True)
    }


def test_the_graph_says_what_with_it_was_measured() -> None:
    found = read_back(profile(region([node("a", 5.0)])))
    assert (found.graph["subject"], found.graph["timer"], found.graph["cache"]) == ("Net", "wallclock", "warm")


def test_a_kernel_has_its_verdict_and_what_its_nodes_take() -> None:
    record = profile(region([node("a", 20.0)], [kernel("k", 50.0, roles=(executes("a"),))]))
    facts = read_back(record).nodes["r0/forward/k:0"]
    assert (facts["eager_ns"], facts["fused_ns"], facts["saved_ns"], facts["verdict"]) == (20.0, 50.0, -30.0, "slower")


def test_shares_are_fractions_of_all_nodes() -> None:
    found = read_back(profile(region([node("a", 30.0), node("b", 10.0)])))
    assert [found.nodes[f"r0/node/{name}"]["share"] for name in "ab"] == [0.75, 0.25]


def test_what_is_not_known_is_no_attribute_and_the_reason_is() -> None:
    facts = read_back(profile(region([node("a", FAILED)]))).nodes["r0/node/a"]
    assert "isolated_ns" not in facts
    assert (facts["state"], facts["reason"]) == ("failed", "ran out of memory")


def test_times_have_one_type_also_where_some_are_whole() -> None:
    found = read_back(profile(region([node("a", measurement(12)), node("b", measurement(12.5))])))
    times = [found.nodes[f"r0/node/{name}"]["isolated_ns"] for name in "ab"]
    assert times == [12.0, 12.5]
    assert {type(time) for time in times} == {float}


@pytest.mark.parametrize("name", TEXTS, ids=ascii)
def test_the_xml_is_sound_whatever_a_name_holds(name: str) -> None:
    record = profile(region([node(name, 5.0, op_type=name, module=name)], [kernel("k", 1.0, roles=(executes(name),))]))
    text = REPORTERS["graphml"].render(record)
    xml.etree.ElementTree.fromstring(text.encode())
    assert len(read_back(record)) == 2


def test_names_that_differ_in_what_does_not_print_stay_apart() -> None:
    record = profile(region([node("a\x01", 1.0), node("a\x02", 2.0, inputs=("a\x01",)), node("a·", 3.0)]))
    found = read_back(record)
    assert {name: facts["isolated_ns"] for name, facts in found.nodes(data=True)} == {
        "r0/node/a·#2": 1.0,
        "r0/node/a·#3": 2.0,
        "r0/node/a·": 3.0,
    }
    assert list(found.edges) == [("r0/node/a·#2", "r0/node/a·#3")]


def test_an_option_is_refused() -> None:
    with pytest.raises(UsageError, match="the graphml report takes no option 'top'"):
        REPORTERS["graphml"].render(profile(), top=3)


def test_a_text_of_a_kind_of_its_own_is_a_text() -> None:
    class Version(str):
        """As torch's own version is one."""

    record = dataclasses.replace(profile(region([node("a", 5.0)])), subject=Version("net 2"))
    assert read_back(record).graph["subject"] == "net 2"

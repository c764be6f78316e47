"""A profile as DOT: nodes and kernels with their times, roles as lines, and names that stay names."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import xml.etree.ElementTree
from typing import Any

import pytest

from graphbench.errors import UsageError
from graphbench.records import NodeRole, ProfileRecord, Role
from graphbench.report import REPORTERS
from graphbench.report.graph.dot import quoted
from tests.benchmarks.show_speed import make_profile
from tests.factories import FAILED, executes, kernel, node, post_grad, profile, region
from tests.hostile import TEXTS
from tests.recorded import recorded_profile

DOT = shutil.which("dot")
needs_dot = pytest.mark.skipif(DOT is None, reason="needs Graphviz: apt-get install graphviz")
SVG = "{http://www.w3.org/2000/svg}"


def render(record: ProfileRecord) -> str:
    return REPORTERS["dot"].render(record)


def read(text: str, kind: str) -> str:
    """What Graphviz makes of it; it must not complain."""
    assert DOT is not None
    done = subprocess.run([DOT, f"-T{kind}"], input=text, capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == ""
    return done.stdout


def line_of(text: str, start: str) -> str:
    (line,) = [line.strip() for line in text.splitlines() if line.strip().startswith(start)]
    return line


def fused() -> ProfileRecord:
    made = kernel("cpp_fused_add", 5_000.0, roles=(executes("add"),), post_grad=("add",))
    later = kernel("mm", 1_000.0, phase="backward", kind="extern", roles=(NodeRole(node="add", role="differentiates"),))
    return profile(region([node("add", 9_000.0)], [made, later], post_grad=(post_grad("add"),)))


def test_nodes_are_ellipses_and_kernels_boxes_with_their_times() -> None:
    text = render(fused())
    a_node, a_kernel = line_of(text, '"r0/node/add" ['), line_of(text, '"r0/forward/cpp_fused_add:0" [')
    assert "shape=ellipse" in a_node
    assert 'label="add\\n9.00 µs"' in a_node
    assert "shape=box" in a_kernel
    assert 'label="add\\ncpp\\n5.00 µs, faster, 1.80x"' in a_kernel


def test_a_vertex_without_a_time_has_a_label_without_one() -> None:
    assert 'label="sort"' in line_of(render(profile(region([node("sort", FAILED)]))), '"r0/node/sort"')


def test_regions_and_the_kernels_of_each_phase_are_clusters() -> None:
    text = render(fused())
    clusters = re.findall(r'subgraph "(\w+)"', text)
    assert clusters == ["cluster_r0", "cluster_r0_forward", "cluster_r0_backward"]


def test_post_grad_nodes_are_left_out() -> None:
    assert "post_grad" not in render(fused())


@pytest.mark.parametrize(
    ("role", "style"),
    [
        ("executes", "style=solid, penwidth=1.5"),
        ("recomputes", "style=dashed]"),
        ("prepares", "style=dashed, arrowhead=odiamond"),
        ("differentiates", "style=solid, arrowhead=empty"),
        ("contributes", "style=dotted"),
    ],
)
def test_lines_tell_roles_apart(role: Role, style: str) -> None:
    record = profile(region([node("a", 1.0)], [kernel("k", 1.0, roles=(NodeRole(node="a", role=role),))]))
    assert f"[{style}" in line_of(render(record), '"r0/node/a" -> "r0/forward/k:0"')


def test_two_roles_are_named() -> None:
    roles = (NodeRole(node="a", role="executes"), NodeRole(node="a", role="differentiates"))
    record = profile(region([node("a", 1.0)], [kernel("k", 1.0, roles=roles)]))
    assert 'label="executes, differentiates"' in line_of(render(record), '"r0/node/a" ->')


@pytest.mark.parametrize(
    ("text", "string"),
    [
        ('a"b', r'"a\"b"'),
        ("a\\", r'"a\\"'),
        ("\\N\\G", r'"\\N\\G"'),
        ("a&lt;b", '"a&amp;lt;b"'),
        ("<b>", '"<b>"'),
        ("a\x00b", '"a·b"'),
        ("digraph", '"digraph"'),
    ],
    ids=ascii,
)
def test_nothing_in_a_string_is_obeyed(text: str, string: str) -> None:
    assert quoted(text) == string


@needs_dot
@pytest.mark.parametrize("name", ["<script>alert(1)</script>", 'a"b', "a\\", "\\N", "a&lt;b", "n:p", "}", "a -> b"])
def test_graphviz_shows_a_name_as_it_is(name: str) -> None:
    record = profile(region([node(name, None, op_type=name)], [kernel("k", 1.0, roles=(executes(name),))]))
    drawing = xml.etree.ElementTree.fromstring(read(render(record), "svg"))
    assert name in [text.text for text in drawing.iter(f"{SVG}text")]


@needs_dot
@pytest.mark.parametrize("name", TEXTS, ids=ascii)
def test_graphviz_reads_every_name(name: str) -> None:
    record = profile(region([node(name, 1.0, op_type=name), node("x", 1.0, inputs=(name,))]), subject=name)
    found: dict[str, Any] = json.loads(read(render(record), "dot_json"))
    assert len(found["edges"]) == 1


@needs_dot
def test_graphviz_reads_a_real_training_step() -> None:
    record = recorded_profile("training_step")
    found = json.loads(read(render(record), "dot_json"))
    vertices = [entry for entry in found["objects"] if "nodes" not in entry and not entry["name"].startswith("cluster")]
    assert len(vertices) == sum(len(place.nodes) + len(place.kernels) for place in record.regions)


def test_text_grows_with_the_profile_and_not_faster() -> None:
    small, large = (len(render(make_profile(count, 0.8))) for count in (200, 2000))
    assert large < 11 * small


def test_an_option_is_refused() -> None:
    with pytest.raises(UsageError, match="the dot report takes no option 'sort'"):
        REPORTERS["dot"].render(profile(), sort="p50")


def layers() -> ProfileRecord:
    """Two layers, and a kernel that works for one and only reads of the other."""
    roles = (executes("b"), NodeRole(node="a", role="contributes"))
    kernels = [kernel("first", 1.0, roles=(executes("a"),)), kernel("second", 1.0, handle=1, roles=roles)]
    nodes = [node("a", 1.0, module="layers.0"), node("b", 1.0, module="layers.1", inputs=("a",))]
    return profile(region(nodes, kernels), region([node("c", 1.0)], key="r1"))


def test_chosen_nodes_bring_the_kernels_that_work_for_them_and_nothing_else() -> None:
    text = REPORTERS["dot"].render(layers(), select=("layers.0",))
    assert re.findall(r'^ +"([^"]+)" \[', text, re.MULTILINE) == ["r0/node/a", "r0/forward/first:0"]
    assert re.findall(r'^ +"([^"]+)" -> "([^"]+)"', text, re.MULTILINE) == [("r0/node/a", "r0/forward/first:0")]
    assert "cluster_r1" not in text


def test_a_pattern_that_means_no_node_is_refused() -> None:
    with pytest.raises(UsageError, match=r"select 'layers\.7': no node, op type, module or kernel matches"):
        REPORTERS["dot"].render(layers(), select=("layers.7",))


def test_names_that_differ_in_what_does_not_print_are_vertices_of_their_own() -> None:
    text = render(profile(region([node("x\x00", 1.0), node("x\x01", 2.0, inputs=("x\x00",))])))
    assert '"r0/node/x·" -> "r0/node/x·#2"' in text
    assert 'label="x·\\n1.00 ns"' in line_of(text, '"r0/node/x·" [')
    assert 'label="x·\\n2.00 ns"' in line_of(text, '"r0/node/x·#2" [')

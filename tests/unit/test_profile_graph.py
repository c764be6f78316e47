"""A profile as a graph, and the longest chain of its kernels."""

from __future__ import annotations

import dataclasses
import io
import subprocess
import sys
from pathlib import Path

import networkx
import pytest

from graphbench import document
from graphbench.analysis.graph import critical_paths, kernel_edges, profile_graph
from graphbench.api import Profile
from graphbench.records import KernelRecord, NodeRole, PostGradNode, ProfileRecord
from tests.factories import executes, kernel, node, profile, region


def post(name: str, *inputs: str) -> PostGradNode:
    return PostGradNode(
        name=name, phase="forward", op="call_function", target=name, inputs=inputs, sources=(f"d_{name}",)
    )


def computing(name: str, time_ns: float, *reads: str, handle: int) -> KernelRecord:
    made = kernel(name, time_ns, handle=handle, roles=(executes(f"d_{name}"),), post_grad=(name,))
    return dataclasses.replace(made, reads=reads)


def diamond() -> ProfileRecord:
    """`top` feeds a slow and a fast branch, which `end` joins."""
    kernels = [
        computing("top", 1.0, "x", handle=0),
        computing("slow", 10.0, "top", handle=1),
        computing("fast", 2.0, "top", handle=2),
        computing("end", 1.0, "slow", "fast", handle=3),
    ]
    post_grad = (post("top", "x"), post("slow", "top"), post("fast", "top"), post("end", "slow", "fast"))
    return profile(region([node(f"d_{entry.name}", 1.0) for entry in post_grad], kernels, post_grad=post_grad))


def test_the_critical_path_takes_the_slow_branch() -> None:
    (path,) = critical_paths(diamond())
    assert path.kernels == ("forward/top:0", "forward/slow:1", "forward/end:3")
    assert (path.path_ns, path.total_ns, path.count) == (12.0, 14.0, 4)


def test_the_first_kernel_counts_also_when_it_is_alone() -> None:
    (path,) = Profile(profile(region([], [kernel("k", 7.0)]))).critical_paths()
    assert (path.kernels, path.path_ns) == (("forward/k:0",), 7.0)


def test_a_copy_comes_before_the_call_that_it_was_made_for() -> None:
    copy = kernel("copy", 1.0, roles=(NodeRole(node="conv", role="prepares", post_grad=("convolution",)),))
    call = kernel("call", 5.0, handle=1, roles=(executes("conv"),), post_grad=("convolution",))
    assert kernel_edges(region([], [copy, call]), "forward") == [("forward/copy:0", "forward/call:1")]


def test_what_a_kernel_recomputes_feeds_nobody() -> None:
    first = computing("a", 1.0, handle=0)
    again = dataclasses.replace(computing("b", 1.0, handle=1), executes=("b", "a"), recomputes=("a",))
    reader = computing("c", 1.0, "a", handle=2)
    assert kernel_edges(region([], [first, again, reader]), "forward") == [("forward/a:0", "forward/c:2")]


def test_a_path_says_how_many_kernels_have_no_time() -> None:
    record = profile(region([], [kernel("k", 7.0, calls=2), kernel("m", None, handle=1)]))
    (path,) = critical_paths(record)
    assert (path.path_ns, path.total_ns, path.count, path.missing) == (14.0, 14.0, 2, 1)
    assert "1 of 2 kernels, 100.0 % of kernel time; 1 without a time" in Profile(record).table(group_by="module")


def test_the_graph_has_no_vertex_without_attributes() -> None:
    graph = profile_graph(profile(region([], [kernel("k", 7.0, roles=(executes("gone"),), post_grad=("gone",))])))
    assert list(graph.nodes) == ["r0/forward/k:0"]


def test_nodes_post_grad_nodes_and_kernels_hang_together() -> None:
    graph = profile_graph(diamond())
    assert graph.nodes["r0/node/d_slow"]["what"] == "node"
    assert graph.edges["r0/node/d_slow", "r0/forward/post_grad/slow"]["relation"] == "becomes"
    assert graph.edges["r0/forward/post_grad/slow", "r0/forward/slow:1"]["relation"] == "executes"
    assert graph.edges["r0/node/d_slow", "r0/forward/slow:1"]["relation"] == "executes"
    assert graph.edges["r0/forward/slow:1", "r0/forward/end:3"]["relation"] == "feeds"
    assert graph.nodes["r0/forward/slow:1"]["isolated_ns"] == 10.0


def test_the_graph_can_be_written_as_graphml() -> None:
    stream = io.BytesIO()
    networkx.write_graphml(Profile(diamond()).graph(), stream)
    assert networkx.read_graphml(io.BytesIO(stream.getvalue())).number_of_nodes() == 12


@pytest.mark.parametrize(
    ("flags", "imported"),
    [([], False), (["--group-by", "module", "--format", "csv"], False), (["--group-by", "module"], True)],
)
def test_networkx_is_imported_only_where_it_is_used(tmp_path: Path, flags: list[str], imported: bool) -> None:
    path = tmp_path / "profile.json"
    document.write(diamond(), path)
    code = f"import sys; from graphbench import cli; cli.main(['show', {str(path)!r}, *{flags!r}]); "
    code += "print([name in sys.modules for name in ('networkx', 'torch')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == str([imported, False])


def test_a_copy_of_a_result_stands_between_the_call_and_its_reader() -> None:
    role = NodeRole(node="conv", role="prepares", post_grad=("convolution",))
    call = kernel("call", 9.0, roles=(executes("conv"),), post_grad=("convolution",))
    copy = dataclasses.replace(kernel("copy", 4.0, handle=1, roles=(role,)), reads=("convolution",))
    relu = dataclasses.replace(kernel("relu", 3.0, handle=2, post_grad=("relu",)), reads=("convolution",))
    (path,) = critical_paths(profile(region([], [call, copy, relu])))
    assert path.kernels == ("forward/call:0", "forward/copy:1", "forward/relu:2")


def test_two_roles_of_a_node_in_one_kernel_are_both_named() -> None:
    roles = (
        NodeRole(node="a", role="differentiates", moved_bytes=7),
        NodeRole(node="a", role="recomputes", moved_bytes=4),
    )
    graph = profile_graph(profile(region([node("a")], [kernel("k", 1.0, phase="backward", roles=roles)])))
    edge = graph.edges["r0/node/a", "r0/backward/k:0"]
    assert (edge["relation"], edge["moved_bytes"]) == ("differentiates, recomputes", 11)

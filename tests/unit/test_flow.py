"""The tree from modules over source lines and nodes to kernels: what adds up, what is put together, what is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphbench.analysis.flow import Flow, FlowPart, kernel_flow, walk
from graphbench.analysis.group_homes import NO_OWNER
from graphbench.analysis.summary import summary
from graphbench.measurements import SourceLine
from graphbench.records import KernelRecord, NodeRecord
from tests.factories import FAILED, executes, kernel, node, profile, region
from tests.samples import cpu_profile, gpu_profile


def flow_of(nodes: list[NodeRecord], kernels: list[KernelRecord]) -> Flow:
    return kernel_flow(profile(region(nodes, kernels)))


def path(flow: Flow, *names: str) -> FlowPart:
    """The part that these names lead to."""
    here = flow.root
    for name in names:
        here = next(part for part in here.children if part.name == name)
    return here


@pytest.mark.parametrize("record", [cpu_profile(), gpu_profile()], ids=["inference", "training"])
def test_the_root_is_the_sum_of_all_kernels_and_every_level_adds_up_to_it(record: object) -> None:
    flow = kernel_flow(record)  # type: ignore[arg-type]
    total = summary(record).total  # type: ignore[arg-type]
    assert flow.root.time_ns == pytest.approx((total.forward_isolated_ns or 0.0) + (total.backward_isolated_ns or 0.0))
    for _, _, part in walk(flow.root):
        if part.parts:
            assert sum(child.time_ns for child in part.children) == pytest.approx(part.time_ns)


def test_a_kernel_is_divided_over_its_nodes_by_the_bytes_they_move() -> None:
    nodes = [node("add", 1.0, module="a"), node("mul", 1.0, module="b")]
    flow = flow_of(nodes, [kernel("fused", 400.0, roles=(executes("add", 300), executes("mul", 100)))])
    assert [(part.name, part.time_ns) for part in flow.root.children] == [("a", 300.0), ("b", 100.0)]


def test_all_calls_of_a_kernel_count() -> None:
    flow = flow_of([node("add", 1.0)], [kernel("fused", 400.0, roles=(executes("add"),), calls=3)])
    assert flow.root.time_ns == 1200.0


def test_repeated_layers_are_one_module_and_kernels_that_differ_in_their_number_one_kernel() -> None:
    line = SourceLine(file="model.py", line=7, code="x = self.up(x)")
    nodes = [replace(node(f"linear_{i}", 1.0, module=f"h.{i}.up"), source=line) for i in range(3)]
    kernels = [kernel(f"cpp_fused_add_{i}", 100.0 + i, handle=i, roles=(executes(f"linear_{i}"),)) for i in range(3)]
    flow = flow_of(nodes, kernels)
    (module,) = flow.root.children
    assert (module.what, module.name, module.time_ns) == ("module", "h.*.up", 303.0)
    leaf = module.children[0].children[0].children[0]
    assert (leaf.what, leaf.name, len(leaf.rows)) == ("kernel", "cpp_fused_add", 3)
    assert leaf.rows["r0", "forward/cpp_fused_add_2:2"] == 102.0


def test_forward_and_backward_kernels_of_one_name_are_told_apart() -> None:
    kernels = [kernel("mm", 10.0, kind="extern", roles=(executes("linear"),))]
    kernels += [kernel("mm", 20.0, kind="extern", phase="backward", roles=(executes("linear"),))]
    nodes = path(flow_of([node("linear", 1.0)], kernels), "(top level)").children[0].children[0]
    assert [part.time_ns for part in nodes.children] == [20.0, 10.0]


def test_kernels_of_no_node_are_a_part_beside_the_modules() -> None:
    flow = flow_of([node("add", 1.0)], [kernel("fused", 10.0, roles=(executes("add"),)), kernel("copy", 5.0, handle=1)])
    part = path(flow, NO_OWNER)
    assert part.time_ns == 5.0
    assert [child.what for child in part.children] == ["kernel"]


def test_a_kernel_without_a_time_is_named_and_in_no_part() -> None:
    flow = flow_of([node("add", 1.0)], [kernel("fused", FAILED, roles=(executes("add"),))])
    assert flow.missing == (("r0", "forward/fused:0"),)
    assert not flow.root.parts


def test_small_parts_are_one_part_and_lose_no_time() -> None:
    nodes = [node("big", 1.0, module="big")] + [node(f"op_{i}", 1.0, module=f"m{i}") for i in range(4)]
    kernels = [kernel("k", 100_000.0, roles=(executes("big"),))]
    kernels += [kernel(f"k{i}", 10.0, handle=1 + i, roles=(executes(f"op_{i}"),)) for i in range(4)]
    big, others = flow_of(nodes, kernels).root.children
    assert (big.time_ns, others.what, others.count, others.time_ns) == (100_000.0, "others", 4, 40.0)

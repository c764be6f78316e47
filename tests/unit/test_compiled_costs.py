"""What nodes cost compiled: parts of kernels that add up to the kernels."""

from __future__ import annotations

import pytest

from graphbench.analysis.compiled_costs import compiled_costs
from graphbench.records import KernelRecord, NodeRole, Role
from tests.factories import FAILED, executes, kernel, node, region


def role(name: str, kind: Role, moved_bytes: int = 0) -> NodeRole:
    return NodeRole(node=name, role=kind, moved_bytes=moved_bytes)


def costs(*kernels: KernelRecord) -> dict[str, tuple[float | None, float | None]]:
    found = compiled_costs(region([node("a", 1.0), node("b", 1.0)], list(kernels)))
    return {name: (cost.forward_ns, cost.backward_ns) for name, cost in found.items()}


def test_a_kernel_of_one_node_is_its_cost() -> None:
    assert costs(kernel("k", 40.0, roles=(executes("a"),))) == {"a": (40.0, None)}


def test_a_kernel_of_several_is_divided_by_the_bytes_that_each_moves() -> None:
    assert costs(kernel("k", 40.0, roles=(executes("a", 300), executes("b", 100)))) == {
        "a": (30.0, None),
        "b": (10.0, None),
    }


def test_what_moves_nothing_is_divided_equally() -> None:
    assert costs(kernel("k", 40.0, roles=(executes("a", 0), executes("b", 0)))) == {
        "a": (20.0, None),
        "b": (20.0, None),
    }


def test_forward_and_backward_stand_side_by_side() -> None:
    forward = kernel("k", 40.0, roles=(executes("a"),))
    backward = kernel("g", 60.0, phase="backward", roles=(role("a", "differentiates", 10), role("b", "recomputes", 20)))
    assert costs(forward, backward) == {"a": (40.0, 20.0), "b": (None, 40.0)}


def test_a_mere_copy_costs_the_node_that_it_prepares_for() -> None:
    assert costs(kernel("k", 40.0, roles=(role("a", "prepares"), role("b", "contributes")))) == {"a": (40.0, None)}


def test_every_call_of_a_site_counts() -> None:
    assert costs(kernel("k", 40.0, calls=3, roles=(executes("a"),))) == {"a": (120.0, None)}


def test_a_kernel_without_a_time_leaves_its_nodes_without_a_cost() -> None:
    timed, failed = kernel("k", 40.0, roles=(executes("a"),)), kernel("m", FAILED, roles=(executes("a"),))
    assert costs(timed, failed) == {"a": (None, None)}


def test_the_parts_add_up_to_the_kernels() -> None:
    kernels = [
        kernel("k", 40.0, roles=(executes("a", 3), executes("b", 7))),
        kernel("m", 25.0, roles=(executes("b", 9), role("a", "recomputes", 2))),
    ]
    assert sum(forward or 0.0 for forward, _ in costs(*kernels).values()) == pytest.approx(65.0)

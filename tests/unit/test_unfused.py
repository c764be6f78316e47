"""Unfused times: a kernel's post-grad nodes one by one, exact over kernels, and missing with a reason."""

from __future__ import annotations

import pytest

from graphbench.analysis.balance import unfused_balances
from graphbench.analysis.fusion import FusionRow, fusion_rows
from graphbench.analysis.unfused import unfused_sums
from graphbench.records import KernelRecord, PostGradNode
from tests.factories import FAILED, kernel, post_grad, region

VIEW = post_grad("view", is_view=True)
ITEM = post_grad("getitem_1", target="getitem")


def rows(nodes: list[PostGradNode], *kernels: KernelRecord) -> list[FusionRow]:
    return fusion_rows(region([], kernels, post_grad=tuple(nodes)))


def test_it_is_the_sum_over_what_the_kernel_executes() -> None:
    (row,) = rows([post_grad("mul", 30.0), post_grad("add", 12.0)], kernel("k", 5.0, post_grad=("mul", "add")))
    assert (row.unfused_ns, row.recomputed_ns) == (42.0, 0.0)


@pytest.mark.parametrize("free", [VIEW, ITEM])
def test_views_and_items_of_a_call_count_as_nothing(free: PostGradNode) -> None:
    (row,) = rows([post_grad("mul", 30.0), free], kernel("k", 5.0, post_grad=("mul", free.name)))
    assert row.unfused_ns == 30.0


def test_a_view_that_was_found_to_launch_work_counts() -> None:
    (row,) = rows([post_grad("reshape", 30.0, is_view=True)], kernel("k", 5.0, post_grad=("reshape",)))
    assert row.unfused_ns == 30.0


def test_all_calls_of_a_kernel_count() -> None:
    (row,) = rows([post_grad("mul", 30.0)], kernel("k", 5.0, calls=3, post_grad=("mul",)))
    assert row.unfused_ns == 90.0


def test_a_node_of_the_other_phase_is_another_node() -> None:
    nodes = [post_grad("mul", 30.0), post_grad("mul", 7.0, phase="backward")]
    (row,) = rows(nodes, kernel("k", 5.0, phase="backward", post_grad=("mul",)))
    assert row.unfused_ns == 7.0


def test_what_is_recomputed_counts_as_a_whole_and_is_told_apart() -> None:
    nodes = [post_grad("mul", 30.0), post_grad("add", 12.0)]
    again = kernel("m", 5.0, post_grad=("mul", "add"), recomputes=("mul",))
    first, second = rows(nodes, kernel("k", 5.0, post_grad=("mul",)), again)
    assert (first.unfused_ns, first.recomputed_ns) == (30.0, 0.0)
    assert (second.unfused_ns, second.recomputed_ns) == (42.0, 30.0)


def test_a_node_that_two_kernels_write_is_divided_over_them() -> None:
    made = [
        kernel(name, 5.0, post_grad=("mean",), parts=(("mean", part),)) for name, part in (("part", 0.9), ("rest", 0.1))
    ]
    assert [row.unfused_ns for row in rows([post_grad("mean", 30.0)], *made)] == [27.0, 3.0]


@pytest.mark.parametrize(
    ("nodes", "executed", "reason"),
    [
        (
            [post_grad("mul", 30.0), post_grad("sort", FAILED)],
            ("mul", "sort"),
            "not all of its post-grad nodes were timed: sort (ran out of memory)",
        ),
        ([], ("mul",), "not all of its post-grad nodes were timed: mul (not recorded)"),
        ([VIEW], ("view",), "it only executes views"),
        ([VIEW], (), "it executes no post-grad node"),
    ],
)
def test_a_kernel_without_an_unfused_time_says_why(
    nodes: list[PostGradNode], executed: tuple[str, ...], reason: str
) -> None:
    (row,) = rows(nodes, kernel("k", 5.0, post_grad=executed))
    assert (row.unfused_ns, row.recomputed_ns) == (None, None)
    assert f"no unfused time: {reason}" in row.reasons


def test_kernels_and_nodes_without_one_add_up_to_nodes_and_recomputation() -> None:
    nodes = [post_grad("mul", 30.0), post_grad("add", 12.0), post_grad("mean", 8.0), post_grad("dead", 1.0), VIEW]
    kernels = [
        kernel("k", post_grad=("mul",)),
        kernel("m", handle=1, post_grad=("mul", "add", "mean", "view"), recomputes=("mul",), parts=(("mean", 0.25),)),
        kernel("n", handle=2, post_grad=("mean",), parts=(("mean", 0.75),)),
    ]
    sums = unfused_sums(region([], kernels, post_grad=tuple(nodes)), "forward")
    assert sums is not None
    assert (sums.nodes_ns, sums.recomputed_ns) == (51.0, 30.0)
    assert (sums.kernels_ns, sums.without_kernel_ns) == (80.0, 1.0)


@pytest.mark.parametrize(
    ("nodes", "made"),
    [
        ([post_grad("mul", FAILED), post_grad("add", 1.0)], kernel("k", post_grad=("mul",))),
        ([post_grad("mul", 30.0)], kernel("k", calls=2, post_grad=("mul",))),
        ([VIEW], kernel("k")),
    ],
    ids=["a node failed", "a kernel runs twice", "nothing is timed"],
)
def test_sums_that_cannot_agree_are_not_claimed(nodes: list[PostGradNode], made: KernelRecord) -> None:
    assert unfused_sums(region([], [made], post_grad=tuple(nodes)), "forward") is None


def test_a_phase_is_balanced_only_when_every_region_of_it_is() -> None:
    whole = region([], [kernel("k", post_grad=("mul",))], post_grad=(post_grad("mul", 30.0),))
    nodes = (post_grad("mul", 4.0), post_grad("mul", FAILED, phase="backward"))
    partly = region([], [kernel("k", post_grad=("mul",))], key="r1", post_grad=nodes)
    ((phase, sums),) = unfused_balances([whole, partly])
    assert (phase, sums.nodes_ns, sums.kernels_ns) == ("forward", 34.0, 34.0)

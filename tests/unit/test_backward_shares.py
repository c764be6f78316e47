"""A backward kernel's eager time: the backwards of the nodes that it differentiates, conserved apart from forward."""

from __future__ import annotations

import dataclasses

import pytest

from graphbench.analysis.balance import eager_balances
from graphbench.analysis.fusion import FusionRow, fusion_rows
from graphbench.analysis.shares import add, backward_shares, eager_shares, shares
from graphbench.measurements import Measurement
from graphbench.records import Fate, KernelRecord, NodeRecord, NodeRole, RegionRecord
from tests.factories import FAILED, differentiates, executes, kernel, measurement, node, region, steady

NO_GRADIENT = Measurement(status="skipped", reason="none of its results requires grad")


def backward(name: str, fused: Measurement | float | None = None, *roles: NodeRole) -> KernelRecord:
    return kernel(name, fused, phase="backward", roles=roles)


def p50(nodes: list[NodeRecord], kernels: list[KernelRecord]) -> dict[str, float]:
    found = backward_shares(region(nodes, kernels)).kernels
    return {key: share.time.p50_ns for key, share in found.items()}


def only_row(nodes: list[NodeRecord], *kernels: KernelRecord) -> FusionRow:
    return fusion_rows(region(nodes, kernels))[-1]


# --- shares -----------------------------------------------------------------------------------------------------------


def test_a_nodes_backward_is_divided_by_the_bytes_it_moves_in_each_backward_kernel() -> None:
    kernels = [backward("k", None, differentiates("a", 300)), backward("m", None, differentiates("a", 100))]
    assert p50([node("a", 1.0, backward=400.0)], kernels) == {"backward/k:0": 300.0, "backward/m:0": 100.0}


def test_a_backward_of_unknown_size_is_divided_equally() -> None:
    kernels = [backward("k", None, differentiates("a", 0)), backward("m", None, differentiates("a", 0))]
    assert p50([node("a", 1.0, backward=400.0)], kernels) == {"backward/k:0": 200.0, "backward/m:0": 200.0}


def test_the_forward_of_what_is_differentiated_stays_with_its_forward_kernel() -> None:
    kernels = [kernel("k", roles=(executes("a"),)), backward("b", None, differentiates("a"))]
    divided = eager_shares(region([node("a", 7.0, backward=20.0)], kernels))
    assert [divided.forward.kernels[entry.key].time.p50_ns for entry in kernels] == [7.0, 0.0]
    assert [divided.backward.kernels[entry.key].time.p50_ns for entry in kernels] == [0.0, 20.0]


def test_what_a_backward_kernel_recomputes_takes_no_part_of_a_backward() -> None:
    recomputes = NodeRole(node="a", role="recomputes", moved_bytes=900)
    kernels = [backward("k", None, differentiates("a", 100)), backward("m", None, recomputes)]
    assert p50([node("a", 1.0, backward=400.0)], kernels) == {"backward/k:0": 400.0, "backward/m:0": 0.0}


def test_the_backward_of_a_merged_node_goes_where_that_of_its_target_goes() -> None:
    nodes = [node("a", 1.0, backward=40.0), node("b", 1.0, fate=Fate(kind="merged", note="a"), backward=2.0)]
    assert p50(nodes, [backward("k", None, differentiates("a"))]) == {"backward/k:0": 42.0}


def test_the_backward_of_a_merged_node_with_a_kernel_of_its_own_stays_there() -> None:
    nodes = [node("a", 1.0, backward=40.0), node("b", 1.0, fate=Fate(kind="merged", note="a"), backward=2.0)]
    kernels = [backward("k", None, differentiates("a")), backward("m", None, differentiates("b"))]
    assert p50(nodes, kernels) == {"backward/k:0": 40.0, "backward/m:0": 2.0}


def test_a_merged_node_that_needs_no_gradient_is_not_missing_from_its_targets_kernel() -> None:
    merged = dataclasses.replace(node("b", 1.0, fate=Fate(kind="merged", note="a")), backward_isolated=NO_GRADIENT)
    row = only_row([node("a", 1.0, backward=40.0), merged], backward("k", 5.0, differentiates("a")))
    assert row.eager is not None
    assert (row.eager.p50_ns, row.nodes) == (40.0, ("a",))


def hard_region() -> RegionRecord:
    nodes = [
        node("a", steady(10.0), backward=steady(400.0, spread_ns=40.0)),
        node("b", steady(10.0), fate=Fate(kind="merged", note="a"), backward=steady(70.0, spread_ns=30.0)),
        node("v", steady(3.0), kind="view", fate=Fate(kind="view"), backward=5.0),
        node("c", steady(3.0), fate=Fate(kind="fused"), backward=9.0),
        node("f", steady(3.0), backward=FAILED),
        node("n", steady(3.0)),
    ]
    kernels = [
        kernel("k", roles=(executes("a"), executes("f"), executes("c"))),
        backward("m", None, differentiates("a", 7), differentiates("f")),
        backward("n", None, differentiates("a", 3), NodeRole(node="c", role="recomputes", moved_bytes=2)),
    ]
    return region(nodes, kernels)


@pytest.mark.parametrize("quantile", ["p10_ns", "p50_ns", "p90_ns"])
def test_backward_shares_and_nodes_without_a_kernel_add_up_to_all_backwards(quantile: str) -> None:
    divided = backward_shares(hard_region())
    parts = add([*(share.time for share in divided.kernels.values()), *divided.without_kernel.values()])
    assert getattr(parts, quantile) == pytest.approx(getattr(divided.total, quantile), rel=1e-12)


def test_backwards_without_a_kernel_are_returned_by_fate() -> None:
    divided = backward_shares(hard_region())
    assert divided.total.p50_ns == 400 + 70 + 5 + 9
    assert {fate: time.p50_ns for fate, time in divided.without_kernel.items()} == {"view": 5.0, "fused": 9.0}


def test_backward_times_leave_the_forward_sum_alone() -> None:
    assert shares(hard_region()).total.p50_ns == 10 + 10 + 3 + 3 + 3 + 3


# --- the balance ------------------------------------------------------------------------------------------------------


def test_the_balance_tells_apart_kernels_without_an_eager_time_and_nodes_without_a_kernel() -> None:
    (_, found) = eager_balances([eager_shares(hard_region())])
    assert (found.phase, found.nodes_ns) == ("backward", 484.0)
    assert (found.kernels_ns, found.untold_ns) == (pytest.approx(141.0), pytest.approx(329.0))
    assert dict(found.without_kernel) == {"view": 5.0, "fused": 9.0}


def test_without_a_backward_only_forward_is_balanced() -> None:
    (found,) = eager_balances([eager_shares(region([node("a", 4.0)])), eager_shares(region([node("a", 2.0)]))])
    assert (found.phase, found.nodes_ns, dict(found.without_kernel)) == ("forward", 6.0, {"unknown": 6.0})


# --- rows -------------------------------------------------------------------------------------------------------------


def test_a_backward_kernel_is_judged_against_the_backward_of_its_nodes() -> None:
    nodes = [node("add", 1.0, backward=300.0), node("relu", 1.0, backward=100.0)]
    row = only_row(nodes, backward("k", 160.0, differentiates("add"), differentiates("relu")))
    assert row.eager is not None
    assert (row.eager.p50_ns, row.saved_ns, row.ratio, row.verdict) == (400.0, 240.0, 2.5, "faster")
    assert row.nodes == ("add", "relu")


def test_a_node_that_only_backward_runs_is_charged_there_with_its_forward_and_its_backward() -> None:
    row = only_row([node("a", 8.0, backward=20.0)], backward("k", 14.0, executes("a"), differentiates("a")))
    assert row.eager is not None
    assert (row.eager.p50_ns, row.ratio, row.nodes) == (28.0, 2.0, ("a",))


def test_a_kernel_that_only_recomputes_says_so() -> None:
    again = NodeRole(node="a", role="recomputes")
    row = only_row([node("a", 8.0, backward=20.0)], kernel("k", 5.0, roles=(executes("a"),)), backward("b", 5.0, again))
    assert (row.eager, row.saved_ns, row.verdict) == (None, None, None)
    assert "no eager time: it only recomputes what forward kernels are charged for: a" in row.reasons


def test_a_backward_that_failed_leaves_its_kernel_without_an_eager_time() -> None:
    row = only_row([node("a", 8.0, backward=FAILED)], backward("k", 5.0, differentiates("a")))
    assert (row.eager, row.verdict) == (None, None)
    assert "no eager time: not all of its nodes were timed: a (ran out of memory)" in row.reasons
    assert "no eager time: not all of its nodes were timed" in row.causes


def test_what_eager_does_for_nothing_a_kernel_can_only_do_slower() -> None:
    row = only_row([node("expand", 0.0, kind="view", backward=0.0)], backward("k", 5.0, differentiates("expand")))
    assert (row.saved_ns, row.ratio, row.verdict) == (-5.0, 0.0, "slower")


def test_a_single_sample_of_a_backward_decides_nothing() -> None:
    row = only_row([node("a", 8.0, backward=measurement(300.0))], backward("k", 5.0, differentiates("a")))
    assert row.verdict == "unclear"


@pytest.mark.parametrize(("eager_ns", "expected"), [(1_064.0, "same"), (1_065.0, "faster")])
def test_forward_and_backward_of_one_node_are_two_measurements_of_half_a_step_each(
    eager_ns: float, expected: str
) -> None:
    made = backward("k", 1_000.0, executes("a"), differentiates("a"), differentiates("b"))
    nodes = [node("a", 250.0, backward=eager_ns - 500.0), node("b", 1.0, backward=250.0)]
    (row,) = fusion_rows(region(nodes, [made]), grain_ns=32.0)
    assert row.verdict == expected

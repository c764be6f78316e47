"""Eager shares are conserved, verdicts need separated intervals, and what is missing says why."""

from __future__ import annotations

import dataclasses

import pytest

from graphbench.analysis.fusion import fusion_rows, verdict
from graphbench.analysis.shares import Interval, add, shares
from graphbench.analysis.summary import summary
from graphbench.records import Fate, KernelRecord, NodeRecord, NodeRole, RegionRecord, Side
from tests.factories import FAILED, cpu_run, device_run, executes, kernel, measurement, node, profile, region, steady

MERGED = Fate(kind="merged", note="a")


def p50(nodes: list[NodeRecord], kernels: list[KernelRecord]) -> dict[str, float]:
    return {key: share.time.p50_ns for key, share in shares(region(nodes, kernels)).kernels.items()}


# --- shares -----------------------------------------------------------------------------------------------------------


def test_a_node_is_divided_in_proportion_to_the_bytes_it_moves() -> None:
    kernels = [kernel("k", roles=(executes("a", 300),)), kernel("m", roles=(executes("a", 100),))]
    assert p50([node("a", 400.0)], kernels) == {"forward/k:0": 300.0, "forward/m:0": 100.0}


def test_a_node_that_moves_nothing_is_divided_equally() -> None:
    kernels = [kernel("k", roles=(executes("a", 0),)), kernel("m", roles=(executes("a", 0),))]
    assert p50([node("a", 400.0)], kernels) == {"forward/k:0": 200.0, "forward/m:0": 200.0}


def test_what_backward_recomputes_takes_nothing_from_the_forward_kernel() -> None:
    forward = kernel("k", roles=(executes("a", 100),))
    backward = kernel("b", phase="backward", roles=(NodeRole(node="a", role="recomputes", moved_bytes=300),))
    found = shares(region([node("a", 8.0)], [forward, backward])).kernels
    assert [found[entry.key].time.p50_ns for entry in (forward, backward)] == [8.0, 0.0]


def test_a_node_that_only_backward_runs_is_charged_there() -> None:
    backward = kernel("b", phase="backward", roles=(NodeRole(node="a", role="recomputes", moved_bytes=300),))
    assert shares(region([node("a", 8.0)], [backward])).kernels[backward.key].time.p50_ns == 8.0


def test_recomputed_nodes_count_where_they_are_recomputed() -> None:
    again = NodeRole(node="a", role="recomputes", moved_bytes=100)
    kernels = [kernel("k", roles=(executes("a", 100),)), kernel("m", roles=(again,))]
    assert p50([node("a", 400.0)], kernels)["forward/m:0"] == 200.0


@pytest.mark.parametrize("role", ["contributes", "prepares", "differentiates"])
def test_other_roles_take_no_share(role: str) -> None:
    other = NodeRole(node="a", role=role, moved_bytes=1000)  # type: ignore[arg-type]
    kernels = [kernel("k", roles=(executes("a", 100),)), kernel("m", roles=(other,))]
    assert p50([node("a", 400.0)], kernels) == {"forward/k:0": 400.0, "forward/m:0": 0.0}


def test_a_merged_node_goes_where_the_node_goes_that_it_was_merged_into() -> None:
    kernels = [kernel("k", roles=(executes("a", 300),)), kernel("m", roles=(executes("a", 100),))]
    nodes = [node("a", 400.0), node("b", 40.0, fate=MERGED), node("c", 8.0, fate=Fate(kind="merged", note="b"))]
    assert p50(nodes, kernels) == {"forward/k:0": 336.0, "forward/m:0": 112.0}


def test_nodes_merged_in_a_circle_end_nowhere() -> None:
    nodes = [node("a", 4.0, fate=Fate(kind="merged", note="b")), node("b", 2.0, fate=MERGED)]
    assert shares(region(nodes)).without_kernel["merged"].p50_ns == 6.0


def hard_region() -> RegionRecord:
    nodes = [
        node("a", steady(400.0, spread_ns=40.0)),
        node("b", steady(70.0, spread_ns=30.0), fate=MERGED),
        node("v", steady(3.0), kind="view", fate=Fate(kind="view")),
        node("d", steady(9.0), fate=Fate(kind="dead")),
        node("w", steady(5.0), kind="view", fate=Fate(kind="view")),
        node("lost", steady(11.0), fate=Fate(kind="merged", note="nobody")),
        node("f", FAILED),
        node("s", None, kind="state"),
    ]
    kernels = [
        kernel("k", roles=(executes("a", 7), executes("f"))),
        kernel("m", roles=(executes("a", 3), executes("a", 1))),
        kernel("n", phase="backward", roles=(NodeRole(node="a", role="recomputes", moved_bytes=2),)),
    ]
    return region(nodes, kernels)


@pytest.mark.parametrize("quantile", ["p10_ns", "p50_ns", "p90_ns"])
def test_shares_and_nodes_without_a_kernel_add_up_to_all_nodes(quantile: str) -> None:
    divided = shares(hard_region())
    parts = add([*(share.time for share in divided.kernels.values()), *divided.without_kernel.values()])
    assert getattr(parts, quantile) == pytest.approx(getattr(divided.total, quantile), rel=1e-12)


def test_the_total_is_that_of_all_timed_nodes() -> None:
    assert shares(hard_region()).total.p50_ns == 400 + 70 + 3 + 9 + 5 + 11


def test_what_has_no_kernel_is_returned_by_fate() -> None:
    rest = {fate: time.p50_ns for fate, time in shares(hard_region()).without_kernel.items()}
    assert rest == {"view": 8.0, "dead": 9.0, "merged": 11.0}


# --- rows -------------------------------------------------------------------------------------------------------------


def test_a_row_sets_the_kernel_against_the_eager_time_of_its_nodes() -> None:
    nodes = [node("add", 300.0), node("relu", 100.0)]
    (row,) = fusion_rows(region(nodes, [kernel("k", 160.0, roles=(executes("add"), executes("relu")))]))
    assert (row.fused_ns, row.saved_ns, row.ratio, row.verdict) == (160.0, 240.0, 2.5, "faster")


def test_a_kernel_called_several_times_is_compared_with_all_its_calls() -> None:
    (row,) = fusion_rows(region([node("a", 300.0)], [kernel("k", 50.0, calls=4, roles=(executes("a"),))]))
    assert (row.fused_ns, row.saved_ns) == (200.0, 100.0)
    assert row.fused is not None
    assert row.fused.p50 == 50.0


def test_a_node_without_a_time_leaves_its_kernel_without_an_eager_time() -> None:
    roles = (executes("a"), executes("f"))
    (row,) = fusion_rows(region([node("a", 300.0), node("f", FAILED)], [kernel("k", 50.0, roles=roles)]))
    assert (row.eager, row.saved_ns, row.ratio, row.verdict) == (None, None, None, None)
    assert any("f (ran out of memory)" in reason for reason in row.reasons)


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (kernel("k", 5.0, phase="backward"), "no node of the model is known for it"),
        (kernel("k", 5.0, roles=(NodeRole(node="a", role="prepares"),)), "only prepares what others read, for a"),
        (kernel("k", 5.0, roles=(executes("of_another_graph"),)), "its nodes have no time"),
        (kernel("k", 5.0, roles=(NodeRole(node="a", role="contributes"),)), "no node of the model is known for it"),
    ],
)
def test_a_kernel_without_comparable_nodes_says_why(made: KernelRecord, reason: str) -> None:
    (row,) = fusion_rows(region([node("a", 300.0)], [made]))
    assert row.eager is None
    assert any(reason in entry for entry in row.reasons)


def test_a_kernel_that_failed_has_no_fused_time_but_keeps_its_eager_time() -> None:
    (row,) = fusion_rows(region([node("a", 300.0)], [kernel("k", FAILED, roles=(executes("a"),))]))
    assert (row.state, row.fused_ns, row.verdict) == ("failed", None, None)
    assert row.eager is not None
    assert row.eager.p50_ns == 300.0
    assert "no isolated time: ran out of memory" in row.reasons


def test_a_single_sample_decides_nothing() -> None:
    made = kernel("k", measurement(10.0), roles=(executes("a"),))
    (row,) = fusion_rows(region([node("a", 300.0)], [made]))
    assert row.verdict == "unclear"


def test_a_single_sample_of_a_node_decides_nothing_either() -> None:
    (row,) = fusion_rows(region([node("a", measurement(300.0))], [kernel("k", 10.0, roles=(executes("a"),))]))
    assert row.verdict == "unclear"


@pytest.mark.parametrize(("fused_ns", "expected"), [(1_032.0, "same"), (1_033.0, "slower"), (967.0, "faster")])
def test_a_difference_of_one_step_of_the_stamps_is_none(fused_ns: float, expected: str) -> None:
    made = region([node("a", 1_000.0)], [kernel("k", fused_ns, roles=(executes("a"),))])
    (row,) = fusion_rows(made, grain_ns=32.0)
    assert row.verdict == expected


@pytest.mark.parametrize(("eager_ns", "expected"), [(1_064.0, "same"), (1_065.0, "faster")])
def test_each_measurement_that_a_sum_is_of_adds_half_a_step(eager_ns: float, expected: str) -> None:
    nodes = [node("a", eager_ns - 500.0), node("b", 250.0), node("c", 250.0)]
    (row,) = fusion_rows(region(nodes, [kernel("k", 1_000.0, roles=tuple(map(executes, "abc")))]), grain_ns=32.0)
    assert row.verdict == expected


def around(p10_ns: float, p50_ns: float, p90_ns: float) -> Interval:
    return Interval(p10_ns=p10_ns, p50_ns=p50_ns, p90_ns=p90_ns)


@pytest.mark.parametrize(
    ("fused", "eager", "expected"),
    [
        (around(90, 100, 110), around(120, 130, 140), "faster"),
        (around(120, 130, 140), around(90, 100, 110), "slower"),
        (around(90, 100, 125), around(120, 130, 140), "unclear"),
        (around(99.9, 100, 100.1), around(100.6, 100.7, 100.8), "same"),
        (around(50, 100, 150), around(60, 100.5, 170), "same"),
    ],
)
def test_only_separated_intervals_decide(fused: Interval, eager: Interval, expected: str) -> None:
    assert verdict(fused, eager) == expected


# --- summary ----------------------------------------------------------------------------------------------------------


def test_the_summary_sums_medians_and_divides_plain_runs() -> None:
    rows = [steady(60.0), steady(40.0)]
    nodes = [node("a", 70.0, in_graph=rows[0]), node("b", 50.0, in_graph=rows[1])]
    kernels = [kernel("k", 30.0, calls=2), kernel("m", 8.0, phase="backward")]
    sides = {"eager": Side(run=cpu_run(rows), plain=steady(190.0)), "forward": Side(plain=steady(100.0))}
    found = summary(profile(region(nodes, kernels, **sides)))
    total = found.total
    assert (total.eager_isolated_ns, total.eager_in_graph_ns) == (120.0, 200.0)
    assert (total.forward_isolated_ns, total.backward_isolated_ns) == (60.0, 8.0)
    assert total.speedup == 1.9


def test_a_total_is_missing_when_a_region_lacks_its_part() -> None:
    one = region(forward=Side(plain=steady(10.0)), eager=Side(plain=steady(20.0)))
    two = region(key="r1", forward=Side(plain=steady(10.0)))
    total = summary(profile(one, two)).total
    assert (total.plain_forward_ns, total.plain_eager_ns, total.speedup) == (20.0, None, None)


def test_a_region_that_did_not_run_is_named_and_does_not_spoil_the_total() -> None:
    gone = dataclasses.replace(region(key="r1"), status="skipped", reason="no longer reached")
    found = summary(profile(region(forward=Side(plain=steady(10.0))), gone))
    assert found.total.plain_forward_ns == 10.0
    assert [(entry.row, entry.reason) for entry in found.not_measured] == [("r1", "no longer reached")]


def test_coverage_counts_the_time_and_names_what_no_row_claims() -> None:
    row = steady(9_000.0, timer="cupti")
    run = device_run([row], unattributed_ns=1_000.0, unattributed=("memset",))
    made = region([], [kernel("k", in_graph=row)], forward=Side(run=dataclasses.replace(run, dropped=3)))
    coverage = summary(profile(made, timer="cupti")).coverage
    assert coverage.attributed == pytest.approx(0.9)
    assert (coverage.kernels, coverage.unattributed, coverage.dropped) == (2, ("memset",), 3)


def test_owners_are_counted_by_phase_and_time() -> None:
    backward_of = NodeRole(node="a", role="differentiates")
    kernels = [
        kernel("k", in_graph=steady(30.0), roles=(executes("a"),)),
        kernel("m", in_graph=steady(10.0), roles=(NodeRole(node="a", role="contributes"),)),
        kernel("n", in_graph=steady(5.0), phase="backward", roles=(backward_of,)),
    ]
    forward, backward = summary(profile(region([node("a")], kernels))).owners
    assert (forward.owned, forward.kernels, forward.owned_ns, forward.time_ns) == (1, 2, 30.0, 40.0)
    assert forward.without == ("forward/m:0",)
    assert (backward.owned, backward.kernels) == (1, 1)


def test_nodes_are_counted_by_what_became_of_them() -> None:
    nodes = [
        node("a", 1.0, fate=Fate(kind="dead")),
        node("v", 1.0, kind="view"),
        node("f", FAILED),
        node("s", None),
        node("h", None, kind="host"),
        node("g", None, kind="state"),
    ]
    found = summary(profile(region(nodes)))
    count = found.nodes
    assert (count.captured, count.timed, count.views, count.host, count.state) == (6, 2, 1, 1, 1)
    assert (count.skipped, count.failed) == (1, 1)
    assert found.unknown_fate == ("f", "s")


@pytest.mark.parametrize(("host_ns", "bound"), [(900.0, True), (100.0, False)])
def test_a_region_whose_host_time_exceeds_its_device_time_is_host_bound(host_ns: float, bound: bool) -> None:
    side = Side(plain=measurement(500.0, 500.0, timer="cupti"), host_ns=(host_ns, host_ns))
    (totals,) = summary(profile(region(forward=side), timer="cupti")).regions
    assert totals.host_bound is bound


def test_times_that_overlap_make_no_region_host_bound() -> None:
    side = Side(plain=measurement(400.0, 700.0, timer="cupti"), host_ns=(500.0, 800.0))
    (totals,) = summary(profile(region(forward=side), timer="cupti")).regions
    assert totals.host_bound is False


def test_wall_time_says_nothing_about_who_waits() -> None:
    (totals,) = summary(profile(region(forward=Side(plain=measurement(500.0, host_ns=900.0))))).regions
    assert totals.host_bound is None


def test_kernels_that_compute_a_node_together_are_judged_by_their_sum() -> None:
    mean = node("mean", 10.0)
    first = kernel("a", 9.0, roles=(executes("mean", moved_bytes=90),), post_grad=("mean",), parts=(("mean", 0.9),))
    second = kernel(
        "b", 3.0, handle=1, roles=(executes("mean", moved_bytes=10),), post_grad=("mean",), parts=(("mean", 0.1),)
    )
    alone, rest = fusion_rows(region([mean], [first, second]))
    assert (alone.eager and alone.eager.p50_ns, alone.fused_ns) == (9.0, 9.0)  # the first alone would be the same
    assert [alone.verdict, rest.verdict] == ["slower", "slower"]
    assert (alone.together, rest.together) == ((rest.key,), (alone.key,))


def test_of_kernels_judged_together_none_has_a_verdict_when_one_has_no_time() -> None:
    parts = (("mean", 0.5),)
    made = [
        kernel("a", 9.0, roles=(executes("mean"),), post_grad=("mean",), parts=parts),
        kernel("b", handle=1, roles=(executes("mean"),), post_grad=("mean",), parts=parts),
    ]
    assert [row.verdict for row in fusion_rows(region([node("mean", 10.0)], made))] == [None, None]


def test_a_copy_made_for_a_node_is_part_of_the_price() -> None:
    role = NodeRole(node="conv2d", role="prepares", post_grad=("convolution",))
    copy = kernel("copy", 4.0, roles=(role,))
    convolution = kernel("conv", 9.0, handle=1, roles=(executes("conv2d"),), post_grad=("convolution",))
    rows = fusion_rows(region([node("conv2d", 10.0)], [copy, convolution]))
    assert [row.verdict for row in rows] == ["slower", "slower"]
    assert rows[0].eager is None

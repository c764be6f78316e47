"""Limits, costs and traffic of nodes and kernels in rows and in sums of a whole profile."""

from __future__ import annotations

import dataclasses

import pytest

from graphbench.analysis.fusion import FusionRow, all_fusion_rows
from graphbench.analysis.fusion_totals import FusionTotals, fusion_totals
from graphbench.analysis.roofline import NO_CEILINGS, Ceilings
from graphbench.analysis.rows import profile_rows
from graphbench.analysis.shares import eager_shares
from graphbench.analysis.traffic import eager_traffic
from graphbench.analysis.views import NodeRow, node_rows
from graphbench.measurements import Measurement, TimerName, Work
from graphbench.records import VIEW, KernelRecord, NodeRecord, ProfileRecord
from tests.cost_samples import FLOPS, HIDDEN_BYTES, INPUT_BYTES, POINTWISE, WEIGHT_BYTES, gated_mlp
from tests.factories import (
    FAILED,
    ceilings,
    differentiates,
    executes,
    kernel,
    node,
    post_grad,
    profile,
    region,
    steady,
    worked,
)
from tests.samples import gpu_profile, moves

SEEN = ceilings(gb_per_s=1.0, gflops=1.0, launch_ns=10.0)  # a byte a nanosecond, a FLOP a nanosecond


def one(*nodes: NodeRecord, kernels: tuple[KernelRecord, ...] = ()) -> ProfileRecord:
    return profile(region(nodes, kernels), ceilings=SEEN)


def totals(record: ProfileRecord) -> FusionTotals:
    return fusion_totals(record.regions, profile_rows(record))


def only_node(measured: Measurement, **changes: object) -> NodeRow:
    made = dataclasses.replace(node("a", measured), **changes)  # type: ignore[arg-type]
    (row,) = node_rows(one(made))
    return row


def only_kernel(made: KernelRecord, *nodes: NodeRecord) -> FusionRow:
    (row,) = all_fusion_rows(one(*nodes, kernels=(made,)))
    return row


def test_the_fused_kernel_of_a_gated_mlp_moves_a_hundred_megabytes_less_than_its_nodes() -> None:
    row = next(row for row in all_fusion_rows(gated_mlp()) if row.key == POINTWISE)
    assert (row.eager_bytes, row.moved_bytes) == (5 * HIDDEN_BYTES, 3 * HIDDEN_BYTES)
    assert row.removed_bytes == 2 * HIDDEN_BYTES == 100_663_296
    assert row.unfused_bytes == 9 * HIDDEN_BYTES


def test_it_is_bound_by_memory_and_so_far_from_the_copy_ceiling() -> None:
    row = next(row for row in all_fusion_rows(gated_mlp()) if row.key == POINTWISE)
    at_4_tb_per_s = 3 * HIDDEN_BYTES / 4e12 * 1e9
    assert (row.limit.bound, row.limit_ns) == ("memory", pytest.approx(at_4_tb_per_s))
    assert row.limit.part == pytest.approx(at_4_tb_per_s / 40_000.0)
    assert row.bytes_per_s == pytest.approx(3 * HIDDEN_BYTES / 40e-6)


def test_a_product_is_bound_by_the_rate_of_its_arithmetic() -> None:
    row = next(row for row in node_rows(gated_mlp()) if row.name == "gate")
    assert (row.limit.bound, row.limit_ns) == ("compute", pytest.approx(FLOPS / 700e12 * 1e9))
    assert row.flops_per_s == pytest.approx(FLOPS / 80e-6)
    assert row.cost.intensity == pytest.approx(FLOPS / (INPUT_BYTES + WEIGHT_BYTES + HIDDEN_BYTES))


def test_bytes_and_the_limit_are_of_all_calls_of_a_kernel_and_cost_and_part_of_one() -> None:
    nodes = (node("a", worked(steady(300.0), 200, 100)),)
    made = kernel("k", 50.0, calls=4, roles=(executes("a"),), traffic=moves(20, 10))
    row = only_kernel(made, *nodes)
    assert (row.cost.moved_bytes, row.limit.time_ns, row.limit.part) == (30, pytest.approx(30.0), pytest.approx(0.6))
    assert (row.moved_bytes, row.limit_ns, row.eager_bytes, row.removed_bytes) == (120, pytest.approx(120.0), 300, 180)


def test_eager_bytes_are_divided_over_kernels_as_eager_times_are() -> None:
    nodes = [node("a", worked(steady(10.0), 300, 100))]
    kernels = [
        kernel("k", 5.0, roles=(executes("a", 30),)),
        kernel("l", 5.0, handle=1, roles=(executes("a", 10),)),
    ]
    made = region(nodes, kernels)
    found = eager_traffic(made, eager_shares(made))
    assert [entry.moved_bytes for entry in found.values()] == [300.0, 100.0]


def test_a_backward_kernel_is_set_against_the_bytes_of_the_backward() -> None:
    a = node("a", worked(steady(10.0), 5, 5), backward=worked(steady(20.0), 40, 20))
    made = kernel("k", 20.0, phase="backward", roles=(differentiates("a"),), traffic=moves(10, 10))
    assert only_kernel(made, a).removed_bytes == 40


def test_a_kernel_that_moves_more_than_its_nodes_has_removed_less_than_nothing() -> None:
    a = node("a", worked(steady(10.0), 10, 10))
    assert only_kernel(kernel("k", 20.0, roles=(executes("a"),), traffic=moves(25, 10)), a).removed_bytes == -15


@pytest.mark.parametrize(
    ("counted", "traffic", "reason"),
    [(False, True, "its work was not counted"), (True, False, "its work was not counted")],
)
def test_traffic_that_is_not_known_of_nodes_or_kernel_is_none_with_a_reason(
    counted: bool, traffic: bool, reason: str
) -> None:
    a = node("a", worked(steady(10.0), 10, 10) if counted else steady(10.0))
    row = only_kernel(kernel("k", 20.0, roles=(executes("a"),), traffic=moves(5, 5) if traffic else ()), a)
    assert (row.removed_bytes, row.no_removed) == (None, reason)


def test_a_kernel_of_no_node_removes_nothing_that_is_known() -> None:
    row = only_kernel(kernel("k", 20.0, traffic=moves(5, 5)))
    assert (row.eager_bytes, row.removed_bytes, row.no_removed) == (None, None, "no bytes of a node fall to it")


def test_a_view_has_no_limit() -> None:
    assert only_node(steady(0.0), kind="view").limit.reason == VIEW


def test_without_ceilings_the_limit_is_not_known_and_says_so() -> None:
    rows = node_rows(gated_mlp(ceilings=()))
    assert {row.limit.reason for row in rows} == {NO_CEILINGS}
    assert {(row.limit.bound, row.limit.part) for row in rows} == {(None, None)}


def test_ceilings_of_another_device_are_no_limit() -> None:
    rows = all_fusion_rows(gated_mlp(ceilings=ceilings(device="cuda:1")))
    assert {row.limit.reason for row in rows} == {NO_CEILINGS}


@pytest.mark.parametrize(
    ("timer", "bound"),
    [("cupti", "launch"), ("cuda-events", "memory"), ("device-events", "memory"), ("wallclock", "memory")],
)
def test_only_a_timer_that_tells_busy_from_waiting_says_that_a_row_is_bound_by_its_launch(
    timer: TimerName, bound: str
) -> None:
    measured = worked(steady(100.0), 50, 30)
    assert measured.samples is not None
    slow_host = dataclasses.replace(measured.samples, host_ns=(500.0,) * 10)
    row = only_node(dataclasses.replace(measured, timer=timer, samples=slow_host))
    assert (row.limit.bound, row.limit.part) == (bound, 0.8)


def test_a_row_beyond_its_limit_is_suspicious_and_named_with_the_reason() -> None:
    found = totals(one(node("a", worked(steady(50.0), 50, 30)), node("b", worked(steady(100.0), 50, 30))))
    ((reason, names),) = found.suspicious
    assert names == ("a",)
    assert reason.startswith("over its limit: warm")


def test_a_backward_beyond_its_limit_is_named_as_such() -> None:
    found = totals(one(node("a", worked(steady(100.0), 1, 1), backward=worked(steady(50.0), 50, 30))))
    assert [names for _, names in found.suspicious] == [("backward of a",)]


def test_kernels_below_half_of_their_limit_and_their_part_of_the_time_are_found() -> None:
    kernels = (
        kernel("near", 100.0, traffic=moves(50, 30)),
        kernel("far", 300.0, handle=1, traffic=moves(50, 30)),
        kernel("unknown", 100.0, handle=2),
    )
    found = totals(one(kernels=kernels))
    assert (found.far, found.far_share) == (("forward/far:1",), 0.6)


def test_the_time_at_the_limit_is_of_the_kernels_whose_limit_is_known() -> None:
    kernels = (kernel("k", 100.0, traffic=moves(50, 30), calls=2), kernel("unknown", 100.0, handle=1))
    at_limit = totals(one(kernels=kernels)).at_limit
    assert at_limit is not None
    assert (at_limit.kernels, at_limit.timed, at_limit.fused_ns, at_limit.limit_ns) == (1, 2, 200.0, 160.0)


def test_traffic_of_a_whole_profile_has_every_node_also_those_without_a_kernel() -> None:
    nodes = (node("a", worked(steady(10.0), 60, 40)), node("dead", worked(steady(10.0), 5, 5)))
    made = kernel("k", 5.0, roles=(executes("a"),), traffic=moves(30, 20))
    removed = totals(one(*nodes, kernels=(made,))).removed
    assert removed is not None
    assert (removed.whole, removed.eager_bytes, removed.moved_bytes, removed.removed_bytes) == (True, 110, 50, 60)


def test_where_some_traffic_is_unknown_it_is_that_of_the_other_kernels() -> None:
    nodes = (node("a", worked(steady(10.0), 60, 40)), node("b", worked(steady(10.0), 5, 5)))
    kernels = (
        kernel("k", 5.0, roles=(executes("a"),), traffic=moves(30, 20)),
        kernel("untold", 5.0, handle=1, roles=(executes("b"),)),
    )
    removed = totals(one(*nodes, kernels=kernels)).removed
    assert removed is not None
    assert (removed.whole, removed.kernels, removed.of, removed.eager_bytes, removed.removed_bytes) == (
        *(False, 1, 2),
        *(100, 50),
    )


def test_traffic_of_no_kernel_is_none() -> None:
    assert totals(one(node("a", 10.0), kernels=(kernel("k", 5.0, roles=(executes("a"),)),))).removed is None


def test_work_that_was_counted_on_a_device_without_ceilings_is_told_and_nothing_else() -> None:
    assert totals(gated_mlp(ceilings=())).no_limits == NO_CEILINGS
    assert totals(gated_mlp()).no_limits == ""
    assert totals(profile(region([node("a", 10.0)]))).no_limits == ""


def test_names_carry_their_region_where_there_are_several() -> None:
    assert totals(gpu_profile()).slower[0] == "r0/forward/triton_poi_fused_gelu_0:2"


def test_a_failed_kernel_has_no_part_of_its_limit_and_is_not_far_from_it() -> None:
    made = kernel("k", FAILED, traffic=moves(50, 30), post_grad=("p",))
    record = profile(region([], [made], post_grad=(post_grad("p", worked(steady(1.0), 1, 1)),)), ceilings=SEEN)
    (row,) = all_fusion_rows(record)
    assert (row.limit.part, row.limit_ns, totals(record).far) == (None, 80.0, ())


def test_flops_without_a_measured_rate_leave_the_limit_unknown() -> None:
    work = Work(flops=8, arithmetic="float64", read_bytes=4, written_bytes=4)
    row = only_node(dataclasses.replace(steady(100.0), work=work))
    assert (row.limit.bound, row.limit.reason) == (None, "no matrix product in float64 was measured")


def test_a_warm_call_that_some_cache_holds_is_set_against_copies_of_that_size() -> None:
    ceilings = Ceilings(copy=10e9, cached=((1_000, 100e9), (10_000, 50e9)))
    assert ceilings.memory_ns(500, 500, warm=True) == pytest.approx(10.0)
    assert ceilings.memory_ns(2_000, 2_000, warm=True) == pytest.approx(80.0)
    assert ceilings.memory_ns(20_000, 20_000, warm=True) == pytest.approx(4_000.0)  # too large for any of them
    assert ceilings.memory_ns(500, 500) == pytest.approx(100.0)  # cold: from memory

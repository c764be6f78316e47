"""The proof that a profile is whole: every broken reference, column and sum is found and named by its place."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from graphbench import document
from graphbench.errors import ConservationError, ProfileFormatError
from graphbench.measurements import Measurement, Samples
from graphbench.records import Fate, NodeRole, PostGradNode, ProfileRecord, Side
from graphbench.step_records import GraphBreak, StepRecord, StepRow
from tests.factories import cpu_run, device_run, executes, kernel, measurement, node, post_grad, profile, region, steady
from tests.samples import cpu_profile, gpu_profile


def with_node(**changes: object) -> ProfileRecord:
    return profile(region([dataclasses.replace(node("relu", 5.0), **changes)]))  # type: ignore[arg-type]


# --- check: sums ------------------------------------------------------------------------------------------------------


def one_run(rows: list[Measurement], run: Any, timer: Any = "wallclock") -> ProfileRecord:
    nodes = [node(f"n{i}", in_graph=row) for i, row in enumerate(rows)]
    return profile(region(nodes, eager=Side(run=run)), timer=timer)


def test_device_rows_with_unattributed_and_overlap_conserve_time() -> None:
    rows = [steady(40_000.0, timer="cupti"), steady(60_000.0, timer="cupti")]
    document.check(one_run(rows, device_run(rows, unattributed_ns=7_000.0, overlap_ns=30_000.0), "cupti"))


@pytest.mark.parametrize(("lost_ns", "holds"), [(4_900.0, True), (5_100.0, False)])
def test_a_device_sum_may_miss_half_a_percent(lost_ns: float, holds: bool) -> None:
    row = steady(1_000_000.0, timer="cupti")
    run = device_run([row])
    busy_ns = tuple(value - lost_ns for value in run.busy_ns)
    record = one_run([row], dataclasses.replace(run, busy_ns=busy_ns), "cupti")
    if holds:
        document.check(record)
    else:
        with pytest.raises(ConservationError, match=r"regions\[r0\]\.eager: in sample 0, rows \+ beside"):
            document.check(record)


@pytest.mark.parametrize(("lost_ns", "holds"), [(990.0, True), (1_010.0, False)])
def test_a_short_run_may_miss_a_microsecond(lost_ns: float, holds: bool) -> None:
    row = steady(5_000.0)
    run = cpu_run([row])
    total = tuple(value + lost_ns for value in run.busy_ns)
    record = one_run([row], dataclasses.replace(run, busy_ns=total, wall_ns=total))
    if holds:
        document.check(record)
    else:
        with pytest.raises(ConservationError, match=r"rows \+ wrapper - overlap is 5100 ns, expected busy = 6110 ns"):
            document.check(record)


def test_what_ran_beside_cuda_graphs_is_part_of_the_run() -> None:
    row = steady(60_000.0, timer="cupti")
    run = device_run([row])
    beside_ns = (40_000.0,) * len(run.busy_ns)
    replayed = dataclasses.replace(run, busy_ns=tuple(ns + 40_000.0 for ns in run.busy_ns), beside_ns=beside_ns)
    document.check(one_run([row], replayed, "cupti"))
    with pytest.raises(ConservationError, match=r"rows .* is 60000 ns, expected device_busy = 100000 ns"):
        document.check(one_run([row], dataclasses.replace(replayed, beside_ns=None), "cupti"))


def test_labels_of_several_threads_at_once_overlap_beside_the_wrapper() -> None:
    row = steady(50_000.0)
    run = cpu_run([row])
    overlap_ns = (20_000.0,) * len(run.busy_ns)
    shorter = tuple(ns - 20_000.0 for ns in run.busy_ns)
    at_once = dataclasses.replace(run, overlap_ns=overlap_ns, busy_ns=shorter, wall_ns=shorter)
    document.check(one_run([row], at_once))
    with pytest.raises(ConservationError, match=r"rows \+ wrapper - overlap is 30100 ns, expected busy = 50100 ns"):
        document.check(one_run([row], dataclasses.replace(run, overlap_ns=overlap_ns)))


def test_host_times_are_taken_in_calls_of_their_own() -> None:
    document.check(with_node(isolated=dataclasses.replace(OK, samples=Samples(busy_ns=(1.0, 2.0), host_ns=(1.0,)))))


def test_on_the_cpu_busy_is_wall_time() -> None:
    row = steady(500_000.0)
    run = cpu_run([row])
    record = one_run([row], dataclasses.replace(run, wall_ns=tuple(2 * value for value in run.busy_ns)))
    with pytest.raises(ConservationError, match="busy is 500100 ns, expected wall = 1000200 ns"):
        document.check(record)


def test_one_wrong_sample_among_right_ones_is_found() -> None:
    rows = [measurement(100_000.0, 100_000.0, 100_000.0)]
    run = cpu_run(rows)
    wrong = (*run.busy_ns[:2], 150_000.0)
    with pytest.raises(ConservationError, match="in sample 2"):
        document.check(one_run(rows, dataclasses.replace(run, busy_ns=wrong, wall_ns=wrong)))


@pytest.mark.parametrize("phase", ["forward", "backward"])
def test_kernels_are_summed_against_the_run_of_their_own_phase(phase: Any) -> None:
    rows = [steady(50_000.0), steady(70_000.0)]
    kernels = [kernel("a", phase="forward", in_graph=rows[0]), kernel("b", phase="backward", in_graph=rows[1])]
    right = {"forward": Side(run=cpu_run(rows[:1])), "backward": Side(run=cpu_run(rows[1:]))}
    document.check(profile(region([], kernels, **right)))
    wrong = {**right, phase: Side(run=cpu_run(rows))}
    with pytest.raises(ConservationError, match=rf"regions\[r0\]\.{phase}"):
        document.check(profile(region([], kernels, **wrong)))


def test_nodes_backwards_are_summed_against_the_eager_backward() -> None:
    rows = [steady(50_000.0), steady(70_000.0)]
    nodes = [node("a", in_graph=steady(9.0), backward_in_graph=rows[0]), node("b", backward_in_graph=rows[1])]
    document.check(profile(region(nodes, eager_backward=Side(run=cpu_run(rows)))))
    with pytest.raises(ConservationError, match=r"regions\[r0\]\.eager_backward: in sample 0"):
        document.check(profile(region(nodes, eager_backward=Side(run=cpu_run(rows[:1])))))


def test_step_rows_are_summed_against_the_step() -> None:
    record = gpu_profile()
    assert record.step is not None
    document.check(record)
    short = dataclasses.replace(record, step=dataclasses.replace(record.step, rows=record.step.rows[:1]))
    with pytest.raises(ConservationError, match="step: in sample 0"):
        document.check(short)


def test_a_run_of_rows_without_any_time_is_not_explained_by_them() -> None:
    unknown = Measurement(status="skipped", reason="not executed")
    run = cpu_run([steady(50_000.0)])
    with pytest.raises(ConservationError, match=r"rows \+ wrapper - overlap is 100 ns, expected busy = 50100 ns"):
        document.check(one_run([unknown], run))


def test_wall_times_of_a_side_are_accepted_in_any_number() -> None:
    row = steady(50_000.0)
    document.check(profile(region([node("a", in_graph=row)], eager=Side(run=cpu_run([row]), wall_ns=(9.0, 8.0)))))


def test_sums_are_proven_on_reading_too() -> None:
    plain = json.loads(document.dumps(cpu_profile(), compact=False))
    run = plain["regions"][0]["forward"]["run"]
    run["busy_ns"] = run["wall_ns"] = [2 * value for value in run["busy_ns"]]
    with pytest.raises(ConservationError):
        document.loads(json.dumps(plain))


# --- check: structure -------------------------------------------------------------------------------------------------

OK = steady(5.0)
assert OK.samples is not None
SHARED = dataclasses.replace(OK, shared_with="a")
SHARED_OP = dataclasses.replace(OK, shared_with="forward:a")
POST_GRAD = PostGradNode(name="g", phase="forward", op="call_function", target="aten.add", inputs=())
NEGATIVE = (5.0, -1.0)


def of_step(**changes: Any) -> ProfileRecord:
    row = StepRow(name="add", op_type="add", in_graph=steady(9.0), **changes)
    return profile(region(), step=StepRecord(run=cpu_run([row.in_graph]), rows=(row,)))


RAGGED = dataclasses.replace(OK, samples=Samples(busy_ns=(1.0, 2.0), host_ns=(1.0,), span_ns=(1.0,)))


@pytest.mark.parametrize(
    ("record", "field", "expected"),
    [
        pytest.param(profile(region(), region()), "regions", "unique", id="region key twice"),
        pytest.param(profile(region([node("a"), node("a")])), "regions[r0].nodes", "unique", id="node name twice"),
        pytest.param(
            profile(region([], [kernel("k"), kernel("k")])), "regions[r0].kernels", "unique", id="kernel key twice"
        ),
        pytest.param(
            profile(region([node("a", fate=Fate(kind="fused", kernels=("forward/k:0",)))])),
            "regions[r0].nodes[a].fate.kernels",
            "a kernel's key",
            id="fate names no kernel",
        ),
        pytest.param(
            profile(region([], [kernel("k", roles=(executes("ghost"),))])),
            "regions[r0].kernels[forward/k:0].roles",
            "a node's name",
            id="role names no node",
        ),
        pytest.param(
            profile(region([node("a")], [kernel("k", roles=(NodeRole(node="a", role="executes", post_grad=("g",)),))])),
            "regions[r0].kernels[forward/k:0]",
            "a forward post-grad node's name",
            id="role names no post-grad node",
        ),
        pytest.param(
            profile(region([], [kernel("k", post_grad=("g",))])),
            "regions[r0].kernels[forward/k:0]",
            "a forward post-grad node's name",
            id="kernel executes no post-grad node",
        ),
        pytest.param(
            profile(region(post_grad=(POST_GRAD, POST_GRAD))),
            "regions[r0].post_grad",
            "unique",
            id="post-grad node twice",
        ),
        pytest.param(
            profile(dataclasses.replace(region(), status="failed")),
            "regions[r0].reason",
            "a reason",
            id="region failed without a reason",
        ),
        pytest.param(
            dataclasses.replace(profile(region()), breaks=(GraphBreak(reason="x", region="r7"),)),
            "breaks[0].region",
            "a region's key",
            id="break of no region",
        ),
        pytest.param(of_step(region="r7"), "step.rows[0].region", "a region's key", id="step row of no region"),
        pytest.param(
            of_step(region="r0", kernel="forward/k:0"),
            "step.rows[0].kernel",
            "a kernel's key of region r0",
            id="step row of no kernel",
        ),
        pytest.param(
            profile(region([node("b", SHARED)])),
            "regions[r0].b.isolated.shared_with",
            "another row that was measured itself",
            id="shared with no row",
        ),
        pytest.param(
            profile(region([node("a", dataclasses.replace(OK, shared_with="b")), node("b", SHARED)])),
            "regions[r0].a.isolated.shared_with",
            "another row that was measured itself",
            id="shared with each other",
        ),
        pytest.param(
            profile(region([node("a", 6.0), node("b", SHARED)])),
            "regions[r0].b.isolated.shared_with",
            "the same samples",
            id="shared, but other samples",
        ),
        pytest.param(
            profile(region([node("a", 5.0), node("b", backward=SHARED)])),
            "regions[r0].b.backward_isolated.shared_with",
            "the same samples",
            id="a backward shared with a forward",
        ),
        pytest.param(
            profile(region([node("a", 6.0)], post_grad=(post_grad("a", 5.0), post_grad("b", SHARED)))),
            "regions[r0].forward:b.isolated.shared_with",
            "the same samples",
            id="an op shared with the node of another op's name",
        ),
        pytest.param(
            profile(region(post_grad=(post_grad("a", 6.0), post_grad("b", SHARED_OP)))),
            "regions[r0].forward:b.isolated.shared_with",
            "the same samples",
            id="an op shared, but other samples",
        ),
        pytest.param(
            profile(region(post_grad=(post_grad("a", measurement(-1.0), phase="backward"),))),
            "regions[r0].post_grad[backward:a].isolated.samples.busy_ns",
            "no negative value",
            id="negative time of an op",
        ),
        pytest.param(
            with_node(backward_isolated=measurement(-1.0)),
            "regions[r0].nodes[relu].backward_isolated.samples.busy_ns",
            "no negative value",
            id="negative time of a backward",
        ),
        pytest.param(
            with_node(backward_in_graph=measurement(1.0, timer="cupti")),
            "regions[r0].nodes[relu].backward_in_graph.timer",
            "wallclock",
            id="another timer in a backward",
        ),
        pytest.param(
            profile(region(eager_backward=Side(wall_ns=NEGATIVE))),
            "regions[r0].eager_backward.wall_ns",
            "no negative value",
            id="negative wall time of an eager backward",
        ),
        pytest.param(
            with_node(isolated=dataclasses.replace(OK, samples=Samples(busy_ns=(), host_ns=()))),
            "regions[r0].nodes[relu].isolated.samples.busy_ns",
            "at least one",
            id="no samples",
        ),
        pytest.param(
            with_node(in_graph=measurement(1.0, host_ns=-1.0)),
            "regions[r0].nodes[relu].in_graph.samples.host_ns",
            "no negative value",
            id="negative host time",
        ),
        pytest.param(
            profile(region([], [kernel("k", measurement(-1.0))])),
            "regions[r0].kernels[forward/k:0].isolated.samples.busy_ns",
            "no negative value",
            id="negative time of a kernel",
        ),
        pytest.param(
            profile(region(backward=Side(plain=measurement(-1.0)))),
            "regions[r0].backward.plain.samples.busy_ns",
            "no negative value",
            id="negative time of a plain run",
        ),
        pytest.param(
            profile(region(forward=Side(wall_ns=NEGATIVE))),
            "regions[r0].forward.wall_ns",
            "no negative value",
            id="negative wall time of a side",
        ),
        pytest.param(
            profile(step=StepRecord(run=cpu_run([OK]), rows=(), plain_wall_ns=NEGATIVE)),
            "step.plain_wall_ns",
            "no negative value",
            id="negative wall time of a step",
        ),
        pytest.param(
            one_run([steady(9.0)], dataclasses.replace(cpu_run([steady(9.0)]), wall_ns=(1.0,))),
            "regions[r0].eager.run.wall_ns",
            "10, as in busy_ns",
            id="columns of a run of unequal length",
        ),
        pytest.param(
            one_run([steady(9.0)], dataclasses.replace(cpu_run([steady(9.0)]), wrapper_ns=None)),
            "regions[r0].eager.run.wrapper_ns",
            "as of every run on the CPU",
            id="a CPU run without its wrapper's time",
        ),
        pytest.param(
            one_run(
                [steady(9.0, timer="cupti")],
                dataclasses.replace(device_run([steady(9.0, timer="cupti")]), wrapper_ns=(1.0,) * 10),
                "cupti",
            ),
            "regions[r0].eager.run.wrapper_ns",
            "as of every device run",
            id="a device run with a wrapper's time",
        ),
        pytest.param(
            one_run([steady(9.0)], dataclasses.replace(cpu_run([steady(9.0)]), unattributed_ns=(1.0,) * 10)),
            "regions[r0].eager.run.unattributed_ns",
            "0 beside a `wrapper_ns`",
            id="unattributed time on the CPU",
        ),
        pytest.param(
            with_node(isolated=Measurement(status="ok", timer="wallclock")),
            "regions[r0].nodes[relu].isolated",
            "samples exactly when the status is ok",
            id="ok without samples",
        ),
        pytest.param(
            with_node(isolated=dataclasses.replace(OK, status="failed", reason="x")),
            "regions[r0].nodes[relu].isolated",
            "samples exactly when the status is ok",
            id="failed with samples",
        ),
        pytest.param(
            with_node(isolated=Measurement(status="failed")),
            "regions[r0].nodes[relu].isolated.reason",
            "a reason",
            id="failed without a reason",
        ),
        pytest.param(
            with_node(isolated=RAGGED),
            "regions[r0].nodes[relu].isolated.samples.span_ns",
            "2, as in busy_ns",
            id="columns of unequal length",
        ),
        pytest.param(
            with_node(isolated=measurement(-1.0)),
            "regions[r0].nodes[relu].isolated.samples.busy_ns",
            "no negative value",
            id="negative time",
        ),
        pytest.param(
            with_node(isolated=measurement(1.0, timer="cupti")),
            "regions[r0].nodes[relu].isolated.timer",
            "wallclock",
            id="another timer in one row",
        ),
        pytest.param(
            one_run([steady(9.0)], dataclasses.replace(cpu_run([steady(9.0)]), timer="cupti")),
            "regions[r0].eager.run.timer",
            "wallclock",
            id="another timer in a run",
        ),
        pytest.param(
            one_run([steady(9.0, n=5)], cpu_run([steady(9.0, n=10)])),
            "regions[r0].eager.run",
            "10, as in the run",
            id="a row with fewer samples than its run",
        ),
    ],
)
def test_broken_structure_is_named(record: ProfileRecord, field: str, expected: str) -> None:
    with pytest.raises(ProfileFormatError) as caught:
        document.check(record)
    assert caught.value.field == field
    assert expected in caught.value.message

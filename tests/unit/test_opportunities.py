"""What could make a step faster: what is found, the most that each gives, how equal ones are one, and the ranking."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from graphbench.analysis.opportunities import opportunities
from graphbench.analysis.opportunity import Opportunity
from graphbench.api import Profile
from graphbench.measurements import NOT_MEASURED, Measurement, Work
from graphbench.records import (
    FusionRefusal,
    KernelRecord,
    NodeRecord,
    NodeRole,
    PostGradNode,
    ProfileRecord,
    Side,
    Traffic,
)
from tests.factories import (
    ceilings,
    device_run,
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
from tests.step_samples import training_step

GPU = "cuda:0"
MB = 1_000_000


def on_device(ns: float) -> Measurement:
    return steady(ns, timer="cupti")


def side(kernels: Sequence[KernelRecord], *, wall_ns: float | None = None, host_ns: float = 1_000.0) -> Side:
    rows = [entry.in_graph for entry in kernels]
    busy_ns = sum(row.samples.busy_ns[0] for row in rows if row.samples)
    wall_ns = busy_ns + 10_000.0 if wall_ns is None else wall_ns
    return Side(run=device_run(rows), plain=on_device(busy_ns), wall_ns=(wall_ns,) * 5, host_ns=(host_ns,) * 5)


def counted(name: str) -> PostGradNode:
    """A post-grad node without a time, and without an op that has FLOPs."""
    return post_grad(name, dataclasses.replace(NOT_MEASURED, work=Work(read_bytes=1, written_bytes=1)))


def on_gpu(
    nodes: Sequence[NodeRecord],
    kernels: Sequence[KernelRecord],
    *,
    post_grads: Sequence[PostGradNode] = (),
    **of_side: Any,
) -> ProfileRecord:
    """A region on a GPU that moves 1 byte a nanosecond; its forward runs the kernels, post-grad nodes as they name."""
    forward = side([entry for entry in kernels if entry.phase == "forward"], **of_side)
    known = {entry.name for entry in post_grads}
    others = [counted(name) for name in dict.fromkeys(n for k in kernels for n in k.executes) if name not in known]
    place = region(nodes, kernels, device=GPU, forward=forward, post_grad=(*post_grads, *others))
    return profile(place, timer="cupti", ceilings=ceilings(device=GPU, gb_per_s=1.0, launch_ns=1.0))


def made(
    name: str,
    ns: float,
    *traffic: Traffic,
    of: Sequence[str] = ("gelu",),
    targets: Sequence[str] = ("x",),
    handle: int = 0,
    alone_ns: float | None = None,
    **more: Any,
) -> KernelRecord:
    """A Triton kernel that takes `ns` in the graph and alone."""
    more.setdefault("roles", tuple(executes(entry) for entry in of))
    return kernel(
        name,
        on_device(ns if alone_ns is None else alone_ns),
        kind="triton",
        in_graph=on_device(ns),
        traffic=traffic,
        post_grad=tuple(targets),
        handle=handle,
        **more,
    )


def moves(read: int, written: int = 0) -> tuple[Traffic, Traffic]:
    return Traffic(buffer="in", read_bytes=read), Traffic(buffer="out", written_bytes=written)


def of_kind(record: ProfileRecord, kind: str) -> list[Opportunity]:
    return [entry for entry in opportunities(record) if entry.kind == kind]


def only(record: ProfileRecord, kind: str) -> Opportunity:
    (found,) = of_kind(record, kind)
    return found


# --- slower than what it replaced


def test_a_kernel_slower_than_its_nodes_could_give_the_difference() -> None:
    record = on_gpu([node("gelu", on_device(60_000.0))], [made("poi", 100_000.0)])
    found = only(record, "slower")
    assert (found.gain_ns, found.part) == (40_000.0, 0.4)
    assert (found.nodes, found.kernels) == (("gelu",), ("forward/poi:0",))
    assert found.source is not None
    assert "100.0 µs where its nodes take 60.00 µs eager" in found.what


def test_a_kernel_slower_than_its_post_grad_nodes_one_by_one_is_told_too() -> None:
    record = on_gpu(
        [node("gelu", on_device(120_000.0))], [made("poi", 100_000.0)], post_grads=[post_grad("x", on_device(70_000.0))]
    )
    found = only(record, "slower")
    assert found.gain_ns == 30_000.0
    assert found.what.endswith("one by one")


def test_a_kernel_within_five_percent_of_its_post_grad_nodes_is_not_slower() -> None:
    record = on_gpu(
        [node("gelu", on_device(120_000.0))], [made("poi", 100_000.0)], post_grads=[post_grad("x", on_device(96_000.0))]
    )
    assert of_kind(record, "slower") == []


def test_a_kernel_that_is_faster_in_the_graph_than_alone_gains_only_what_is_left_there() -> None:
    record = on_gpu([node("gelu", on_device(60_000.0))], [made("poi", 70_000.0, alone_ns=100_000.0)])
    assert only(record, "slower").gain_ns == 10_000.0


def test_a_place_that_is_faster_in_the_graph_takes_nothing_from_the_gain_of_equal_ones() -> None:
    nodes = [node("gelu_0", on_device(60_000.0), module="a"), node("gelu_1", on_device(60_000.0), module="b")]
    slow = made("poi", 90_000.0, of=["gelu_0"], targets=["x0"], alone_ns=100_000.0)
    fast = made("poi", 40_000.0, of=["gelu_1"], targets=["x1"], alone_ns=100_000.0, handle=1)
    found = only(on_gpu(nodes, [slow, fast]), "slower")
    assert (found.gain_ns, found.count) == (30_000.0, 1)


# --- far from limit


def test_less_than_one_percent_of_the_limit_is_not_told_as_none() -> None:
    found = only(on_gpu([node("gelu")], [made("poi", 10_000_000.0, *moves(20_000, 20_000))]), "far from limit")
    assert found.what == "reaches under 1 % of its limit (memory)"


def test_a_kernel_far_from_its_limit_could_give_what_is_beyond_it() -> None:
    found = only(on_gpu([node("gelu")], [made("poi", 100_000.0, *moves(20_000, 20_000))]), "far from limit")
    assert found.gain_ns == pytest.approx(60_000.0)
    assert "40 % of its limit (memory)" in found.what


def test_the_time_that_is_told_is_the_one_that_reaches_the_part_that_is_told() -> None:
    kernel = made("poi", 200_000.0, *moves(20_000, 20_000), alone_ns=100_000.0)
    found = only(on_gpu([node("gelu")], [kernel]), "far from limit")
    assert "40 % of its limit" in found.what
    assert found.note == "100.0 µs a call, 40.00 µs at the limit"


def test_a_kernel_near_its_limit_is_no_opportunity() -> None:
    assert of_kind(on_gpu([node("gelu")], [made("poi", 100_000.0, *moves(40_000, 40_000))]), "far from limit") == []


def test_without_ceilings_no_limit_is_missed() -> None:
    record = on_gpu([node("gelu")], [made("poi", 100_000.0, *moves(1, 1))])
    assert opportunities(dataclasses.replace(record, ceilings=())) == []


# --- missed fusions


def pair(reason: str = "") -> ProfileRecord:
    kernels = [
        made("one", 100_000.0, Traffic(buffer="x", read_bytes=50_000), Traffic(buffer="b", written_bytes=40_000)),
        made(
            "two", 100_000.0, Traffic(buffer="b", writer="forward/one:0", read_bytes=40_000), of=["add"], targets=["y"]
        ),
    ]
    record = on_gpu([node("gelu"), node("add")], kernels)
    refusals = (FusionRefusal(first=kernels[0].key, second=kernels[1].key, reason=reason),) if reason else ()
    return dataclasses.replace(record, regions=(dataclasses.replace(record.regions[0], refusals=refusals),))


def test_a_missed_fusion_gives_what_is_moved_twice_at_the_ceilings_rate() -> None:
    found = only(pair(), "missed fusion")
    assert found.gain_ns == pytest.approx(80_000.0)
    assert found.kernels == ("forward/one:0", "forward/two:0")
    assert found.what == "39.1 KiB read again, 39.1 KiB written for it"


def test_a_missed_fusion_has_the_schedulers_reason() -> None:
    assert only(pair("no shared data"), "missed fusion").note == "the scheduler: no shared data"


# --- copies and casts


@pytest.mark.parametrize(
    ("targets", "kind"),
    [(("clone",), "copy"), (("_to_copy",), "cast"), (("convert_element_type", "clone"), "cast")],
)
def test_a_kernel_that_only_copies_could_give_all_its_time(targets: Sequence[str], kind: str) -> None:
    nodes = [post_grad(f"p{index}", target=target) for index, target in enumerate(targets)]
    record = on_gpu([node("gelu")], [made("poi", 5_000.0, targets=[n.name for n in nodes])], post_grads=nodes)
    assert only(record, kind).gain_ns == 5_000.0


def test_a_copy_made_for_another_op_names_that_op() -> None:
    roles = (NodeRole(node="conv1", role="prepares"), NodeRole(node="gelu", role="contributes"))
    record = on_gpu([node("conv1", line=7)], [made("poi", 5_000.0, targets=[], roles=roles)])
    found = only(record, "copy")
    assert found.what == "only copies, into the layout that conv1 needs"
    assert found.source is not None
    assert found.source.line == 7


@pytest.mark.parametrize("targets", [("clone", "add"), ("copy_",)])
def test_a_kernel_that_computes_or_updates_an_input_is_no_copy(targets: Sequence[str]) -> None:
    nodes = [post_grad(f"p{index}", target=target) for index, target in enumerate(targets)]
    record = on_gpu([node("gelu")], [made("poi", 5_000.0, targets=[n.name for n in nodes])], post_grads=nodes)
    assert of_kind(record, "copy") == []


# --- recomputation


def recomputing(kept_bytes: int, *traffic: Traffic) -> ProfileRecord:
    """A backward kernel of 100 µs; one by one, 80 of 100 are spent on a value that the forward had."""
    work = worked(on_device(80_000.0), kept_bytes, kept_bytes)
    nodes = [
        post_grad("exp", work, phase="backward"),
        dataclasses.replace(
            post_grad("mul", worked(on_device(20_000.0), kept_bytes, kept_bytes), phase="backward"), inputs=("exp",)
        ),
    ]
    roles = (differentiates("gelu"), NodeRole(node="gelu", role="recomputes", post_grad=("exp",)))
    backward = made("poi", 100_000.0, *traffic, targets=("exp", "mul"), roles=roles, phase="backward")
    place = region([node("gelu")], [backward], device=GPU, backward=side([backward]), post_grad=tuple(nodes))
    return profile(place, timer="cupti", ceilings=ceilings(device=GPU, gb_per_s=1.0, launch_ns=1.0))


def test_recomputing_that_takes_longer_than_reading_could_give_the_difference() -> None:
    found = only(recomputing(30_000, *moves(5_000, 5_000)), "recomputed")
    assert found.gain_ns == pytest.approx(80_000.0 - 30_000.0)
    assert "29.3 KiB of memory" in found.note


def test_recomputing_that_is_cheaper_than_reading_is_no_opportunity() -> None:
    assert of_kind(recomputing(90_000, *moves(5_000, 5_000)), "recomputed") == []


def test_recomputing_costs_nothing_where_the_bytes_take_the_time() -> None:
    assert only(recomputing(10_000, *moves(40_000, 30_000)), "recomputed").gain_ns == pytest.approx(20_000.0)
    assert of_kind(recomputing(10_000, *moves(50_000, 45_000)), "recomputed") == []


# --- the host


def late(**of_side: Any) -> ProfileRecord:
    slow = dataclasses.replace(
        made("poi", 20_000.0, *moves(2_000)),
        isolated=dataclasses.replace(on_device(20_000.0), samples=_with_host(on_device(20_000.0), 50_000.0)),
    )
    return on_gpu([node("gelu")], [slow], **of_side)


def _with_host(measured: Measurement, host_ns: float) -> Any:
    assert measured.samples is not None
    return dataclasses.replace(measured.samples, host_ns=(host_ns,) * 10)


def test_a_host_bound_region_could_give_what_the_device_waits_on_the_wall() -> None:
    found = only(late(wall_ns=100_000.0, host_ns=95_000.0), "launch-bound")
    assert (found.gain_ns, found.wall_gain_ns, found.part, found.of) == (80_000.0, 80_000.0, 0.8, "wall")
    assert found.note.startswith("1 of 1 kernel take longer to issue than to run")
    assert "reduce-overhead" in found.note


def test_in_a_host_bound_region_the_devices_gain_is_no_wall_time_and_ranks_below() -> None:
    found = opportunities(late(wall_ns=100_000.0, host_ns=95_000.0))
    assert [(entry.kind, entry.wall_gain_ns) for entry in found] == [
        ("launch-bound", 80_000.0),
        ("far from limit", 0.0),
    ]
    assert found[1].gain_ns == pytest.approx(18_000.0)


def test_where_the_device_takes_longer_than_the_host_the_wall_time_shrinks_with_it() -> None:
    found = opportunities(late(wall_ns=22_000.0, host_ns=10_000.0))
    assert [entry.kind for entry in found] == ["far from limit"]
    assert found[0].wall_gain_ns == pytest.approx(12_000.0)  # down to the host's part


def test_replays_of_cuda_graphs_are_not_told_to_use_them() -> None:
    record = late(wall_ns=100_000.0, host_ns=95_000.0)
    (place,) = record.regions
    replayed = dataclasses.replace(place, forward=dataclasses.replace(place.forward, graph_nodes=1))
    assert of_kind(dataclasses.replace(record, regions=(replayed,)), "launch-bound") == []


# --- equal ones


def layers(*, code: Sequence[str], modules: Sequence[str]) -> ProfileRecord:
    nodes = [node(f"gelu_{i}", op_type="gelu", module=module) for i, module in enumerate(modules)]
    kernels = [
        made(name, 10_000.0, Traffic(buffer=f"b{i}", read_bytes=1_000), of=[f"gelu_{i}"], targets=[f"x{i}"], handle=i)
        for i, name in enumerate(code)
    ]
    return on_gpu(nodes, kernels)


def test_places_with_the_same_generated_code_are_one_with_their_count() -> None:
    found = only(layers(code=["poi_0"] * 3, modules=["a", "b", "c"]), "far from limit")
    assert (found.count, found.gain_ns) == (3, pytest.approx(27_000.0))


def test_the_same_place_in_every_layer_is_one_with_the_folded_path() -> None:
    found = only(layers(code=["poi_0", "poi_1"], modules=["h.0.act", "h.1.act"]), "far from limit")
    assert (found.count, found.module) == (2, "h.*.act")


def test_different_places_with_different_code_stay_apart() -> None:
    found = of_kind(layers(code=["poi_0", "poi_1"], modules=["up.act", "down.act"]), "far from limit")
    assert [entry.count for entry in found] == [1, 1]


# --- a missed fusion in the cache


def test_bytes_that_cost_less_than_memory_does_give_only_their_part_of_the_kernels() -> None:
    kernels = [
        made("one", 10_000.0, Traffic(buffer="x", read_bytes=40_000), Traffic(buffer="b", written_bytes=40_000)),
        made(
            "two", 20_000.0, Traffic(buffer="b", writer="forward/one:0", read_bytes=40_000), of=["add"], targets=["y"]
        ),
    ]
    found = only(on_gpu([node("gelu"), node("add")], kernels), "missed fusion")
    assert found.gain_ns == 5_000.0 + 20_000.0  # at the ceiling 80 µs


# --- a recorded step


def test_the_gains_of_a_recorded_step_are_of_its_own_runs() -> None:
    record = training_step()
    assert record.step is not None
    twice = tuple(
        dataclasses.replace(row, calls=2, in_graph=_doubled(row.in_graph)) if row.kernel else row
        for row in record.step.rows
    )
    more = dataclasses.replace(record, step=dataclasses.replace(record.step, rows=twice))
    once, again = (next(e for e in opportunities(r) if e.kind == "slower") for r in (record, more))
    assert again.gain_ns == pytest.approx(2 * once.gain_ns)


def _doubled(measured: Measurement) -> Measurement:
    assert measured.samples is not None
    busy = tuple(2 * value for value in measured.samples.busy_ns)
    return dataclasses.replace(measured, samples=dataclasses.replace(measured.samples, busy_ns=busy))


def test_gap_ops_and_graph_breaks_are_opportunities_of_a_step() -> None:
    found = opportunities(training_step())
    breaks = [entry for entry in found if entry.kind == "graph break"]
    gaps = [entry for entry in found if entry.kind == "gap ops"]
    assert [(entry.gain_ns, entry.of) for entry in breaks] == [(46_000.0, "wall")]
    assert gaps[0].what == "2 ops outside compiled graphs: _foreach_add_"
    assert (gaps[0].gain_ns, gaps[0].source and gaps[0].source.line) == (20_000.0, 35)


def test_a_region_that_the_step_did_not_run_has_none() -> None:
    record = training_step()
    assert record.step is not None
    rows = tuple(row for row in record.step.rows if row.region != "r1")
    step = dataclasses.replace(record.step, rows=rows, timeline=type(record.step.timeline)())
    found = opportunities(dataclasses.replace(record, step=step))
    assert "r1" not in {entry.region for entry in found}


def test_opportunities_are_ranked_by_what_the_wall_time_gains() -> None:
    found = opportunities(training_step())
    assert [entry.rank_ns for entry in found] == sorted((entry.rank_ns for entry in found), reverse=True)
    assert all(entry.gain_ns > 0 for entry in found)


def test_a_profile_lists_its_opportunities() -> None:
    record = pair()
    assert Profile(record).opportunities() == opportunities(record)

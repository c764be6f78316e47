"""What a step would take if some nodes were faster: parts of kernels, the host's part, and what a pattern matches."""

from __future__ import annotations

import math

import pytest

from graphbench.analysis.what_if import what_if
from graphbench.errors import UsageError
from graphbench.measurements import Measurement
from graphbench.records import ProfileRecord, Side
from tests.factories import device_run, differentiates, executes, kernel, node, profile, region, steady
from tests.step_samples import training_step


def on_device(ns: float) -> Measurement:
    return steady(ns, timer="cupti")


def side(*rows: Measurement, wall_ns: float, host_ns: float) -> Side:
    busy_ns = sum(row.samples.busy_ns[0] for row in rows if row.samples)
    return Side(run=device_run(rows), plain=on_device(busy_ns), wall_ns=(wall_ns,) * 5, host_ns=(host_ns,) * 5)


def sample(*, wall_ns: float = 100_000.0, host_ns: float = 30_000.0) -> ProfileRecord:
    """Two layers: a product of 40 µs each, and an activation that shares a kernel of 8 µs with an add, 3 : 1."""
    nodes, kernels = [], []
    for layer in range(2):
        nodes += [
            node(f"linear_{layer}", op_type="linear", module=f"layers.{layer}.mlp.up"),
            node(f"gelu_{layer}", op_type="gelu", module=f"layers.{layer}.mlp.act"),
            node(f"add_{layer}", op_type="add", module=f"layers.{layer}"),
        ]
        kernels += [
            kernel("mm", handle=layer, kind="extern", roles=(executes(f"linear_{layer}"),), in_graph=on_device(40_000)),
            kernel(
                "gelu_add",
                handle=layer,
                kind="triton",
                roles=(executes(f"gelu_{layer}", 300), executes(f"add_{layer}", 100)),
                in_graph=on_device(8_000),
            ),
        ]
    rows = [entry.in_graph for entry in kernels]
    forward = side(*rows, wall_ns=wall_ns, host_ns=host_ns)
    return profile(region(nodes, kernels, device="cuda:0", forward=forward), timer="cupti")


def test_only_the_matched_nodes_part_of_a_shared_kernel_shrinks() -> None:
    found = what_if(sample(), "layers.*.mlp.act", 2.0)
    assert [node.name for node in found.nodes] == ["gelu_0", "gelu_1"]
    assert (found.before_ns, found.after_ns) == (96_000.0, 96_000.0 - 2 * 8_000.0 * 0.75 / 2)


def test_a_module_matches_with_all_below_it_and_a_star_is_one_part_of_a_path() -> None:
    names = [node.name for node in what_if(sample(), "layers.*.mlp").nodes]
    assert names == ["linear_0", "gelu_0", "linear_1", "gelu_1"]
    with pytest.raises(UsageError):
        what_if(sample(), "*.mlp")


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [("gelu_1", 1), ("gelu*", 2), ("r0/add_?", 2), ("linear", 2), ("layers.1", 3), ("layers.1.mlp.up", 1)],
)
def test_names_op_types_and_modules_match(pattern: str, matched: int) -> None:
    assert len(what_if(sample(), pattern).nodes) == matched


def test_an_infinite_factor_removes_the_nodes() -> None:
    found = what_if(sample(), "linear", math.inf)
    assert found.after_ns == 16_000.0
    assert "are gone" in str(found)


def test_the_wall_time_shrinks_as_the_device_does_down_to_the_hosts_part() -> None:
    assert what_if(sample(), "linear", 2.0).wall_after_ns == 60_000.0
    assert what_if(sample(host_ns=70_000.0), "linear", 2.0).wall_after_ns == 70_000.0


def test_where_the_labelled_run_took_longer_than_the_plain_one_the_wall_time_loses_the_same_part() -> None:
    record = sample(wall_ns=40_000.0, host_ns=1_000.0)
    found = what_if(record, "*", factor=2.0)
    assert found.before_ns is not None
    assert found.wall_before_ns == 40_000.0
    assert found.before_ns > 40_000.0
    assert found.after_ns is not None
    assert found.wall_after_ns == pytest.approx(40_000.0 * found.after_ns / found.before_ns)
    assert not found.host_bound


def test_where_the_host_takes_longer_than_the_device_the_wall_time_stays() -> None:
    found = what_if(sample(wall_ns=200_000.0, host_ns=190_000.0), "linear", 2.0)
    assert found.host_bound
    assert (found.after_ns, found.wall_after_ns) == (56_000.0, 200_000.0)
    assert "host-bound: the host's part has to shrink first" in str(found)


def test_nodes_that_take_longer_make_the_wall_time_longer_and_no_host_is_blamed() -> None:
    found = what_if(sample(), "linear", 0.5)
    assert (found.wall_after_ns, found.host_bound) == (180_000.0, False)


def test_nodes_that_take_longer_than_the_host_make_a_host_bound_wall_time_longer_too() -> None:
    assert what_if(sample(wall_ns=200_000.0, host_ns=190_000.0), "linear", 0.25).wall_after_ns == 336_000.0


def test_nodes_that_take_less_longer_than_the_host_leave_the_wall_time() -> None:
    assert what_if(sample(wall_ns=200_000.0, host_ns=190_000.0), "linear", 0.5).wall_after_ns == 200_000.0


def test_a_backward_shrinks_with_its_node() -> None:
    kernels = [
        kernel("mm", roles=(executes("linear"),), in_graph=on_device(10.0)),
        kernel("mm", phase="backward", roles=(differentiates("linear"),), in_graph=on_device(20.0)),
    ]
    sides = [side(entry.in_graph, wall_ns=100.0, host_ns=5.0) for entry in kernels]
    record = profile(
        region([node("linear")], kernels, device="cuda:0", forward=sides[0], backward=sides[1]), timer="cupti"
    )
    found = what_if(record, "linear", math.inf)
    assert (found.before_ns, found.after_ns) == (30.0, 0.0)
    assert (found.wall_before_ns, found.wall_after_ns) == (200.0, 170.0)


def test_a_kernel_that_was_not_timed_is_named_and_predicts_nothing() -> None:
    kernels = [kernel("mm", roles=(executes("linear"),))]
    found = what_if(profile(region([node("linear")], kernels)), "linear")
    assert found.missing == ("forward/mm:0",)
    assert (found.before_ns, found.saved_ns) == (None, 0.0)


def test_a_recorded_step_counts_its_own_kernels_and_gap_ops() -> None:
    record = training_step()
    assert record.step is not None
    row = next(row for row in record.step.rows if row.kernel is None and row.in_graph.samples)
    found = what_if(record, row.op_type, math.inf)
    same = [r for r in record.step.rows if r.kernel is None and r.op_type == row.op_type]
    gone_ns = sum(r.in_graph.samples.busy_ns[0] for r in same if r.in_graph.samples)
    assert found.recorded
    assert found.saved_ns == gone_ns > 0


def test_a_pattern_without_a_match_names_what_comes_close() -> None:
    with pytest.raises(UsageError, match="matches") as raised:
        what_if(sample(), "layers.*.mpl.act")
    assert "layers.*.mlp.act" in (raised.value.hint or "")


@pytest.mark.parametrize("factor", [0.0, -1.0, math.nan])
def test_a_factor_that_is_not_above_0_is_refused(factor: float) -> None:
    with pytest.raises(UsageError, match="expected above 0"):
        what_if(sample(), "linear", factor)


def test_the_text_names_the_shared_kernels_and_the_assumption() -> None:
    text = str(what_if(sample(), "gelu"))
    assert "kernels shared with other nodes: forward/gelu_add:0 (75 %, with add_0)" in text
    assert "assumed: kernels stay as they are" in text
    assert "96.00 µs -> 90.00 µs (-6.2 %" in text


def test_a_factor_below_one_makes_nodes_take_longer_and_says_how_long() -> None:
    assert str(what_if(sample(), "layers.*.mlp.act", 0.5)).startswith(
        "what if: 2 nodes of 'layers.*.mlp.act' take 2 times their time\n"
    )

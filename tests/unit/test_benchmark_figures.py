"""What the benchmarks read from a profile."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphbench.records import NodeRecord, Side
from tests import factories as make
from tests.benchmarks.figures import equal_units, owned_time_percent, run_figures

ROWS = [make.measurement(600.0, 600.0), make.measurement(300.0, 300.0)]
CPU = make.cpu_run(ROWS)  # and 100 ns of wrapper
DEVICE = make.device_run(ROWS, unattributed_ns=100.0, unattributed=("k",))


def test_on_the_cpu_rows_and_wrapper_make_the_wall_time() -> None:
    found = run_figures("r0 forward", Side(run=CPU, wall_ns=(900.0,)), ROWS)
    assert (found["rows_against_total_percent"], found["kernels_percent"]) == (0.0, 90.0)
    assert (found["wall_ms"], found["plain_wall_ms"], found["attributed_percent"]) == (0.001, 0.0009, None)


def test_on_the_cpu_an_overlap_is_a_deviation() -> None:
    overlapping = replace(CPU, wall_ns=(800.0, 1000.0), overlap_ns=(200.0, 0.0))
    assert run_figures("r0 forward", Side(run=overlapping), ROWS)["rows_against_total_percent"] == pytest.approx(25.0)


def test_the_kernels_part_is_of_compiled_runs() -> None:
    assert run_figures("r0 eager", Side(run=CPU), ROWS)["kernels_percent"] is None


def test_on_a_device_unattributed_time_is_part_of_the_sum_and_not_attributed() -> None:
    found = run_figures("r0 forward", Side(run=DEVICE), ROWS)
    assert (found["rows_against_total_percent"], found["kernels_percent"]) == (0.0, None)
    assert (found["attributed_percent"], found["unattributed"]) == (pytest.approx(90.0), ["k"])


def test_a_row_that_was_lost_is_missing_from_the_sum() -> None:
    assert run_figures("r0 forward", Side(run=DEVICE), ROWS[:1])["rows_against_total_percent"] == pytest.approx(-30.0)


def test_kernel_time_without_an_owner_counts_by_time() -> None:
    kernels = [make.kernel("a", 300.0, roles=(make.executes("n"),)), make.kernel("b", 100.0, handle=1)]
    record = make.profile(make.region([make.node("n")], kernels))
    assert owned_time_percent(record) == 75.0
    assert owned_time_percent(make.profile(make.region([make.node("n")]))) is None


def three(*shared_with: str | None, last_reads: tuple[str, ...] = ("y", "w")) -> list[NodeRecord]:
    """Two inputs and three equal multiplications, each measured itself or in the place of another."""
    reads = (("x", "w"), ("y", "w"), last_reads)
    names = ("mul", "mul_1", "mul_2")
    rows = [
        make.node(name, replace(make.steady(5.0), shared_with=first), op_type="mul", inputs=inputs)
        for name, first, inputs in zip(names, shared_with, reads, strict=True)
    ]
    return [*(make.node(name, op_type="input", kind="view") for name in ("x", "y", "w")), *rows]


def test_equal_nodes_are_a_group_of_which_one_is_measured() -> None:
    found = equal_units(make.profile(make.region(three(None, "mul", "mul"))))
    assert found == {"groups": 1, "shared_rows": 2, "measured_again": [], "in_place_of_another": []}


def test_an_equal_node_that_was_measured_again_is_named() -> None:
    found = equal_units(make.profile(make.region(three(None, "mul", None))))
    assert found["measured_again"] == ["mul: mul, mul_2"]


def test_one_tensor_read_twice_is_another_unit_than_two_equal_ones() -> None:
    found = equal_units(make.profile(make.region(three(None, "mul", None, last_reads=("x", "x")))))
    assert (found["groups"], found["measured_again"]) == (1, [])


def test_a_row_in_the_place_of_one_that_is_not_equal_is_named() -> None:
    found = equal_units(make.profile(make.region(three(None, "mul", "mul", last_reads=("x", "x")))))
    assert found["in_place_of_another"] == ["mul_2 in the place of mul"]

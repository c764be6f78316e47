"""Points and roofs of the roofline: which rows have a rate, what is left out and why, which ceilings are needed."""

from __future__ import annotations

import dataclasses

import pytest

from graphbench.analysis.rates import LeftOut, RatePoint, left_out, rate_points, roofs
from graphbench.analysis.summary import summary
from graphbench.condition_records import Ceiling
from graphbench.records import ProfileRecord
from tests.factories import FAILED, ceilings, executes, kernel, node, profile, region, steady, worked
from tests.samples import GFLOP, IMAGE_BYTES, MB, cpu_profile, gpu_profile


def points_of(record: ProfileRecord) -> dict[str, RatePoint]:
    return {f"{'∂ ' if p.kind is None and p.phase == 'backward' else ''}{p.name}": p for p in rate_points(record)}


def test_a_row_with_flops_has_both_rates_and_an_intensity() -> None:
    found = points_of(cpu_profile())["forward/extern_kernels.convolution:1"]
    moved = 2 * MB + IMAGE_BYTES
    assert found.cost.intensity == pytest.approx(2 * GFLOP / moved)
    assert found.flops_per_s == pytest.approx(2 * GFLOP / 1_190_000.0 * 1e9)
    assert found.bytes_per_s == pytest.approx(moved / 1_190_000.0 * 1e9)


def test_a_row_without_a_formula_has_a_rate_of_bytes_only() -> None:
    found = points_of(cpu_profile())["add"]
    assert (found.left_out, found.flops_per_s) == ("", None)
    assert found.bytes_per_s == pytest.approx(3 * IMAGE_BYTES / 300_000.0 * 1e9)


@pytest.mark.parametrize("record", [cpu_profile(), gpu_profile()], ids=["inference", "training"])
def test_times_of_kernels_and_of_nodes_are_those_of_the_summary(record: ProfileRecord) -> None:
    total = summary(record).total
    sums = {"kernel": 0.0, "node": 0.0}
    for point in rate_points(record):
        sums["node" if point.kind is None else "kernel"] += point.time_ns or 0.0
    assert sums["kernel"] == pytest.approx((total.forward_isolated_ns or 0) + (total.backward_isolated_ns or 0))
    eager_ns = (total.eager_isolated_ns or 0) + (total.eager_backward_isolated_ns or 0)
    assert sums["node"] == pytest.approx(eager_ns)


def test_shares_of_kernels_add_up_to_one_and_those_of_nodes_too() -> None:
    found = rate_points(gpu_profile())
    assert sum(p.share or 0.0 for p in found if p.kind is not None) == pytest.approx(1.0)
    assert sum(p.share or 0.0 for p in found if p.kind is None) == pytest.approx(1.0)


def test_what_has_no_rate_is_counted_by_reason_with_its_time() -> None:
    nodes = [
        node("view", 900.0, kind="view"),
        node("sort", FAILED),
        node("mystery", 50.0),
        node("relu", worked(steady(100.0), 8, 8)),
    ]
    found = left_out(rate_points(profile(region(nodes))))
    assert set(found) == {
        LeftOut(what="node", reason="moves nothing", count=1, time_ns=900.0),
        LeftOut(what="node", reason="no time", count=1, time_ns=0.0),
        LeftOut(what="node", reason="bytes not known", count=1, time_ns=50.0),
    }


def test_bandwidths_are_always_roofs_an_arithmetic_only_where_a_row_computes_in_it() -> None:
    record = cpu_profile()
    unused = Ceiling(device="cpu", kind="matmul", value=9e12, measured="2026-01-02", arithmetic="bfloat16")
    record = dataclasses.replace(record, ceilings=(*record.ceilings, unused))
    found = roofs(record, [point for point in rate_points(record) if not point.left_out])
    assert [(roof.kind, roof.name, roof.rate) for roof in found] == [
        ("memory", "copy", 300e9),
        ("memory", "read", 300e9),
        ("memory", "write", 300e9),
        ("compute", "float32", 2e12),
    ]


def test_a_cache_is_a_roof_where_a_warm_row_fits_into_it_and_into_no_smaller_one() -> None:
    cached = tuple(
        Ceiling(device="cpu", kind="copy", value=value, measured="2026-01-02", within_bytes=within)
        for within, value in ((100, 90e9), (1000, 70e9), (10_000, 50e9))
    )
    record = profile(region([node("relu", worked(steady(100.0), 200, 200))]), ceilings=(*ceilings(), *cached))
    found = [roof for roof in roofs(record, rate_points(record)) if roof.within_bytes is not None]
    assert [(roof.rate, roof.within_bytes) for roof in found] == [(70e9, 1000)]


def test_all_calls_of_a_kernel_are_its_time_but_one_is_its_rate() -> None:
    node_ = node("relu", worked(steady(100.0), 8, 8))
    record = profile(region([node_], [kernel("k", 50.0, calls=4, roles=(executes("relu"),))]))
    found = points_of(record)["forward/k:0"]
    assert (found.once_ns, found.time_ns) == (50.0, 200.0)

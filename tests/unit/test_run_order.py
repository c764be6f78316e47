"""Both runs laid out row by row: order, sums, what no row explains, and rows without a time."""

from __future__ import annotations

import pytest

from graphbench.analysis.run_order import run_order
from graphbench.analysis.spans import Span
from graphbench.analysis.summary import summary
from graphbench.records import ProfileRecord, Side
from tests.factories import FAILED, cpu_run, kernel, node, profile, region, steady
from tests.samples import cpu_profile, gpu_profile


def spans_of(record: ProfileRecord, lane: int) -> list[Span]:
    found = run_order(record, most=1000)
    assert found is not None
    return [span for span in found.drawn.spans if span.lane == lane]


@pytest.mark.parametrize("record", [cpu_profile(), gpu_profile()], ids=["inference", "training"])
def test_runs_are_those_of_the_summary(record: ProfileRecord) -> None:
    total, found = summary(record).total, run_order(record, most=1000)
    assert found is not None
    eager_ns = (total.eager_in_graph_ns or 0.0) + (total.eager_backward_in_graph_ns or 0.0)
    compiled_ns = (total.forward_in_graph_ns or 0.0) + (total.backward_in_graph_ns or 0.0)
    assert found.runs_ns == pytest.approx((eager_ns, compiled_ns))


@pytest.mark.parametrize("lane", [0, 1])
def test_rows_and_what_no_row_explains_fill_the_run_without_a_gap(lane: int) -> None:
    found = run_order(cpu_profile(), most=1000)
    assert found is not None
    here_ns = 0.0
    for span in spans_of(cpu_profile(), lane):
        assert span.start_ns == pytest.approx(here_ns)
        here_ns = span.end_ns
    assert here_ns == pytest.approx(found.runs_ns[lane])


def test_backwards_lie_behind_all_forwards_in_reverse_order() -> None:
    rows = [(span.region, span.phase) for span in spans_of(gpu_profile(), 1)]
    assert list(dict.fromkeys(rows)) == [
        ("r0", "forward"),
        ("r1", "forward"),
        ("r1", "backward"),
        ("r0", "backward"),
    ]


def test_eager_backwards_of_nodes_are_in_reverse_order_of_the_program() -> None:
    backwards = [span.name for span in spans_of(gpu_profile(), 0) if span.kind == "eager backward"]
    assert backwards == ["gelu", "linear", "gelu", "linear"]


def test_what_no_row_explains_is_a_span_of_its_own() -> None:
    (rest,) = (span for span in spans_of(cpu_profile(), 1) if span.kind == "rest")
    assert rest.work_ns == pytest.approx(100.0)


def test_a_row_without_a_time_is_counted_and_no_span() -> None:
    nodes = [node("relu", 1.0, in_graph=steady(10.0)), node("sort", 1.0, in_graph=FAILED)]
    run = cpu_run([node.in_graph for node in nodes])
    found = run_order(profile(region(nodes, eager=Side(run=run))), most=1000)
    assert found is not None
    assert found.missing == (1, 0)
    assert [span.name for span in found.drawn.spans if span.kind != "rest"] == ["relu"]


def test_rows_beyond_their_run_are_not_cut() -> None:
    kernels = [kernel("k", 1.0, in_graph=steady(10.0))]
    side = Side(run=cpu_run([steady(4.0)], wrapper_ns=1.0))
    found = run_order(profile(region([], kernels, forward=side)), most=1000)
    assert found is not None
    assert (found.runs_ns[1], found.rows_ns[1]) == (5.0, 10.0)
    assert [span.kind for span in found.drawn.spans] == ["compiled forward"]


def test_nothing_labelled_is_no_order() -> None:
    assert run_order(profile(region([node("relu", 1.0)])), most=1000) is None

"""Two profiles of training: backwards of nodes are compared beside their forwards, where both profiles have them."""

from __future__ import annotations

import dataclasses

from graphbench.analysis.diff import Diff, diff, worst_regression
from graphbench.cli.diff import judged, regression_text
from graphbench.records import NodeRecord, ProfileRecord, Side
from graphbench.report.diff_table import render_diff
from tests.factories import FAILED, node, profile, region, steady


def of(*nodes: NodeRecord, backward_ns: float | None = None) -> ProfileRecord:
    return profile(region(nodes, eager_backward=Side(plain=steady(backward_ns)) if backward_ns else None))


def rows(result: Diff) -> list[tuple[str, str, float | None, str | None]]:
    return [(row.name, row.phase, row.ratio, row.verdict) for row in result.rows]


def test_forward_and_backward_of_a_node_are_rows_of_their_own() -> None:
    before, after = (of(node("a", 100.0, backward=ns), node("b", 10.0)) for ns in (200.0, 300.0))
    assert rows(diff(before, after)) == [
        ("a", "forward", 1.0, "same"),
        ("b", "forward", 1.0, "same"),
        ("a", "backward", 1.5, "slower"),
    ]


def test_a_profile_that_timed_no_backward_is_compared_by_forward_only() -> None:
    result = diff(of(node("a", 100.0)), of(node("a", 100.0, backward=300.0)))
    assert [row.phase for row in result.rows] == ["forward"]


def test_a_backward_that_failed_on_one_side_says_so() -> None:
    before = of(node("a", 1.0, backward=5.0), node("b", 1.0, backward=5.0))
    after = of(node("a", 1.0, backward=5.0), node("b", 1.0, backward=FAILED))
    last = diff(before, after).rows[-1]
    assert (last.name, last.phase, last.verdict, last.reason) == ("b", "backward", None, "after: ran out of memory")


def test_a_backward_that_repeats_a_measurement_counts_with_it() -> None:
    shared = dataclasses.replace(steady(5.0), shared_with="a")
    made = of(node("a", 1.0, backward=5.0), node("b", 2.0, backward=shared))
    assert [(row.name, row.phase, row.repeats) for row in diff(made, made).rows] == [
        ("a", "forward", None),
        ("b", "forward", None),
        ("a", "backward", None),
        ("b", "backward", "a"),
    ]


def test_the_phase_is_a_column_where_there_are_two() -> None:
    training, inference = of(node("a", 100.0, backward=200.0)), of(node("a", 100.0))
    assert "phase" in render_diff(diff(training, training), every=True)
    assert "phase" not in render_diff(diff(inference, inference), every=True)


def test_a_regression_of_a_backward_says_so() -> None:
    before, after = (of(node("a", 100.0, backward=ns)) for ns in (200.0, 300.0))
    worst = worst_regression(diff(before, after))
    assert worst is not None
    assert regression_text(worst, 0.05).startswith("regression: the backward of r0/a: 200.0 ns before, 300.0 ns after")


def test_the_total_of_the_eager_backward_is_shown_and_not_judged() -> None:
    result = diff(of(backward_ns=100.0), of(backward_ns=200.0))
    assert [(total.name, total.ratio) for total in result.totals] == [("eager backward", 2.0)]
    assert judged(result).totals == ()

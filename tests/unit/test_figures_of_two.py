"""Pictures of a diff and of a scaling: sums on both sides, changes that lead from one to the other, power laws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from graphbench.analysis.diff import diff
from graphbench.analysis.diff_groups import group_diff
from graphbench.analysis.scaling import Scaling, scaling
from graphbench.records import InputRecord, NodeRecord, ProfileRecord
from graphbench.report.html.figures import diff_figures, scaling_figures
from graphbench.report.html.figures.diff import STEPS
from graphbench.report.html.model import Figure
from tests.factories import FAILED, node, profile, region, spec


def by_id(figures: Sequence[Figure]) -> dict[str, Figure]:
    return {figure.id: figure for figure in figures}


def of(*times_ns: float, name: str = "op") -> ProfileRecord:
    """A profile of one node a module."""
    return profile(region([node(f"{name}_{i}", ns, module=f"m{chr(97 + i)}") for i, ns in enumerate(times_ns)]))


def test_totals_of_a_diff_are_those_of_its_groups() -> None:
    result = diff(of(100.0, 200.0), of(90.0, 260.0))
    for figure in diff_figures(result):
        _, total = group_diff(result, "module")
        assert (
            figure.totals_ns
            == {"before": total.before_ns, "after": total.after_ns}
            == {"before": 300.0, "after": 350.0}
        )


def test_changes_lead_from_the_sum_before_to_the_sum_after() -> None:
    (trace,) = by_id(diff_figures(diff(of(100.0, 200.0), of(90.0, 260.0))))["change_module"].traces
    assert trace["measure"] == ["absolute", "relative", "relative", "total"]
    assert trace["x"] == [300.0, 60.0, -10.0, 350.0]
    assert trace["text"] == ["300 ns", "+60.0 ns slower", "-10.0 ns unclear", "350 ns"]


def test_a_change_within_the_noise_is_not_called_one() -> None:
    (trace,) = by_id(diff_figures(diff(of(100.0, 2000.0), of(100.01, 2600.0))))["change_module"].traces
    assert trace["text"][1] == "+600 ns slower"
    assert trace["text"][2].endswith((" same", " unclear"))


def test_of_many_changes_the_smallest_are_one_step_and_the_sum_stays() -> None:
    before, after = [100.0 + i for i in range(20)], [200.0 + 3 * i for i in range(20)]
    (trace,) = by_id(diff_figures(diff(of(*before), of(*after))))["change_module"].traces
    assert len(trace["x"]) == STEPS + 3
    assert sum(trace["x"][:-1]) == pytest.approx(trace["x"][-1])


def test_an_axis_that_does_not_start_at_zero_says_so() -> None:
    figure = by_id(diff_figures(diff(of(1000.0, 1000.0), of(1000.0, 1010.0))))["change_module"]
    assert figure.layout["xaxis"]["range"][0] > 0
    assert "The axis starts at" in figure.caption


def test_bars_of_a_diff_have_their_verdict_in_words() -> None:
    figure = by_id(diff_figures(diff(of(100.0, 200.0), of(100.0, 300.0))))["both_module"]
    assert dict(figure.alternative)["mb"] == "before 200 ns, after 300 ns (+100 ns); slower"


def test_nodes_without_a_time_on_one_side_are_told_and_in_neither_sum() -> None:
    before = profile(region([node("relu", 10.0, module="a"), node("sort", FAILED, module="b")]))
    after = profile(region([node("relu", 12.0, module="a"), node("sort", 5.0, module="b")]))
    figure = by_id(diff_figures(diff(before, after)))["both_module"]
    assert figure.totals_ns == {"before": 10.0, "after": 12.0}
    assert "1 node without a time on one side" in figure.caption


def test_nothing_in_common_is_still_a_picture_of_both_sums() -> None:
    figures = diff_figures(diff(of(10.0, 20.0), of(40.0, 50.0, name="other")))
    assert by_id(figures)["both_op_type"].totals_ns == {"before": 30.0, "after": 90.0}


def test_profiles_without_a_time_have_no_pictures() -> None:
    empty = profile(region([]))
    assert diff_figures(diff(empty, empty)) == ()


def at(size: int, nodes: Sequence[NodeRecord]) -> ProfileRecord:
    given = InputRecord(name="x", source="", kind="tensor", spec=spec(size))
    return replace(profile(region(nodes)), inputs=(given,))


def grown(sizes: Sequence[int] = (10, 20, 40)) -> Scaling:
    nodes = [[node("linear", 1000.0 * s, module="a"), node("mm", 10.0 * s * s, module="b")] for s in sizes]
    return scaling([at(size, entry) for size, entry in zip(sizes, nodes, strict=True)])


def test_lines_have_the_times_of_every_size_and_their_exponent() -> None:
    figure = by_id(scaling_figures(grown()))["scaling_op_type"]
    (linear,) = (trace for trace in figure.traces if trace.get("name", "").startswith("linear"))
    assert linear["x"] == [10, 20, 40]
    assert linear["y"] == [10.0, 20.0, 40.0]
    assert linear["name"] == "linear  n^1.00 ±0.00"
    assert (figure.layout["xaxis"]["type"], figure.layout["yaxis"]["type"]) == ("log", "log")


def test_a_power_law_through_three_points_is_dotted_at_its_exponent() -> None:
    figure = by_id(scaling_figures(grown()))["scaling_op_type"]
    fit = next(trace for trace in figure.traces if trace["mode"] == "lines" and trace["legendgroup"] == "mm")
    slope = math.log(fit["y"][1] / fit["y"][0]) / math.log(fit["x"][1] / fit["x"][0])
    assert slope == pytest.approx(2.0)


def test_through_two_points_no_power_law_is_drawn() -> None:
    figure = by_id(scaling_figures(grown((10, 40))))["scaling_op_type"]
    assert {trace["mode"] for trace in figure.traces} == {"lines+markers"}


def test_totals_of_a_scaling_are_its_groups_at_the_largest_size() -> None:
    figure = by_id(scaling_figures(grown()))["scaling_op_type"]
    assert figure.totals_ns == {"linear": 40_000.0, "mm": 16_000.0}


def test_a_group_without_a_time_for_every_set_is_named_and_has_a_gap() -> None:
    sets = [at(10, [node("relu", 10.0)]), at(20, [node("relu", FAILED)]), at(40, [node("relu", 40.0)])]
    figure = by_id(scaling_figures(scaling(sets)))["scaling_op_type"]
    assert figure.traces[0]["y"] == [10.0, None, 40.0]
    assert "Without a time for every set: relu" in figure.caption


def test_groups_beyond_the_first_are_counted_in_the_caption() -> None:
    sets = [at(s, [node(f"{chr(97 + i)}x", 100.0 * s - i) for i in range(11)]) for s in (10, 20)]
    figure = by_id(scaling_figures(scaling(sets)))["scaling_op_type"]
    assert "Not drawn: 3 other op types." in figure.caption

"""A candidate in a node's place, the part without torch: what it should save, and how that is told."""

from __future__ import annotations

import pytest

from graphbench.analysis.implementations import ImplementationRow
from graphbench.analysis.replacements import ReplacementRow, predict
from graphbench.condition_records import Policy
from graphbench.measurements import Comparison
from graphbench.report.grid import text_of
from graphbench.report.replacement_table import replacement_parts
from tests.factories import differentiates, environment, executes, kernel, node, profile, region, steady

POLICY = Policy(timer="wallclock", cache="warm", values="captured")


def pair(setting: str, original_ns: float, candidate_ns: float, **fields: object) -> ReplacementRow:
    before, after = steady(original_ns), steady(candidate_ns)
    return ReplacementRow(
        setting=setting,
        original=ImplementationRow(name="original", measurement=before, halves=(), baseline=before),
        candidate=ImplementationRow(name="candidate", measurement=after, halves=(), baseline=before),
        **fields,  # type: ignore[arg-type]
    )


def rendered(*rows: ReplacementRow, nodes: tuple[str, ...] = ("r0/gelu",)) -> str:
    return text_of(
        replacement_parts(rows, nodes=nodes, candidate="fast", how="so", policy=POLICY, environment=environment())
    )


GELU = profile(
    region(
        [node("linear", 1.0), node("gelu", 1.0), node("gelu_1", 1.0)],
        [
            kernel("k", 400.0, roles=(executes("gelu", 300), executes("linear", 100))),
            kernel("m", 100.0, handle=1, roles=(executes("gelu_1"),)),
            kernel("b", 80.0, phase="backward", roles=(differentiates("gelu"),)),
        ],
    )
)


def test_a_nodes_part_of_its_kernels_shrinks_as_its_time_alone() -> None:
    found = predict(pair("alone", 100.0, 50.0), None, GELU, "r0", ("gelu",))
    assert (found.forward_ns, found.step_ns) == (150.0, 150.0)
    assert "its part of its kernels' time" in found.how


def test_the_backward_shrinks_as_its_own_time_alone() -> None:
    found = predict(pair("alone", 100.0, 50.0), pair("alone, backward", 100.0, 75.0), GELU, "r0", ("gelu",))
    assert (found.forward_ns, found.step_ns) == (150.0, 170.0)


def test_all_nodes_that_are_replaced_count() -> None:
    found = predict(pair("alone", 100.0, 50.0), None, GELU, "r0", ("gelu", "gelu_1"))
    assert found.forward_ns == 200.0


def test_a_slower_candidate_is_predicted_to_cost() -> None:
    assert predict(pair("alone", 100.0, 120.0), None, GELU, "r0", ("gelu",)).forward_ns == pytest.approx(-60.0)


def test_without_a_profile_the_times_alone_are_taken_as_they_are() -> None:
    alone, back = pair("alone", 100.0, 70.0), pair("alone, backward", 100.0, 90.0)
    found = predict(alone, back, None, "r0", ("gelu", "gelu_1"))
    assert (found.forward_ns, found.step_ns) == (60.0, 80.0)
    assert found.how == "from the times alone, 2 times, as if nothing were fused"


@pytest.mark.parametrize(("key", "name"), [("r1", "gelu"), ("r0", "unknown")])
def test_a_profile_that_does_not_know_the_node_is_as_none(key: str, name: str) -> None:
    assert predict(pair("alone", 100.0, 70.0), None, GELU, key, (name,)).forward_ns == 30.0


def test_predicted_and_measured_stand_side_by_side() -> None:
    text = rendered(pair("alone", 2000.0, 1000.0), pair("in graph", 8000.0, 6000.0, predicted_ns=800.0))
    assert "in graph: predicted to save 800.0 ns (10.0 %), saves 2.000 µs (25.0 %): faster" in text


def test_a_candidate_that_is_slower_is_said_to_cost_time() -> None:
    text = rendered(pair("alone", 1000.0, 2000.0), pair("in graph", 8000.0, 10000.0, predicted_ns=-800.0))
    assert "in graph: predicted to cost 800.0 ns (10.0 %) more, costs 2.000 µs (25.0 %) more: slower" in text


def test_how_many_kernels_there_are_before_and_after_is_told() -> None:
    lines = rendered(pair("in graph", 8000.0, 6000.0, kernels=(2, 3))).splitlines()
    assert any(line.startswith("in graph") and "2 → 3" in line for line in lines)


def test_a_wrong_result_in_the_graph_is_told() -> None:
    row = pair("in graph", 8.0, 6.0, difference=Comparison(equal=False, max_abs=2.0))
    assert "! in graph: the candidate's result is not the original's (max diff 2.0e+00)" in rendered(row)


def test_why_nothing_was_timed_is_told() -> None:
    row = ReplacementRow(setting="in graph", reason="Dynamo cannot trace the candidate")
    assert "– in graph: Dynamo cannot trace the candidate" in rendered(pair("alone", 2.0, 1.0), row)


def test_equal_nodes_are_counted() -> None:
    text = rendered(pair("alone", 2.0, 1.0), nodes=("r0/gelu", "r0/gelu_1", "r0/gelu_2"))
    assert text.startswith("graphbench replacement of r0/gelu and 2 equal nodes by fast\n")

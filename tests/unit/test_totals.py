"""The before/after summary: forward, backward and both, each known or missing, never against a sum of less."""

from __future__ import annotations

import dataclasses

import pytest

from graphbench.analysis.summary import summary
from graphbench.analysis.totals import BeforeAfter
from graphbench.measurements import Measurement
from graphbench.records import ProfileRecord, Side
from graphbench.report import REPORTERS
from tests.factories import FAILED, cpu_run, differentiates, executes, kernel, node, post_grad, profile, region, steady
from tests.samples import gpu_profile


def table(record: ProfileRecord, **options: object) -> str:
    return REPORTERS["table"].render(record, **options)  # type: ignore[arg-type]


def training(**changes: object) -> ProfileRecord:
    rows = [steady(50.0), steady(80.0)]
    made = region(
        [node("a", 40.0, in_graph=rows[0], backward=90.0, backward_in_graph=rows[1])],
        [
            kernel("k", 30.0, roles=(executes("a"),), post_grad=("a",)),
            kernel("b", 60.0, phase="backward", roles=(differentiates("a"),), post_grad=("a_1",)),
        ],
        post_grad=(post_grad("a", 45.0), post_grad("a_1", 105.0, phase="backward")),
        eager=Side(run=cpu_run(rows[:1]), plain=steady(160.0), wall_ns=(170.0,)),
        eager_backward=Side(run=cpu_run(rows[1:]), plain=steady(190.0), wall_ns=(210.0,)),
        forward=Side(plain=steady(100.0), wall_ns=(110.0,)),
        backward=Side(plain=steady(80.0), wall_ns=(90.0,)),
    )
    return profile(dataclasses.replace(made, **changes))  # type: ignore[arg-type]


def line(record: ProfileRecord, part: str, basis: str) -> BeforeAfter:
    (found,) = (entry for entry in summary(record).before_after if (entry.part, entry.basis) == (part, basis))
    return found


@pytest.mark.parametrize(
    ("part", "basis", "times"),
    [
        ("forward", "isolated", (40.0, 45.0, 30.0)),
        ("backward", "isolated", (90.0, 105.0, 60.0)),
        ("both", "isolated", (130.0, 150.0, 90.0)),
        ("backward", "in_graph", (180.0, None, None)),
        ("backward", "plain", (190.0, None, 80.0)),
        ("both", "plain", (350.0, None, 180.0)),
        ("both", "wall", (380.0, None, 200.0)),
    ],
)
def test_each_line_has_its_own_times(part: str, basis: str, times: tuple[float | None, ...]) -> None:
    found = line(training(), part, basis)
    assert (found.eager_ns, found.unfused_ns, found.compiled_ns) == times


def test_saving_and_speedup_are_of_eager_against_compiled() -> None:
    found = line(training(), "backward", "plain")
    assert (found.saved_ns, found.speedup) == (110.0, 2.375)


def test_both_are_unknown_where_either_is() -> None:
    found = line(training(eager_backward=Side(plain=FAILED)), "both", "plain")
    assert (found.eager_ns, found.compiled_ns, found.saved_ns, found.speedup) == (None, 180.0, None, None)


def test_inference_is_only_forward() -> None:
    found = summary(profile(region([node("a", 5.0)], [kernel("k", 4.0)]))).before_after
    assert {entry.part for entry in found} == {"forward"}


def test_a_region_without_a_backward_does_not_spoil_that_of_the_others() -> None:
    record = training()
    other = region([node("a", 5.0)], [kernel("k", 4.0)], key="r1", post_grad=(post_grad("a", 1.0),))
    found = line(dataclasses.replace(record, regions=(*record.regions, other)), "backward", "isolated")
    assert (found.eager_ns, found.unfused_ns, found.compiled_ns) == (90.0, 105.0, 60.0)


def test_a_sum_of_some_backwards_says_of_how_many_and_is_not_set_against_kernels() -> None:
    (made,) = training().regions
    record = training(nodes=(*made.nodes, node("f", 1.0, backward=FAILED), node("no_gradient", 1.0)))
    found = line(record, "backward", "isolated")
    assert found.timed is not None
    assert (found.timed.nodes, found.speedup) == ((1, 2), None)
    assert "Σ isolated (part), backward: of 1/2 nodes, 1/1 kernels" in table(record)


def test_a_sum_of_some_post_grad_nodes_says_of_how_many() -> None:
    (made,) = training().regions
    record = training(post_grad=(*made.post_grad, post_grad("f", FAILED, phase="backward")))
    assert "Σ isolated (part), backward: of 1/2 post-grad" in table(record)
    assert line(record, "backward", "isolated").speedup == 1.5


def test_the_summary_covers_forward_backward_and_both_in_training() -> None:
    lines = [entry.split("Σ isolated")[1] for entry in table(gpu_profile()).splitlines() if "Σ isolated" in entry]
    assert [" ".join(entry.split()) for entry in lines] == [
        "98.00 µs 104.0 µs 98.80 µs -800.0 ns 0.992x",
        "196.0 µs 208.0 µs 198.0 µs -2.000 µs 0.990x",
        "294.0 µs 312.0 µs 296.8 µs -2.800 µs 0.991x",
    ]


def test_a_summary_of_inference_has_no_phases_and_without_unfused_times_no_such_column() -> None:
    text = table(profile(region([node("a", 5.0)], [kernel("k", 4.0)])))
    (header,) = (entry for entry in text.splitlines() if "speedup" in entry)
    assert header.split() == ["eager", "compiled", "saved", "speedup"]


# --- what is missing --------------------------------------------------------------------------------------------------


def missing(record: ProfileRecord) -> list[tuple[str, str]]:
    return [(entry.what, entry.row) for entry in summary(record).not_measured]


def test_views_and_nodes_without_gradient_are_no_news() -> None:
    (made,) = training().regions
    nodes = (*made.nodes, node("no_gradient", 1.0))
    assert missing(training(nodes=nodes, post_grad=(*made.post_grad, post_grad("v", is_view=True)))) == []


def test_backwards_and_post_grad_nodes_without_a_time_are() -> None:
    (made,) = training().regions
    nodes = (*made.nodes, node("f", 1.0, backward=FAILED))
    found = missing(training(nodes=nodes, post_grad=(*made.post_grad, post_grad("sort", FAILED))))
    assert found == [("eager backward", "f"), ("post-grad node", "forward:sort")]


def test_in_inference_no_backward_is_missing() -> None:
    skipped = Measurement(status="skipped", reason="not measured")
    made = region([node("a", 5.0, backward=skipped)], [kernel("k", 4.0)], eager_backward=Side(reason="no backward"))
    assert missing(profile(made)) == []


def test_an_eager_backward_run_that_failed_is_said() -> None:
    failed = Side(reason="it raised", plain=Measurement(status="failed", reason="it raised"))
    assert "not measured: 1 run failed: it raised (eager backward)" in table(training(eager_backward=failed))


def test_of_many_reasons_the_most_frequent_are_told_and_the_others_counted() -> None:
    reasons = ["common", *(f"needs n{i}" for i in range(8)), "common"]
    nodes = [post_grad(f"g{i}", Measurement(status="skipped", reason=reason)) for i, reason in enumerate(reasons)]
    lines = [entry for entry in table(profile(region(post_grad=tuple(nodes)))).splitlines() if "not measured" in entry]
    assert lines[0] == "not measured: 2 post-grad nodes skipped: common (forward:g0, forward:g9)"
    assert lines[-1] == "not measured: 3 more post-grad nodes for 3 other reasons, which JSON lists"
    assert len(lines) == 7


def test_kernels_of_a_region_that_failed_are_not_in_the_coverage_of_those_that_did_not() -> None:
    measured = region([node("relu", 1.0)], [kernel("relu", 1.0, in_graph=steady(1.0))])
    failed = dataclasses.replace(measured, key="r1", status="failed", reason="it broke")
    assert summary(profile(measured, failed)).coverage.kernels == 1

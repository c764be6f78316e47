"""Nodes in training: forward and backward side by side, marked, explained, sortable, and in CSV."""

from __future__ import annotations

import csv
import dataclasses
import io

import pytest

from graphbench.analysis.clocks import clock_counts
from graphbench.analysis.views import node_rows
from graphbench.cli.common import failed_rows
from graphbench.measurements import Comparison, Measurement
from graphbench.records import Fate, ProfileRecord
from graphbench.report import REPORTERS
from tests.factories import FAILED, differentiates, executes, kernel, node, post_grad, profile, region, steady
from tests.samples import cpu_profile, gpu_profile


def table(record: ProfileRecord, **options: object) -> str:
    return REPORTERS["table"].render(record, **options)  # type: ignore[arg-type]


def training(backward: Measurement | float) -> ProfileRecord:
    return profile(
        region(
            [node("a", 5_000.0, backward=backward), node("b", 9_000.0)],
            [
                kernel("k", 3_000.0, roles=(executes("a"),)),
                kernel("m", 7_000.0, phase="backward", roles=(differentiates("a"),)),
            ],
        )
    )


def test_forward_and_backward_eager_and_compiled_stand_side_by_side() -> None:
    text = table(training(8_000.0))
    (row,) = (line for line in text.splitlines() if line.startswith("a "))
    assert row.split()[3:7] == ["5.00", "8.00", "3.00", "7.00"]
    assert "eager fwd, eager bwd: the node's forward and backward alone" in text


def test_inference_has_one_column_of_times_alone_and_no_backward() -> None:
    nodes = table(cpu_profile()).split("Nodes, isolated")[1].split("Fusions")[0]
    assert "p50" in nodes
    assert "bwd" not in nodes


@pytest.mark.parametrize("width", [100, 120])
def test_no_line_of_a_training_report_is_wider_than_asked_for(width: int) -> None:
    name = "l_self_modules_transformer_modules_layers_modules_11_modules_feed_forward"
    roles = tuple(differentiates(f"{name}_{i}") for i in range(3))
    fate = Fate(kind="fused", kernels=(f"forward/triton_poi_fused_{'add_mul_' * 20}:17",))
    times = {"backward": 1_234_567.0, "backward_in_graph": steady(1_234_567.0)}
    nodes = [node(f"{name}_{i}", 123_456.0, op_type="layer_norm" * 3, fate=fate, line=12_345, **times) for i in "012"]
    made = kernel(f"triton_red_fused_{'native_layer_norm_backward_' * 9}", 99_999.0, phase="backward", roles=roles)
    regions = [region(nodes, [made, kernel("k", 7.0)], key=key) for key in ("r0", "r1")]
    assert max(map(len, table(profile(*regions), width=width).splitlines())) <= width


def test_rows_have_the_medians_of_their_backward() -> None:
    made = node("a", 5.0, backward=30.0, backward_in_graph=steady(28.0))
    row, other = node_rows(profile(region([made, node("b", 5.0)])))
    assert (row.backward_p50_ns, row.backward_in_graph_ns, row.has_backward) == (30.0, 28.0, True)
    assert (other.backward_p50_ns, other.backward_in_graph_ns, other.has_backward) == (None, None, False)


def test_the_share_is_that_of_forward_times() -> None:
    assert [row.share for row in node_rows(training(1e6))] == [pytest.approx(5 / 14), pytest.approx(9 / 14)]


def test_a_shared_and_warned_backward_is_marked_and_named() -> None:
    warned = dataclasses.replace(steady(8_000.0), shared_with="z", warnings=("coarse: 7 samples",))
    text = table(training(warned))
    assert "=!8.00" in text
    assert "! coarse: 7 samples: backward of a" in text
    assert "= measured once for several equal ones" in text


def test_a_backward_with_wrong_gradients_is_warned_of() -> None:
    wrong = dataclasses.replace(steady(8_000.0), fidelity=Comparison(equal=False, max_abs=0.5))
    text = table(training(wrong))
    assert "unfaithful: alone these gave another result than in the run: backward of a (by 5.0e-01)" in text
    assert "!8.00" in text


def test_a_backward_without_a_time_says_why_and_one_without_gradient_says_nothing() -> None:
    lines = table(training(FAILED)).splitlines()
    assert "– no eager backward: ran out of memory: a" in lines
    assert not any(line.endswith(": b") for line in lines if "no eager backward" in line)


@pytest.mark.parametrize(
    ("word", "order"),
    [("eager fwd", ["a", "b"]), ("p50", ["a", "b"]), ("eager bwd", ["b", "a"]), ("backward_isolated_p50", ["b", "a"])],
)
def test_nodes_are_sorted_by_any_of_the_side_by_side_columns(word: str, order: list[str]) -> None:
    record = profile(region([node("a", 9.0, backward=1.0), node("b", 5.0, backward=3.0)]))
    assert f"sorted by {word})" in table(record, sort=word)
    rows = csv.DictReader(io.StringIO(REPORTERS["csv"].render(record, sort=word)))
    assert [row["name"] for row in rows] == order


def test_nodes_sort_by_their_eager_backward() -> None:
    nodes = [node("a", 9.0, backward=1.0), node("b", 5.0, backward=3.0), node("c", 7.0)]
    text = REPORTERS["csv"].render(profile(region(nodes)), sort="eager bwd")
    assert [row["name"] for row in csv.DictReader(io.StringIO(text))] == ["b", "a", "c"]


def test_csv_has_the_backward_of_nodes_with_state_and_reason() -> None:
    failed = dataclasses.replace(training(FAILED).regions[0].nodes[0], name="f")
    (made,) = training(8_000.0).regions
    text = REPORTERS["csv"].render(profile(dataclasses.replace(made, nodes=(*made.nodes, failed))), sort="name")
    first, _, last = csv.DictReader(io.StringIO(text))
    assert (first["backward_isolated_p50_ns"], first["compiled_backward_ns"]) == ("8000", "7000")
    assert (first["backward_state"], first["backward_in_graph_ns"]) == ("ok", "")
    assert (last["backward_isolated_p50_ns"], last["backward_reason"]) == ("", "ran out of memory")


def test_csv_of_fusions_has_eager_unfused_and_fused_in_this_order() -> None:
    text = REPORTERS["csv"].render(gpu_profile(), table="fusions")
    rows = list(csv.DictReader(io.StringIO(text)))
    names = ["eager_p50_ns", "unfused_ns", "recomputed_ns", "all_calls_fused_p50_ns", "saved_ns", "ratio", "verdict"]
    assert [name for name in rows[0] if name in names] == names
    summed = next(row for row in rows if row["kernel"].startswith("triton_per_fused_mul_sum"))
    assert (summed["eager_p50_ns"], summed["unfused_ns"], summed["recomputed_ns"]) == ("20500", "8000", "5000")
    assert summed["nodes"] == "backward of linear"


def test_an_unfused_time_that_is_recomputed_in_part_is_marked_and_explained() -> None:
    text = table(gpu_profile())
    assert "*8.00" in text
    assert "* in part of nodes that another kernel has computed before" in text
    assert "*" not in table(cpu_profile())


@pytest.mark.parametrize("name", ["table", "markdown"])
def test_the_sums_of_nodes_and_kernels_are_shown_to_agree(name: str) -> None:
    text = " ".join(REPORTERS[name].render(gpu_profile()).split())
    without = "nodes without a backward kernel 16.00 µs (fused 16.00 µs)"
    assert f"eager backward: nodes 196.0 µs = kernels 180.0 µs + {without}" in text
    assert "unfused backward: post-grad nodes 208.0 µs + recomputed 10.00 µs = kernels 218.0 µs" in text


def test_strict_names_backwards_and_post_grad_nodes_that_failed() -> None:
    made = region([node("a", 5.0, backward=FAILED)], post_grad=(post_grad("sort", FAILED),))
    assert failed_rows(profile(made)) == (
        "r0 backward of a: ran out of memory",
        "r0 forward:sort: ran out of memory",
    )


def test_clocks_of_backwards_and_post_grad_nodes_count_too() -> None:
    slow = dataclasses.replace(steady(5.0), warnings=("throttled: heat",))
    made = region([node("a", 5.0, backward=slow)], post_grad=(post_grad("mul", slow),))
    found = clock_counts(profile(made))
    assert (found.timed, found.throttled) == (3, 2)

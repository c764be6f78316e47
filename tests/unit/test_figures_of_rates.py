"""The roofline: where rows and roofs lie, and that what is not drawn is told with its time."""

from __future__ import annotations

from typing import Any

import pytest

from graphbench.records import Traffic
from graphbench.report.html.figures import roofline
from graphbench.report.html.figures.drawing import duration
from graphbench.report.html.figures.roofline import roofline_figure
from graphbench.report.html.model import Figure
from tests.factories import FAILED, ceilings, executes, kernel, node, post_grad, profile, region, steady, worked
from tests.samples import GFLOP, IMAGE_BYTES, MB, cpu_profile, gpu_profile


def drawn(figure: Figure | None, name: str) -> list[dict[str, Any]]:
    assert figure is not None
    return [trace for trace in figure.traces if trace.get("legendgroup") == name]


def texts(figure: Figure | None) -> list[str]:
    assert figure is not None
    return [text for trace in figure.traces if trace["mode"] == "text" for text in trace["text"]]


def test_a_kernel_with_flops_lies_at_its_intensity_and_rate() -> None:
    (trace,) = drawn(roofline_figure(cpu_profile()), "extern kernel")
    assert trace["x"] == [pytest.approx(2 * GFLOP / (2 * MB + IMAGE_BYTES))]
    assert trace["y"] == [pytest.approx(2 * GFLOP / 1_190_000.0 * 1e9)]
    assert trace["customdata"] == ["r0/forward/extern_kernels.convolution:1"]


def test_a_kernel_without_flops_lies_over_its_bytes_on_the_right() -> None:
    (trace,) = drawn(roofline_figure(cpu_profile()), "cpp kernel")
    assert (trace["xaxis"], trace["x"]) == ("x2", [3 * IMAGE_BYTES])
    assert trace["y"] == [pytest.approx(3 * IMAGE_BYTES / 150_000.0 * 1e9)]


def test_roofs_are_labelled_with_their_values() -> None:
    found = texts(roofline_figure(cpu_profile()))
    assert "float32 2.00 TFLOP/s" in found
    assert found.count("copy 300 GB/s, read 300 GB/s, write 300 GB/s") == 2


def test_roofs_that_lie_apart_have_labels_of_their_own() -> None:
    record = profile(
        region([node("relu", worked(steady(100.0), 8, 8))]),
        ceilings=(*ceilings(gb_per_s=10.0)[:1], *ceilings(gb_per_s=30.0)[1:2]),
    )
    assert texts(roofline_figure(record)) == ["read 30.0 GB/s", "copy 10.0 GB/s"]


def test_a_slanted_roof_ends_at_the_arithmetic_that_it_meets() -> None:
    figure = roofline_figure(cpu_profile())
    assert figure is not None
    lines = [trace for trace in figure.traces if trace["mode"] == "lines" and trace["xaxis"] == "x"]
    copy, flat = lines[0], lines[-1]
    assert copy["y"][1] == pytest.approx(2e12)
    assert copy["x"][1] == pytest.approx(2e12 / 300e9)
    assert flat["y"] == [2e12, 2e12]


def test_the_line_of_the_shortest_kernel_tells_its_time_and_no_rate() -> None:
    record = profile(
        region([node("relu", worked(steady(100.0, timer="cupti"), 8, 8))], device="cuda:0"),
        ceilings=ceilings(device="cuda:0"),
    )
    figure = roofline_figure(record)
    assert figure is not None
    (line,) = [trace for trace in figure.traces if "shortest" in trace.get("hovertext", "")]
    (launch,) = [entry.value for entry in record.ceilings if entry.kind == "launch"]
    assert line["hovertext"] == f"<b>shortest kernel</b><br>measured: {duration(launch)}"
    assert line["y"][0] / line["x"][0] == pytest.approx(1e9 / launch)


def test_a_kernel_called_several_times_tells_one_call_and_all() -> None:
    made = kernel("k", worked(steady(10.0), 8, 8), calls=3, traffic=(Traffic(buffer="b", read_bytes=16),))
    (trace,) = drawn(roofline_figure(profile(region([], [made]))), "cpp kernel")
    assert trace["y"] == [pytest.approx(16 / 10.0 * 1e9)]
    (text,) = trace["hovertext"]
    assert "isolated, one call: 10.0 ns<br>isolated, all calls: 30.0 ns, 100.0 % of all kernels" in text


def test_rows_bound_by_their_launch_are_marked() -> None:
    assert drawn(roofline_figure(gpu_profile()), "launch-bound") == []
    slow = steady(100.0, timer="cupti")
    assert slow.samples is not None
    from dataclasses import replace

    slow = replace(slow, samples=replace(slow.samples, host_ns=(500.0,) * 10))
    record = profile(region([node("relu", worked(slow, 8, 8))], device="cuda:0"), ceilings=ceilings(device="cuda:0"))
    (marks,) = drawn(roofline_figure(record), "launch-bound")
    assert marks["x"] == [16]


def test_what_is_not_drawn_is_told_with_its_time() -> None:
    nodes = [node("relu", worked(steady(100.0), 8, 8)), node("sort", FAILED), node("mystery", 50.0)]
    figure = roofline_figure(profile(region(nodes)))
    assert figure is not None
    assert "Not drawn: 1 node (no time); 1 node (bytes not known, 50.0 ns)." in figure.caption
    assert figure.totals_ns == {"nodes": 150.0, "kernels": 0.0}


def test_of_too_many_rows_the_smallest_are_told_and_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roofline, "MOST_POINTS", 2)
    nodes = [node(f"relu_{i}", worked(steady(100.0 - i), 8, 8)) for i in range(5)]
    figure = roofline_figure(profile(region(nodes)))
    (trace,) = drawn(figure, "node alone")
    assert trace["customdata"] == ["r0/relu_0", "r0/relu_1"]
    assert figure is not None
    assert "the 3 smallest rows (291 ns)" in figure.caption


def test_without_ceilings_there_are_no_lines_and_that_is_said() -> None:
    figure = roofline_figure(profile(region([node("relu", worked(steady(100.0), 8, 8))])))
    assert figure is not None
    assert texts(figure) == []
    assert "ceilings were not measured" in figure.caption


def test_rows_of_one_panel_take_all_of_the_width() -> None:
    figure = roofline_figure(profile(region([node("relu", worked(steady(100.0), 8, 8))])))
    assert figure is not None
    assert figure.layout["xaxis2"]["domain"] == [0.0, 1.0]
    assert "xaxis" not in figure.layout


def test_each_kind_is_told_once_in_the_legend() -> None:
    figure = roofline_figure(cpu_profile())
    assert figure is not None
    told = [trace["legendgroup"] for trace in figure.traces if trace["showlegend"]]
    assert len(told) == len(set(told))
    assert set(told) >= {"node alone", "extern kernel", "cpp kernel"}


def test_a_row_without_anything_to_divide_by_is_not_drawn_at_infinity() -> None:
    nodes = [node("relu", worked(steady(0.0), 8, 8)), node("add", worked(steady(10.0), 8, 8))]
    (trace,) = drawn(roofline_figure(profile(region(nodes))), "node alone")
    assert trace["customdata"] == ["r0/add"]


def test_a_mark_is_larger_for_a_larger_share() -> None:
    nodes = [node("a", worked(steady(900.0), 8, 8)), node("b", worked(steady(100.0), 8, 8))]
    (trace,) = drawn(roofline_figure(profile(region(nodes))), "node alone")
    assert trace["marker"]["size"][0] > trace["marker"]["size"][1]


def test_kernels_that_are_the_same_op_are_drawn_one_by_one() -> None:
    kernels = [
        kernel(f"k{i}", 10.0, handle=i, roles=(executes("relu"),), post_grad=("relu",), traffic=()) for i in range(2)
    ]
    record = profile(region([node("relu", 5.0)], kernels, post_grad=(post_grad("relu", 3.0),)))
    assert roofline_figure(record) is None  # none of them has bytes

"""Two profiles by op and shape; on two devices there are ratios and parts of each one's limit, and no verdicts."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from graphbench import cli, document
from graphbench.analysis.diff import diff
from graphbench.analysis.diff_groups import group_diff
from graphbench.analysis.group_by import DIFF_GROUP_BY, DiffGroupBy
from graphbench.records import NodeRecord, ProfileRecord, Side
from graphbench.report.diff_markdown import markdown_diff
from graphbench.report.diff_table import render_diff
from tests.factories import FAILED, ceilings, environment, node, profile, region, spec, steady, worked
from tests.samples import cpu_profile, gpu_profile


def on(gpu: str, ns: float, gb_per_s: float) -> ProfileRecord:
    """A relu that moves 1,000 bytes on a GPU of some bandwidth."""
    measured = worked(steady(ns, timer="cupti"), 500, 500)
    made = region([node("relu", measured)], device="cuda:0", forward=Side(plain=steady(ns, timer="cupti")))
    limits = ceilings(device="cuda:0", gb_per_s=gb_per_s, launch_ns=1.0)
    return profile(made, timer="cupti", env=environment(gpu=gpu), ceilings=limits)


def test_two_gpus_are_compared_by_op_with_the_part_of_the_limit_that_each_reached() -> None:
    result = diff(on("Small", 1_000.0, 2.0), on("Large", 400.0, 5.0))
    rows, total = group_diff(result, "op_type")
    for row in (*rows, total):
        assert (row.before_ns, row.after_ns, row.ratio, row.verdict) == (1_000.0, 400.0, 0.4, None)
        assert (row.before_limit, row.after_limit) == (pytest.approx(0.5), pytest.approx(0.5))


def test_nothing_on_another_device_has_a_verdict() -> None:
    result = diff(on("Small", 1_000.0, 2.0), on("Large", 400.0, 5.0))
    assert result.devices == ("Small", "Large")
    assert {entry.verdict for entry in (*result.rows, *result.totals)} == {None}
    assert result.rows[0].reason == "another device"


def test_another_device_is_told_first_and_by_op() -> None:
    lines = render_diff(diff(on("Small", 1_000.0, 2.0), on("Large", 400.0, 5.0)), width=120).splitlines()
    assert lines[0] == "warning: another device: Small before, Large after: no row is called faster or slower"
    assert lines[1] == "another device: Small -> Large; ratios, but no verdicts"
    row = next(line for line in lines if line.startswith("relu"))
    assert row.split() == ["relu", "1", "1", "1000", "400", "-600", "0.400x", "50.0", "50.0"]


def test_a_cpu_and_a_gpu_are_compared_though_their_timers_differ() -> None:
    assert diff(cpu_profile(), gpu_profile()).devices == ("A CPU", "A GPU")


def test_another_cpu_is_a_warning() -> None:
    sides = [profile(region([node("a", 100.0)]), env=environment(cpu=name)) for name in ("One", "Other")]
    result = diff(*sides)
    assert result.findings == ("another CPU: One before, Other after: the difference may be the CPU's",)
    assert result.rows[0].verdict == "same"


def test_the_gate_refuses_two_devices(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    sides = {Path("a"): on("Small", 1_000.0, 2.0), Path("b"): on("Large", 4_000.0, 5.0)}
    monkeypatch.setattr(document, "read", sides.__getitem__)
    assert cli.main(["diff", "a", "b"]) == 0
    assert cli.main(["diff", "a", "b", "--fail-on-regression", "5%"]) == 2
    assert "nothing was judged: Small before, Large after" in capsys.readouterr().err


def mixed(scale: float, *more: NodeRecord) -> ProfileRecord:
    nodes = [
        node("mm", 100.0 * scale, outputs=(spec(4, 4),)),
        node("mm_1", 200.0, outputs=(spec(8, 8),)),
        node("add", 10.0 * scale, backward=20.0 * scale),
        node("relu", 5.0),
    ]
    return profile(region([*nodes, *more]))


@pytest.mark.parametrize("by", DIFF_GROUP_BY)
def test_groups_add_up_to_the_total_of_all_rows(by: DiffGroupBy) -> None:
    result = diff(mixed(1.0, node("sort", 7.0)), mixed(2.0, node("topk", 9.0)))
    rows, total = group_diff(result, by)
    assert sum(row.before_ns or 0.0 for row in rows) == total.before_ns == 342.0
    assert sum(row.after_ns or 0.0 for row in rows) == total.after_ns == 474.0
    assert sum(row.before_count for row in rows) == total.before_count == 6
    assert sum(row.delta_ns for row in rows) == total.delta_ns


def test_groups_by_shape_tell_shapes_apart_and_judge_their_sums() -> None:
    rows, _ = group_diff(diff(mixed(1.0), mixed(2.0)), "shape")
    found = {row.group: (row.ratio, row.verdict) for row in rows}
    assert found["mm f32[4,4]"] == (2.0, "slower")
    assert found["mm f32[8,8]"] == (1.0, "same")


def test_a_shape_that_changed_is_a_group_of_both_shapes_without_a_verdict() -> None:
    sides = [profile(region([node("a", ns, outputs=(spec(n),))])) for ns, n in ((10.0, 4), (30.0, 8))]
    ((row,), _) = group_diff(diff(*sides), "shape")
    assert (row.group, row.ratio, row.verdict) == ("a f32[4] → f32[8]", 3.0, None)


def test_what_has_no_time_on_one_side_is_in_neither_sum_and_counted() -> None:
    before, after = (profile(region([node("a", 10.0), node("a_1", second)])) for second in (5.0, FAILED))
    ((row,), total) = group_diff(diff(before, after), "op_type")
    assert (row.before_ns, row.after_ns, row.left_out, row.verdict) == (10.0, 10.0, 1, "same")
    assert total.left_out == 1


def test_ceilings_of_one_device_that_differ_are_conditions() -> None:
    def limited(gb_per_s: float) -> ProfileRecord:
        return profile(region(), ceilings=ceilings(gb_per_s=gb_per_s)[:1])

    assert diff(limited(10.0), limited(10.4)).environment == ()
    assert diff(limited(10.0), limited(12.0)).environment == (("ceiling cpu copy", "10.0 GB/s", "12.0 GB/s"),)
    without = dataclasses.replace(limited(1.0), ceilings=())
    assert diff(limited(10.0), without).environment == (("ceiling cpu copy", "10.0 GB/s", "not measured"),)


def test_markdown_of_two_devices_has_the_table_by_op() -> None:
    text = markdown_diff(diff(on("Small", 1_000.0, 2.0), on("Large", 400.0, 5.0)))
    assert text.startswith("### graphbench diff\n\n**another device: Small -> Large; ratios, but no verdicts**\n")
    assert "#### By op_type" in text


def test_a_limit_that_no_row_can_exceed_is_marked() -> None:
    text = render_diff(diff(on("Small", 1_000.0, 2.0), on("Small", 1.0, 2.0)), group_by="op_type")
    assert any("!" in line for line in text.splitlines() if line.startswith("total "))
    assert "!: beyond it, which no row can be" in " ".join(text.split())


def test_nodes_of_two_profiles_are_grouped_by_module_with_repeated_layers_in_one_row() -> None:
    def version(ns: float) -> ProfileRecord:
        return profile(region([node(f"relu_{i}", ns, module=f"layers.{i}.act", line=1 + i) for i in range(2)]))

    result = diff(version(10.0), version(20.0))
    assert [(row.group, row.before_ns, row.after_ns) for row in group_diff(result, "module")[0]] == [
        ("layers.*.act", 20.0, 40.0)
    ]
    assert [row.group for row in group_diff(result, "source")[0]] == [
        f"model.py:{1 + i} x = relu_{i}(x)" for i in range(2)
    ]

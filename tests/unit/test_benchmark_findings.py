"""What the benchmarks' JSON says of each bar: met, missed, or nothing, and why."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest

from tests.benchmarks import bars_device, bars_host
from tests.benchmarks.catalogue import BENCHMARKS
from tests.benchmarks.findings import Gathered, at_least, at_most, below, gathered, none_of, within

Change = Callable[[dict[str, Any]], object]


def test_the_worst_figure_decides_and_is_shown() -> None:
    found = at_most(Gathered({"a": 1.0, "b": 1.6, "c": 1.2}, {}), 1.5)
    assert (found.verdict, found.text, found.why) == ("missed", "1.60 (b, worst of 3)", "missed by b")


@pytest.mark.parametrize(
    ("judge", "value", "verdict"),
    [
        (at_most, 1.5, "met"),
        (at_most, 1.51, "missed"),
        (below, 1.5, "missed"),
        (below, 1.49, "met"),
        (at_least, 1.5, "met"),
        (at_least, 1.49, "missed"),
        (within, -1.5, "met"),
        (within, -1.51, "missed"),
        *((judge, math.nan, "missed") for judge in (at_most, below, at_least, within)),
    ],
)
def test_a_bar_has_an_edge_and_no_number_reaches_it(judge: Any, value: float, verdict: str) -> None:
    assert judge(Gathered({"a": value}, {}), 1.5).verdict == verdict


def test_nothing_measured_is_not_a_bar_met() -> None:
    assert at_most(Gathered({}, {}), 1.5).verdict == "not run"
    assert none_of([], 0, "things").verdict == "not run"


def test_a_subject_that_failed_leaves_the_bar_open_unless_another_misses_it() -> None:
    missing = {"b": "out of memory"}
    assert at_most(Gathered({"a": 1.0}, missing), 1.5).verdict == "not run"
    assert at_most(Gathered({"a": 1.6}, missing), 1.5).verdict == "missed"


def test_a_part_that_failed_or_lacks_the_figure_is_told_by_name() -> None:
    found = gathered({"a": {"x": 1}, "b": {"error": "Boom: no\nmore"}, "c": {}}, ("a", "b", "c", "d"), lambda p: p["x"])
    assert found.values == {"a": 1.0}
    assert found.missing["b"] == "Boom: no"
    assert "'x'" in found.missing["c"]
    assert found.missing["d"] == "not in the result"


RUN = {
    "run": "r0 forward",
    "wall_ms": 6.0,
    "rows_against_total_percent": 0.1,
    "kernels_percent": 96.0,
    "attributed_percent": None,
    "dropped": 0,
}
DEVICE_RUN = RUN | {"kernels_percent": None, "attributed_percent": 100.0}
UNITS = {"groups": 3, "shared_rows": 4, "measured_again": [], "in_place_of_another": []}


def profile(run: dict[str, Any]) -> dict[str, Any]:
    common: dict[str, Any] = {"not_measured": [], "regions_not_run": [], "faults": []}
    return common | {"runs": [dict(run)], "owned_time_percent": 100.0, "equal_units": copy.deepcopy(UNITS)}


def step() -> dict[str, Any]:
    return {
        "attributed_percent": 100.0,
        "unattributed": [],
        "dropped": 0,
        "rows_against_busy_percent": 0.5,
        "idle_plain_percent": 5.0,
        "recording_ratio": 1.15,
    }


def pair(graphbench_s: float) -> dict[str, Any]:
    return {"graphbench": {"cpu_s": graphbench_s, "kernels_built": 4}, "inductor": {"cpu_s": 10.0}}


def good(name: str) -> dict[str, Any]:
    """A result of each benchmark that meets all of its bars that a device's result can meet."""
    long = [{"kernel": f"k{i}", "ncu us": 20.0, "kernels us": 20.2, "deviation %": 1.0} for i in range(12)]
    start = {"show_s": 0.2, "diff_s": 0.29, "torch_imported": []}
    show: dict[str, Any] = {"nodes": 10_000, "start": start}
    model = {
        "kernels": 5,
        "kernels_without_owner": [],
        "attributed_percent": 100.0,
        "dropped": 0,
        "rows_against_busy_percent": 0.2,
        **{f"{column}_vs_fact_percent": 4.0 for column in "abcd"},
    }
    counted = {"exact": True, "unattributed": [], "dropped": 0, "met": True, "decode_us_per_record": 1.5}
    recorded = {"kernels": 2, "unowned": 0, "nodes": 3, "unknown": 0}
    found: dict[str, Any] = {
        "accuracy": {"table": long, "summary": {"left_out": {}}},
        "reference_models": {name: copy.deepcopy(model) for name in bars_device.REFERENCE_MODELS},
        "conservation": {name: profile(RUN) for name in bars_host.SMALL_MODELS},
        "suite_training": {name: profile(DEVICE_RUN) for name in bars_host.SUITE_MODELS},
        "provenance": {f"model{i}": dict(recorded) for i in range(24)},
        "decoding": {"records": 600_000, "lost": 0, "decode_us_per_record": 2.0},
        "repeatability": {"two_processes": {"rows": 100, "within_2_percent": 95.0, "only_in_one": []}},
        "idle": {"idle": {"ratio": 1.02, "control_ratio": 0.99}},
        "efficiency": {name: {"wall_s": 15.0, "sampling_s": 10.0, "device_s": 10.0} for name in ("resnet50", "llama")},
        "pressure": {name: dict(counted) for name in bars_device.PRESSURE_PARTS},
        "memory": {"models": {"a": {"peak_bytes": 10, "bound_bytes": 10, "step_peak_bytes": 8}}},
        "show_speed": show | {name: {"show_s": 1.9, "diff_s": 4.9} for name in bars_host.PROFILES},
        "steps": {
            name: {"fused": step(), "foreach": step() | {"idle_plain_percent": 60.0, "recording_ratio": 3.0}}
            for name in bars_device.STEP_MODELS
        },
        "shapes": {
            "regions": 1,
            "groups": 6,
            "measured_groups": 6,
            "by_size": [
                {
                    "sizes": ["input_ids[0]", "input_ids[1]"],
                    "untimed_rows": [],
                    "doubts": {},
                    "exponents": {
                        "scaled_dot_product_attention": {"input_ids[0]": 1.0, "input_ids[1]": 1.7},
                        "linear": {"input_ids[0]": 0.8, "input_ids[1]": 1.25},
                    },
                }
            ],
        },
        "compile": {"compile": {"pairs": [pair(11.5) for _ in range(5)], "second_process": {"kernels_built": 0}}},
        "supervision": {
            "pairs": [{"supervised_s": 10.1, "alone_s": 10.0}] * 5,
            "journal": {"entries": 9, "journal_s": 0.05, "wall_s": 10.0},
        },
        "poison": {f"case {i}": {"afterwards": {}, "met": True} for i in range(15)},
    }
    result: dict[str, Any] = found[name]
    return result


FAST_BY_CHANCE = {
    "pairs": [{"supervised_s": 9.8, "alone_s": 10.0}] * 5,
    "journal": {"entries": 9, "journal_s": 0.3, "wall_s": 10.0},
}
ALL = {one.name: one for one in BENCHMARKS}
BY_DESIGN_OPEN = {("conservation", 0)}  # made up as a CPU's result: nothing is unattributed there


@pytest.mark.parametrize("name", [name for name in ALL if name != "suite_inference"])
def test_a_good_result_meets_every_bar_and_there_is_one_finding_per_bar(name: str) -> None:
    findings = ALL[name].judge(good(name))
    assert len(findings) == len(ALL[name].bars)
    verdicts = {index: one.verdict for index, one in enumerate(findings)}
    assert verdicts == {index: "not run" if (name, index) in BY_DESIGN_OPEN else "met" for index in verdicts}


@pytest.mark.parametrize("name", list(ALL))
def test_an_empty_result_meets_no_bar(name: str) -> None:
    assert [one.met for one in ALL[name].judge({})] == [None] * len(ALL[name].bars)


def put(path: str, value: object) -> Change:
    """Set what lies at `a/b/0` to a value."""

    def change(found: dict[str, Any]) -> None:
        *parents, last = (int(part) if part.isdigit() else part for part in path.split("/"))
        place: Any = found
        for part in parents:
            place = place[part]
        place[last] = value

    return change


@pytest.mark.parametrize(
    ("name", "bar", "change"),
    [
        ("accuracy", 0, put("table/3/deviation %", 3.1)),
        ("reference_models", 0, put("llama/attributed_percent", 99.99)),
        ("reference_models", 0, put("llama/dropped", 1)),
        ("reference_models", 1, put("llama/kernels_without_owner", ["k"])),
        ("reference_models", 2, put("llama/rows_against_busy_percent", -0.6)),
        ("reference_models", 3, put("llama/a_vs_fact_percent", -5.1)),
        ("conservation", 1, put("mlp/owned_time_percent", 99.9)),
        ("conservation", 1, put("mlp/owned_time_percent", None)),
        ("conservation", 2, put("mlp/runs/0/rows_against_total_percent", 0.51)),
        ("conservation", 3, put("mlp/runs/0/kernels_percent", 94.9)),
        ("conservation", 4, put("mlp/equal_units/measured_again", ["linear: a, b"])),
        ("conservation", 4, put("mlp/equal_units/in_place_of_another", ["a in the place of b"])),
        ("suite_training", 0, put("vit/runs/0/attributed_percent", 99.99)),
        ("suite_training", 0, put("vit/runs/0/dropped", 1)),
        ("suite_training", 3, put("vit/faults", ["no owner of k"])),
        ("provenance", 0, put("model3/unowned", 1)),
        ("provenance", 1, put("model3/unknown", 1)),
        ("repeatability", 0, put("two_processes/within_2_percent", 94.9)),
        ("repeatability", 0, put("two_processes/only_in_one", ["r0 node a"])),
        ("decoding", 0, put("decode_us_per_record", 2.01)),
        ("idle", 0, put("idle/ratio", 1.021)),
        ("efficiency", 0, put("llama/wall_s", 15.1)),
        ("efficiency", 1, put("llama/device_s", 9.9)),
        ("pressure", 0, put("200000_kernels/decode_us_per_record", 2.01)),
        ("pressure", 1, put("eight_threads/exact", False)),
        ("memory", 0, put("models/a/peak_bytes", 11)),
        ("show_speed", 0, put("start/diff_s", 0.3)),
        ("show_speed", 0, put("start/torch_imported", ["show"])),
        ("show_speed", 1, put("nothing_shared/show_s", 2.0)),
        ("show_speed", 2, put("nothing_shared/diff_s", 5.0)),
        ("steps", 0, put("gpt2/foreach/attributed_percent", 99.99)),
        ("steps", 1, put("gpt2/foreach/dropped", 1)),
        ("steps", 1, put("gpt2/foreach/unattributed", ["k"])),
        ("steps", 2, put("gpt2/foreach/rows_against_busy_percent", -0.6)),
        ("steps", 3, put("gpt2/fused/recording_ratio", 1.16)),
        ("shapes", 0, put("regions", 2)),
        ("shapes", 0, put("measured_groups", 5)),
        ("shapes", 0, put("by_size/0/untimed_rows", ["linear"])),
        ("shapes", 1, put("by_size/0/exponents/scaled_dot_product_attention/input_ids[1]", 1.6)),
        ("shapes", 2, put("by_size/0/exponents/linear/input_ids[0]", 0.69)),
        ("compile", 0, put("compile/pairs", [pair(11.6) for _ in range(5)])),
        ("compile", 1, put("compile/second_process/kernels_built", 1)),
        ("supervision", 0, put("pairs", [{"supervised_s": 10.16, "alone_s": 10.0}] * 5)),
        ("supervision", 0, put("journal/journal_s", 0.11)),
        ("supervision", 0, lambda found: found.update(FAST_BY_CHANCE)),
        ("poison", 0, put("case 3/met", False)),
    ],
)
def test_every_bar_can_be_missed(name: str, bar: int, change: Change) -> None:
    found = good(name)
    change(found)
    assert ALL[name].judge(found)[bar].verdict == "missed"


@pytest.mark.parametrize(
    ("name", "bar", "change"),
    [
        ("conservation", 3, put("mlp/runs/0/wall_ms", 4.9)),
        ("conservation", 1, put("mlp", {"error": "RuntimeError: no"})),
        ("suite_training", 3, put("vit", {"error": "RuntimeError: no"})),
        ("suite_training", 0, put("vit/not_measured", ["kernel: out of memory"])),
        ("provenance", 0, lambda found: found.pop("model3")),
        ("repeatability", 0, put("two_processes/rows", 49)),
        ("pressure", 1, put("eight_threads", {"error": "RuntimeError: no"})),
        ("decoding", 0, put("lost", 1)),
        ("memory", 0, put("models/a/bound_bytes", 0)),
        ("show_speed", 1, put("nodes", 100)),
        ("steps", 0, put("gpt2", {"error": "RuntimeError: no"})),
        ("idle", 0, put("idle/control_ratio", 0.97)),
        ("shapes", 1, put("by_size/0/doubts", {"linear": "hardly longer than the shortest kernel"})),
        ("shapes", 2, put("by_size/0/exponents/linear", {})),
        ("compile", 0, put("compile/pairs", [pair(11.0)] * 4)),
        ("compile", 1, put("compile/pairs/0/graphbench/kernels_built", 0)),
        ("supervision", 0, put("pairs", [])),
        ("poison", 0, lambda found: found.pop("case 3")),
    ],
)
def test_a_result_that_shows_too_little_meets_no_bar(name: str, bar: int, change: Change) -> None:
    found = good(name)
    found.update(
        {"mlp": profile(RUN), "transformer": profile(RUN | {"wall_ms": 4.0})} if name == "conservation" else {}
    )
    change(found)
    assert ALL[name].judge(found)[bar].verdict == "not run"


def test_peaks_are_read_of_parts_too_and_a_model_that_failed_is_told() -> None:
    found = {"environment": {}, "gpt2": {"peak_bytes": 9, "bound_bytes": 10}, "llama": {"error": "out of memory"}}
    (finding,) = ALL["memory"].judge(found)
    assert (finding.verdict, finding.text, finding.why) == (
        "not run",
        "0.900 × the bound (gpt2)",
        "llama: out of memory",
    )


def test_a_step_that_the_host_bounds_has_no_bar_for_recording() -> None:
    found = {model: {"fused": step() | {"idle_plain_percent": 60.0}} for model in bars_device.STEP_MODELS}
    assert ALL["steps"].judge(found)[3].why == "the host bounds every step"

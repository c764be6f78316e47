"""Regions of two profiles are joined by what their graphs do and where they stand; keys are only numbers."""

from __future__ import annotations

import dataclasses

from graphbench.analysis.diff import diff
from graphbench.analysis.diff_regions import pair_regions
from graphbench.condition_records import Ambient
from graphbench.measurements import SourceLine
from graphbench.records import InputRecord, RegionRecord, Side
from tests.factories import node, profile, region, spec, steady


def at(key: str, *ops: str, function: str = "forward", batch: int = 4) -> RegionRecord:
    made = region([node(f"{op}_{i}", 1.0, op_type=op) for i, op in enumerate(ops)], key=key)
    given = InputRecord(name="x", source="L['x']", kind="tensor", spec=spec(batch, 8))
    return dataclasses.replace(made, location=SourceLine(file="m.py", line=3, function=function), inputs=(given,))


def keys(before: list[RegionRecord], after: list[RegionRecord]) -> list[tuple[str | None, str | None]]:
    return [(old and old.key, new and new.key) for old, new in pair_regions(before, after)]


def test_regions_that_were_renumbered_are_joined_by_their_ops() -> None:
    before = [at("r0", "mm", "relu"), at("r1", "conv", "add")]
    after = [at("r0", "conv", "add"), at("r1", "mm", "relu")]
    assert keys(before, after) == [("r1", "r0"), ("r0", "r1")]


def test_equal_graphs_are_told_apart_by_their_inputs() -> None:
    before = [at("r0", "mm", batch=4), at("r1", "mm", batch=8)]
    after = [at("r0", "mm", batch=8), at("r1", "mm", batch=4)]
    assert keys(before, after) == [("r1", "r0"), ("r0", "r1")]


def test_equal_graphs_are_told_apart_by_their_place() -> None:
    before = [at("r0", "mm", function="encode"), at("r1", "mm", function="decode")]
    after = [at("r0", "mm", function="decode"), at("r1", "mm", function="encode")]
    assert keys(before, after) == [("r1", "r0"), ("r0", "r1")]


def test_a_region_that_is_new_in_front_does_not_shift_the_others() -> None:
    before = [at("r0", "mm", "relu"), at("r1", "conv", "add")]
    after = [at("r0", "sort", "topk"), at("r1", "mm", "relu"), at("r2", "conv", "add")]
    assert keys(before, after) == [(None, "r0"), ("r0", "r1"), ("r1", "r2")]


def test_what_follows_a_graph_break_is_the_same_when_the_break_moved_to_another_line() -> None:
    before = [at("r0", "mm", function="torch_dynamo_resume_in_forward_at_12"), at("r1", "mm")]
    after = [at("r0", "mm"), at("r1", "mm", function="torch_dynamo_resume_in_forward_at_20")]
    assert keys(before, after) == [("r1", "r0"), ("r0", "r1")]


def test_an_edited_region_is_joined_with_the_most_alike_of_its_place() -> None:
    before = [at("r0", "mm", "relu", "mm", "relu"), at("r1", "conv", "add")]
    after = [at("r0", "conv", "mul"), at("r1", "mm", "relu", "mm", "gelu")]
    assert keys(before, after) == [("r1", "r0"), ("r0", "r1")]


def test_regions_of_other_places_that_have_little_in_common_are_added_and_gone() -> None:
    before, after = [at("r0", "mm", "relu", "add", function="a")], [at("r0", "mm", "sort", "topk", function="b")]
    assert keys(before, after) == [(None, "r0"), ("r0", None)]


def test_rows_and_notes_name_regions_by_the_second_profile() -> None:
    before = profile(at("r0", "mm", "relu"), at("r1", "conv", "add"))
    result = diff(before, profile(at("r0", "conv", "add"), at("r1", "mm", "relu")))
    assert [(row.region, row.op_type, row.change) for row in result.rows] == [
        ("r0", "conv", "both"),
        ("r0", "add", "both"),
        ("r1", "mm", "both"),
        ("r1", "relu", "both"),
    ]
    assert result.notes == ("regions were renumbered: r1 is now r0, r0 is now r1",)


# whole runs


def run(ns: float, *, batch: int = 4) -> RegionRecord:
    return dataclasses.replace(at("r0", "mm", batch=batch), forward=Side(plain=steady(ns)))


def test_a_whole_run_on_other_inputs_is_not_the_same_work() -> None:
    (total,) = diff(profile(run(100.0)), profile(run(200.0, batch=8))).totals
    assert (total.ratio, total.verdict) == (2.0, None)
    assert total.reason == "not the same work: input x is f32[4,8] before, f32[8,8] after"


def test_a_new_graph_break_does_not_keep_whole_runs_from_being_judged() -> None:
    after = [run(100.0, batch=8), dataclasses.replace(run(100.0), key="r1")]
    (total,) = diff(profile(run(100.0)), profile(*after)).totals
    assert total.verdict == "slower"


def test_training_against_inference_is_not_the_same_work() -> None:
    def graded(enabled: bool) -> RegionRecord:
        state = Ambient(
            grad_enabled=enabled,
            inference_mode=False,
            autocast=(),
            autocast_cache=True,
            default_dtype="float32",
            fp32_precision=(),
            deterministic=False,
            deterministic_warn_only=False,
            sdpa_backends=(),
            flags=(),
            num_threads=2,
        )
        return dataclasses.replace(run(100.0 + 100.0 * enabled), ambient=state)

    (total,) = diff(profile(graded(False)), profile(graded(True))).totals
    assert (total.verdict, total.reason) == (None, "not the same work: gradients are enabled only after")

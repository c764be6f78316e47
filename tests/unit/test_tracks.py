"""Which row starts when on the tracks of a region."""

from __future__ import annotations

from dataclasses import replace

from graphbench.analysis.tracks import MOST_LEVELS, ModuleSpan, module_spans, region_tracks, rows_track
from graphbench.measurements import Measurement
from tests.factories import kernel, node, region, steady
from tests.step_samples import training_step

FAILED = Measurement(status="failed", reason="ran out of memory")


def test_rows_start_where_the_row_before_ends() -> None:
    tracks = region_tracks(region([node("a", in_graph=steady(100.0)), node("b", in_graph=steady(30.0))]))
    assert [(slot.key, slot.start_ns, slot.duration_ns) for slot in tracks.eager.slots] == [
        ("a", 0, 100.0),
        ("b", 100, 30.0),
    ]
    assert (tracks.eager.end_ns, tracks.eager.total_ns) == (130, 130.0)


def test_a_fraction_of_a_nanosecond_stays_in_the_time_and_never_makes_rows_overlap() -> None:
    nodes = [node(name, in_graph=steady(10.5)) for name in "abc"]
    eager = region_tracks(region(nodes)).eager
    assert [slot.start_ns for slot in eager.slots] == [0, 11, 22]
    assert [slot.duration_ns for slot in eager.slots] == [10.5, 10.5, 10.5]
    assert eager.total_ns == 31.5


def test_a_row_without_a_time_has_a_nanosecond_of_its_own_and_its_reason() -> None:
    nodes = [node("a", in_graph=FAILED), node("b", in_graph=steady(0.0)), node("c", in_graph=steady(5.0))]
    eager = region_tracks(region(nodes)).eager
    assert [(slot.start_ns, slot.duration_ns, slot.reason) for slot in eager.slots] == [
        (0, None, "ran out of memory"),
        (1, 0.0, ""),
        (2, 5.0, ""),
    ]


def test_compiled_rows_start_behind_all_eager_ones_and_the_backward_runs_in_reverse() -> None:
    nodes = [
        node(name, 1.0, in_graph=steady(10.0), backward=1.0, backward_in_graph=steady(ns))
        for name, ns in (("a", 3.0), ("b", 4.0))
    ]
    kernels = [
        kernel("k0", in_graph=steady(6.0)),
        kernel("k1", phase="backward", in_graph=steady(7.0)),
    ]
    tracks = region_tracks(region(nodes, kernels))
    assert [(slot.key, slot.start_ns) for slot in tracks.eager_backward.slots] == [("b", 20), ("a", 24)]
    assert [slot.start_ns for slot in (*tracks.forward.slots, *tracks.backward.slots)] == [27, 33]


def test_nodes_that_were_only_timed_alone_are_laid_out_by_those_times() -> None:
    tracks = region_tracks(region([node("a", 10.0), node("b", 20.0)]))
    assert tracks.alone
    assert [slot.duration_ns for slot in tracks.eager.slots] == [10.0, 20.0]


def test_modules_enclose_each_other_and_one_entered_again_is_two_spans() -> None:
    assert module_spans(["m.a", "m.a", "m", "m.a", ""]) == [
        ModuleSpan("m", 0, 0, 3),
        ModuleSpan("m.a", 1, 0, 1),
        ModuleSpan("m.a", 1, 3, 3),
    ]


def test_modules_beyond_the_deepest_level_are_one() -> None:
    path = ".".join("x" * (MOST_LEVELS + 10))
    spans = module_spans([path])
    assert len(spans) == MOST_LEVELS
    assert spans[-1].path == path


def test_rows_of_a_step_are_laid_out_by_their_positions() -> None:
    step = training_step().step
    assert step is not None
    rows = (replace(step.rows[0], in_graph=steady(7.0)), *step.rows[1:])
    track = rows_track(replace(step, rows=rows), [0, 1])
    assert [slot.key for slot in track.slots] == ["0", "1"]
    assert track.slots[1].start_ns == 7

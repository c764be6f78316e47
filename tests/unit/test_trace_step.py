"""The trace of a recorded step: threads, streams, gaps, idle time and graph breaks as they were."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from graphbench.records import ProfileRecord
from graphbench.report.gaps_table import GAP_COLUMNS
from graphbench.step_records import Place, StepRecord, StepRow, Timeline
from tests.factories import profile, steady
from tests.step_samples import Event as Happening
from tests.step_samples import device_step, gap_op, timeline, training_step
from tests.trace_format import time_faults, trace_faults
from tests.traces import events, of, render, track_names

ROWS: tuple[StepRow, ...] = (
    gap_op("mul", 4.0, place="start", calls=3, user_phase="data"),
    StepRow(
        name="r0/mm", op_type="extern", in_graph=steady(5e3), region="r0", kernel="forward/mm:1", place="r0/forward"
    ),
)
PLACES = (Place(key="start", kind="gap", calls=2), Place(key="r0/forward", kind="graph", calls=1))


def stepped(happened: Sequence[Happening], rows: tuple[StepRow, ...] = ROWS, **changes: Any) -> ProfileRecord:
    """A step in which this happened; starts and durations in microseconds."""
    made = StepRecord(run=device_step(rows, wall_us=100.0), rows=rows, places=PLACES, timeline=timeline(happened))
    return profile(timer="cupti", step=dataclasses.replace(made, **changes))


def test_the_step_tells_gap_ops_compiled_kernels_waits_and_work_of_no_row_apart() -> None:
    found = events(
        stepped(
            [
                ("host", 0, 0.0, 1.0),
                ("kernel", 0, 2.0, 1.0),
                ("kernel", 1, 3.0, 1.0),
                ("kernel", -1, 4.0, 1.0),
                ("sync", -1, 5.0, 1.0),
            ]
        )
    )
    names = track_names(found)
    told = [(event["cat"], event["ts"], names[event["tid"]]) for event in found if event["ph"] == "X"]
    assert [entry for entry in told if entry[0] not in ("idle", "place", "gap op")] == [
        ("gap", 0.0, "host thread 0"),
        ("sync", 5.0, "host thread 0"),
        ("gap", 2.0, "device 0, stream 0"),
        ("compiled", 3.0, "device 0, stream 0"),
        ("unattributed", 4.0, "device 0, stream 0"),
    ]


def test_what_the_host_issues_is_called_by_its_op_and_device_work_by_its_function() -> None:
    made = timeline([("host", 0, 0.0, 1.0), ("host", 1, 1.0, 1.0), ("copy", 0, 2.0, 1.0), ("kernel", 1, 3.0, 1.0)])
    names = dataclasses.replace(made, names=("label", "memcpy HtoD", "ampere_sgemm"), event_names=(0, 0, 1, 2))
    found = events(stepped([], timeline=names))
    titles = [event["name"] for event in found if event["ph"] == "X" and event["cat"] in ("gap", "compiled")]
    assert titles == ["mul", "mm:1", "Memcpy HtoD", "ampere_sgemm"]


def test_a_gap_is_a_slice_each_time_that_the_step_passes_through_it() -> None:
    happened: list[Happening] = [
        ("host", 0, 0.0, 1.0),
        ("host", 0, 2.0, 1.0),
        ("host", 1, 4.0, 1.0),
        ("host", 0, 6.0, 3.0),
    ]
    found = events(stepped(happened))
    visits = [(event["ts"], event["dur"], event["args"]["ops"]) for event in of(found, "place")]
    assert visits == [(0.0, 3.0, 2), (6.0, 3.0, 1)]
    assert "gap: start" in track_names(found).values()
    assert [event["ts"] for event in of(found, "gap op")] == [0.0, 2.0, 6.0]


def test_a_gap_op_tells_its_columns_at_its_first_call_and_only_itself_at_later_ones() -> None:
    first, second = of(events(stepped([("host", 0, 0.0, 1.0), ("host", 0, 2.0, 1.0)])), "gap op")
    assert first["args"]["in_graph_ns"] == 4_000.0
    assert first["args"]["user_phase"] == "data"
    assert {column.csv_name for column in GAP_COLUMNS} > {"in_graph_ns", "user_phase", "copied_bytes"}
    assert second["args"] == {"row": "start/forward/mul@1", "call": 2, "calls": 3}


def test_a_gap_op_of_which_the_timeline_has_nothing_is_an_instant_of_its_gap() -> None:
    (lost,) = of(events(stepped([("host", 1, 0.0, 1.0)])), "gap op", "i")
    assert (lost["name"], lost["args"]["no_time"]) == ("mul", "the timeline has no event of it")


def test_a_timeline_of_device_work_alone_tells_when_a_gap_was() -> None:
    found = events(stepped([("kernel", 0, 1.0, 2.0), ("kernel", 1, 3.0, 1.0), ("kernel", 0, 5.0, 1.0)]))
    assert [(event["ts"], event["dur"]) for event in of(found, "place")] == [(1.0, 2.0), (5.0, 1.0)]


def test_idle_stretches_are_slices_that_tell_for_whose_launch_the_device_waited() -> None:
    found = of(events(stepped([("kernel", 0, 5.0, 10.0), ("kernel", 1, 20.0, 2.0)])), "idle")
    assert [(event["ts"], event["dur"], event["args"]["before"], event["args"]["behind"]) for event in found] == [
        (0.0, 5.0, "start/forward/mul@1", "no row"),
        (15.0, 5.0, "r0/forward/mm:1", "start/forward/mul@1"),
    ]


def test_work_that_runs_at_once_on_a_stream_goes_beside_each_other() -> None:
    record = stepped([("kernel", 0, 0.0, 10.0), ("kernel", 1, 2.0, 3.0), ("kernel", 0, 10.0, 1.0)])
    found = events(record)
    names = track_names(found)
    placed = [(event["ts"], names[event["tid"]]) for event in found if event.get("cat") in ("gap", "compiled")]
    assert placed == [(0.0, "device 0, stream 0"), (10.0, "device 0, stream 0"), (2.0, "device 0, stream 0 (2)")]
    assert trace_faults(render(record)) == []


def test_calls_of_the_host_lie_inside_each_other_and_never_across() -> None:
    record = stepped([("host", 0, 0.0, 10.0), ("sync", 0, 2.0, 3.0), ("host", 1, 8.0, 5.0)])
    found = events(record)
    names = track_names(found)
    placed = [(event["ts"], names[event["tid"]]) for event in found if event.get("cat") in ("gap", "compiled", "sync")]
    assert placed == [(0.0, "host thread 0"), (2.0, "host thread 0"), (8.0, "host thread 0 (2)")]
    assert trace_faults(render(record)) == []


def test_stamps_with_fractions_never_overlap_by_rounding() -> None:
    happened: list[Happening] = [("kernel", 0, at * 0.0105, 0.0105) for at in range(40)]
    record = stepped(happened)
    text = render(record)
    assert trace_faults(text) == []
    assert time_faults(text, record) == []


def test_a_step_without_a_timeline_has_its_rows_laid_end_to_end_under_their_places() -> None:
    found = events(stepped([], timeline=Timeline()))
    assert [(event["name"], event["cat"], event["ts"], event["dur"]) for event in found if event["ph"] == "X"] == [
        ("start", "place", 0.0, 4.0),
        ("mul", "gap op", 0.0, 4.0),
        ("r0/forward", "place", 4.0, 5.0),
        ("mm:1", "compiled", 4.0, 5.0),
    ]


def test_a_graph_break_is_an_instant_where_its_gap_was_first_passed() -> None:
    found = events(training_step())
    (item,) = of(found, "break", "i")
    (gap,) = (event for event in of(found, "place") if event["name"] == "after r0/forward")
    assert item["ts"] == gap["ts"]
    assert item["args"]["cause"] == "x.sum().item()"
    assert item["name"].startswith("break: Unsupported Tensor.item() call")

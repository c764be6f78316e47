"""A recorded step on lanes: its sums are those of the step's figures, bands say where it was."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest

from graphbench.analysis.gaps import whole_ns
from graphbench.analysis.step_track import StepTrack, step_track
from graphbench.analysis.timeline import idle_stretches
from graphbench.step_records import Place, StepRecord
from tests.step_samples import Event, device_step, gap_op, timeline, training_step

ROWS = (
    gap_op("mm", 10.0, place="start"),
    gap_op("add", 2.0, place="after r0/forward"),
    gap_op("step", 2.0, place="after r0/forward", phase="optimizer"),
)
PLACES = (Place(key="start", kind="gap", calls=1), Place(key="after r0/forward", kind="gap", calls=1))


def track(events: Sequence[Event], most: int = 1000) -> StepTrack:
    run = device_step(ROWS, wall_us=100.0)
    found = step_track(StepRecord(run=run, rows=ROWS, places=PLACES, timeline=timeline(events)), most)
    assert found is not None
    return found


def trained() -> StepRecord:
    step = training_step().step
    assert step is not None
    return step


def test_device_work_is_the_steps_busy_time() -> None:
    found = step_track(trained(), 1000)
    assert found is not None
    assert found.work_ns == pytest.approx(whole_ns(trained()))


def test_idle_time_is_that_of_the_steps_figures() -> None:
    found = step_track(trained(), 1000)
    assert found is not None
    assert found.idle_ns == pytest.approx(sum(idle.ns for idle in idle_stretches(trained().timeline) or ()))


def test_sums_stay_when_spans_are_put_together() -> None:
    whole, few = step_track(trained(), 1000), step_track(trained(), 1)
    assert whole is not None
    assert few is not None
    assert len(few.drawn.spans) < len(whole.drawn.spans)
    assert few.work_ns == whole.work_ns


def test_compiled_kernels_and_gap_ops_are_told_apart() -> None:
    found = step_track(trained(), 1000)
    assert found is not None
    rows = {span.row: span.kind for span in found.drawn.spans if span.kind in ("compiled", "gap op")}
    assert rows == {
        index: "compiled" if row.kernel else "gap op" for index, row in enumerate(trained().rows) if index in rows
    }


def test_without_a_device_calls_of_the_host_are_the_work() -> None:
    found = track([("host", 0, 0.0, 10.0), ("host", 1, 20.0, 2.0)])
    assert (found.lanes, found.idle_ns, found.work_ns) == (("phase", "place", "host"), None, 12_000.0)


def test_with_a_device_they_are_not() -> None:
    found = track([("host", 0, 0.0, 1.0), ("kernel", 0, 5.0, 10.0)])
    assert found.work_ns == 10_000.0
    assert [span.kind for span in found.drawn.spans if span.lane > 1] == ["host", "gap op", "idle"]


def test_bands_reach_from_the_first_call_of_a_stretch_to_its_last() -> None:
    found = track([("host", 0, 0.0, 5.0), ("host", 1, 10.0, 2.0), ("host", 2, 20.0, 2.0)])
    bands = [(span.lane, span.name, span.start_ns, span.end_ns) for span in found.drawn.spans if span.lane < 2]
    assert bands == [
        (0, "forward", 0.0, 12_000.0),
        (0, "optimizer", 20_000.0, 22_000.0),
        (1, "start", 0.0, 5_000.0),
        (1, "after r0/forward", 10_000.0, 22_000.0),
    ]


def test_waiting_is_a_kind_of_its_own_and_no_work() -> None:
    found = track([("kernel", 0, 0.0, 10.0), ("sync", -1, 2.0, 8.0)])
    assert found.work_ns == 10_000.0
    assert "sync" in {span.kind for span in found.drawn.spans}


def test_no_timeline_is_no_track() -> None:
    step = dataclasses.replace(trained(), timeline=timeline([]))
    assert step_track(step, 1000) is None

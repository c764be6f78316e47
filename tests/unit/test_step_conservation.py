"""The proof that a recorded step is whole: names, places, phases and the timeline's positions."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from graphbench import document
from graphbench.errors import ProfileFormatError
from graphbench.measurements import Measurement
from graphbench.records import ProfileRecord
from graphbench.step_records import Recompile, Timeline, UserPhase
from tests.factories import steady
from tests.step_samples import eager_step, host_step, once, training_step

RECORD = training_step()
assert RECORD.step is not None
STEP = RECORD.step
ALONE = steady(1.0, timer="cupti")


def with_step(**changes: Any) -> ProfileRecord:
    return dataclasses.replace(RECORD, step=dataclasses.replace(STEP, **changes))


def with_row(index: int = 0, **changes: Any) -> ProfileRecord:
    rows = list(STEP.rows)
    rows[index] = dataclasses.replace(rows[index], **changes)
    return with_step(rows=tuple(rows))


def with_place(**changes: Any) -> ProfileRecord:
    return with_step(places=(dataclasses.replace(STEP.places[0], **changes), *STEP.places[1:]))


def with_timeline(**changes: Any) -> ProfileRecord:
    return with_step(timeline=dataclasses.replace(STEP.timeline, **changes))


def changed(column: tuple[Any, ...], value: object) -> tuple[Any, ...]:
    return (value, *column[1:])


@pytest.mark.parametrize("record", [RECORD, host_step(), eager_step()], ids=["device", "CPU", "nothing compiled"])
def test_whole_steps_are_accepted(record: ProfileRecord) -> None:
    document.check(record)


def test_a_step_without_places_has_its_rows_before_any_graph() -> None:
    rows = tuple(dataclasses.replace(row, place="start") for row in STEP.rows)
    document.check(with_step(rows=rows, places=()))


@pytest.mark.parametrize(
    ("record", "field", "expected"),
    [
        pytest.param(with_row(name=STEP.rows[1].name), "step.rows", "unique", id="row name twice"),
        pytest.param(with_place(key="r0/forward"), "step.places", "unique", id="place twice"),
        pytest.param(
            with_step(user_phases=(UserPhase(name="a", calls=1, host_ns=1.0),) * 2),
            "step.user_phases",
            "unique",
            id="user phase twice",
        ),
        pytest.param(with_row(place="after r7/forward"), "step.rows[0].place", "a place", id="row of no place"),
        pytest.param(with_row(user_phase="decode"), "step.rows[0].user_phase", "a user phase", id="row of no phase"),
        pytest.param(
            with_place(followed_by=("r7/forward",)), "step.places[start].followed_by", "a graph", id="no such follower"
        ),
        pytest.param(
            with_place(followed_by=("after r0/forward",)),
            "step.places[start].followed_by",
            "a graph",
            id="gap behind gap",
        ),
        pytest.param(with_place(host_ns=-1.0), "step.places[start]", "no negative value", id="negative host time"),
        pytest.param(with_row(copied_bytes=-1), "step.rows[0]", "no negative value", id="negative bytes"),
        pytest.param(
            dataclasses.replace(RECORD, recompiles=(Recompile(compile_id="0/1", region="r7"),)),
            "recompiles[0].region",
            "a region's key",
            id="recompile of no region",
        ),
        pytest.param(
            with_timeline(lanes=STEP.timeline.lanes[1:]),
            "step.timeline.lanes",
            "20, as in starts_ns",
            id="short column",
        ),
        pytest.param(
            with_timeline(kinds=changed(STEP.timeline.kinds, 5)), "step.timeline.kinds", "a kind", id="no such kind"
        ),
        pytest.param(
            with_timeline(rows=changed(STEP.timeline.rows, 18)), "step.timeline.rows", "a row", id="row beyond the last"
        ),
        pytest.param(with_timeline(rows=changed(STEP.timeline.rows, -2)), "step.timeline.rows", "a row", id="row -2"),
        pytest.param(with_timeline(names=()), "step.timeline.event_names", "one of its names", id="no such name"),
        pytest.param(
            with_timeline(durations_ns=changed(STEP.timeline.durations_ns, -1.0)),
            "step.timeline.durations_ns",
            "no negative value",
            id="negative duration",
        ),
        pytest.param(
            with_timeline(starts_ns=changed(STEP.timeline.starts_ns, 1e9)),
            "step.timeline.starts_ns",
            "events by start",
            id="events out of order",
        ),
        pytest.param(
            with_row(isolated=Measurement(status="ok")),
            "step.rows[0].isolated",
            "samples",
            id="isolated without samples",
        ),
        pytest.param(
            with_row(isolated=steady(1.0, timer="wallclock")),
            "step.rows[0].isolated.timer",
            "cupti",
            id="isolated by another timer",
        ),
        pytest.param(
            with_row(isolated=dataclasses.replace(ALONE, shared_with="ghost")),
            "step.start/forward/copy_@30.isolated.shared_with",
            "another row",
            id="shared with no row",
        ),
        pytest.param(
            with_row(isolated=dataclasses.replace(ALONE, shared_with="after r0/forward/forward/mul@21")),
            "step.start/forward/copy_@30.isolated.shared_with",
            "the same samples",
            id="shared with other samples",
        ),
    ],
)
def test_a_broken_step_is_named(record: ProfileRecord, field: str, expected: str) -> None:
    with pytest.raises(ProfileFormatError) as caught:
        document.check(record)
    assert expected in str(caught.value)
    assert field in str(caught.value)


def test_a_shared_row_has_the_samples_of_the_row_that_it_names() -> None:
    alone = once(1.75)
    document.check(with_row(isolated=dataclasses.replace(alone, shared_with="after r0/forward/forward/mul@21")))


def test_a_position_before_any_event_is_fine_for_an_empty_timeline() -> None:
    document.check(with_step(timeline=Timeline()))


def test_a_place_may_be_followed_by_the_end() -> None:
    document.check(with_place(followed_by=("end",)))

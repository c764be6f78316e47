"""Parts of a step that the user names: nested, counted, and left whatever happens."""

from __future__ import annotations

import threading

import pytest

import graphbench
from graphbench.capture.user_phases import phases_heard
from graphbench.errors import UsageError


def test_nested_phases_are_joined() -> None:
    with phases_heard() as clock, graphbench.phase("train"), graphbench.phase("forward"):
        assert clock.path() == "train/forward"


def test_outside_of_every_phase_the_path_is_empty() -> None:
    with phases_heard() as clock:
        with graphbench.phase("train"):
            pass
        assert clock.path() == ""


def test_a_phase_is_counted_each_time_it_is_left() -> None:
    with phases_heard() as clock:
        for _ in range(3):
            with graphbench.phase("decode"):
                pass
    assert [(phase.name, phase.calls) for phase in clock.phases()] == [("decode", 3)]


def test_a_phase_is_left_by_an_exception() -> None:
    with phases_heard() as clock:
        with pytest.raises(ValueError, match="late"), graphbench.phase("decode"):
            raise ValueError("late")
        assert clock.path() == ""


def test_a_phase_that_began_before_recording_goes_on_inside() -> None:
    with graphbench.phase("train"), phases_heard() as clock:
        assert clock.path() == "train"


def test_a_thread_without_a_phase_is_in_that_of_the_thread_that_records() -> None:
    seen = []
    with phases_heard() as clock, graphbench.phase("backward"):
        thread = threading.Thread(target=lambda: seen.append(clock.path()))
        thread.start()
        thread.join()
    assert seen == ["backward"]


def test_a_threads_own_phase_is_its_own() -> None:
    seen = []

    def work() -> None:
        with graphbench.phase("load"):
            seen.append(clock.path())

    with phases_heard() as clock, graphbench.phase("train"):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        seen.append(clock.path())
    assert seen == ["load", "train"]


@pytest.mark.parametrize("name", ["", "a/b", 3])
def test_a_name_that_cannot_be_shown_is_refused(name: object) -> None:
    with pytest.raises(UsageError, match="name"):
        graphbench.phase(name)  # type: ignore[arg-type]

"""Parts of a step that the user names: nested, counted, and left whatever happens."""

from __future__ import annotations

import threading
from time import sleep

import pytest

import graphbench
from graphbench.capture.user_phases import PhaseClock, phases_heard
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


def test_a_phase_around_the_recording_has_a_total_of_its_own() -> None:
    with graphbench.phase("train"), graphbench.phase("epoch"), phases_heard() as clock:
        pass
    assert [(phase.name, phase.calls) for phase in clock.phases()] == [("train/epoch", 1), ("train", 1)]
    assert all(phase.host_ns > 0 for phase in clock.phases())


def test_a_phase_that_began_before_counts_from_where_the_recording_begins() -> None:
    outer = graphbench.phase("train")
    outer.__enter__()
    sleep(0.05)
    with phases_heard() as clock:
        outer.__exit__(None, None, None)
    (phase,) = clock.phases()
    assert (phase.name, phase.calls) == ("train", 1)
    assert 0 < phase.host_ns < 50e6


def test_the_phase_of_a_thread_that_works_before_and_after_has_a_total() -> None:
    inside, done = threading.Barrier(2, timeout=10), threading.Barrier(2, timeout=10)
    clocks: list[PhaseClock] = []

    def work() -> None:
        with graphbench.phase("load"):
            inside.wait()
            inside.wait()
            assert clocks[0].path() == "load"
            done.wait()
            done.wait()

    thread = threading.Thread(target=work)
    thread.start()
    inside.wait()
    with phases_heard() as clock:
        clocks.append(clock)
        inside.wait()
        done.wait()
    done.wait()
    thread.join()
    assert [(phase.name, phase.calls) for phase in clock.phases()] == [("load", 1)]


def test_a_phase_may_be_entered_within_itself() -> None:
    phase = graphbench.phase("tree")
    with phases_heard() as clock, phase:
        with phase:
            assert clock.path() == "tree/tree"
        assert clock.path() == "tree"
    assert [(found.name, found.calls) for found in clock.phases()] == [("tree/tree", 1), ("tree", 1)]


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

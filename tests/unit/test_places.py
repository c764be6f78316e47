"""Where a step is: gaps lie behind the graph that ran last, and every thread of the user's walks by itself."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from graphbench.measuring.places import Places
from graphbench.step_records import Place


def walked(*keys: str) -> Places:
    places = Places()
    with places.thread():
        for key in keys:
            with places.graph(key):
                pass
    return places


def by_key(places: Places) -> dict[str, Place]:
    return {place.key: place for place in places.records()}


def in_thread(work: Callable[[], None]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_a_step_without_graphs_is_one_gap() -> None:
    (place,) = walked().records()
    assert (place.key, place.kind, place.calls, place.followed_by) == ("start", "gap", 1, ("end",))


def test_places_stand_in_the_order_in_which_they_were_reached() -> None:
    assert list(by_key(walked("r0/forward", "r1/forward"))) == [
        "start",
        "r0/forward",
        "after r0/forward",
        "r1/forward",
        "after r1/forward",
    ]


def test_a_gap_knows_every_graph_that_followed_it() -> None:
    found = by_key(walked("r0/forward", "r1/forward", "r0/forward"))
    assert found["after r0/forward"].followed_by == ("r1/forward", "end")


def test_a_place_that_is_reached_again_is_counted_again() -> None:
    found = by_key(walked("r0/forward", "r0/forward"))
    assert (found["r0/forward"].calls, found["after r0/forward"].calls) == (2, 2)


def test_only_gaps_are_followed_by_something() -> None:
    assert by_key(walked("r0/forward"))["r0/forward"].followed_by == ()


def test_host_time_is_that_between_entering_and_leaving(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(0, 1000, 10))
    monkeypatch.setattr("graphbench.measuring.places.perf_counter_ns", lambda: next(ticks))
    found = by_key(walked("r0/forward"))
    # Read at 0 (start), 10 (the gap is left), 20 (the graph starts), 30 (it ends), 40 (the gap behind it ends).
    assert [found[key].host_ns for key in ("start", "r0/forward", "after r0/forward")] == [10, 10, 10]


def test_a_graph_inside_a_graph_leaves_no_gap_between() -> None:
    places = Places()
    with places.thread(), places.graph("r0/forward"):
        with places.graph("r1/forward"):
            assert places.current == "r0/forward"
        assert places.current == "r0/forward"
    assert "after r1/forward" not in by_key(places)


def test_a_thread_of_autograds_walks_with_the_one_that_recording_began_in() -> None:
    places = Places()
    with places.thread():

        def backward() -> None:
            with places.graph("r0/backward"):
                pass

        in_thread(backward)
        assert places.current == "after r0/backward"


def test_a_thread_of_the_users_walks_by_itself() -> None:
    places = Places()
    seen = []
    with places.thread():

        def work() -> None:
            with places.thread():
                with places.graph("r1/forward"):
                    pass
                seen.append(places.current)

        with places.graph("r0/forward"):
            pass
        in_thread(work)
        seen.append(places.current)
    assert seen == ["after r1/forward", "after r0/forward"]

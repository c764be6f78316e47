"""What every timer promises, as tests. Each timer's test module subclasses `TimerContract`; none is run from here."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from itertools import pairwise

import pytest

from graphbench.errors import TimingError
from graphbench.timing.base import Recording, Sample, Session, TimelineEvent, Timer

Work = Callable[[], None]


class TimerContract:
    """Needs the fixtures `timer` and `work`: a call that costs the timer a measurable time."""

    @staticmethod
    def sum_of_rows_ns(recording: Recording, sample: int) -> float:
        return sum(samples[sample].busy_ns for samples in recording.rows.values() if sample in samples)

    def test_it_is_a_timer(self, timer: Timer) -> None:
        assert isinstance(timer, Timer)

    def test_a_recording_names_its_instrument(self, timer: Timer, work: Work) -> None:
        assert timer.record(one_label(work)).timer == timer.name

    def test_a_label_costs_time_on_the_device_and_on_the_host(self, timer: Timer, work: Work) -> None:
        cost = timer.record(one_label(work)).rows["a"][0]
        assert (cost.busy_ns > 0, cost.host_ns > 0, cost.calls) == (True, True, 1)

    def test_repeats_of_a_label_are_summed(self, timer: Timer, work: Work) -> None:
        def body(session: Session) -> None:
            for _ in range(3):
                with session.label("a", 0):
                    work()
            with session.label("once", 0):
                work()

        rows = timer.record(body).rows
        assert rows["a"][0].calls == 3
        assert rows["a"][0].busy_ns > rows["once"][0].busy_ns

    def test_rows_and_samples_are_kept_apart(self, timer: Timer, work: Work) -> None:
        def body(session: Session) -> None:
            for sample in range(2):
                for row in ("a", "b"):
                    with session.label(row, sample):
                        work()

        assert shape(timer.record(body).rows) == {"a": [0, 1], "b": [0, 1]}

    def test_a_label_holds_in_another_thread(self, timer: Timer, work: Work) -> None:
        def body(session: Session) -> None:
            thread = threading.Thread(target=one_label(work), args=(session,))
            thread.start()
            thread.join()

        recording = timer.record(body)
        assert recording.rows["a"][0].busy_ns > 0
        assert recording.unattributed == ()

    def test_preparation_counts_nowhere(self, timer: Timer, work: Work) -> None:
        def body(session: Session) -> None:
            with session.preparation():
                work()
            with session.label("a", 0):
                work()

        recording = timer.record(body)
        assert shape(recording.rows) == {"a": [0]}
        assert recording.unattributed == ()

    def test_time_is_conserved_in_a_window(self, timer: Timer, work: Work) -> None:
        def body(session: Session) -> None:
            for sample in range(2):
                with session.window(sample):
                    for row in ("a", "b"):
                        with session.label(row, sample):
                            work()

        recording = timer.record(body)
        assert sorted(recording.runs) == [0, 1]
        for sample, run in recording.runs.items():
            rows_ns = self.sum_of_rows_ns(recording, sample)
            assert rows_ns + run.unattributed_ns - run.overlap_ns + (run.wrapper_ns or 0) == pytest.approx(run.busy_ns)
            assert run.wall_ns > 0

    def test_work_outside_windows_is_in_no_run(self, timer: Timer, work: Work) -> None:
        assert timer.record(one_label(work)).runs == {}

    def test_an_error_of_the_body_comes_out_and_leaves_the_timer_usable(self, timer: Timer, work: Work) -> None:
        def body(session: Session) -> None:
            with session.label("a", 0):
                work()
                raise ValueError("the user's error")

        with pytest.raises(ValueError, match="the user's error"):
            timer.record(body)
        assert timer.record(one_label(work)).rows["a"][0].calls == 1

    def test_a_session_knows_nothing_of_the_one_before(self, timer: Timer, work: Work) -> None:
        timer.record(one_label(work))
        assert timer.record(lambda session: None).rows == {}

    def test_a_block_is_recorded_like_a_body(self, timer: Timer, work: Work) -> None:
        with timer.open() as opened, opened.session.window(0):
            for row in ("a", "b"):
                with opened.session.label(row, 0):
                    work()
        recording = opened.recording()
        assert shape(recording.rows) == {"a": [0], "b": [0]}
        assert (recording.timer, list(recording.runs), recording.timeline) == (timer.name, [0], ())

    def test_the_recording_of_a_block_is_made_once(self, timer: Timer, work: Work) -> None:
        with timer.open() as opened:
            one_label(work)(opened.session)
        assert opened.recording() is opened.recording()

    def test_a_session_behind_the_block_takes_nothing_from_its_recording(self, timer: Timer, work: Work) -> None:
        with timer.open() as opened:
            one_label(work)(opened.session)
        timer.record(one_label(work))
        assert opened.recording().rows["a"][0].calls == 1

    def test_there_is_no_recording_before_the_block_has_ended(self, timer: Timer) -> None:
        with timer.open() as opened, pytest.raises(TimingError, match="its `with` block has not ended"):
            opened.recording()

    def test_an_error_of_the_block_comes_out_and_leaves_the_timer_usable(self, timer: Timer, work: Work) -> None:
        def fail() -> None:
            raise ValueError("the user's error")

        with pytest.raises(ValueError, match="the user's error"), timer.open(timeline=True) as opened:
            one_label(fail)(opened.session)
        with pytest.raises(TimingError, match="or an error ended it"):
            opened.recording()
        assert timer.record(one_label(work)).rows["a"][0].calls == 1

    def test_a_timeline_has_one_host_event_per_label_of_the_window_in_order(self, timer: Timer, work: Work) -> None:
        with timer.open(timeline=True) as opened:
            one_label(work)(opened.session)
            with opened.session.window(0):
                for row in ("b", "a", "b"):
                    with opened.session.label(row, 0):
                        work()
        recording = opened.recording()
        host = host_events(recording)
        assert [(event.row, event.name, event.lane) for event in host] == [("b", "b", 0), ("a", "a", 0), ("b", "b", 0)]
        assert host[0].start_ns >= 0
        assert all(event.start_ns + event.duration_ns <= later.start_ns for event, later in pairwise(host))
        durations_ns = sum(event.duration_ns for event in host if event.row == "b")
        assert durations_ns == pytest.approx(recording.rows["b"][0].host_ns)
        assert list(recording.timeline) == sorted(recording.timeline, key=lambda event: event.start_ns)

    def test_of_several_windows_the_timeline_is_of_the_last(self, timer: Timer, work: Work) -> None:
        with timer.open(timeline=True) as opened:
            for sample, row in enumerate(("a", "b")):
                with opened.session.window(sample), opened.session.label(row, sample):
                    work()
        assert {event.row for event in opened.recording().timeline} == {"b"}

    def test_threads_are_lanes_in_the_order_in_which_they_appear(self, timer: Timer, work: Work) -> None:
        def labelled(session: Session, row: str) -> None:
            with session.label(row, 0):
                work()

        with timer.open(timeline=True) as opened, opened.session.window(0):
            labelled(opened.session, "a")
            thread = threading.Thread(target=labelled, args=(opened.session, "b"))
            thread.start()
            thread.join()
            labelled(opened.session, "a")
        assert [(event.row, event.lane) for event in host_events(opened.recording())] == [("a", 0), ("b", 1), ("a", 0)]

    def test_a_timeline_without_a_window_is_empty(self, timer: Timer, work: Work) -> None:
        with timer.open(timeline=True) as opened:
            one_label(work)(opened.session)
        assert opened.recording().timeline == ()

    def test_clearing_the_cache_and_draining_are_always_allowed(self, timer: Timer) -> None:
        timer.clear_cache()
        timer.synchronize()
        assert timer.cache in ("cold-read", "cold-write", "warm")


def one_label(work: Work) -> Callable[[Session], None]:
    """A body that runs `work` once, as row `a` of sample 0."""

    def body(session: Session) -> None:
        with session.label("a", 0):
            work()

    return body


def host_events(recording: Recording) -> list[TimelineEvent]:
    """The labels in a timeline."""
    assert all((event.device == -1) == (event.kind in ("host", "sync")) for event in recording.timeline)
    return [event for event in recording.timeline if event.kind == "host"]


def shape(rows: Mapping[str, Mapping[int, Sample]]) -> dict[str, list[int]]:
    return {row: sorted(samples) for row, samples in rows.items()}

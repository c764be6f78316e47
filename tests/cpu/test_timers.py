"""Wall clock and fake timer: the contract, and what is theirs alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from graphbench.device_records import DeviceKernel
from graphbench.errors import AttributionError, UsageError
from graphbench.timing.base import Sample, Session, Timer
from graphbench.timing.cache import L2
from graphbench.timing.fake import FakeTimer
from graphbench.timing.wallclock import WallClock
from tests.timer_contract import TimerContract, one_label

MS = 1_000_000


def sleep_a_little() -> None:
    time.sleep(0.002)


class TestWallClock(TimerContract):
    @pytest.fixture
    def timer(self) -> Timer:
        return WallClock()

    @pytest.fixture
    def work(self) -> Callable[[], None]:
        return sleep_a_little

    def test_busy_is_the_wall_time_inside_the_label(self) -> None:
        cost = WallClock().record(one_label(sleep_a_little)).rows["a"][0]
        assert 2 * MS <= cost.busy_ns == cost.host_ns

    def test_what_the_cpu_cannot_see_is_missing_not_zero(self) -> None:
        cost = WallClock().record(one_label(sleep_a_little)).rows["a"][0]
        assert (cost.kernel_ns, cost.copy_ns, cost.memset_ns, cost.span_ns, cost.n_kernels) == (None,) * 5

    def test_time_between_labels_is_the_wrappers(self) -> None:
        def body(session: Session) -> None:
            with session.window(0):
                sleep_a_little()
                with session.label("a", 0):
                    pass

        run = WallClock().record(body).runs[0]
        assert run.wrapper_ns is not None
        assert 2 * MS <= run.wrapper_ns <= run.wall_ns

    def test_preparation_inside_a_window_is_not_part_of_its_wall_time(self) -> None:
        def body(session: Session) -> None:
            with session.window(0), session.preparation():
                time.sleep(0.02)

        assert WallClock().record(body).runs[0].wall_ns < 15 * MS

    def test_nested_labels_are_an_error_not_a_double_count(self) -> None:
        def body(session: Session) -> None:
            with session.window(0), session.label("outer", 0), session.label("inner", 0):
                sleep_a_little()

        with pytest.raises(AttributionError, match="label inner was open inside label outer of the same thread"):
            WallClock().record(body)

    def test_labels_of_two_threads_at_once_take_the_walls_time_once(self) -> None:
        def labelled(session: Session, row: str) -> None:
            with session.label(row, 0):
                time.sleep(0.03)

        with WallClock().open() as opened, opened.session.window(0):
            threads = [threading.Thread(target=labelled, args=(opened.session, row)) for row in ("a", "b")]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        recording = opened.recording()
        run = recording.runs[0]
        rows_ns = sum(samples[0].busy_ns for samples in recording.rows.values())
        assert rows_ns >= 60 * MS
        assert 15 * MS < run.overlap_ns <= 30.5 * MS
        assert run.wrapper_ns is not None
        assert rows_ns + run.wrapper_ns - run.overlap_ns == run.wall_ns == run.busy_ns
        assert run.wall_ns - run.wrapper_ns >= 30 * MS

    def test_one_thread_at_a_time_overlaps_nothing(self) -> None:
        def body(session: Session) -> None:
            with session.window(0):
                for row in ("a", "b"):
                    one_label_of(session, row)

        assert WallClock().record(body).runs[0].overlap_ns == 0

    def test_a_label_that_outlasts_the_window_is_counted_in_it_only_while_it_is_open(self) -> None:
        go = threading.Event()

        def late(session: Session) -> None:
            with session.label("late", 0):
                go.wait()
                time.sleep(0.02)

        with WallClock().open() as opened:
            with opened.session.window(0):
                thread = threading.Thread(target=late, args=(opened.session,))
                thread.start()
                sleep_a_little()
            go.set()
            thread.join()
        run, late_ns = opened.recording().runs[0], opened.recording().rows["late"][0].busy_ns
        assert run.overlap_ns >= 19 * MS
        assert late_ns + (run.wrapper_ns or 0) - run.overlap_ns == run.wall_ns

    def test_labels_that_nest_outside_of_windows_are_an_error_too(self) -> None:
        def body(session: Session) -> None:
            with session.label("outer", 0), session.label("inner", 1):
                sleep_a_little()

        with pytest.raises(AttributionError, match="label inner was open inside label outer"):
            WallClock().record(body)

    def test_preparation_of_one_thread_during_a_label_of_another_is_not_the_wrappers(self) -> None:
        def prepared(session: Session) -> None:
            with session.preparation():
                time.sleep(0.02)

        with WallClock().open() as opened, opened.session.window(0):
            thread = threading.Thread(target=prepared, args=(opened.session,))
            thread.start()
            with opened.session.label("a", 0):
                time.sleep(0.04)
            thread.join()
        run, row_ns = opened.recording().runs[0], opened.recording().rows["a"][0].busy_ns
        assert run.wrapper_ns is not None
        assert 0 <= run.wrapper_ns < 15 * MS
        assert row_ns + run.wrapper_ns - run.overlap_ns == run.wall_ns


def one_label_of(session: Session, row: str) -> None:
    with session.label(row, 0):
        sleep_a_little()


class TestFakeTimer(TimerContract):
    @pytest.fixture
    def timer(self) -> Timer:
        return FakeTimer({"a": 100.0, "b": 200.0, "once": 100.0}, gap_ns=10.0)

    @pytest.fixture
    def work(self) -> Callable[[], None]:
        return lambda: None

    def test_the_body_really_runs(self) -> None:
        calls: list[int] = []
        FakeTimer({"a": 1.0}).record(one_label(lambda: calls.append(1)))
        assert calls == [1]

    def test_a_row_costs_what_the_script_says(self) -> None:
        cost = FakeTimer({"a": 123.0}).record(one_label(sleep_a_little)).rows["a"][0]
        assert (cost.busy_ns, cost.n_kernels, cost.device_kernels) == (123.0, 1, (DeviceKernel(name="a"),))

    def test_a_whole_sample_can_be_scripted(self) -> None:
        kernels = tuple(DeviceKernel(name=name) for name in ("k", "l"))
        scripted = Sample(busy_ns=9.0, host_ns=3.0, n_kernels=2, device_kernels=kernels)
        assert FakeTimer(lambda row, sample: scripted).record(one_label(lambda: None)).rows["a"][0] == scripted

    def test_an_unscripted_row_is_an_error_that_lists_the_script(self) -> None:
        with pytest.raises(AttributionError, match=r"a: not in the script .* which has b"):
            FakeTimer({"b": 1.0}).record(one_label(lambda: None))

    def test_scripted_stray_work_is_unattributed_and_conserved(self) -> None:
        def body(session: Session) -> None:
            with session.window(0):
                one_label(lambda: None)(session)

        recording = FakeTimer({"a": 100.0}, unattributed=("stray",), unattributed_ns=30.0).record(body)
        assert recording.unattributed == ("stray",)
        assert (recording.runs[0].busy_ns, recording.runs[0].unattributed_ns) == (130.0, 30.0)

    def test_its_timeline_is_what_the_script_adds_up_to(self) -> None:
        timer = FakeTimer({"a": Sample(busy_ns=100.0, host_ns=10.0, device_kernels=(DeviceKernel(name="gemm"),))})
        with timer.open(timeline=True) as opened, opened.session.window(0):
            for _ in range(2):
                one_label(lambda: None)(opened.session)
        assert [event[:5] for event in opened.recording().timeline] == [
            ("host", "a", "a", 0.0, 10.0),
            ("host", "a", "a", 10.0, 10.0),
            ("kernel", "a", "gemm", 10.0, 100.0),
            ("kernel", "a", "gemm", 110.0, 100.0),
        ]


@pytest.mark.parametrize("state", ["cold-read", "cold-write"])
def test_a_cold_cache_on_the_cpu_is_a_usage_error(state: str) -> None:
    with pytest.raises(UsageError, match="only a CUDA device's L2"):
        L2("cpu", state)  # type: ignore[arg-type]


def test_an_unknown_cache_state_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="'hot': expected one of cold-read, cold-write, warm"):
        L2("cpu", "hot")  # type: ignore[arg-type]


def test_a_warm_cache_needs_no_buffer() -> None:
    assert L2("cpu", "warm").nbytes == 0

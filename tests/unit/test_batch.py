"""Batch-execute: calls queued back to back behind a held device, on timers that need none."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from graphbench.condition_records import Policy
from graphbench.errors import AttributionError, OffThreadLaunchError, TimingError, UsageError
from graphbench.timing.base import Sample
from graphbench.timing.batch import batch_times
from graphbench.timing.fake import FakeTimer
from graphbench.timing.loop import Unit
from graphbench.timing.wallclock import WallClock

POLICY = Policy(timer="fake", cache="warm", values="captured", warmup=2, repeat=5)
CALIBRATION = 3
MS = 1_000_000


@dataclass
class Copy:
    """One unit of a batch; all write into one diary."""

    diary: list[str] = field(default_factory=list)
    name: str = "row"
    device: str = "cpu"
    may_launch_nothing: bool = False
    needs_restore: bool = True
    on_run: Callable[[], object] = lambda: None
    letter: str = ""

    def prepare(self) -> None:
        self.diary.append(f"prepare {self.letter}")

    def run(self) -> object:
        self.diary.append(f"run {self.letter}")
        return self.on_run()

    def allocations(self) -> int | None:
        return None


def copies(count: int = 4, **options: object) -> list[Unit]:
    return [Copy(**options) for _ in range(count)]  # type: ignore[arg-type]


def spanning(span_ns: float | None, **more: object) -> FakeTimer:
    return FakeTimer(lambda _row, _sample: Sample(busy_ns=100.0, host_ns=9.0, span_ns=span_ns, n_kernels=1), **more)  # type: ignore[arg-type]


class SlowHost:
    """Copies whose host time is set by hand, and a hold that writes down how long it was asked to hold."""

    def __init__(self, *seconds: float) -> None:
        self.held_ns: list[float] = []
        self._seconds = list(seconds)

    def hold(self, duration_ns: float) -> None:
        self.held_ns.append(duration_ns)
        time.sleep(self._seconds.pop(0) if len(self._seconds) > 1 else self._seconds[0])


def test_a_batch_takes_its_span_divided_by_the_calls_in_it() -> None:
    assert batch_times(spanning(400.0), copies(4), POLICY) == (100.0,) * 5


def test_without_a_span_the_busy_time_is_divided() -> None:
    assert batch_times(spanning(None), copies(4), POLICY) == (25.0,) * 5


def test_samples_keep_their_order() -> None:
    timer = FakeTimer(lambda _row, sample: 10.0 * (sample + 1))
    assert batch_times(timer, copies(2), replace(POLICY, repeat=3)) == (5.0, 10.0, 15.0)


def test_all_copies_are_prepared_then_the_device_is_held_then_all_are_called() -> None:
    diary: list[str] = []
    units: list[Unit] = [Copy(diary, letter=letter) for letter in "ab"]
    batch_times(spanning(1.0), units, replace(POLICY, warmup=0, repeat=1), hold=lambda _: diary.append("hold"))
    one_round = ["prepare a", "prepare b", "hold", "run a", "run b"]
    assert diary == one_round * (CALIBRATION + 1)


def test_warm_up_and_samples_follow_the_policy() -> None:
    diary: list[str] = []
    batch_times(spanning(1.0), [Copy(diary, letter="a"), Copy(diary, letter="b")], POLICY)
    assert diary.count("run a") == CALIBRATION + 2 + 5


def test_nothing_is_cleared_within_a_batch() -> None:
    timer = spanning(1.0)
    batch_times(timer, copies(), POLICY)
    assert timer.cleared == 0


def test_the_device_is_held_for_longer_than_the_host_needed() -> None:
    host = SlowHost(0.002)
    batch_times(spanning(1.0), copies(), POLICY, hold=host.hold)
    assert min(host.held_ns[CALIBRATION:]) >= 3 * 2 * MS


def test_too_short_a_hold_is_followed_by_a_longer_one() -> None:
    host = SlowHost(*(0.0,) * (CALIBRATION + 2), *(0.005,) * 5, 0.0)
    found = batch_times(spanning(8.0), copies(), POLICY, hold=host.hold)
    assert len(found) == 5
    assert host.held_ns[CALIBRATION] < 5 * MS <= host.held_ns[-1] / 3


def test_a_sample_that_the_hold_did_not_cover_is_left_out() -> None:
    host = SlowHost(*(0.003,) * (CALIBRATION + 2), 0.2, *(0.003,) * 4)
    assert len(batch_times(spanning(8.0), copies(), POLICY, hold=host.hold)) == 4


def test_a_host_that_no_hold_outlasts_is_an_error_that_names_both_times() -> None:
    def wait_for_the_device(duration_ns: float) -> None:
        time.sleep(1.5 * duration_ns / 1e9)

    with pytest.raises(TimingError, match=r"row: the host needs .* ms to queue 4 calls, longer than the .* ms"):
        batch_times(spanning(1.0), copies(), replace(POLICY, warmup=0), hold=wait_for_the_device)


def test_a_single_copy_is_no_batch() -> None:
    with pytest.raises(UsageError, match="a batch of 1 calls: expected at least 2"):
        batch_times(spanning(1.0), copies(1), POLICY)


def test_a_batch_without_device_work_is_an_error() -> None:
    timer = FakeTimer(lambda _row, _sample: Sample(busy_ns=0.0, host_ns=9.0, n_kernels=0))
    with pytest.raises(AttributionError, match="of 5 batches 0 are not in the recording and 5 left no device work"):
        batch_times(timer, copies(), POLICY)


def test_views_may_take_nothing() -> None:
    timer = FakeTimer(lambda _row, _sample: Sample(busy_ns=0.0, host_ns=9.0, n_kernels=0))
    assert batch_times(timer, copies(may_launch_nothing=True), POLICY) == (0.0,) * 5


def test_work_outside_the_label_is_an_error_that_names_it() -> None:
    with pytest.raises(OffThreadLaunchError, match="row: a batch launched stray outside its label"):
        batch_times(spanning(1.0, unattributed=("stray",)), copies(), POLICY)


def test_on_the_cpu_it_is_the_wall_time_per_call_and_nothing_is_held() -> None:
    host = SlowHost(0.0)
    units = copies(3, on_run=lambda: time.sleep(0.002))
    found = batch_times(WallClock(), units, replace(POLICY, repeat=3, warmup=0), hold=host.hold)
    assert (len(found), host.held_ns) == (3, [])
    assert 2 * MS <= min(found) < 6 * MS

"""The option `lock_gpu_clock` on its way from the user to the lock and into the profile. No GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import pytest
import torch

import graphbench
from graphbench.errors import SetupError, UsageError
from graphbench.measuring import locking
from graphbench.measuring.options import Timers, policy_of, timers_for
from graphbench.options import MeasureOptions
from graphbench.timing.wallclock import WallClock


def test_it_is_refused_on_the_cpu() -> None:
    with pytest.raises(UsageError, match="lock_gpu_clock=1755: this model runs on the CPU"):
        timers_for(MeasureOptions(lock_gpu_clock=1755), torch.device("cpu"))


def test_a_clock_of_no_mhz_is_refused() -> None:
    with pytest.raises(UsageError, match="lock_gpu_clock=0"):
        MeasureOptions(lock_gpu_clock=0)


def test_the_profiles_policy_tells_it() -> None:
    timers = Timers(WallClock(), WallClock())
    assert policy_of(MeasureOptions(lock_gpu_clock=1755), timers).lock_gpu_clock_mhz == 1755
    assert policy_of(MeasureOptions(), timers).lock_gpu_clock_mhz is None


def test_only_when_asked_for_the_clock_is_locked_on_the_devices_uuid(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[object] = []

    @contextmanager
    def lock(uuid: str, mhz: int, spin: Callable[[float], None]) -> Iterator[None]:
        log.append((uuid, mhz))
        yield
        log.append("reset")

    monkeypatch.setattr(locking, "device_uuid", lambda device: f"uuid of {device}")
    monkeypatch.setattr(locking, "locked_gpu_clock", lock)
    with locking.clock_lock(MeasureOptions(), torch.device("cuda:1")):
        pass
    assert log == []
    with locking.clock_lock(MeasureOptions(lock_gpu_clock=1755), torch.device("cuda:1")):
        assert log == [("uuid of cuda:1", 1755)]
    assert log == [("uuid of cuda:1", 1755), "reset"]


@contextmanager
def stuck(uuid: str, mhz: int, spin: Callable[[float], None]) -> Iterator[None]:
    """A lock that is taken and cannot be reset."""
    yield
    raise SetupError("the SM clock of GPU-a is STILL LOCKED", hint="sudo nvidia-smi -rgc")


def test_a_clock_that_stays_locked_loses_nothing_that_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locking, "device_uuid", str)
    monkeypatch.setattr(locking, "locked_gpu_clock", stuck)
    notes: list[str] = []
    with (
        pytest.warns(RuntimeWarning, match="STILL LOCKED"),
        locking.clock_lock(MeasureOptions(lock_gpu_clock=1755), torch.device("cuda:0"), notes),
    ):
        pass
    assert notes == ["the SM clock of GPU-a is STILL LOCKED (sudo nvidia-smi -rgc)"]


def test_an_error_while_the_clock_is_locked_is_no_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locking, "device_uuid", str)
    monkeypatch.setattr(locking, "locked_gpu_clock", lambda *_: nullcontext())
    notes: list[str] = []
    with (
        pytest.raises(SetupError, match="no CUPTI"),
        locking.clock_lock(MeasureOptions(lock_gpu_clock=1755), torch.device("cuda:0"), notes),
    ):
        raise SetupError("no CUPTI")
    assert notes == []


def test_only_steps_under_the_recorded_ones_clock_have_their_wall_time_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    locked: list[bool] = [False]
    seen: list[bool] = []

    @contextmanager
    def lock(*_: object) -> Iterator[None]:
        locked[0] = True
        yield
        locked[0] = False

    compiled = torch.compile(lambda x: x.relu(), backend="graphbench")

    def step() -> None:
        seen.append(locked[0])
        compiled(torch.ones(8))

    monkeypatch.setattr("graphbench.measuring.step.clock_lock", lock)
    record = graphbench.profile(step, warmup_steps=3, repeat=3, warmup=1).record
    assert seen == [False, True, True, True]
    assert record.step is not None
    assert len(record.step.plain_wall_ns) == 1  # the warm-up behind it rehearses the recording

"""The option `lock_gpu_clock` on its way from the user to the lock and into the profile. No GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch

from graphbench.errors import UsageError
from graphbench.measuring import locking
from graphbench.measuring.options import MeasureOptions, Timers, policy_of, timers_for
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

"""Rows of a comparison as on a device: kernels, clocks and stamps of both halves, and what a row must not lack."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from graphbench import Implementation
from graphbench.comparing import compare as comparing
from graphbench.comparing.halves import half_of
from graphbench.condition_records import Policy
from graphbench.device_records import ClockState, DeviceKernel
from graphbench.errors import TimingError
from graphbench.measurements import CacheState
from graphbench.options import MeasureOptions
from graphbench.timing.base import Sample
from graphbench.timing.clocks import NoClocks
from tests.cpu.half_timer import HalfTimer, compare, nothing


def sample(busy_ns: float, kernel: str) -> Sample:
    return Sample(busy_ns=busy_ns, host_ns=1.0, n_kernels=1, device_kernels=(DeviceKernel(name=kernel),))


def on_device(**options: Any) -> HalfTimer:
    """A timer that is taken for CUPTI, whose stamps come in steps of 32 ns."""
    return HalfTimer(name="cupti", cache="cold-read", **options)


class Counting:
    """A clock that rises by 1 MHz from reading to reading."""

    def __init__(self) -> None:
        self.mhz = 1000

    def read(self) -> ClockState:
        self.mhz += 1
        return ClockState(sm_mhz=self.mhz)


def test_the_step_of_the_devices_stamps_decides_what_is_the_same() -> None:
    costs = {"A": (2000.0, 2000.0), "B": (2032.0, 2032.0), "C": (2064.0, 2064.0)}
    table = compare(dict.fromkeys("ABC", nothing), timer=on_device(costs=costs), repeat=20)
    assert table.environment.stamp_grain_ns == 32
    assert [(row.grain_ns, row.verdict) for row in table.rows] == [(32, None), (32, "same"), (32, "slower")]
    assert "stamps in steps of 32 ns" in str(table)


def test_halves_within_a_step_of_the_devices_stamps_have_not_drifted() -> None:
    (row,) = compare({"A": nothing}, timer=on_device(costs={"A": (2000.0, 2032.0)}), repeat=20).rows
    assert row.measurement.warnings == ()


def test_kernels_of_both_halves_are_in_the_row() -> None:
    timer = HalfTimer({"A": (sample(10.0, "first"), sample(10.0, "second"))})
    (row,) = compare({"A": nothing}, timer=timer).rows
    assert [kernel.name for kernel in row.measurement.device_kernels] == ["first", "second"]


def test_clocks_are_read_around_both_halves() -> None:
    (row,) = compare({"A": nothing}, clocks=Counting()).rows
    read = [state.sm_mhz for half in row.halves for state in half.clocks]
    assert [len(half.clocks) for half in row.halves] == [3, 3]
    assert [state.sm_mhz for state in row.measurement.clocks] == read == sorted(read, key=lambda mhz: mhz or 0)


def test_why_clocks_are_unknown_is_said() -> None:
    table = compare({"A": nothing}, clocks=NoClocks("no NVML (install it)"))
    assert "\nnote: GPU clocks unknown: no NVML (install it)\n" in str(table)


def test_the_clock_is_locked_while_halves_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []

    @contextmanager
    def lock(options: MeasureOptions, device: torch.device, notes: list[str]) -> Iterator[None]:
        log.append(f"lock {options.lock_gpu_clock} on {device}")
        yield
        log.append("reset")
        notes.append("still locked")

    monkeypatch.setattr(comparing, "clock_lock", lock)
    table = compare({"A": lambda: log.append("call")}, lock_gpu_clock=1500)
    assert (log[:2], log[2], log[-1]) == (["call", "lock 1500 on cpu"], "call", "reset")
    assert (table.policy.lock_gpu_clock_mhz, table.notes[0]) == (1500, "still locked")


def test_a_half_may_look_for_quiet_half_as_long() -> None:
    half = half_of(Policy(timer="fake", cache="warm", values="captured", noise=0.01, noise_ms=800.0))
    assert (half.noise, half.noise_ms) == (0.01, 400.0)


IDLE = Sample(busy_ns=0.0, host_ns=1.0, n_kernels=0)


def test_a_view_may_launch_nothing_and_others_may_not() -> None:
    timer = HalfTimer(dict.fromkeys(("view", "work"), (IDLE, IDLE)))
    rows = compare({"view": lambda x: x[1:], "work": lambda x: x + 1}, torch.ones(3), timer=timer).rows
    assert [row.measurement.status for row in rows] == ["ok", "failed"]
    assert "left no device work" in rows[1].measurement.reason


def test_what_writes_and_returns_its_input_must_launch_something() -> None:
    own = torch.ones(3)
    writing = Implementation("A", lambda y: y.mul_(2), inputs=(own,), reset=lambda: own.fill_(1.0))
    (row,) = compare([writing], timer=HalfTimer({"A": (IDLE, IDLE)})).rows
    assert "left no device work" in row.measurement.reason


def test_work_launched_from_another_thread_names_the_helper_for_backwards() -> None:
    (row,) = compare({"A": nothing}, timer=HalfTimer(unattributed=("gelu_backward",))).rows
    assert "launched gelu_backward outside its label" in row.measurement.reason
    assert row.measurement.reason.endswith("; a backward is timed through graphbench.backward_of")


def test_rows_that_were_not_measured_alike_are_refused() -> None:
    class Turning(HalfTimer):
        """Another cache state for the implementation B."""

        @property
        def cache(self) -> CacheState:
            return "cold-read" if self.running == "B" else "warm"

    timer = Turning()
    timer.running = ""
    calls = {name: lambda name=name: setattr(timer, "running", name) for name in "AB"}
    with pytest.raises(TimingError, match=r"different caches .A: warm, B: cold-read"):
        compare(calls, timer=timer)

"""A locked GPU clock is always restored, however the process that locked it ends. Real processes, a fake NVML."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphbench.errors import SetupError, UsageError
from graphbench.timing.clock_lock import SPIN_S, locked_gpu_clock

ROOT = Path(__file__).parents[2]
FAKE = ROOT / "tests" / "fake_nvml"
H200 = {
    "sm_mhz": 345,
    "memory_mhz": 3201,
    "reasons": 0x1,
    "max_sm_mhz": 1980,
    "persistence": 1,
    "mig": 0,
    "memory_clocks": [3201],
    "sm_clocks": {"3201": [1980, 1965, 1950, 1755, 1740, 1500, 345]},
}
NO_PERMISSION = 4
PATIENCE_S = 10.0

LOCKED = ("nvmlDeviceSetGpuLockedClocks", "GPU-a", 1755, 1755)
RESET = ("nvmlDeviceResetGpuLockedClocks", "GPU-a")
LOCKING = """
import os, signal, sys, time
from graphbench.timing.clock_lock import locked_gpu_clock
def ready(*words):
    print("locked", *words, flush=True)
signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background may have been told to ignore it
with locked_gpu_clock("a", 1755, lambda seconds: None):
"""


class FakeGpus:
    """What the fake NVML sees, and what was asked of it."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "nvml.json"
        self.write({"GPU-a": H200})

    def write(self, gpus: dict[str, dict[str, Any]], **state: Any) -> None:
        self.file.write_text(json.dumps({"gpus": gpus, **state}), encoding="utf-8")

    def calls(self) -> list[list[Any]]:
        """Every call so far: process id, name, arguments."""
        log = self.file.with_suffix(".log")
        return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []

    def changes(self) -> list[tuple[Any, ...]]:
        """Locks and resets so far."""
        return [tuple(call[1:]) for call in self.calls() if "LockedClocks" in call[1]]

    def resetters(self) -> list[int]:
        """Process ids of who reset a clock."""
        return [call[0] for call in self.calls() if call[1] == RESET[0]]

    def guardian(self) -> int:
        """Process id of the guardian: whoever else used NVML."""
        return next(call[0] for call in self.calls() if call[0] != os.getpid())


@pytest.fixture
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGpus:
    monkeypatch.syspath_prepend(str(FAKE))
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)
    found = FakeGpus(tmp_path)
    monkeypatch.setenv("FAKE_NVML", str(found.file))
    return found


def rest(seconds: float) -> None:
    """Stands for spinning the GPU."""


def enter(uuid: str, mhz: int) -> None:
    """Lock a clock that must be refused."""
    with locked_gpu_clock(uuid, mhz, rest):
        pytest.fail("the block was entered")


def wait_for(condition: Callable[[], bool]) -> bool:
    end_s = time.monotonic() + PATIENCE_S
    while not condition() and time.monotonic() < end_s:
        time.sleep(0.01)
    return condition()


def start(gpus: FakeGpus, body: str) -> tuple[subprocess.Popen[str], list[str]]:
    """Run `body` inside a locked block in a process of its own, in a session of its own; also its words when locked."""
    process = subprocess.Popen(
        [sys.executable, "-c", f"{LOCKING}    {body}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"PYTHONPATH": f"{FAKE}{os.pathsep}{ROOT}", "FAKE_NVML": str(gpus.file)},
        start_new_session=True,
    )
    assert process.stdout is not None
    return process, process.stdout.readline().split()


def finish(process: subprocess.Popen[str]) -> int:
    process.wait(PATIENCE_S)
    assert process.stdout is not None
    process.stdout.close()
    return process.returncode


def test_the_clock_is_held_inside_the_block_and_reset_after_it(gpus: FakeGpus) -> None:
    with locked_gpu_clock("a", 1755, rest):
        assert gpus.changes() == [LOCKED]
    assert gpus.changes() == [LOCKED, RESET]


def test_the_gpu_works_before_its_clock_is_checked(gpus: FakeGpus) -> None:
    spun: list[tuple[float, int]] = []

    def spin(seconds: float) -> None:
        spun.append((seconds, [call[1] for call in gpus.calls()].count("nvmlDeviceGetClockInfo")))

    with locked_gpu_clock("a", 1755, spin):
        assert spun == [(SPIN_S, 0)]


def test_the_guardian_is_ready_before_the_clock_is_locked(gpus: FakeGpus) -> None:
    with locked_gpu_clock("a", 1755, rest):
        calls = gpus.calls()
        found = next(i for i, call in enumerate(calls) if call[0] == gpus.guardian() and "HandleByUUID" in call[1])
        assert found < next(i for i, call in enumerate(calls) if call[1] == LOCKED[0])


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_exception_resets_the_clock_and_goes_on(gpus: FakeGpus, error: type[BaseException]) -> None:
    with pytest.raises(error), locked_gpu_clock("a", 1755, rest):
        raise error
    assert gpus.changes() == [LOCKED, RESET]


def test_an_exception_while_spinning_resets_the_clock(gpus: FakeGpus) -> None:
    def out_of_memory(seconds: float) -> None:
        raise MemoryError

    with pytest.raises(MemoryError), locked_gpu_clock("a", 1755, out_of_memory):
        pytest.fail("the block was entered")
    assert gpus.changes() == [LOCKED, RESET]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_process_leaves_no_locked_clock(gpus: FakeGpus, number: signal.Signals) -> None:
    process, _ = start(gpus, "ready(); time.sleep(60)")
    process.send_signal(number)
    assert finish(process) == -number
    assert wait_for(lambda: gpus.changes() == [LOCKED, RESET])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_to_the_whole_session_leaves_no_locked_clock(gpus: FakeGpus, number: signal.Signals) -> None:
    process, _ = start(gpus, "ready(); time.sleep(60)")
    os.killpg(process.pid, number)
    assert finish(process) == -number
    assert wait_for(lambda: gpus.changes() == [LOCKED, RESET])


def test_the_guardian_survives_what_ends_a_job(gpus: FakeGpus) -> None:
    with locked_gpu_clock("a", 1755, rest):
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            os.kill(gpus.guardian(), number)
        time.sleep(0.3)
        assert gpus.changes() == [LOCKED]
    assert gpus.resetters() == [gpus.guardian()]


def test_a_crash_leaves_no_locked_clock(gpus: FakeGpus) -> None:
    process, _ = start(gpus, "ready(); os.abort()")
    assert finish(process) == -signal.SIGABRT
    assert wait_for(lambda: gpus.changes() == [LOCKED, RESET])


def test_a_forked_child_that_outlives_a_killed_parent_does_not_keep_the_clock_locked(gpus: FakeGpus) -> None:
    process, words = start(gpus, "child = os.fork(); child and ready(child); time.sleep(60)")
    child = int(words[1])
    try:
        process.kill()
        finish(process)
        assert wait_for(lambda: gpus.changes() == [LOCKED, RESET])
        os.kill(child, 0)  # it still lives, and holds the pipe to the guardian open
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_forked_child_that_outlives_the_block_does_not_hold_its_end_up(gpus: FakeGpus) -> None:
    process, words = start(gpus, "child = os.fork(); ready(child) if child else time.sleep(60)")
    try:
        assert finish(process) == 0
        assert gpus.changes() == [LOCKED, RESET]
    finally:
        os.kill(int(words[1]), signal.SIGKILL)


def test_a_forked_child_that_leaves_the_block_resets_nothing(gpus: FakeGpus) -> None:
    process, words = start(gpus, "child = os.fork(); child and (os.waitpid(child, 0), ready(), time.sleep(60))")
    try:
        assert words == ["locked"]
        assert gpus.changes() == [LOCKED]
    finally:
        process.kill()
        finish(process)
    assert wait_for(lambda: gpus.changes() == [LOCKED, RESET])


def test_a_killed_guardian_is_stood_in_for(gpus: FakeGpus) -> None:
    with locked_gpu_clock("a", 1755, rest):
        os.kill(gpus.guardian(), signal.SIGKILL)
    assert gpus.resetters() == [os.getpid()]


def test_a_clock_that_cannot_be_reset_is_a_loud_error_with_the_command(gpus: FakeGpus) -> None:
    gpus.write({"GPU-a": H200}, refuse={RESET[0]: NO_PERMISSION})
    with pytest.raises(SetupError, match="STILL LOCKED") as raised, locked_gpu_clock("a", 1755, rest):
        pass
    assert raised.value.hint == "reset it by hand: sudo nvidia-smi -i GPU-a -rgc"


def test_a_guardian_that_does_not_get_ready_means_no_lock(gpus: FakeGpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/true")
    with pytest.raises(SetupError, match="did not get ready"):
        enter("a", 1755)
    assert gpus.changes() == []


def test_a_lock_without_effect_is_undone_and_persistence_mode_explained(gpus: FakeGpus) -> None:
    gpus.write({"GPU-a": H200 | {"persistence": 0}}, lock_works=False)
    with pytest.raises(SetupError, match=r"locked to 1755 MHz, but .* it is 345 MHz; persistence") as raised:
        enter("a", 1755)
    assert raised.value.hint is not None
    assert "nvidia-smi -pm 1" in raised.value.hint
    assert gpus.changes() == [LOCKED, RESET]


def test_a_clock_held_down_names_the_reason(gpus: FakeGpus) -> None:
    gpus.write({"GPU-a": H200 | {"sm_mhz": 1500, "reasons": 0x4, "persistence": 0}}, lock_works=False)
    with pytest.raises(SetupError, match="it is 1500 MHz; held down by: software power cap"):
        enter("a", 1755)
    assert gpus.changes() == [LOCKED, RESET]


@pytest.mark.parametrize(("found", "taken"), [(1740, True), (1770, True), (1739, False), (1771, False)])
def test_a_step_of_15_mhz_away_is_locked(gpus: FakeGpus, found: int, taken: bool) -> None:
    gpus.write({"GPU-a": H200 | {"sm_mhz": found}}, lock_works=False)
    if taken:
        with locked_gpu_clock("a", 1755, rest):
            pass
    else:
        with pytest.raises(SetupError, match=f"it is {found} MHz"):
            enter("a", 1755)


def test_without_permission_nothing_is_reset_and_sudo_is_named(gpus: FakeGpus) -> None:
    gpus.write({"GPU-a": H200}, refuse={LOCKED[0]: NO_PERMISSION})
    with pytest.raises(SetupError, match="Insufficient Permissions") as raised:
        enter("a", 1755)
    assert raised.value.hint is not None
    assert "sudo" in raised.value.hint
    assert gpus.changes() == [LOCKED]  # asked for and refused: somebody else's lock stays


def test_an_unsupported_clock_names_the_nearest_and_locks_nothing(gpus: FakeGpus) -> None:
    with pytest.raises(UsageError, match="nearest: 1740, 1755, 1950, 1965 MHz"):
        enter("a", 1745)
    assert gpus.changes() == []


def test_a_clock_above_the_highest_is_refused_where_no_list_is_known(gpus: FakeGpus) -> None:
    gpus.write({"GPU-a": {"sm_mhz": 345, "max_sm_mhz": 1980}})
    with pytest.raises(UsageError, match="highest SM clock of GPU-a is 1980 MHz"):
        enter("a", 2000)
    assert gpus.changes() == []


def test_a_gpu_in_slices_is_refused(gpus: FakeGpus) -> None:
    gpus.write({"GPU-a": H200 | {"mig": 1}}, slices={"MIG-s": "GPU-a"})
    with pytest.raises(SetupError, match="GPU-a is cut into MIG slices"):
        enter("s", 1755)
    assert gpus.changes() == []


def test_only_the_device_that_is_meant_is_locked(gpus: FakeGpus) -> None:
    gpus.write({"GPU-b": H200, "GPU-a": H200})
    with locked_gpu_clock("a", 1755, rest):
        pass
    assert gpus.changes() == [LOCKED, RESET]

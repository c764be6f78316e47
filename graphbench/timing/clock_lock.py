"""Holding a GPU's SM clock while it is measured, and letting it go however the measuring process ends.

A locked clock outlives the process that locked it. So a guardian, a small process of its own, is started first
(`clock_lock_guard`): it resets the clock when it is told to, and when this process is gone, killed or crashed. Only
what kills every process at once (the end of a container, of the machine) ends the guardian as well.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from graphbench.errors import SetupError, UsageError
from graphbench.timing.clock_lock_guard import DISMISS, READY, RESTORE, by_hand
from graphbench.timing.nvml import Nvml

SPIN_S: Final = 1.5
"""How long the GPU works before its clock is read: a clock takes a while to get where it was sent."""

TOLERANCE_MHZ: Final = 15
"""Clocks come in steps of 15 MHz."""

NEAREST: Final = 4
PATIENCE_S: Final = 30.0
OPTION: Final = "lock_gpu_clock"


@contextmanager
def locked_gpu_clock(uuid: str, mhz: int, spin: Callable[[float], None]) -> Iterator[None]:
    """Hold the SM clock of a GPU at `mhz` inside the block. It is reset afterwards, whatever ends the block.

    NVML cannot tell whether somebody else had locked the clock before: their lock is gone afterwards too.

    Args:
        uuid: of the device, as `clocks.device_uuid` gives it.
        mhz: one of the device's SM clocks, in MHz.
        spin: keeps the device busy for so many seconds, and returns when it is idle again.

    Raises:
        UsageError: the device has no such clock.
        SetupError: not permitted, cut into MIG slices, the lock did not take effect, or the clock could not be reset.
    """
    nvml = Nvml(uuid)
    _check_device(nvml)
    _check_clock(nvml, mhz)
    guardian = _Guardian(nvml)
    last_word = RESTORE
    try:
        try:
            nvml.lock_sm_clock(mhz)
        except SetupError:
            last_word = DISMISS
            raise
        spin(SPIN_S)
        _check_took_effect(nvml, mhz)
        yield
    finally:
        guardian.end(last_word)


class _Guardian:
    """The guardian process of one GPU's clock, ready.

    Raises:
        SetupError: it does not start.

    Source: `subprocess.Popen`: pipes are closed on exec, so only forked children share this end.
    """

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml
        self._owner = os.getpid()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "graphbench.timing.clock_lock_guard", nvml.uuid, str(self._owner)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",  # `-m` looks for modules in the current folder first
            env=os.environ | {"PYTHONPATH": os.pathsep.join(str(Path(entry).absolute()) for entry in sys.path)},
            start_new_session=True,  # Ctrl-C goes to the whole session of the terminal
        )
        said = self._first_line()
        if said != READY:
            self._process.kill()
            self._process.communicate()
            raise SetupError(
                f"the process that would restore the GPU clock did not get ready: it said {said.strip()!r}",
                hint="the clock was not locked; measure without locking it",
                subject=nvml.uuid,
            )

    def _first_line(self) -> str:
        out = self._process.stdout
        if out is None or not select.select([out], [], [], PATIENCE_S)[0]:
            return ""
        return out.readline()

    def end(self, last_word: str) -> None:
        """Have the clock reset, unless the last word is to dismiss, and see to it that it was.

        Raises:
            SetupError: the clock is still locked.
        """
        if os.getpid() != self._owner:
            return  # a forked child leaves the block: the clock is its parent's
        try:
            said, _ = self._process.communicate(last_word, timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            said = f"no answer in {PATIENCE_S:.0f} s"
            self._process.kill()  # or it would reset whatever lock is there when this process ends
            self._process.communicate()
        if last_word == DISMISS or self._process.returncode == 0:
            return
        try:
            self._nvml.reset_sm_clock()  # the guardian may have been killed
        except SetupError as error:
            raise SetupError(
                f"the SM clock of {self._nvml.uuid} is STILL LOCKED: {error.message}; guardian: {said.strip()!r}",
                hint=by_hand(self._nvml.uuid),
                subject=self._nvml.uuid,
            ) from error


def _check_device(nvml: Nvml) -> None:
    if nvml.mig_mode:
        raise SetupError(
            f"{nvml.uuid} is cut into MIG slices, which share one clock: it is not locked for one of them",
            hint="measure without locking the clock, or on a GPU without MIG",
            subject=OPTION,
        )


def _check_clock(nvml: Nvml, mhz: int) -> None:
    supported = nvml.supported_sm_mhz
    if supported and mhz not in supported:
        nearest = sorted(sorted(supported, key=lambda clock: abs(clock - mhz))[:NEAREST])
        raise UsageError(
            f"{OPTION}={mhz}: {nvml.uuid} has no such SM clock; nearest: {', '.join(map(str, nearest))} MHz",
            hint=f"it has {len(supported)} of them, from {supported[0]} to {supported[-1]} MHz; "
            "`nvidia-smi -q -d SUPPORTED_CLOCKS` lists them",
            subject=OPTION,
        )
    if nvml.max_sm_mhz is not None and mhz > nvml.max_sm_mhz:
        raise UsageError(
            f"{OPTION}={mhz}: the highest SM clock of {nvml.uuid} is {nvml.max_sm_mhz} MHz", subject=OPTION
        )


def _check_took_effect(nvml: Nvml, mhz: int) -> None:
    state = nvml.clock_state()
    if state.sm_mhz is not None and abs(state.sm_mhz - mhz) <= TOLERANCE_MHZ:
        return
    found = "is not known" if state.sm_mhz is None else f"is {state.sm_mhz} MHz"
    if state.throttle:
        reason = f"; held down by: {', '.join(state.throttle)}"
        hint = "choose a lower clock, which power and cooling allow at full load"
    elif nvml.persistence_mode() is False:
        reason = "; persistence mode is off"
        hint = "without it the driver forgets the lock whenever nobody uses the GPU: sudo nvidia-smi -pm 1"
    else:
        reason = ""
        hint = "another process may be setting clocks; `nvidia-smi -q -d CLOCK,PERFORMANCE` shows what limits them"
    raise SetupError(
        f"the SM clock of {nvml.uuid} was locked to {mhz} MHz, but after {SPIN_S} s of work it {found}{reason}",
        hint=hint,
        subject=OPTION,
    )

"""Holds the GPU's clock for as long as something is measured, if that was asked for."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Final

import torch

from graphbench.errors import SetupError
from graphbench.options import MeasureOptions
from graphbench.timing.clock_lock import locked_gpu_clock
from graphbench.timing.clocks import device_uuid

SPIN_ELEMENTS: Final = 1 << 24
CALLS_PER_DRAIN: Final = 20


@contextmanager
def clock_lock(options: MeasureOptions, device: torch.device, notes: list[str] | None = None) -> Iterator[None]:
    """Locks the SM clock inside its block; nothing without the option `lock_gpu_clock`.

    Args:
        options: the option is one of them.
        device: whose clock.
        notes: gets the error of a clock that could not be reset, which then is a warning: nothing measured is lost.

    Raises:
        UsageError: the device has no such clock.
        SetupError: the clock cannot be locked, or not be reset and there are no `notes`.
    """
    if options.lock_gpu_clock is None:
        yield
        return
    measured = False
    try:
        with locked_gpu_clock(device_uuid(str(device)), options.lock_gpu_clock, spin_on(device)):
            yield
            measured = True
    except SetupError as error:
        if not measured or notes is None:
            raise
        notes.append(f"{error.message} ({error.hint})")
        warnings.warn(notes[-1], RuntimeWarning, stacklevel=3)


def spin_on(device: torch.device) -> Callable[[float], None]:
    """A function that keeps a device busy for so many seconds, and leaves it idle.

    Elementwise work: it needs no workspace that stays, and neither autocast nor deterministic mode changes it.
    """

    def spin(seconds: float) -> None:
        with torch.no_grad():
            block = torch.zeros(SPIN_ELEMENTS, device=device, dtype=torch.float32)
            end_s = perf_counter() + seconds
            while perf_counter() < end_s:
                for _ in range(CALLS_PER_DRAIN):
                    block.sin_()
                torch.cuda.synchronize(device)

    return spin

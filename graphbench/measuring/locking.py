"""Holds the GPU's clock for as long as something is measured, if that was asked for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from time import perf_counter
from typing import Final

import torch

from graphbench.measuring.options import MeasureOptions
from graphbench.timing.clock_lock import locked_gpu_clock
from graphbench.timing.clocks import device_uuid

SPIN_ELEMENTS: Final = 1 << 24
CALLS_PER_DRAIN: Final = 20


def clock_lock(options: MeasureOptions, device: torch.device) -> AbstractContextManager[None]:
    """Locks the SM clock inside its block; nothing without the option `lock_gpu_clock`.

    Raises:
        UsageError: the device has no such clock.
        SetupError: the clock cannot be locked, or not be reset.
    """
    if options.lock_gpu_clock is None:
        return nullcontext()
    return locked_gpu_clock(device_uuid(str(device)), options.lock_gpu_clock, spin_on(device))


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

"""What is in the device's L2 cache when a sample starts: cleared by reading, cleared by writing, or left as it is."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from graphbench.errors import SetupError, TimingError, UsageError
from graphbench.measurements import CacheState

if TYPE_CHECKING:
    import torch

STATES: Final[tuple[CacheState, ...]] = ("cold-read", "cold-write", "warm")
_NOT_SUPPORTED: Final = 801  # CUDA_ERROR_NOT_SUPPORTED: a device on which no line can be made to persist
TIMES_L2: Final = 2
"""Buffer size in L2 sizes: one pass over it evicts whatever the replacement policy would rather keep."""


class L2:
    """Brings one device's L2 into a chosen state before a sample; the work is untimed and never synchronises.

    `cold-read` (the default elsewhere) reads a buffer of twice the L2, leaving clean lines. `cold-write` zeroes it, as
    other tools do; its dirty lines are written back while the sample runs, which reads longer. `warm` does nothing.

    Args:
        device: torch device with its index, as `cuda:1`; the CPU knows only `warm`.
        state: the state to bring about.

    Raises:
        UsageError: an unknown state, or a cold one asked for on the CPU.
        SetupError: the device does not tell its L2 size.

    Source: `torch.cuda.get_device_properties(device).L2_cache_size` (torch 2.11 to 2.14), in bytes;
        `cuCtxResetPersistingL2Cache` (libcuda): 4 µs on an H200.
    """

    def __init__(self, device: str, state: CacheState) -> None:
        if state not in STATES:
            raise UsageError(f"cache state {state!r}: expected one of {', '.join(STATES)}")
        self.state = state
        self.nbytes = 0
        self._buffer: torch.Tensor | None = None
        self._sum: torch.Tensor | None = None
        self._reset_persisting: Callable[[], int] = lambda: 0
        if state == "warm":
            return
        if not device.startswith("cuda"):
            raise UsageError(
                f"cache state {state!r} on {device!r}: only a CUDA device's L2 can be cleared",
                hint="leave the option out; rows of the CPU say `warm`",
                subject=device,
            )
        self._allocate(device)

    def _allocate(self, device: str) -> None:
        import torch

        l2_bytes = int(torch.cuda.get_device_properties(torch.device(device)).L2_cache_size)
        if l2_bytes <= 0:
            raise SetupError(
                f"{device}: reports an L2 cache of {l2_bytes} bytes, expected more than 0",
                hint="measure with the cache state `warm`",
                subject=device,
            )
        self.nbytes = TIMES_L2 * l2_bytes
        self._device = torch.device(device)
        if torch.version.hip is None:
            self._reset_persisting = ctypes.CDLL("libcuda.so.1").cuCtxResetPersistingL2Cache
        self._buffer = torch.zeros(self.nbytes // 4, dtype=torch.float32, device=device)
        self._sum = torch.zeros((), dtype=torch.float32, device=device)

    def clear(self) -> None:
        """Bring about the state, on the current stream of the device. Call it under `Session.preparation()`.

        Lines that a kernel has asked to persist survive any other traffic, so they are made ordinary first.

        Raises:
            TimingError: the driver refuses that.
        """
        if self._buffer is None:
            return
        import torch

        with torch.cuda.device(self._device):  # the driver resets the L2 of the device that is current
            status = self._reset_persisting()
        if status not in (0, _NOT_SUPPORTED):
            raise TimingError(
                f"cuCtxResetPersistingL2Cache returned {status}, expected 0: the L2 may hold lines that persist",
                hint="the CUDA context is broken; start a fresh process, or measure with the cache state `warm`",
            )
        with torch.no_grad():
            if self.state == "cold-read":
                torch.sum(self._buffer, dim=0, out=self._sum)
            else:
                self._buffer.zero_()

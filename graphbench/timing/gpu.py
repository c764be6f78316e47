"""The CUDA devices of one timer: draining them, and the small known launches by which an instrument is tested."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Final, Protocol

from graphbench.errors import SetupError, TimingError

_PROBE_ELEMENTS: Final = 1024


class Device(Protocol):
    """What a CUDA instrument needs of the devices that it times."""

    def drain(self) -> None:
        """Wait until all work on all devices is done."""

    def probe(self) -> None:
        """Launch one small kernel on the first device's current stream."""

    def probe_all_kinds(self) -> None:
        """Launch kernels, a copy and a fill, and drain."""

    def profiler_running(self) -> bool:
        """Whether torch's own profiler records in this process."""


class CudaDevices:
    """The devices that a measured program runs on.

    Args:
        devices: torch devices with their index, as `cuda:0`; probes are launched on the first.

    Raises:
        SetupError: no CUDA device is usable, or one has no index.

    Source: `torch.cuda.synchronize`, `torch.cuda._is_in_bad_fork`, `torch.autograd._profiler_enabled` (torch 2.11 to
        2.14); `cuMemsetD8_v2` (libcuda), since torch fills tensors with kernels.
    """

    def __init__(self, devices: Sequence[str]) -> None:
        import torch

        refuse_fork()
        if not torch.cuda.is_available():
            raise SetupError(
                "no usable CUDA device: torch.cuda.is_available() is False",
                hint="measure with the `wallclock` timer, or install a torch built for your CUDA driver",
            )
        self._devices = [torch.device(device) for device in devices]
        for device in self._devices:
            if device.type != "cuda" or device.index is None:
                raise SetupError(
                    f"device {str(device)!r}: expected a CUDA device with its index, as 'cuda:0'",
                    hint="pass the device that the tensors are on",
                    subject=str(device),
                )
        first = self._devices[0]
        self._target = torch.zeros(_PROBE_ELEMENTS, dtype=torch.float32, device=first)
        self._source = torch.ones(_PROBE_ELEMENTS, dtype=torch.float32, device=first)
        self._sum = torch.zeros((), dtype=torch.float32, device=first)

    def refuse_slices(self) -> None:
        """CUPTI's times of a MIG slice are not known to be right, and its L2 and clocks are not its own.

        Raises:
            SetupError: one of the devices is a MIG slice.

        Source: `torch.cuda.get_device_properties(device).name`, as `NVIDIA H200 MIG 1g.18gb`.
        """
        import torch

        for device in self._devices:
            name = torch.cuda.get_device_properties(device).name
            if " MIG " in f"{name} ":
                raise SetupError(
                    f"{device} is a MIG slice ({name}): its kernel times through CUPTI have not been proven",
                    hint="measure on a whole GPU, or with timer='cuda-events', whose rows say so",
                    subject=str(device),
                )

    def drain(self) -> None:
        """Wait until all work on all devices is done.

        Raises:
            SetupError: this process was forked from the one that the devices were set up in.
        """
        import torch

        refuse_fork()
        for device in self._devices:
            torch.cuda.synchronize(device)

    def probe(self) -> None:
        """Launch one small kernel on the first device's current stream."""
        import torch

        with torch.no_grad():
            self._target.fill_(1.0)

    def probe_all_kinds(self) -> None:
        """Launch two kernels (one with shared memory), a copy between two buffers of the device and a fill; drain.

        Raises:
            TimingError: the driver refused the fill.
        """
        import torch

        with torch.no_grad(), torch.cuda.device(self._devices[0]):
            self._target.fill_(1.0)
            torch.sum(self._source, dim=0, out=self._sum)
            self._target.copy_(self._source)
            self.drain()
            fill = ctypes.CDLL("libcuda.so.1").cuMemsetD8_v2
            fill.argtypes = [ctypes.c_uint64, ctypes.c_ubyte, ctypes.c_size_t]
            status = fill(self._target.data_ptr(), 0, _PROBE_ELEMENTS)
            if status != 0:
                raise TimingError(
                    f"cuMemsetD8 on {self._devices[0]}: the driver returned {status}, expected 0",
                    hint="the CUDA context is broken; start a fresh process",
                )
            self.drain()

    def profiler_running(self) -> bool:
        """Whether torch's own profiler records in this process."""
        import torch

        return bool(torch.autograd._profiler_enabled())  # type: ignore[attr-defined]


def refuse_fork() -> None:
    """CUDA does not survive a fork.

    Raises:
        SetupError: this process was forked from one that used it.

    Source: `torch.cuda._is_in_bad_fork`, torch 2.11 to 2.14.
    """
    import torch

    if torch.cuda._is_in_bad_fork():
        raise SetupError(
            "this process was forked from one that used CUDA: neither CUDA nor CUPTI work in it",
            hint="start workers with multiprocessing's `spawn`, or measure in the parent",
        )

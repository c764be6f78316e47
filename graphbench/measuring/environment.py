"""What the numbers are made on, read once per profile."""

from __future__ import annotations

import importlib.metadata
import platform
import resource
import time
from pathlib import Path
from typing import Any

import torch

from graphbench.analysis.grain import stamp_grain_ns
from graphbench.condition_records import Environment
from graphbench.errors import TimingError
from graphbench.measuring.options import Timers
from graphbench.records import SHARED_CPU_NOTE
from graphbench.timing import cupti_setup
from graphbench.timing.base import Session as TimerSession
from graphbench.timing.base import Timer

GRAIN_LAUNCHES = 64
GRAIN_ELEMENTS = 1 << 17  # each launch is so much longer than the one before

# Involuntary context switches per second of this process: on two quiet cores 33, with two busy neighbours 240.
SHARED_CPU_PER_S = 100.0


class CpuWatch:
    """Notices that other processes took the CPU: then wall times tell of them, not of the model."""

    def __init__(self) -> None:
        self._switches = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
        self._start_s = time.perf_counter()

    def notes(self) -> tuple[str, ...]:
        """A note when this process was interrupted more often than on a quiet machine."""
        switches = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw - self._switches
        per_s = switches / max(time.perf_counter() - self._start_s, 1e-9)
        if per_s < SHARED_CPU_PER_S:
            return ()
        cause = f"{per_s:.0f} involuntary context switches a second"
        return (f"{SHARED_CPU_NOTE}: {cause}; times may be far too long: measure again on a quiet machine",)


def environment(device: torch.device, options: tuple[tuple[str, str], ...], timers: Timers) -> Environment:
    """The environment of measurements on a device by these timers. What cannot be read is `None`.

    The grain of the device's stamps is left out: it is measured, and whole runs are timed before anything is.
    """
    clocks = timers.clocks.read()
    properties: Any = torch.cuda.get_device_properties(device) if device.type == "cuda" else None
    return Environment(
        torch=str(torch.__version__),  # a `TorchVersion`, which compares as versions do
        python=platform.python_version(),
        platform=platform.platform(),
        cpu=_cpu_name(),
        num_threads=torch.get_num_threads(),
        triton=_version("triton"),
        cuda=torch.version.cuda,
        driver=driver_version(),
        libcupti=_libcupti() if properties else None,
        options=options,
        gpu=properties.name if properties else None,
        gpu_l2_bytes=properties.L2_cache_size if properties else None,
        gpu_memory_bytes=properties.total_memory if properties else None,
        sm_clock_mhz=clocks.sm_mhz if clocks else None,
    )


def stamp_grain(timer: Timer, device: torch.device) -> int | None:
    """The step of a device's time stamps in nanoseconds, from kernels of different lengths.

    Returns:
        `None` for a timer that has no stamps of its own, and when the kernels could not be timed.
    """
    if timer.name != "cupti":
        return None

    def body(session: TimerSession) -> None:
        with session.preparation():
            block = torch.zeros(GRAIN_LAUNCHES * GRAIN_ELEMENTS, device=device)
        for sample in range(GRAIN_LAUNCHES):
            with session.label("stamp grain", sample):
                block[: (sample + 1) * GRAIN_ELEMENTS].fill_(1.0)

    try:
        samples = timer.record(body).rows["stamp grain"]
    except (TimingError, torch.OutOfMemoryError):
        return None
    return stamp_grain_ns([sample.busy_ns for sample in samples.values()])


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def driver_version() -> str | None:
    """The kernel driver's version as Linux shows it."""
    version = Path("/proc/driver/nvidia/version")
    if not version.is_file():
        return None
    words = version.read_text(errors="replace").split()
    return next((word for word in words if word.count(".") >= 1 and word[0].isdigit()), None)


def _libcupti() -> str:
    """Version and path of the libcupti in use."""
    library = cupti_setup.load()
    return f"{library.version} ({library.path})"

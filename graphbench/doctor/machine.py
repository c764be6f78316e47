"""Everything that probes read of the world, in one place: tests put another world in its place.

Nothing is imported before it is asked for, since each may be what is broken.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from graphbench.device_records import ClockState
from graphbench.errors import SetupError, first_line
from graphbench.probes.relied_on import FeatureName

CHILD_S: Final = 120.0
_COMPILED: Final = """\
#include <Python.h>
#include <omp.h>
#include <vector>
extern "C" int probe() { std::vector<int> v(1); return omp_get_max_threads() + (int)v.size() + (Py_None != nullptr); }
"""
"""What Inductor's kernels include: Python's headers, OpenMP and the standard library."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A CUDA device as torch sees it. `capability` is its compute capability."""

    name: str
    capability: tuple[int, int]
    uuid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Torch:
    """What torch says of itself: `cuda` and `rocm` are what it was built for, `None` for neither.

    `warning` is what it says while it looks for GPUs, such as that the driver is too old.
    """

    version: str
    cuda: str | None = None
    rocm: str | None = None
    gpus: tuple[Gpu, ...] = ()
    warning: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """A folder that should be written to. `fault` says why it cannot be; `noexec`: code in it cannot be run."""

    free_bytes: int | None = None
    noexec: bool = False
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuState:
    """A GPU as NVML sees it. `supported` is how many SM clocks can be locked."""

    clocks: ClockState
    max_sm_mhz: int | None = None
    supported: int = 0
    persistence: bool | None = None
    mig: bool | None = None


class Machine:
    """This process and the machine that it runs on."""

    @property
    def environ(self) -> Mapping[str, str]:
        """Environment variables."""
        return os.environ

    @property
    def is_root(self) -> bool:
        """Whether this process runs as root."""
        return os.geteuid() == 0

    def distribution(self, name: str) -> str | None:
        """Version of an installed distribution; `None` where there is none."""
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            return None

    def requirements(self, name: str) -> Sequence[str]:
        """What an installed distribution requires, as its metadata writes it."""
        try:
            return importlib.metadata.requires(name) or ()
        except importlib.metadata.PackageNotFoundError:
            return ()

    def entry_points(self, group: str, name: str) -> Sequence[str]:
        """Where entry points of a name lead, as `module:attribute`; each once."""
        found = importlib.metadata.entry_points(group=group, name=name)
        return tuple(dict.fromkeys(entry.value for entry in found))

    def read(self, path: str) -> str | None:
        """Text of a file; `None` where it cannot be read."""
        try:
            return Path(path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""
        return Path(path).exists()

    def which(self, program: str) -> str | None:
        """Path of a program; `None` where there is none."""
        return shutil.which(program)

    @functools.cached_property
    def torch(self) -> Torch:
        """Torch, imported.

        Raises:
            SetupError: it is not installed, or cannot be imported: a missing library is an `OSError`.
        """
        try:
            import torch
        except (ImportError, OSError, RuntimeError, AttributeError) as error:
            installed = self.distribution("torch")
            state = "not installed" if installed is None else f"{installed} is installed but cannot be imported"
            raise SetupError(f"{state}: {first_line(error)}", subject="torch") from error
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            count = torch.cuda.device_count() if torch.version.cuda and torch.cuda.is_available() else 0
        found = [torch.cuda.get_device_properties(index) for index in range(count)]
        gpus = [Gpu(name=entry.name, capability=(entry.major, entry.minor), uuid=str(entry.uuid)) for entry in found]
        return Torch(
            version=torch.__version__,
            cuda=torch.version.cuda,
            rocm=torch.version.hip,
            gpus=tuple(gpus),
            warning=first_line(caught[0].message) if caught else "",
        )

    def imported(self, code: str) -> str:
        """Run a statement in a process of its own; a broken package may take the process down with it.

        Returns:
            Why it failed, in one line; "" where it did not.
        """
        path = os.pathsep.join(str(Path(entry).absolute()) for entry in sys.path)
        words = [sys.executable, "-c", code]
        try:
            done = subprocess.run(
                words, env=os.environ | {"PYTHONPATH": path}, cwd="/", capture_output=True, text=True, timeout=CHILD_S
            )
        except subprocess.TimeoutExpired:
            return f"not done after {CHILD_S:.0f} s"
        if done.returncode < 0:
            return f"it ended its process with {signal.Signals(-done.returncode).name}"
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        return "" if done.returncode == 0 else (lines or ["no message"])[-1]

    def torch_faults(self, feature: FeatureName) -> Sequence[str]:
        """How this torch differs from what a feature of graphbench relies on, an entry per symbol."""
        from graphbench.probes.features import faults

        return faults(feature)

    def cpp_compiler(self) -> str:
        """The C++ compiler that Inductor would call.

        Raises:
            SetupError: it finds none that works.
        """
        from graphbench.inductor.toolchain import cpp_compiler

        return cpp_compiler()

    def compiles(self, compiler: str) -> str:
        """Compile what Inductor's kernels need. Returns the compiler's first error, "" for none."""
        with tempfile.TemporaryDirectory(prefix="graphbench-doctor-") as folder:
            source = Path(folder) / "probe.cpp"
            source.write_text(_COMPILED, encoding="utf-8")
            flags = ["-shared", "-fPIC", "-fopenmp", "-I", sysconfig.get_path("include")]
            words = [compiler, *flags, str(source), "-o", str(source.with_suffix(".so"))]
            try:
                done = subprocess.run(words, capture_output=True, text=True, timeout=CHILD_S)
            except (OSError, subprocess.TimeoutExpired) as error:
                return first_line(error)
        faults = [line for line in done.stderr.splitlines() if "error" in line] or [first_line(done.stderr)]
        return "" if done.returncode == 0 else faults[0].replace(str(source), "probe.cpp")

    def inductor_folder(self) -> Path:
        """Where Inductor keeps compiled kernels."""
        from graphbench.inductor.toolchain import cache_folder

        return cache_folder()

    def room(self, folder: Path) -> Room:
        """What a folder has to offer, or where it is to be made, the one that is there above it. Leaves nothing."""
        there = next(path for path in (folder, *folder.parents) if path.exists())
        try:
            if there == folder:
                with tempfile.TemporaryFile(dir=there):
                    pass  # permissions and read-only file systems show only when something is written
            elif not os.access(there, os.W_OK | os.X_OK):
                return Room(fault=f"{there} does not let it be made")
            free = shutil.disk_usage(there).free
            noexec = bool(os.statvfs(there).f_flag & os.ST_NOEXEC)
        except OSError as error:
            return Room(fault=error.strerror or str(error))
        return Room(free_bytes=free, noexec=noexec)

    def cupti(self) -> tuple[str, str]:
        """Version and path of libcupti, loaded.

        Raises:
            SetupError: binding, library, driver and torch do not fit together; the hint is the fix.
        """
        from graphbench.timing import cupti_setup

        library = cupti_setup.load()
        return library.version, library.path

    def cupti_client(self) -> str:
        """Who else may be taking CUPTI's records in this process; "" when nobody is seen."""
        from graphbench.timing import cupti_setup

        return cupti_setup.load().other_client()

    def cupti_time_ns(self) -> float:
        """Device time of one small kernel by CUPTI's records, in nanoseconds.

        Raises:
            GraphbenchError: no record arrived, or none that can be believed.
        """
        from graphbench.timing.base import Session
        from graphbench.timing.cupti import CuptiTimer
        from graphbench.timing.gpu import CudaDevices

        devices = CudaDevices(("cuda:0",))

        def body(session: Session) -> None:
            with session.label("doctor", 0):
                devices.probe()

        return CuptiTimer("cuda:0", "warm").record(body).rows["doctor"][0].busy_ns

    def gpu_state(self, uuid: str) -> GpuState:
        """Clocks of a GPU.

        Raises:
            SetupError: NVML's binding is missing, NVML does not start, or knows no such device.
        """
        from graphbench.timing.nvml import Nvml

        nvml = Nvml(uuid)
        return GpuState(
            clocks=nvml.clock_state(),
            max_sm_mhz=nvml.max_sm_mhz,
            supported=len(nvml.supported_sm_mhz),
            persistence=nvml.persistence_mode(),
            mig=nvml.mig_mode,
        )

    def attached_tool(self) -> str:
        """The profiler or debugger whose library this process has mapped; "" for none."""
        from graphbench.timing.tools import attached_tool

        return attached_tool()

"""Probes of the GPU and of the instruments that time it: driver, CUPTI, NVML, clocks, permissions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from graphbench.doctor.finding import Finding, State
from graphbench.doctor.machine import GpuState, Machine
from graphbench.errors import GraphbenchError, SetupError
from graphbench.timing.cupti_setup import DISTRIBUTION, FIRST_MAJOR, install_command
from graphbench.units import format_duration

OLDEST_CAPABILITY: Final = (7, 5)
"""CUPTI 13 knows Turing and what came after it."""
DRIVER_FILE: Final = "/proc/driver/nvidia/version"
PARAMETERS_FILE: Final = "/proc/driver/nvidia/params"
CONTROL_DEVICE: Final = "/dev/nvidiactl"
VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
_VERSION: Final = re.compile(r"\b\d+\.\d+(?:\.\d+)?\b")
_RESTRICTED: Final = re.compile(r"^RmProfilingAdminOnly:\s*1\s*$", re.MULTILINE)


def why_no_gpu(machine: Machine) -> str:
    """Why there is no GPU to measure on; "" where there is one, or where it should work and does not."""
    torch = machine.torch
    if torch.rocm:
        return f"torch {torch.version} is built for ROCm, whose GPUs CUPTI and NVML do not know"
    if torch.gpus:
        return ""
    if torch.cuda is None:
        return f"torch {torch.version} is built without CUDA"
    if machine.environ.get(VISIBLE, "0").strip() in ("", "-1"):
        return f"{VISIBLE} hides every GPU"
    if machine.read(DRIVER_FILE) is None:
        return "no NVIDIA driver is loaded here"
    if not machine.exists(CONTROL_DEVICE):
        return "an NVIDIA driver is loaded, but this container was given no GPU"
    return ""


def cuda(machine: Machine) -> Iterator[Finding]:
    """Whether torch can use a GPU."""
    torch, reason = machine.torch, why_no_gpu(machine)
    if reason:
        where = "" if torch.rocm else ": models are measured on the CPU"
        yield Finding(check="CUDA", state="not applicable", found=f"{reason}{where}")
    elif not torch.gpus:
        found = f"the driver is loaded, but torch {torch.version}, built for CUDA {torch.cuda}, sees no GPU"
        found += f": {torch.warning}" if torch.warning else ""
        fix = "compare with nvidia-smi: the driver may be older than that CUDA needs, or the device is in a bad state"
        yield Finding(check="CUDA", state="problem", found=found, fix=fix)
    else:
        names = ", ".join(f"{gpu.name} (compute capability {_dotted(gpu.capability)})" for gpu in torch.gpus)
        old = any(gpu.capability < OLDEST_CAPABILITY for gpu in torch.gpus)
        fix = f"CUPTI {FIRST_MAJOR} needs {_dotted(OLDEST_CAPABILITY)} or newer; --timer cuda-events works, less well"
        state: State = "warning" if old else "ok"
        yield Finding(check="CUDA", state=state, found=f"{torch.cuda}; {names}", fix=fix if old else "")


def driver(machine: Machine) -> Iterator[Finding]:
    """Which kernel driver is loaded."""
    version = _VERSION.search(machine.read(DRIVER_FILE) or "")
    if version is None:
        yield Finding(check="driver", state="not applicable", found=f"{DRIVER_FILE} does not tell its version")
    else:
        yield Finding(check="driver", state="ok", found=version[0])


def cupti_python(machine: Machine) -> Iterator[Finding]:
    """Whether CUPTI's Python binding is of torch's CUDA major."""
    built = machine.torch.cuda or ""
    major = int(built.split(".")[0])
    version = machine.distribution(DISTRIBUTION)
    if major < FIRST_MAJOR:
        found = f"torch is built for CUDA {built}; before {FIRST_MAJOR} CUPTI's binding cannot label work"
        fix = f"install a torch built for CUDA {FIRST_MAJOR}; --timer cuda-events works, less well"
        yield Finding(check=DISTRIBUTION, state="problem", found=found, fix=fix)
    elif version is None:
        yield Finding(check=DISTRIBUTION, state="problem", found="not installed", fix=install_command(major))
    elif version.split(".")[0] != str(major):
        found = f"{version}, but torch is built for CUDA {built}: expected {major}.x"
        yield Finding(check=DISTRIBUTION, state="problem", found=found, fix=install_command(major))
    else:
        yield Finding(check=DISTRIBUTION, state="ok", found=f"{version}; torch is built for CUDA {built}")


def libcupti(machine: Machine) -> Iterator[Finding]:
    """Whether binding, library and driver work together, and whether records of a kernel arrive."""
    try:
        version, path = machine.cupti()
    except SetupError as error:
        yield Finding(check="libcupti", state="problem", found=error.message, fix=error.hint or "")
        yield Finding(check="CUPTI records", state="not applicable", found="needs libcupti")
        return
    yield Finding(check="libcupti", state="ok", found=f"{version} ({path})")
    try:
        time_ns = machine.cupti_time_ns()
    except GraphbenchError as error:
        fix = error.hint or "another profiler may hold CUPTI; --timer cuda-events works without it, less well"
        yield Finding(check="CUPTI records", state="problem", found=error.message, fix=fix)
        return
    found = f"a small kernel was recorded: {format_duration(time_ns)}"
    yield Finding(check="CUPTI records", state="ok", found=found)


def permission(machine: Machine) -> Iterator[Finding]:
    """Whether the driver keeps performance counters for root. Activity records, which graphbench reads, need nothing.

    Source: `RmProfilingAdminOnly` among the driver's parameters, set by NVreg_RestrictProfilingToAdminUsers.
    """
    text = machine.read(PARAMETERS_FILE)
    if text is None:
        yield Finding(check="permission", state="not applicable", found=f"{PARAMETERS_FILE} cannot be read")
    elif _RESTRICTED.search(text) and not machine.is_root:
        found = "performance counters are root's; graphbench needs none, ncu (graphbench export --format ncu) does"
        fix = "for ncu: run it as root, or load the driver with NVreg_RestrictProfilingToAdminUsers=0"
        yield Finding(check="permission", state="ok", found=found, fix=fix)
    else:
        yield Finding(check="permission", state="ok", found="performance counters, which ncu needs, are not restricted")


def clocks(machine: Machine) -> Iterator[Finding]:
    """Whether clocks can be read, what they are, and whether they may be locked."""
    for index, gpu in enumerate(machine.torch.gpus):
        suffix = f" of cuda:{index}" if len(machine.torch.gpus) > 1 else ""
        try:
            state = machine.gpu_state(gpu.uuid)
        except SetupError as error:
            found = f"{error.message}; rows will not say at which clock they were measured"
            yield Finding(check=f"NVML{suffix}", state="warning", found=found, fix=error.hint or "")
            yield Finding(check=f"clocks{suffix}", state="not applicable", found="needs NVML")
            continue
        version = machine.distribution("nvidia-ml-py")
        yield Finding(check=f"NVML{suffix}", state="ok", found=f"nvidia-ml-py {version or 'of unknown version'}")
        yield _clock(f"clocks{suffix}", state)
        yield _lock(f"clock lock{suffix}", state, machine)


def _clock(check: str, state: GpuState) -> Finding:
    clock = state.clocks
    parts = [f"SM {clock.sm_mhz} MHz" if clock.sm_mhz is not None else "SM clock not told"]
    parts[0] += f" of at most {state.max_sm_mhz}" if state.max_sm_mhz is not None else ""
    parts += [f"memory {clock.memory_mhz} MHz"] if clock.memory_mhz is not None else []
    parts += [f"{clock.temperature_c} °C"] if clock.temperature_c is not None else []
    found = ", ".join(parts)
    if clock.throttle:
        fix = "nvidia-smi -q -d PERFORMANCE says more; measure when nothing else runs, or lock a lower clock"
        return Finding(
            check=check, state="warning", found=f"{found}; held down by {', '.join(clock.throttle)}", fix=fix
        )
    return Finding(check=check, state="ok", found=f"{found}; whether somebody has locked them NVML does not tell")


def _lock(check: str, state: GpuState, machine: Machine) -> Finding:
    if state.mig:
        found = "the GPU is cut into MIG slices, which share one clock: --lock-gpu-clock is refused"
        return Finding(check=check, state="not applicable", found=found)
    if not state.supported:
        found = "the GPU names no clocks to lock"
        return Finding(check=check, state="not applicable", found=found)
    if not machine.is_root:
        found, fix = "clocks are root's to lock", "for --lock-gpu-clock: run as root"
        return Finding(check=check, state="not applicable", found=found, fix=fix)
    if state.persistence is False:
        found = "persistence mode is off: the driver forgets a lock whenever nobody uses the GPU"
        return Finding(check=check, state="warning", found=found, fix="sudo nvidia-smi -pm 1")
    found = f"{state.supported} clocks to choose from; this process is root's and may try --lock-gpu-clock"
    return Finding(check=check, state="ok", found=found)


def _dotted(capability: tuple[int, int]) -> str:
    return ".".join(map(str, capability))

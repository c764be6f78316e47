"""Probes of what Inductor compiles with: the C++ compiler, Triton, and the folders that they write to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from graphbench.doctor.finding import Finding, State
from graphbench.doctor.machine import Machine
from graphbench.errors import SetupError
from graphbench.files import CACHE_VARIABLE, cache_folder
from graphbench.units import format_bytes

LITTLE_BYTES: Final = 1 << 30
"""Kernels of one large model take hundreds of MiB."""
INDUCTOR_VARIABLE: Final = "TORCHINDUCTOR_CACHE_DIR"
_PIN: Final = re.compile(r"triton\s*==\s*([\w.]+)")


def cpp(machine: Machine) -> Iterator[Finding]:
    """Whether the compiler that Inductor takes for the CPU can build what its kernels need."""
    # On a GPU machine C++ is needed for what runs on the CPU only.
    bad: State = "warning" if machine.torch.gpus else "problem"
    meaning = "; regions on the CPU cannot be compiled" if machine.torch.gpus else ""
    try:
        compiler = machine.cpp_compiler()
    except SetupError as error:
        yield Finding(check="C++ compiler", state=bad, found=f"{error.message}{meaning}", fix=error.hint or "")
        return
    fault = machine.compiles(compiler)
    if not fault:
        found = f"{machine.which(compiler) or compiler}; builds with Python's headers and OpenMP"
        yield Finding(check="C++ compiler", state="ok", found=found)
        return
    fix = "install what is missing: python3-dev for Python.h, libgomp or libomp-dev for omp.h, g++ for the library"
    found = f"{compiler} does not build what Inductor's kernels include: {fault}{meaning}"
    yield Finding(check="C++ compiler", state=bad, found=found, fix=fix)


def triton(machine: Machine) -> Iterator[Finding]:
    """Whether Inductor can make kernels for a GPU.

    Source: `triton.runtime.build._build`, which compiles a launcher in C with `CC`, gcc or clang (Triton 3.6); the
        requirement on triton in torch's own metadata (2.11 to 2.14).
    """
    version = machine.distribution("triton")
    if version is None:
        found = "not installed: no kernel can be generated for the GPU"
        yield Finding(check="Triton", state="problem", found=found, fix="reinstall torch, whose build names its Triton")
        return
    fault = machine.imported("import triton")
    if fault:
        fix = "reinstall torch, whose build names its Triton"
        yield Finding(check="Triton", state="problem", found=f"{version} cannot be imported: {fault}", fix=fix)
        return
    named = machine.environ.get("CC")
    compiler = machine.which(named) if named else machine.which("gcc") or machine.which("clang")
    if compiler is None:
        found = (
            f"{version}, but no C compiler for its launchers: {f'CC={named}' if named else 'gcc and clang'} not found"
        )
        yield Finding(check="Triton", state="problem", found=found, fix="install gcc, or name a C compiler in CC")
        return
    pins = [match[1] for entry in machine.requirements("torch") if (match := _PIN.match(entry))]
    if pins and version.split("+")[0] not in pins:
        found = f"{version}, but this torch is built for {pins[0]}"
        yield Finding(check="Triton", state="warning", found=found, fix=f"pip install triton=={pins[0]}")
        return
    yield Finding(check="Triton", state="ok", found=f"{version}; C compiler {compiler}")


def inductor_cache(machine: Machine) -> Iterator[Finding]:
    """Whether Inductor can keep what it compiles; it cannot run without."""
    folder = machine.inductor_folder()
    yield _folder(machine, "Inductor's cache", folder, INDUCTOR_VARIABLE, needed=True)


def own_cache(machine: Machine) -> Iterator[Finding]:
    """Whether graphbench can keep what it measured of the device."""
    yield _folder(machine, "graphbench's cache", cache_folder(), CACHE_VARIABLE, needed=False)


def _folder(machine: Machine, check: str, folder: Path, variable: str, *, needed: bool) -> Finding:
    room = machine.room(folder)
    elsewhere = f"set {variable} to a folder on a disk with room that you may write to"
    if room.fault:
        meaning = "" if needed else "; what the device can do at most is measured anew in every run"
        state: State = "problem" if needed else "warning"
        return Finding(check=check, state=state, found=f"{folder}: {room.fault}{meaning}", fix=elsewhere)
    if needed and room.noexec:
        found = f"{folder}: its disk is mounted noexec: compiled kernels cannot be loaded from it"
        return Finding(check=check, state="problem", found=found, fix=elsewhere)
    free = f"{folder}: {format_bytes(room.free_bytes)} free" if room.free_bytes is not None else str(folder)
    if needed and room.free_bytes is not None and room.free_bytes < LITTLE_BYTES:
        return Finding(check=check, state="warning", found=f"{free}: little for compiled kernels", fix=elsewhere)
    return Finding(check=check, state="ok", found=free)

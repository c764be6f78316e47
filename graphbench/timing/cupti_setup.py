"""Finds CUPTI: the binding, the libcupti that it shares with torch, and whether their CUDA versions agree."""

from __future__ import annotations

import atexit
import ctypes
import functools
import importlib
import importlib.metadata
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from graphbench.errors import SetupError
from graphbench.timing.cupti_library import Library

DISTRIBUTION: Final = "cupti-python"
FIRST_MAJOR: Final = 13
"""Releases for CUDA 12 do not know the RUNTIME activity kind, without which nothing can be labelled."""

_MAPS: Final = Path("/proc/self/maps")


@functools.cache
def load() -> Library:
    """CUPTI of this process, found once.

    Raises:
        SetupError: cupti-python or libcupti is missing, or of another CUDA major than torch. The hint is the fix.
    """
    torch_major = _torch_cuda_major()
    binding = _binding(torch_major)
    try:
        binding.get_timestamp()  # the first call is what loads libcupti
    except (RuntimeError, OSError, binding.cuptiError) as error:
        raise SetupError(
            f"CUPTI cannot be used: {error}", hint="check that the NVIDIA driver is installed and supports this CUDA"
        ) from error
    path = _mapped_libcupti(_MAPS.read_text(encoding="utf-8", errors="replace"))
    native = ctypes.CDLL(path)
    version = _version(native)
    _agree("libcupti", version, torch_major)
    _not_newer(importlib.metadata.version(DISTRIBUTION), version)
    _driver_fits(version)
    library = Library(binding, native, path=path, version=version, demangle=_demangler())
    atexit.register(library.retire)
    return library


def install_command(cuda_major: int) -> str:
    """The command that installs the binding for a torch of this CUDA major; pip picks the release that fits torch."""
    return f'pip install "cupti-python>={cuda_major}.0.1,<{cuda_major + 1}"'


def _torch_cuda_major() -> int:
    import torch

    version = torch.version.cuda
    if version is None:
        raise SetupError(
            f"torch {torch.__version__} is built without CUDA",
            hint="measure with the `wallclock` timer, or install a CUDA build of torch",
        )
    major = int(version.split(".")[0])
    if major < FIRST_MAJOR:
        raise SetupError(
            f"torch {torch.__version__} is built for CUDA {version}, expected {FIRST_MAJOR} or later",
            hint=f"install a torch built for CUDA {FIRST_MAJOR}; CUPTI's Python binding cannot label work before it",
        )
    return major


def _binding(torch_major: int) -> Any:
    try:
        binding = importlib.import_module("cupti.cupti")
        version = importlib.metadata.version(DISTRIBUTION)
    except ImportError as error:
        raise SetupError(
            f"{DISTRIBUTION} cannot be imported: {error}", hint=install_command(torch_major), subject=DISTRIBUTION
        ) from error
    _agree(DISTRIBUTION, version, torch_major)
    return binding


def _agree(name: str, version: str, torch_major: int) -> None:
    if int(version.split(".")[0]) != torch_major:
        raise SetupError(
            f"{name} {version} beside a torch built for CUDA {torch_major}: expected {name} {torch_major}.x",
            hint=install_command(torch_major),
            subject=name,
        )


def _not_newer(binding: str, libcupti: str) -> None:
    """A binding's record classes may read past the records of an older libcupti.

    Raises:
        SetupError: the binding's release is newer than the library's.
    """
    found, expected = [tuple(int(part) for part in version.split(".")[:2]) for version in (binding, libcupti)]
    if found > expected:
        raise SetupError(
            f"{DISTRIBUTION} {binding} beside libcupti {libcupti}: its records are laid out for a newer libcupti",
            hint=f'pip install "{DISTRIBUTION}~={expected[0]}.{expected[1]}.0"',
            subject=DISTRIBUTION,
        )


def _driver_fits(libcupti: str) -> None:
    """Source: `cuDriverGetVersion` (libcuda), 13000 for CUDA 13.0; a driver serves every release of its CUDA major.

    Raises:
        SetupError: the driver is for an older CUDA major.
    """
    number = ctypes.c_int()
    status = ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(number))
    if status != 0 or number.value // 1000 < int(libcupti.split(".")[0]):
        raise SetupError(
            f"libcupti {libcupti} on a driver for CUDA {number.value // 1000}.{number.value % 1000 // 10}",
            hint="update the NVIDIA driver, or install a torch built for the driver's CUDA",
        )


def _mapped_libcupti(maps: str) -> str:
    """Path of the one libcupti in the text of `/proc/self/maps`.

    Raises:
        SetupError: none is mapped, or several are, of which torch may be using another one.
    """
    fields = (line.split(maxsplit=5) for line in maps.splitlines())
    paths = {entry[5].strip() for entry in fields if len(entry) == 6}
    found = sorted(path for path in paths if "libcupti.so" in path.rpartition("/")[2])
    if len(found) != 1:
        raise SetupError(
            f"libcupti: {len(found)} copies are loaded ({', '.join(found) or 'none'}), expected 1",
            hint="remove other CUDA toolkits from LD_LIBRARY_PATH, so that torch and cupti-python share theirs",
        )
    return found[0]


def _version(native: ctypes.CDLL) -> str:
    """Version of libcupti, from cuptiGetVersion: 130001 is 13.0.1."""
    number = ctypes.c_uint32()
    status = native.cuptiGetVersion(ctypes.byref(number))
    if status != 0:
        raise SetupError(f"cuptiGetVersion returned {status}, expected 0", hint="reinstall nvidia-cuda-cupti")
    return f"{number.value // 10000}.{number.value // 100 % 100}.{number.value % 100}"


def _demangler() -> Callable[[str], str]:
    """Torch's own demangler where it has one, else names stay mangled. Source: `torch._C._demangle` (2.11 to 2.14)."""
    import torch

    return getattr(torch._C, "_demangle", str)

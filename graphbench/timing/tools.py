"""Profilers and debuggers that attach themselves to a process by injecting a library."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_MAPS: Final = Path("/proc/self/maps")
_INJECTED: Final = {
    "libsanitizer-collection.so": "compute-sanitizer",
    "libcuda-injection.so": "Nsight Compute (ncu)",
    "libToolsInjection64.so": "Nsight Systems (nsys)",
    "libcudadebugger.so": "cuda-gdb",
    "libTreeLauncherTargetInjection.so": "ncu, compute-sanitizer or another of NVIDIA's tools",
}
"""File names of injected libraries, as shipped with CUDA 13.0, and the tools that bring them."""


def attached_tool(maps: str | None = None) -> str:
    """The tool whose injected library this process has mapped, "" for none.

    Args:
        maps: text of `/proc/self/maps`; read when not given.
    """
    if maps is None:
        if not _MAPS.exists():
            return ""
        maps = _MAPS.read_text(encoding="utf-8", errors="replace")
    return next((tool for library, tool in _INJECTED.items() if f"/{library}" in maps), "")

"""What this machine is and has, as JSON: the environment of all results, read once in a process of its own.

Run from the repository root: `python tests/benchmarks/machine.py`.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import platform
import re
from pathlib import Path
from typing import Any

import torch
from children import find_ncu

from graphbench.errors import GraphbenchError
from graphbench.measuring.environment import driver_version
from graphbench.timing import cupti_setup

PACKAGES = ("transformers", "torchvision", "timm")


def environment() -> dict[str, Any]:
    """What the numbers are made on; what there is none of is left out."""
    found: dict[str, Any] = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
    }
    if not torch.cuda.is_available():
        return found
    properties = torch.cuda.get_device_properties(0)
    return found | {
        "gpu": properties.name,
        "gpu_l2_bytes": properties.L2_cache_size,
        "cuda": torch.version.cuda,
        "driver": driver_version(),
        "triton": importlib.metadata.version("triton"),
        "cupti-python": importlib.metadata.version(cupti_setup.DISTRIBUTION),
        "libcupti": _libcupti(),
    }


def _libcupti() -> str:
    try:
        return cupti_setup.load().version
    except GraphbenchError as error:
        return f"not usable: {error.message}"


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    names = re.findall(r"^model name\s*:\s*(.+)$", info.read_text(errors="replace"), re.M) if info.is_file() else []
    return names[0] if names else platform.machine()


def has() -> list[str]:
    """What a benchmark may need and this machine has."""
    found = [name for name in PACKAGES if importlib.util.find_spec(name) is not None]
    if torch.cuda.is_available():
        found.append("gpu")
        if find_ncu() is not None:
            found.append("ncu")
    return found


def main() -> None:
    """Print it."""
    print(json.dumps({"environment": environment(), "has": has()}))


if __name__ == "__main__":
    main()

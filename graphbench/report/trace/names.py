"""Names as torch.profiler writes them, so that a trace of it can be laid beside this one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from graphbench.device_records import ActivityKind, DeviceKernel
from graphbench.records import KernelRecord
from graphbench.step_records import StepRow, TimelineKind

_COPY: Final = "memcpy "


def device_name(name: str, kind: ActivityKind | TimelineKind) -> str:
    """Of device work: a kernel's function as CUPTI names it, demangled; `Memcpy DtoH` and `Memset`.

    torch.profiler adds to the latter two which memory it was, as `Memcpy DtoH (Device -> Pageable)`.

    Source: `GpuActivity<T>::name` (libkineto/src/CuptiActivity.cpp), as of torch 2.11 to 2.14.
    """
    if kind == "copy":
        return f"Memcpy {name.removeprefix(_COPY)}"
    return "Memset" if kind == "memset" else name


def kernel_title(kernel: KernelRecord) -> str:
    """Of a call site: the first device kernel that it launches, else what else it does there, else its own name."""
    work = launched(kernel)
    main = next((entry for entry in work if entry.kind == "kernel"), work[0] if work else None)
    return kernel.name if main is None else device_name(main.name, main.kind)


def launched(kernel: KernelRecord) -> Sequence[DeviceKernel]:
    """The device work of a call site, as in its region's run if that is known."""
    return kernel.in_graph.device_kernels or kernel.isolated.device_kernels


def row_title(row: StepRow) -> str:
    """Of a row of a step, as the host issues it: a kernel's call site, or the op."""
    return row.op_type if row.kernel is None else row.kernel.rpartition("/")[2]

"""The command line that profiles one call of a row with ncu, through the row's script. Pure text."""

from __future__ import annotations

import re
import shlex
from typing import Final

from graphbench.device_records import DeviceKernel
from graphbench.errors import UsageError
from graphbench.records import ProfileRecord
from graphbench.report.repro.rows import Row, find_row

GENERATED: Final = "triton_"
_NAMESPACE_OR_TYPE = re.compile(r"^.*(::|\s|\*|&)")


def ncu_command(record: ProfileRecord, row: str, script: str, *, backward: bool = False) -> str:
    """A shell command that runs a row's script under ncu, and profiles the kernels of one warm call.

    The script marks that call (`--once`, `torch.cuda.profiler`), so that autotuning and warming up are not counted.
    Kernels are chosen by the names that CUPTI recorded, without template arguments, which ncu spells differently. The
    script compiles a generated kernel anew, from post-grad nodes, and under a name of its own: any of that kind is it.

    Args:
        record: the profile.
        row: as `repro` takes it.
        script: the file that `repro`'s text is in.
        backward: the backward of the node of that name is meant.

    Raises:
        UsageError: no such row, or several, or one of which no kernels on a CUDA device were recorded.

    Source: ncu's --profile-from-start, --kernel-name with its base `function`, --launch-skip, --launch-count,
        --cache-control and --clock-control.
    """
    found = find_row(record, row, backward=backward)
    names = list(dict.fromkeys(_function(kernel.name) for kernel in found.measurement.device_kernels if _runs(kernel)))
    if not names:
        raise UsageError(
            f"{found.name}: found no kernels of a CUDA device in the profile, expected the names that CUPTI records",
            hint="ncu is for rows that were measured on a CUDA device with timer='cupti'",
            subject=found.name,
        )
    pattern = f"regex:^({'|'.join(dict.fromkeys(map(_pattern, names)))})$"
    words = ["ncu", "--profile-from-start", "off", "--kernel-name-base", "function", "--kernel-name", pattern]
    words += ["--launch-skip", "0", "--launch-count", str(_launches(found)), "--set", "full", "--clock-control", "none"]
    if found.measurement.cache == "warm":
        words += ["--cache-control", "none"]
    return shlex.join([*words, "python", script, "--once"])


def _pattern(name: str) -> str:
    return f"{GENERATED}.*" if name.startswith(GENERATED) else re.escape(name)


def _runs(kernel: DeviceKernel) -> bool:
    return kernel.kind == "kernel" and kernel.name.isprintable()


def _launches(row: Row) -> int:
    """Kernels that one call launches: as counted, or the recorded ones that differ."""
    samples = row.measurement.samples
    counted = samples.n_kernels if samples is not None else None
    return max(1, max(counted, default=0) if counted else 0, sum(map(_runs, row.measurement.device_kernels)))


def _function(symbol: str) -> str:
    """`vectorized_gather_kernel` of `void at::native::vectorized_gather_kernel<16, long>(char*, long)`."""
    text = symbol.replace("(anonymous namespace)::", "")
    end = next((position for position, character in enumerate(text) if character in "(<" and position), len(text))
    return _NAMESPACE_OR_TYPE.sub("", text[:end]) or symbol

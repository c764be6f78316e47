"""What a device tells of its work and its clocks: parts of the records. No torch import."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ActivityKind = Literal["kernel", "copy", "memset"]
# How notes of a region begin that tell what became of the CUDA graphs that were asked for.
NO_GRAPHS = "CUDA graphs were asked for and not used"
OUTSIDE_GRAPHS = "outside of CUDA graphs"
REPLAY_MOVED = "kernels take another time under replay"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceKernel:
    """One kernel, copy or fill of a row, as the device recorded it; launches that differ are entries of their own.

    `grid` counts blocks, `block` threads, `cluster` blocks per cluster (`None` where none was asked for). `registers`
    and `local_bytes` are per thread, shared memory is per block. `None`: the instrument does not tell, or it is a copy.
    """

    name: str
    kind: ActivityKind = "kernel"
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    cluster: tuple[int, int, int] | None = None
    registers: int | None = None
    static_shared_bytes: int | None = None
    dynamic_shared_bytes: int | None = None
    local_bytes: int | None = None
    stream: int | None = None
    device: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockState:
    """A GPU's clocks and what held them down at one moment, as NVML tells them. `None`: the device does not tell."""

    sm_mhz: int | None = None
    memory_mhz: int | None = None
    temperature_c: int | None = None
    power_w: float | None = None
    throttle: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonConfig:
    """The configuration that Triton's autotuner chose for a kernel. `blocks` are its constants, as `("XBLOCK", 1024)`.

    `registers` are per thread, `spills` what of them went to local memory instead, `shared_bytes` per block.
    """

    num_warps: int
    num_stages: int
    blocks: tuple[tuple[str, int], ...] = ()
    registers: int | None = None
    spills: int | None = None
    shared_bytes: int | None = None

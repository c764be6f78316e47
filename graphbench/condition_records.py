"""Under what it was measured: a region's global state, the machine, what its device can do, the policy. No torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from graphbench.measurements import CacheState, TimerName, ValuePolicy

CeilingKind = Literal["copy", "read", "write", "matmul", "launch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AutocastState:
    """Autocast of one device type when the region was called."""

    device_type: str
    enabled: bool
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ambient:
    """Global state that changes what an op does; recorded per region, restored in every replay."""

    grad_enabled: bool
    inference_mode: bool
    autocast: tuple[AutocastState, ...]
    autocast_cache: bool
    default_dtype: str
    fp32_precision: tuple[tuple[str, str], ...]
    deterministic: bool
    deterministic_warn_only: bool
    sdpa_backends: tuple[str, ...]
    flags: tuple[tuple[str, bool], ...]
    num_threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What the numbers were made on. `options` are the Inductor options in force."""

    torch: str
    python: str
    platform: str
    cpu: str
    num_threads: int
    triton: str | None = None
    cuda: str | None = None
    driver: str | None = None
    libcupti: str | None = None
    gpu: str | None = None
    gpu_l2_bytes: int | None = None
    gpu_memory_bytes: int | None = None
    sm_clock_mhz: int | None = None
    stamp_grain_ns: int | None = None
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """The most that a device was seen to do, measured on it, never taken from a data sheet.

    `value` is in bytes per second (`copy` counts what is read and what is written, `read` and `write` one of the two),
    FLOP per second (`matmul`, in `arithmetic`: a dtype, or `tf32`) or nanoseconds (`launch`: the shortest time that any
    kernel takes on the device). `within_bytes`: reached by work that moves at most so much, with a warm cache; `None`
    for work that no cache holds. `measured` is when; `cached` says that it was not in this run. `how` tells the work.
    """

    device: str
    kind: CeilingKind
    value: float
    measured: str
    arithmetic: str = ""
    within_bytes: int | None = None
    cached: bool = False
    how: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How it was measured. Budgets in milliseconds; `min_samples`/`max_samples` clamp what they allow.

    `noise`: go on sampling until the median is known to this part of itself, or `noise_ms` are up. `batch`: so many
    copies of a tiny unit are also timed back to back. `lock_gpu_clock_mhz`: the SM clock was locked to this.
    `memory_budget_bytes`: what copies might take; `None` for what was free. Only rows that match `select` and not
    `exclude` were isolated, and only regions of `only_regions` measured, where these are given. `max_seconds`: a rough
    pass over everything, then what mattered most was measured again until that time was up.
    """

    timer: TimerName
    cache: CacheState
    values: ValuePolicy
    warmup_ms: float = 25.0
    measure_ms: float = 100.0
    min_samples: int = 10
    max_samples: int = 200
    warmup: int | None = None
    repeat: int | None = None
    noise: float | None = None
    noise_ms: float = 1000.0
    batch: int | None = None
    lock_gpu_clock_mhz: int | None = None
    memory_budget_bytes: int | None = None
    select: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    only_regions: tuple[str, ...] = ()
    max_seconds: float | None = None

"""What was measured of one subject, and the few values that all records are made of. No torch import."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from graphbench.device_records import ClockState, DeviceKernel

Status = Literal["ok", "skipped", "failed"]
TimerName = Literal["cupti", "cuda-events", "device-events", "wallclock", "fake"]
EVENT_TIMERS: tuple[TimerName, ...] = ("cuda-events", "device-events")
"""Their busy time runs between two events: launch gaps are in it, and what no row claims may be idle time."""
CacheState = Literal["cold-read", "cold-write", "warm"]
ValuePolicy = Literal["captured", "synthetic"]
JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """Everything about a tensor but its values. `shape` and `stride` in elements."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: str
    device: str
    storage_offset: int = 0
    requires_grad: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLine:
    """A line of the user's code."""

    file: str
    line: int
    function: str = ""
    code: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Raw samples, one entry each, in nanoseconds per call. A `None` column was not measured by this timer.

    `busy_ns` is the union of device intervals (on the CPU the wall time inside the call, with events the time between
    two of them); `kernel_ns`, `copy_ns` and `memset_ns` are its parts; `span_ns` runs from first start to last end;
    `host_ns` is the time to issue the call, on a device taken in calls of its own, of which there may be fewer; `None`
    for a node of a CUDA graph.
    """

    busy_ns: tuple[float, ...]
    host_ns: tuple[float, ...] | None
    span_ns: tuple[float, ...] | None = None
    kernel_ns: tuple[float, ...] | None = None
    copy_ns: tuple[float, ...] | None = None
    memset_ns: tuple[float, ...] | None = None
    n_kernels: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How one result differs from the one that it should equal. `max_abs` is `None` when nothing could be compared."""

    equal: bool | None
    max_abs: float | None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The least that one call must do, whatever it is implemented with.

    `flops` by the formulas of `torch.utils.flop_counter`; `None` where no op of the call has one, and with a `reason`
    where one should: of the user's own ops, and of products that torch has none for. `arithmetic` is what most of them
    are done in: a dtype, or `tf32`. `read_bytes` counts every distinct byte of what comes from outside once, of what is
    gathered that which is touched; `written_bytes` every byte of a result or of an argument written in place once. A
    view moves nothing. `reason` says why bytes, or FLOPs, are not known.
    """

    flops: int | None = None
    arithmetic: str = ""
    read_bytes: int | None = None
    written_bytes: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What one subject (node, kernel call, gap op, whole run) cost, or why that is unknown.

    `inner` calls were made per sample (amortised loop); samples are already per call. `shared_with` names the row whose
    unit was measured in this row's place, because both units are equal. `fidelity` compares the isolated result with
    the real call's. `batch_ns` are device times per call of many calls queued back to back, which no single call
    reaches: the theoretical time without overhead. `clocks` were read before the first sample, in the middle and after
    the last. `work` is what the call has to do at least; of kernels, their traffic says it.
    """

    status: Status
    reason: str = ""
    timer: TimerName | None = None
    cache: CacheState | None = None
    values: ValuePolicy | None = None
    samples: Samples | None = None
    inner: int = 1
    warmup: int = 0
    device_kernels: tuple[DeviceKernel, ...] = ()
    batch_ns: tuple[float, ...] | None = None
    clocks: tuple[ClockState, ...] = ()
    warnings: tuple[str, ...] = ()
    shared_with: str | None = None
    fidelity: Comparison | None = None
    work: Work | None = None


NOT_MEASURED = Measurement(status="skipped", reason="not measured")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """The totals of labelled runs in real execution order, one entry per sample.

    On a device: sum of rows + `beside_ns` + `unattributed_ns` - `overlap_ns` = `busy_ns`, where `beside_ns` is what a
    run of CUDA-graph replays does beside its graphs (copies inputs in). On the CPU: sum of rows + `wrapper_ns` -
    `overlap_ns` (of threads) = `busy_ns` = `wall_ns`; events likewise, but for threads and the wall time.
    `unattributed` names device work under no label.
    """

    busy_ns: tuple[float, ...]
    wall_ns: tuple[float, ...]
    unattributed_ns: tuple[float, ...]
    overlap_ns: tuple[float, ...]
    wrapper_ns: tuple[float, ...] | None = None
    beside_ns: tuple[float, ...] | None = None
    n_kernels: int | None = None
    unattributed: tuple[str, ...] = ()
    dropped: int = 0
    timer: TimerName = "wallclock"

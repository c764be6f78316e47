"""Frozen records shared by everything; what a saved profile consists of. No torch import.

Times are integer nanoseconds (`_ns`), sizes bytes (`_bytes`). A missing value is `None`, and the
status beside it says why; it is never 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from graphbench.device_records import ClockState, DeviceKernel, TritonConfig

Status = Literal["ok", "skipped", "failed"]
TimerName = Literal["cupti", "cuda-events", "device-events", "wallclock", "fake"]
EVENT_TIMERS: tuple[TimerName, ...] = ("cuda-events", "device-events")
"""Their busy time runs between two events: launch gaps are in it, and what no row claims may be idle time."""
CacheState = Literal["cold-read", "cold-write", "warm"]
ValuePolicy = Literal["captured", "synthetic"]
Phase = Literal["forward", "backward"]
NodeKind = Literal["compute", "view", "state", "host"]
KernelKind = Literal["triton", "template", "extern", "fallback", "custom", "user-triton", "cpp", "collective"]
Role = Literal["executes", "recomputes", "contributes", "prepares", "differentiates"]
FateKind = Literal["fused", "kernel", "split", "view", "folded", "merged", "rewritten", "dead", "eager", "unknown"]
# How two notes of a profile begin.
HELD_NOTE = "captured inputs hold"
SHARED_CPU_NOTE = "the CPU was shared"
NO_TENSOR = "computes no tensor"  # why an op on sizes has no time: nothing is missing
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
class Measurement:
    """What one subject (node, kernel call, gap op, whole run) cost, or why that is unknown.

    `inner` calls were made per sample (amortised loop); samples are already per call. `shared_with` names the row whose
    unit was measured in this row's place, because both units are equal. `fidelity` compares the isolated result with
    the real call's. `batch_ns` are device times per call of many calls queued back to back, which no single call
    reaches: the theoretical time without overhead. `clocks` were read before the first sample, in the middle and after
    the last.
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


NOT_MEASURED = Measurement(status="skipped", reason="not measured")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What became of a node: `kernels` are keys of kernels that execute it; `note` names anything else it became."""

    kind: FateKind
    kernels: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    """One FX node of a region's Dynamo graph.

    `arguments` is the prototype that rebuilds the call: nodes as `{"node": name}`, tensors' constants, dtypes, devices
    and slices tagged likewise. `inputs` are the names of the nodes it reads. `backward_isolated` is its own backward
    alone, from random tangents; `backward_in_graph` what it cost in the region's eager backward, where adding up a
    gradient belongs to the node that brought it last.
    """

    name: str
    op: str
    op_type: str
    kind: NodeKind
    inputs: tuple[str, ...]
    arguments: JsonValue
    outputs: tuple[TensorSpec, ...]
    module: str = ""
    source: SourceLine | None = None
    fate: Fate = field(default_factory=lambda: Fate(kind="unknown"))
    isolated: Measurement = NOT_MEASURED
    in_graph: Measurement = NOT_MEASURED
    backward_isolated: Measurement = NOT_MEASURED
    backward_in_graph: Measurement = NOT_MEASURED


@dataclass(frozen=True, slots=True, kw_only=True)
class PostGradNode:
    """One node of the graph that Inductor lowered. `moved_bytes` counts its inputs and outputs once; 0 for views.

    `sources` are the Dynamo nodes it came from, `differentiates` those whose backward it is part of; where it `rewrote`
    them, a pass of the compiler put it in their place. `phase` says whose graph it belongs to; nodes of nested graphs
    (the branches of a `cond`) carry their graph's name and a dot in front. `isolated` is the node alone, run eagerly.
    """

    name: str
    phase: Phase
    op: str
    target: str
    inputs: tuple[str, ...]
    sources: tuple[str, ...] = ()
    differentiates: tuple[str, ...] = ()
    rewrote: bool = False
    moved_bytes: int | None = None
    is_view: bool = False
    isolated: Measurement = NOT_MEASURED


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRole:
    """The part a Dynamo node plays in a kernel, through which post-grad nodes, and the bytes those move in it."""

    node: str
    role: Role
    post_grad: tuple[str, ...] = ()
    moved_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRecord:
    """One kernel call site of a generated wrapper.

    `key` is `phase/name:position`, unique within its region and the same in every process; `handle` is the number that
    Inductor's comment in the generated code has for it, which runs on from compile to compile.

    `calls` counts its executions per run of the graph. `executes` are post-grad nodes, of which `recomputes` were
    computed by another kernel before; `parts` are the fractions of those that other kernels execute too, each a part.
    `reads` are the post-grad nodes and graph inputs whose values it gets from outside. `roles` are the Dynamo nodes.
    `difference` compares what it wrote with eager's value of the same node. `config` is `None` for what is not Triton.
    """

    key: str
    phase: Phase
    name: str
    handle: int | None
    kind: KernelKind
    calls: int = 0
    executes: tuple[str, ...] = ()
    recomputes: tuple[str, ...] = ()
    parts: tuple[tuple[str, float], ...] = ()
    reads: tuple[str, ...] = ()
    roles: tuple[NodeRole, ...] = ()
    isolated: Measurement = NOT_MEASURED
    in_graph: Measurement = NOT_MEASURED
    difference: Comparison | None = None
    config: TritonConfig | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """The totals of labelled runs in real execution order, one entry per sample.

    On a device: sum of rows + `beside_ns` + `unattributed_ns` - `overlap_ns` = `busy_ns`, where `beside_ns` is what a
    run of CUDA-graph replays does beside its graphs (copies inputs in). On the CPU: sum of rows + `wrapper_ns` =
    `busy_ns` = `wall_ns`; events likewise, but for the wall time. `unattributed` names device work under no label.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side of a region as a whole: `run` labelled (its rows are the in-graph times), `plain` without any label.

    `wall_ns` are wall times of the same run with no instrument at all, from the call until the device has drained,
    `host_ns` the times to issue it. Where `run` replays CUDA graphs, `graph_nodes` is how many nodes each replay ran.
    """

    run: RunRecord | None = None
    plain: Measurement = NOT_MEASURED
    wall_ns: tuple[float, ...] = ()
    host_ns: tuple[float, ...] = ()
    graph_nodes: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRecord:
    """One input of a region. `source` is Dynamo's expression for it; `value` holds a non-tensor input."""

    name: str
    source: str
    kind: Literal["parameter", "buffer", "tensor", "value"]
    spec: TensorSpec | None = None
    value: JsonValue = None
    mutated: bool = False


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
class RegionRecord:
    """One compiled Dynamo graph: `key` is `r0`, `r1`, ...; `compile_id` Dynamo's `frame/recompile`."""

    key: str
    compile_id: str
    status: Status
    reason: str = ""
    location: SourceLine | None = None
    device: str = "cpu"
    calls: int = 0
    inputs: tuple[InputRecord, ...] = ()
    ambient: Ambient | None = None
    nodes: tuple[NodeRecord, ...] = ()
    post_grad: tuple[PostGradNode, ...] = ()
    kernels: tuple[KernelRecord, ...] = ()
    eager: Side = field(default_factory=Side)
    eager_backward: Side = field(default_factory=Side)
    forward: Side = field(default_factory=Side)
    backward: Side = field(default_factory=Side)
    outputs: Comparison | None = None
    captured_bytes: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphBreak:
    """Why Dynamo ended a graph. `region` is the graph that ended there, when there is one."""

    reason: str
    source: SourceLine | None = None
    region: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """One row of a live step: a kernel (`region` and `kernel` set) or a gap op (`kernel` is `None`)."""

    name: str
    op_type: str
    in_graph: Measurement
    region: str | None = None
    kernel: str | None = None
    calls: int = 0
    phase: Literal["forward", "backward", "optimizer"] = "forward"
    source: SourceLine | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """A whole recorded step: totals, the rows that explain them, and wall times of the same step uninstrumented."""

    run: RunRecord
    rows: tuple[StepRow, ...]
    plain_wall_ns: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()


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
class Policy:
    """How it was measured. Budgets in milliseconds; `min_samples`/`max_samples` clamp what they allow.

    `noise`: go on sampling until the median is known to this part of itself, or `noise_ms` are up. `batch`: so many
    copies of a tiny unit are also timed back to back. `lock_gpu_clock_mhz`: the SM clock was locked to this.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRecord:
    """A whole profile: what `Profile.save` writes and every report is a function of."""

    schema_version: int
    graphbench: str
    created: str
    subject: str
    environment: Environment
    policy: Policy
    regions: tuple[RegionRecord, ...]
    breaks: tuple[GraphBreak, ...] = ()
    recompiles: int = 0
    step: StepRecord | None = None
    notes: tuple[str, ...] = ()

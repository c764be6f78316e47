"""Frozen records shared by everything; what a saved profile consists of. No torch import.

Times are integer nanoseconds (`_ns`), sizes bytes (`_bytes`). A missing value is `None`, and the
status beside it says why; it is never 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from graphbench.condition_records import Ambient, Ceiling, Environment, Policy
from graphbench.device_records import TritonConfig
from graphbench.measurements import (
    NOT_MEASURED,
    Comparison,
    JsonValue,
    Measurement,
    RunRecord,
    SourceLine,
    Status,
    TensorSpec,
)
from graphbench.step_records import GraphBreak, Recompile, StepRecord

Phase = Literal["forward", "backward"]
NodeKind = Literal["compute", "view", "state", "host"]
KernelKind = Literal["triton", "template", "extern", "fallback", "custom", "user-triton", "cpp", "collective", "opaque"]
Role = Literal["executes", "recomputes", "contributes", "prepares", "differentiates"]
FateKind = Literal[
    "fused", "kernel", "split", "view", "folded", "merged", "rewritten", "dead", "eager", "opaque", "unknown"
]
# How two notes of a profile begin.
HELD_NOTE = "captured inputs hold"
SHARED_CPU_NOTE = "the CPU was shared"
PARTIAL_NOTE = "a partial profile"
TOLD_FIRST = (SHARED_CPU_NOTE, PARTIAL_NOTE)  # how notes begin without which the numbers mislead
VIEW = "a view"  # why a post-grad node has no time: it moves nothing
NOT_SELECTED = "not selected"  # why a row was left out that nobody asked for
OP_LIST_REGION = "ops"  # key of the region of an op list; that of its second ambient state is ops2
OP_LIST_SIDE = "an op list has no compiled side: its ops were run alone, eagerly"
NO_TENSOR = "computes no tensor"  # why an op on sizes has no time: nothing is missing
BY_HAND = "needs manual benchmark"  # of a call that cannot be repeated on copies; then `: op: why`


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
    gradient belongs to the node that brought it last. `peak_bytes` of its results are alive at the region's eager peak.
    `callee` is what is called, as `torch._C._nn.linear`; of a method its name. `symbolic` has for every output its
    sizes as the compiler knows them, as `s0` or `2*s0`; it is empty where all are fixed.
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
    peak_bytes: int | None = None
    callee: str = ""
    symbolic: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PostGradNode:
    """One node of the graph that Inductor lowered. `moved_bytes` counts its inputs and outputs once; 0 for views.

    `sources` are the Dynamo nodes it came from, `differentiates` those whose backward it is part of; where it `rewrote`
    them, a pass of the compiler put it in their place. `phase` says whose graph it belongs to; nodes of nested graphs
    (the branches of a `cond`) carry their graph's name and a dot in front. `isolated` is the node alone, run eagerly.
    `callee`, as `torch.ops.aten.relu.default`, with `arguments`, as of a `NodeRecord`, rebuilds the call; `outputs` are
    the tensors that it makes, as the compiler foresaw them. `returned`: the graph returns it, or a view of it.
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
    callee: str = ""
    arguments: JsonValue = None
    outputs: tuple[TensorSpec, ...] = ()
    returned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphInput:
    """What a graph that Inductor lowered reads without computing it: an input or a constant.

    `spec` of a tensor; `value` of a size, `None` where it has no example.
    """

    name: str
    phase: Phase
    spec: TensorSpec | None = None
    value: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRole:
    """The part a Dynamo node plays in a kernel, through which post-grad nodes, and the bytes those move in it."""

    node: str
    role: Role
    post_grad: tuple[str, ...] = ()
    moved_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """A buffer that a kernel reads or writes, and how many distinct bytes of it at least, per call.

    `buffer` is unique within its phase; `writer` the key of the kernel that wrote what is read, "" for a graph input.
    """

    buffer: str
    writer: str = ""
    read_bytes: int = 0
    written_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRecord:
    """One kernel call site of a generated wrapper.

    `key` is `phase/name:position`, unique within its region and the same in every process; `handle` is the number that
    Inductor's comment in the generated code has for it, which runs on from compile to compile.

    `calls` counts its executions per run of the graph. `executes` are post-grad nodes, of which `recomputes` were
    computed by another kernel before; `parts` are the fractions of those that other kernels execute too, each a part.
    `reads` are the post-grad nodes and graph inputs whose values it gets from outside. `roles` are the Dynamo nodes.
    `difference` compares what it wrote with eager's value of the same node. `config` is `None` for what is not Triton.
    `traffic` are the buffers that one call reads and writes: nothing that stays inside; empty where that is not known,
    which `untold` explains. `line` of the generated code of its phase, counted from 1, is where it is called.
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
    traffic: tuple[Traffic, ...] = ()
    untold: str = ""
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedCode:
    """What Inductor wrote for one compiled graph: the Python of its wrapper, with the source of every kernel in it."""

    phase: Phase
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionRefusal:
    """Why Inductor's scheduler did not fuse two kernels, in its own words; `first` and `second` are their keys."""

    first: str
    second: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UncapturedRun:
    """The run of a side that replays CUDA graphs, its kernels launched one by one instead.

    `plain`, `wall_ns` and `host_ns` are as those of the `Side`: what both do not share is what the replay saves.
    """

    plain: Measurement = NOT_MEASURED
    wall_ns: tuple[float, ...] = ()
    host_ns: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side of a region as a whole: `run` labelled (its rows are the in-graph times), `plain` without any label.

    `wall_ns` are wall times of the same run with no instrument at all, from the call until the device has drained,
    `host_ns` the times to issue it. Where `run` replays CUDA graphs, `graph_nodes` is how many nodes each replay ran.
    `peak_bytes`: the most that the device's allocator had given out at once, above what it had before the forward.
    `compile_ns`: wall time until the compiled side could run, Dynamo's tracing included in the forward's. `uncaptured`
    is the same run without its CUDA graphs, where it replays any.
    """

    run: RunRecord | None = None
    plain: Measurement = NOT_MEASURED
    wall_ns: tuple[float, ...] = ()
    host_ns: tuple[float, ...] = ()
    graph_nodes: int | None = None
    peak_bytes: int | None = None
    compile_ns: int | None = None
    uncaptured: UncapturedRun | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRecord:
    """One input of a region. `source` is Dynamo's expression for it; `value` holds a non-tensor input.

    `symbolic` are a tensor's sizes as the compiler knows them, or what a size that is an input is called; it is empty
    where all are fixed.
    """

    name: str
    source: str
    kind: Literal["parameter", "buffer", "tensor", "value"]
    spec: TensorSpec | None = None
    value: JsonValue = None
    mutated: bool = False
    symbolic: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionRecord:
    """One compiled Dynamo graph: `key` is `r0`, `r1`, ...; `compile_id` Dynamo's `frame/recompile`.

    A graph that takes any sizes has a record for every group of sizes that it was called with: the first is `r0`, the
    others, `r0.2`, `r0.3`, ..., are `shapes_of` it. `sizes` are the values that its symbols have in the group, `calls`
    the calls with these. `backend` made the compiled side, where that was not Inductor.

    `captured_bytes` of its inputs were held in memory until it was measured, `spilled_bytes` elsewhere. In its eager
    forward most bytes of results, `peak_bytes`, are alive when `peak_node` has just run; the nodes' add up to them.
    """

    key: str
    compile_id: str
    status: Status
    reason: str = ""
    location: SourceLine | None = None
    device: str = "cpu"
    calls: int = 0
    shapes_of: str = ""
    sizes: tuple[tuple[str, int], ...] = ()
    backend: str = ""
    inputs: tuple[InputRecord, ...] = ()
    ambient: Ambient | None = None
    nodes: tuple[NodeRecord, ...] = ()
    post_grad: tuple[PostGradNode, ...] = ()
    graph_inputs: tuple[GraphInput, ...] = ()
    kernels: tuple[KernelRecord, ...] = ()
    code: tuple[GeneratedCode, ...] = ()
    refusals: tuple[FusionRefusal, ...] = ()
    eager: Side = field(default_factory=Side)
    eager_backward: Side = field(default_factory=Side)
    forward: Side = field(default_factory=Side)
    backward: Side = field(default_factory=Side)
    outputs: Comparison | None = None
    captured_bytes: int = 0
    spilled_bytes: int = 0
    peak_node: str | None = None
    peak_bytes: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRecord:
    """A whole profile: what `Profile.save` writes and every report is a function of.

    `inputs` are what the model was called with, where that is known: a name or a position, and a spec or a value.
    """

    schema_version: int
    graphbench: str
    created: str
    subject: str
    environment: Environment
    policy: Policy
    regions: tuple[RegionRecord, ...]
    inputs: tuple[InputRecord, ...] = ()
    breaks: tuple[GraphBreak, ...] = ()
    recompiles: tuple[Recompile, ...] = ()
    ceilings: tuple[Ceiling, ...] = ()
    step: StepRecord | None = None
    notes: tuple[str, ...] = ()

"""Builders of small, valid records for tests: every argument has a default, only what a test is about is passed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from graphbench.condition_records import Ceiling, Environment, Policy
from graphbench.document import SCHEMA_VERSION
from graphbench.measurements import Comparison, Measurement, RunRecord, Samples, SourceLine, TensorSpec, TimerName, Work
from graphbench.records import (
    Fate,
    KernelKind,
    KernelRecord,
    NodeKind,
    NodeRecord,
    NodeRole,
    Phase,
    PostGradNode,
    ProfileRecord,
    RegionRecord,
    Side,
    Traffic,
)
from graphbench.step_records import StepRecord

FAILED = Measurement(status="failed", reason="ran out of memory")


def measurement(*busy_ns: float, host_ns: float | None = None, timer: TimerName = "wallclock") -> Measurement:
    """A measurement with the given samples; `host_ns` is constant and equals busy unless given."""
    device = timer == "cupti"
    samples = Samples(
        busy_ns=busy_ns,
        host_ns=busy_ns if host_ns is None else (host_ns,) * len(busy_ns),
        span_ns=busy_ns if device else None,
        kernel_ns=busy_ns if device else None,
        copy_ns=(0.0,) * len(busy_ns) if device else None,
        memset_ns=(0.0,) * len(busy_ns) if device else None,
        n_kernels=(1,) * len(busy_ns) if device else None,
    )
    cache = "cold-read" if device else "warm"
    return Measurement(status="ok", timer=timer, cache=cache, values="captured", samples=samples)


def steady(ns: float, *, n: int = 10, spread_ns: float = 0.0, timer: TimerName = "wallclock") -> Measurement:
    """A measurement of `n` samples evenly spread over `ns` ± `spread_ns`; its median is `ns`."""
    step = 2 * spread_ns / (n - 1) if n > 1 else 0.0
    return measurement(*(ns - spread_ns + step * i for i in range(n)), timer=timer)


def spec(*shape: int, dtype: str = "float32", device: str = "cpu") -> TensorSpec:
    """A contiguous tensor's spec."""
    stride, step = [], 1
    for size in reversed(shape):
        stride.append(step)
        step *= size
    return TensorSpec(shape=shape, stride=tuple(reversed(stride)), dtype=dtype, device=device)


def worked(
    measured: Measurement, read_bytes: int, written_bytes: int, *, flops: int | None = None, arithmetic: str = "float32"
) -> Measurement:
    """The measurement of a call that has to do so much."""
    arithmetic = "" if flops is None else arithmetic
    work = Work(flops=flops, arithmetic=arithmetic, read_bytes=read_bytes, written_bytes=written_bytes)
    return dataclasses.replace(measured, work=work)


def ceilings(
    *, device: str = "cpu", gb_per_s: float = 10.0, gflops: float = 100.0, launch_ns: float = 1000.0
) -> tuple[Ceiling, ...]:
    """The ceilings of a device: one bandwidth for everything, one rate of float32 products, a shortest kernel."""
    when = "2026-01-02T03:04:05+00:00"
    bandwidths = [
        Ceiling(device=device, kind=kind, value=gb_per_s * 1e9, measured=when) for kind in ("copy", "read", "write")
    ]
    return (
        *bandwidths,
        Ceiling(device=device, kind="matmul", value=gflops * 1e9, measured=when, arithmetic="float32"),
        Ceiling(device=device, kind="launch", value=launch_ns, measured=when),
    )


def node(
    name: str,
    isolated: Measurement | float | None = None,
    *,
    op_type: str | None = None,
    kind: NodeKind = "compute",
    fate: Fate | None = None,
    line: int = 1,
    in_graph: Measurement | None = None,
    inputs: tuple[str, ...] = (),
    outputs: tuple[TensorSpec, ...] | None = None,
    module: str = "",
    backward: Measurement | float | None = None,
    backward_in_graph: Measurement | None = None,
) -> NodeRecord:
    """A node; a number as `isolated` or `backward` means steady samples of that many nanoseconds.

    With a `backward`, also one that failed, its results require grad.
    """
    if isinstance(isolated, (int, float)):
        isolated = steady(float(isolated))
    if isinstance(backward, (int, float)):
        backward = steady(float(backward))
    outputs = (spec(4, 8),) if outputs is None else outputs
    if backward is not None:
        outputs = tuple(dataclasses.replace(entry, requires_grad=True) for entry in outputs)
    skipped = Measurement(status="skipped", reason="not measured")
    return NodeRecord(
        name=name,
        op="call_function",
        op_type=op_type or name.rstrip("_0123456789"),
        kind=kind,
        inputs=inputs,
        arguments=[{"node": entry} for entry in inputs],
        outputs=outputs,
        module=module,
        source=SourceLine(file="model.py", line=line, function="forward", code=f"x = {name}(x)"),
        fate=fate or Fate(kind="unknown"),
        isolated=isolated or skipped,
        in_graph=in_graph or skipped,
        backward_isolated=backward or skipped,
        backward_in_graph=backward_in_graph or skipped,
    )


def post_grad(
    name: str,
    isolated: Measurement | float | None = None,
    *,
    phase: Phase = "forward",
    target: str | None = None,
    is_view: bool = False,
) -> PostGradNode:
    """A post-grad node; a number as `isolated` means steady samples of that many nanoseconds."""
    if isinstance(isolated, (int, float)):
        isolated = steady(float(isolated))
    return PostGradNode(
        name=name,
        phase=phase,
        op="call_function",
        target=target or name,
        inputs=(),
        is_view=is_view,
        isolated=isolated or Measurement(status="skipped", reason="not measured"),
    )


def differentiates(node_name: str, moved_bytes: int = 100) -> NodeRole:
    """The role of a node whose backward a kernel is part of."""
    return NodeRole(node=node_name, role="differentiates", moved_bytes=moved_bytes)


def executes(node_name: str, moved_bytes: int = 100) -> NodeRole:
    """The role of a node that a kernel executes."""
    return NodeRole(node=node_name, role="executes", moved_bytes=moved_bytes)


def kernel(
    name: str,
    isolated: Measurement | float | None = None,
    *,
    handle: int = 0,
    phase: Phase = "forward",
    kind: KernelKind = "cpp",
    roles: tuple[NodeRole, ...] = (),
    in_graph: Measurement | None = None,
    calls: int = 1,
    difference: Comparison | None = None,
    post_grad: tuple[str, ...] = (),
    recomputes: tuple[str, ...] = (),
    parts: tuple[tuple[str, float], ...] = (),
    traffic: tuple[Traffic, ...] = (),
) -> KernelRecord:
    """A kernel with key `phase/name:handle`; a number as `isolated` means steady samples.

    It executes the post-grad nodes `post_grad`, those that it `recomputes` among them.
    """
    if isinstance(isolated, (int, float)):
        isolated = steady(float(isolated))
    skipped = Measurement(status="skipped", reason="not measured")
    return KernelRecord(
        key=f"{phase}/{name}:{handle}",
        phase=phase,
        name=name,
        handle=handle,
        kind=kind,
        calls=calls,
        executes=post_grad,
        recomputes=recomputes,
        parts=parts,
        roles=roles,
        isolated=isolated or skipped,
        in_graph=in_graph or skipped,
        difference=difference,
        traffic=traffic,
    )


def cpu_run(rows: Sequence[Measurement], *, wrapper_ns: float = 100.0) -> RunRecord:
    """The CPU run that the given in-graph rows explain, with a constant wrapper time."""
    columns = [row.samples.busy_ns for row in rows if row.samples]
    busy = tuple(sum(values) + wrapper_ns for values in zip(*columns, strict=True))
    zero = (0.0,) * len(busy)
    wrapper = (wrapper_ns,) * len(busy)
    return RunRecord(busy_ns=busy, wall_ns=busy, unattributed_ns=zero, overlap_ns=zero, wrapper_ns=wrapper)


def device_run(
    rows: Sequence[Measurement],
    *,
    unattributed_ns: float = 0.0,
    overlap_ns: float = 0.0,
    unattributed: tuple[str, ...] = (),
    wall_ns: float = 1e6,
) -> RunRecord:
    """The device run that the given in-graph rows explain, one device kernel a row."""
    columns = [row.samples.busy_ns for row in rows if row.samples]
    busy = tuple(sum(values) + unattributed_ns - overlap_ns for values in zip(*columns, strict=True))
    n = len(busy)
    return RunRecord(
        busy_ns=busy,
        wall_ns=(wall_ns,) * n,
        unattributed_ns=(unattributed_ns,) * n,
        overlap_ns=(overlap_ns,) * n,
        n_kernels=len(columns) + len(unattributed),
        unattributed=unattributed,
        timer="cupti",
    )


def region(
    nodes: Sequence[NodeRecord] = (),
    kernels: Sequence[KernelRecord] = (),
    *,
    key: str = "r0",
    device: str = "cpu",
    eager: Side | None = None,
    eager_backward: Side | None = None,
    forward: Side | None = None,
    backward: Side | None = None,
    post_grad: tuple[PostGradNode, ...] = (),
) -> RegionRecord:
    """A region that compiled and ran once."""
    return RegionRecord(
        key=key,
        compile_id="0/0",
        status="ok",
        location=SourceLine(file="model.py", line=10, function="forward"),
        device=device,
        calls=1,
        nodes=tuple(nodes),
        post_grad=post_grad,
        kernels=tuple(kernels),
        eager=eager or Side(),
        eager_backward=eager_backward or Side(),
        forward=forward or Side(),
        backward=backward or Side(),
    )


def environment(**changes: object) -> Environment:
    """A CPU environment."""
    base = Environment(torch="2.13.0", python="3.11.7", platform="Linux", cpu="A CPU", num_threads=2)
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]


def profile(
    *regions: RegionRecord,
    timer: TimerName = "wallclock",
    step: StepRecord | None = None,
    subject: str = "Net",
    env: Environment | None = None,
    ceilings: tuple[Ceiling, ...] = (),
) -> ProfileRecord:
    """A profile of the given regions."""
    return ProfileRecord(
        schema_version=SCHEMA_VERSION,
        graphbench="0.1.0",
        created="2026-01-02T03:04:05+00:00",
        subject=subject,
        environment=env or environment(),
        policy=Policy(timer=timer, cache="cold-read" if timer == "cupti" else "warm", values="captured"),
        regions=regions,
        ceilings=ceilings,
        step=step,
    )

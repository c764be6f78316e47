"""Recorded steps for tests: builders of their records, and whole profiles whose figures were computed by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from graphbench.measurements import Measurement, RunRecord, SourceLine, TimerName
from graphbench.records import ProfileRecord
from graphbench.step_records import (
    TIMELINE_KINDS,
    GapOpKind,
    GraphBreak,
    Place,
    StepPhase,
    StepRecord,
    StepRow,
    Timeline,
    TimelineKind,
    UserPhase,
)
from tests.factories import cpu_run, environment, measurement, profile, region, spec
from tests.samples import gpu_profile

TRAIN = "src/train.py"
MODEL = "src/model.py"
Event = tuple[TimelineKind, int, float, float]
"""Kind, row (-1 for none), start and duration in microseconds."""


def once(us: float, *, kernels: int = 1, timer: TimerName = "cupti", host_us: float | None = None) -> Measurement:
    """What a row of a live step has: one sample, of all its calls."""
    made = measurement(1e3 * us, host_ns=None if host_us is None else 1e3 * host_us, timer=timer)
    if made.samples is None or timer != "cupti":
        return made
    return dataclasses.replace(made, samples=dataclasses.replace(made.samples, n_kernels=(kernels,)))


def gap_op(
    op_type: str,
    us: float,
    *,
    place: str,
    phase: StepPhase = "forward",
    kind: GapOpKind = "op",
    line: int | None = 1,
    file: str = TRAIN,
    function: str = "train_step",
    calls: int = 1,
    kernels: int = 1,
    timer: TimerName = "cupti",
    isolated: Measurement | None = None,
    copied: tuple[int, str] = (0, ""),
    autograd_node: str = "",
    user_phase: str = "",
) -> StepRow:
    """A gap op that took `us` microseconds in all its calls."""
    row = StepRow(
        name=f"{place}/{phase}/{op_type}@{line}",
        op_type=op_type,
        in_graph=once(us, kernels=kernels, timer=timer),
        kind=kind,
        calls=calls,
        phase=phase,
        place=place,
        user_phase=user_phase,
        source=None if line is None else SourceLine(file=file, line=line, function=function),
        autograd_node=autograd_node,
        outputs=(spec(4, 8),),
        copied_bytes=copied[0],
        copied=copied[1],
    )
    return row if isolated is None else dataclasses.replace(row, isolated=isolated)


def kernel_rows(record: ProfileRecord, key: str, phase: StepPhase) -> list[StepRow]:
    """The rows of a region's kernels of one phase, as long as they took in their region's own run."""
    (found,) = (region for region in record.regions if region.key == key)
    return [
        StepRow(
            name=f"{key}/{kernel.key}",
            op_type=kernel.kind,
            in_graph=once((kernel.in_graph.samples.busy_ns[0] if kernel.in_graph.samples else 0.0) / 1e3),
            region=key,
            kernel=kernel.key,
            calls=1,
            phase=phase,
            place=f"{key}/{phase}",
        )
        for kernel in found.kernels
        if kernel.phase == phase
    ]


def timeline(events: Sequence[Event]) -> Timeline:
    """A timeline of one stream and one thread, in the order given."""
    return Timeline(
        names=("event",),
        kinds=tuple(TIMELINE_KINDS.index(kind) for kind, _, _, _ in events),
        rows=tuple(row for _, row, _, _ in events),
        event_names=(0,) * len(events),
        starts_ns=tuple(1e3 * start for _, _, start, _ in events),
        durations_ns=tuple(1e3 * duration for _, _, _, duration in events),
        lanes=(0,) * len(events),
        devices=tuple(-1 if kind in ("host", "sync") else 0 for kind, _, _, _ in events),
    )


def device_step(rows: Sequence[StepRow], *, wall_us: float, overlap_us: float = 0.0, lost_us: float = 0.0) -> RunRecord:
    """The run that the rows of a step explain, and `lost_us` of a kernel of no row."""
    samples = [row.in_graph.samples for row in rows if row.in_graph.samples]
    busy_ns = sum(entry.busy_ns[0] for entry in samples) + 1e3 * (lost_us - overlap_us)
    return RunRecord(
        busy_ns=(busy_ns,),
        wall_ns=(1e3 * wall_us,),
        unattributed_ns=(1e3 * lost_us,),
        overlap_ns=(1e3 * overlap_us,),
        n_kernels=sum(entry.n_kernels[0] for entry in samples if entry.n_kernels) + bool(lost_us),
        unattributed=("ncclKernel",) if lost_us else (),
        timer="cupti",
    )


def _gap_ops() -> list[list[StepRow]]:
    """What ran outside the graphs of the training step, place by place."""
    alone = once(1.75)
    scalar = {"copied": (4, "cuda to cpu"), "kernels": 0}
    return [
        [gap_op("copy_", 6.0, place="start", kind="copy", line=30, kernels=0, copied=(4096, "cpu to cuda"))],
        [
            gap_op("mul", 4.0, place="after r0/forward", calls=2, kernels=2, line=21, file=MODEL, isolated=alone),
            gap_op("_local_scalar_dense", 2.0, place="after r0/forward", kind="sync", line=22, file=MODEL, **scalar),  # type: ignore[arg-type]
        ],
        [
            gap_op("mse_loss", 5.0, place="after r1/forward", line=33),
            gap_op("mse_loss_backward", 5.0, place="after r1/forward", phase="backward", line=33, autograd_node="Mse"),
        ],
        [
            gap_op(
                "mul",
                3.0,
                place="after r1/backward",
                phase="backward",
                line=21,
                file=MODEL,
                autograd_node="MulBackward0",
            )
        ],
        [
            gap_op("add_", 2.0, place="after r0/backward", phase="backward", kind="accumulation", line=None),
            gap_op("_foreach_add_", 20.0, place="after r0/backward", phase="optimizer", line=35, calls=2),
        ],
    ]


def _events(rows: Sequence[StepRow]) -> list[Event]:
    """Device work back to back, but for four stretches of idle time; 60 us in all, and 96.2 us behind the last."""
    idle_us = {"start/forward/copy_@30": 10.0, "after r0/forward/forward/mul@21": 10.0}
    idle_us |= {"r1/forward/mm:1": 30.0, "after r0/backward/optimizer/_foreach_add_@35": 10.0}
    events: list[Event] = []
    now = 0.0
    for index, row in enumerate(rows):
        busy = row.in_graph.samples.busy_ns[0] / 1e3 if row.in_graph.samples else 0.0
        now += idle_us.get(row.name, 0.0)
        kind: TimelineKind = "copy" if row.copied_bytes else "kernel"
        if row.calls == 2 and row.op_type == "mul":
            events += [(kind, index, now, busy / 2), (kind, index, now + busy / 2, busy / 2)]
        else:
            events.append((kind, index, now, busy))
        now += busy
        if row.kind == "sync":
            events.append(("sync", index, now, 1.0))
    return events


def training_step() -> ProfileRecord:
    """A training step on a GPU: a disabled function and an `.item()` between two regions, AdamW by foreach, a copy in.

    Busy 343.8 us, of which gap ops take 47; 400 us of wall time uninstrumented, 500 recorded; 17 kernels.
    """
    base = gpu_profile()
    start, middle, loss, between, last = _gap_ops()
    rows = [
        *start,
        *kernel_rows(base, "r0", "forward"),
        *middle,
        *kernel_rows(base, "r1", "forward"),
        *loss,
        *kernel_rows(base, "r1", "backward"),
        *between,
        *kernel_rows(base, "r0", "backward"),
        *last,
    ]
    order = ("start", "r0/forward", "after r0/forward", "r1/forward", "after r1/forward", "r1/backward")
    order += ("after r1/backward", "r0/backward", "after r0/backward")
    places = tuple(
        Place(
            key=key,
            kind="gap" if index % 2 == 0 else "graph",
            followed_by=(order[index + 1] if index + 1 < len(order) else "end",) if index % 2 == 0 else (),
            calls=1,
            host_ns=40_000.0 + 1_000.0 * index,
        )
        for index, key in enumerate(order)
    )
    step = StepRecord(
        run=device_step(rows, wall_us=500.0),
        rows=tuple(rows),
        places=places,
        user_phases=(),
        timeline=timeline(_events(rows)),
        plain_wall_ns=(390_000.0, 400_000.0, 410_000.0),
    )
    item = GraphBreak(
        reason="Unsupported Tensor.item() call with capture_scalar_outputs=False",
        source=SourceLine(file=MODEL, line=22, function="forward", code="scale = x.sum().item()"),
        region="r0",
        cause="x.sum().item()",
        hint="Set torch._dynamo.config.capture_scalar_outputs = True.",
        count=2,
    )
    return dataclasses.replace(base, step=step, breaks=(item,))


def host_step() -> ProfileRecord:
    """A step on the CPU: one region, and a loop with `.item()` and `bincount` behind it, in two phases of the user's.

    Rows take 700 us, 300 lie between them; the host is in the gap for 900 of 1000 us.
    """
    item = gap_op("_local_scalar_dense", 100.0, place="start", kind="sync", calls=10, line=5, timer="wallclock")
    count = gap_op("bincount", 500.0, place="start", calls=10, line=6, timer="wallclock", user_phase="decode/count")
    matmul = gap_op("mm", 100.0, place="start", calls=100, line=7, timer="wallclock", user_phase="decode")
    rows = (item, count, matmul)
    run = cpu_run([row.in_graph for row in rows], wrapper_ns=300_000.0)
    step = StepRecord(
        run=run,
        rows=rows,
        places=(
            Place(key="start", kind="gap", followed_by=("r0/forward",), calls=1, host_ns=900_000.0),
            Place(key="r0/forward", kind="graph", calls=1, host_ns=100_000.0),
        ),
        user_phases=(
            UserPhase(name="decode", calls=1, host_ns=750_000.0),
            UserPhase(name="decode/count", calls=10, host_ns=600_000.0),
        ),
        plain_wall_ns=(800_000.0,),
    )
    return profile(region(), step=step, env=environment())


def eager_step() -> ProfileRecord:
    """A step on the CPU of which Dynamo could compile nothing."""
    rows = (
        gap_op("mm", 60.0, place="start", line=11, file=MODEL, function="forward", timer="wallclock"),
        gap_op("relu", 30.0, place="start", line=12, file=MODEL, function="forward", timer="wallclock"),
    )
    step = StepRecord(
        run=cpu_run([row.in_graph for row in rows], wrapper_ns=10_000.0),
        rows=rows,
        places=(Place(key="start", kind="gap", followed_by=("end",), calls=1, host_ns=100_000.0),),
        plain_wall_ns=(95_000.0,),
        compiled=False,
    )
    reason = GraphBreak(
        reason="generator in forward", source=SourceLine(file=MODEL, line=10, function="Net.forward"), kind="skipped"
    )
    return dataclasses.replace(profile(step=step), breaks=(reason,))

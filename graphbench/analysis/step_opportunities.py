"""What a step could give outside of its kernels: a host that cannot launch fast enough, gap ops, graph breaks. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from graphbench.analysis.break_costs import break_rows
from graphbench.analysis.digest import Digest
from graphbench.analysis.gaps import GapRow, gap_rows, known_sum
from graphbench.analysis.graph_replays import not_used
from graphbench.analysis.opportunity import Opportunity, Scene
from graphbench.analysis.step_time import SideTime, StepTime
from graphbench.device_records import NO_GRAPHS
from graphbench.records import Phase, ProfileRecord
from graphbench.step_records import StepRecord
from graphbench.units import count_text, format_duration

FEWEST: Final = 0.01
"""Gap ops of a line that take less than this part of the step are told by their own table only."""
GRAPHS: Final = 'CUDA graphs (mode="reduce-overhead") issue them all at once'
_OPS_NAMED = 4


def launch_bound(scene: Scene) -> Iterator[Opportunity]:
    """The graphs of a region for which the device waits: what it waits is what faster launches can give at most."""
    for (key, phase), side in scene.step.sides.items():
        if key == scene.region.key and side.host_bound and not side.replays:
            waited_ns = _waited(side, scene.step, scene.runs(phase))
            if waited_ns:
                yield _launches(scene, phase, side, waited_ns)


def _waited(side: SideTime, step: StepTime, runs: float) -> float | None:
    """How long the device waits in all runs of a graph; at most as long as it is idle in the whole step."""
    whole_ns = side.wall_ns if side.wall_ns is not None else side.host_ns
    if whole_ns is None or side.device_ns is None:
        return None
    waited_ns = max(whole_ns - side.device_ns, 0.0) * runs
    if step.wall_ns is None or step.device_ns is None:
        return waited_ns
    return min(waited_ns, max(step.wall_ns - step.device_ns, 0.0))


def _launches(scene: Scene, phase: Phase, side: SideTime, waited_ns: float) -> Opportunity:
    kernels = [kernel for kernel in scene.region.kernels if kernel.phase == phase]
    late = [
        kernel
        for kernel in kernels
        if (scene.digest.median(kernel.isolated, "host_ns") or 0.0) > (scene.digest.median(kernel.isolated) or 0.0)
    ]
    longer = f"{len(late)} of {count_text(len(kernels), 'kernel')} take longer to issue than to run"
    return Opportunity(
        kind="launch-bound",
        what=f"the host takes {format_duration(side.host_ns)} for {format_duration(side.device_ns)} of the device",
        gain_ns=waited_ns,
        part=_part(waited_ns, scene.step.wall_ns),
        wall_gain_ns=waited_ns,
        of="wall",
        region=scene.region.key,
        phase=phase,
        kernels=tuple(kernel.key for kernel in late),
        source=scene.region.location,
        note=f"{longer}; {_graphs(scene, phase)}",
    )


def _graphs(scene: Scene, phase: Phase) -> str:
    """What CUDA graphs would do, or why those that were asked for are not there."""
    why = next((why for of, why in not_used(scene.region) if of == phase), "")
    return f"{NO_GRAPHS}: {why}" if why else GRAPHS


def idle_step(step: StepTime) -> Iterator[Opportunity]:
    """A recorded step in which the device waits for the host most of the time."""
    if step.recorded and step.host_bound and step.wall_ns is not None and step.device_ns is not None:
        idle_ns = max(step.wall_ns - step.device_ns, 0.0)
        yield Opportunity(
            kind="launch-bound",
            what="the device is idle for most of the step: it waits for the host",
            gain_ns=idle_ns,
            part=_part(idle_ns, step.wall_ns),
            wall_gain_ns=idle_ns,
            of="wall",
            note="fewer and larger ops, fewer synchronisations, or CUDA graphs",
        )


def gap_opportunities(record: StepRecord, step: StepTime, digest: Digest) -> Iterator[Opportunity]:
    """Lines whose ops ran outside compiled graphs, and which take a noticeable part of the step."""
    lines: dict[tuple[str, int, str], list[GapRow]] = {}
    for row in gap_rows(record, digest):
        source = row.row.source
        home = (source.file, source.line, "") if source else ("", 0, row.row.op_type)
        lines.setdefault(home, []).append(row)
    for rows in lines.values():
        time_ns = known_sum([row.in_graph_ns for row in rows])
        part = _part(time_ns, step.device_ns)
        if time_ns is None or part is None or part < FEWEST:
            continue
        calls = sum(row.row.calls for row in rows)
        yield Opportunity(
            kind="gap ops",
            what=f"{count_text(calls, 'op')} outside compiled graphs: {_named([row.row.op_type for row in rows])}",
            gain_ns=time_ns,
            part=part,
            wall_gain_ns=step.wall_gain(time_ns, None),
            nodes=tuple(row.row.name for row in rows),
            source=rows[0].row.source,
        )


def break_opportunities(record: ProfileRecord, step: StepTime, digest: Digest) -> Iterator[Opportunity]:
    """Graph breaks that cost something: what ran because of them, and the device's idle time around it."""
    for row in break_rows(record, digest):
        if row.cost is None or not row.cost.lost_ns:
            continue
        lost_ns, entry = row.cost.lost_ns, row.graph_break
        yield Opportunity(
            kind="graph break",
            what=entry.reason,
            gain_ns=lost_ns,
            part=_part(lost_ns, step.wall_ns),
            wall_gain_ns=None if step.wall_ns is None else min(lost_ns, step.wall_ns),
            of="wall",
            region=entry.region or "",
            source=entry.source,
            note="; ".join(filter(None, (entry.cause, entry.hint))),
        )


def _part(gain_ns: float | None, whole_ns: float | None) -> float | None:
    return gain_ns / whole_ns if gain_ns is not None and whole_ns else None


def _named(ops: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(ops))
    more = f" and {len(distinct) - _OPS_NAMED} more" if len(distinct) > _OPS_NAMED else ""
    return ", ".join(distinct[:_OPS_NAMED]) + more

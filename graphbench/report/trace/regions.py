"""The tracks of a region: its nodes as they ran eagerly, the kernels of its compiled graphs, arrows between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from graphbench.analysis.digest import Digest
from graphbench.analysis.fusion import FusionRow
from graphbench.analysis.tracks import RegionTracks, Slot, Track, module_spans, region_tracks
from graphbench.analysis.views import NodeRow, source_text
from graphbench.records import NodeRole, Phase, RegionRecord, Role
from graphbench.report.columns import FUSION_COLUMNS
from graphbench.report.names import symbol_text
from graphbench.report.node_columns import NODE_COLUMNS
from graphbench.report.trace.arguments import code_args, column_args, known, source_args
from graphbench.report.trace.events import Lane, Process
from graphbench.report.trace.names import device_name, kernel_title, launched

ARROWS: Final[frozenset[Role]] = frozenset({"executes", "recomputes", "prepares", "differentiates"})
"""Roles that lead an arrow from the node to the kernel; what a kernel only reads would hide them."""
_BACKWARD_COLUMNS: Final = tuple(
    column
    for column in NODE_COLUMNS
    if column.key in ("region", "name", "op_type", "module") or column.key.startswith("backward_")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionRows:
    """A region with its rows, nodes by name and kernels by key; `calls` are the lines that call them."""

    region: RegionRecord
    nodes: Mapping[str, NodeRow]
    fusions: Mapping[str, FusionRow]
    calls: Mapping[str, str]


def region_process(rows: RegionRows, flows: Iterator[int], digest: Digest) -> Process:
    """The tracks of one region; `flows` numbers the arrows."""
    region = rows.region
    tracks = region_tracks(region, digest)
    process = Process(region_title(region))
    eager = process.lane("eager, every op alone" if tracks.alone else "eager")
    compiled = process.lane("compiled")
    _frame(eager, region, (("eager forward", tracks.eager), ("eager backward", tracks.eager_backward)))
    _frame(compiled, region, (("compiled forward", tracks.forward), ("compiled backward", tracks.backward)))
    _add_nodes(eager, rows, tracks.eager, "forward")
    _add_nodes(eager, rows, tracks.eager_backward, "backward")
    _add_kernels(compiled, rows, (*tracks.forward.slots, *tracks.backward.slots))
    _add_arrows(eager, compiled, rows, tracks, flows)
    return process


def region_title(region: RegionRecord) -> str:
    """Its key, and whose code it is."""
    function = region.location.function if region.location else ""
    where = f"({source_text(region.location)})" if region.location else ""
    return " ".join(part for part in (region.key, function, where) if part)


def _frame(lane: Lane, region: RegionRecord, phases: Sequence[tuple[str, Track]]) -> None:
    """The slices around all rows of a track: the region, and its phases in it."""
    phases = [(name, track) for name, track in phases if track.slots]
    if not phases:
        return
    facts = {"region": region.key, "compile_id": region.compile_id, "status": region.status, "reason": region.reason}
    more = {"calls": region.calls, "device": region.device, "notes": "\n".join(region.notes)}
    args = known({**facts, **more}) | source_args(region.location)
    start_ns, end_ns = phases[0][1].start_ns, phases[-1][1].end_ns
    lane.slice(region_title(region), "region", start_ns, end_ns - start_ns, args)
    for name, track in phases:
        lane.slice(name, "phase", track.start_ns, track.end_ns - track.start_ns, _sums(track.slots))


def _sums(slots: Sequence[Slot]) -> dict[str, Any]:
    """What a slice that only encloses others tells; its own length has up to a nanosecond a row more."""
    times = [slot.duration_ns for slot in slots if slot.duration_ns is not None]
    total_ns = sum(times) if times else None
    return known({"time_ns": total_ns, "rows": len(slots), "rows_without_time": len(slots) - len(times)})


def _add_nodes(lane: Lane, rows: RegionRows, track: Track, phase: Phase) -> None:
    nodes = [rows.nodes[slot.key] for slot in track.slots]
    for span in module_spans([row.module for row in nodes]):
        inside = track.slots[span.first : span.last + 1]
        args = known({"module": span.path}) | _sums(inside)
        lane.slice(span.path, "module", inside[0].start_ns, inside[-1].end_ns - inside[0].start_ns, args)
    for slot, row in zip(track.slots, nodes, strict=True):
        forward = phase == "forward"
        args = column_args(NODE_COLUMNS if forward else _BACKWARD_COLUMNS, row) | source_args(row.node.source)
        args |= known({"row": f"{row.region}/{row.name}"})
        _add_row(lane, slot, row.name, "eager" if forward else "eager backward", args)


def _add_kernels(lane: Lane, rows: RegionRows, slots: Sequence[Slot]) -> None:
    kernels = {kernel.key: kernel for kernel in rows.region.kernels}
    for slot in slots:
        kernel = kernels[slot.key]
        args = column_args(FUSION_COLUMNS, rows.fusions[slot.key])
        args |= code_args(rows.region, kernel, rows.calls.get(slot.key, ""))
        work = [device_name(entry.name, entry.kind) for entry in launched(kernel)]
        args |= known({"in_graph_device_kernels": work, "symbol": symbol_text(kernel_title(kernel)) if work else ""})
        _add_row(lane, slot, kernel_title(kernel), "compiled", args)


def _add_row(lane: Lane, slot: Slot, name: str, category: str, args: dict[str, Any]) -> None:
    """A row as a slice, or as an instant that says why it has no time."""
    if slot.duration_ns is None:
        lane.instant(name, category, slot.start_ns, args | known({"no_time": slot.reason or "not measured"}))
    else:
        lane.slice(name, category, slot.start_ns, slot.duration_ns, args)


def _add_arrows(eager: Lane, compiled: Lane, rows: RegionRows, tracks: RegionTracks, flows: Iterator[int]) -> None:
    """From every node to the kernels that work for it, where both have a time: an instant is nothing to point at."""
    from_ns = {slot.key: slot.start_ns for slot in tracks.eager.slots if slot.duration_ns is not None}
    slots = (*tracks.forward.slots, *tracks.backward.slots)
    to_ns = {slot.key: slot.start_ns for slot in slots if slot.duration_ns is not None}
    for kernel in rows.region.kernels:
        for node, role in _arrows(kernel.roles):
            if kernel.key in to_ns and node in from_ns:
                flow = next(flows)
                eager.arrow_from(role, flow, from_ns[node])
                compiled.arrow_to(role, flow, to_ns[kernel.key])


def _arrows(roles: Sequence[NodeRole]) -> list[tuple[str, Role]]:
    return list(dict.fromkeys((entry.node, entry.role) for entry in roles if entry.role in ARROWS))

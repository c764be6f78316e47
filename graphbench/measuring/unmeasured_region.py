"""What is known of a region without measuring it: its nodes with their fates, its post-grad nodes, its kernels."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from graphbench.errors import ProvenanceError, SetupError
from graphbench.execution.transforms import transformed
from graphbench.measurements import Measurement
from graphbench.measuring.compiled import CompiledSide
from graphbench.measuring.compiled_runs import AnySide
from graphbench.measuring.opaque import opaque_fates, opaque_sides
from graphbench.measuring.runs import MeasuredSide
from graphbench.measuring.unfused import n_ops, post_grad_records
from graphbench.provenance.fates import NO_WORK, fates
from graphbench.records import Fate, GraphInput, KernelRecord, NodeRecord, Phase, PostGradNode, RegionRecord, Side
from graphbench.regions import Region
from graphbench.units import count_text

TRACED_THROUGH = "traced through by functorch"
PHASES: tuple[Phase, ...] = ("forward", "backward")


def skipped(region: Region, reason: str) -> RegionRecord:
    """A region that is not measured, with what is known of it."""
    capture = region.capture
    sides = known_sides(region)
    kernels = tuple(kernel for side in sides for kernel in side.records(MeasuredSide(Side(reason=reason))))
    return RegionRecord(
        key=region.key,
        compile_id=region.compile_id,
        status="skipped",
        reason=reason,
        location=region.location,
        calls=region.calls,
        shapes_of=region.shapes_of,
        sizes=tuple(region.sizes.items()),
        backend=region.backend,
        inputs=capture.records if capture else (),
        ambient=capture.ambient if capture else None,
        nodes=with_fates(region, [_marked(node, reason) for node in region.nodes], sides, kernels),
        post_grad=post_grad_of(sides, reason),
        graph_inputs=graph_inputs_of(sides),
        kernels=kernels,
        code=tuple(side.code() for side in sides if isinstance(side, CompiledSide)),
    )


def known_sides(region: Region) -> list[AnySide]:
    """The compiled graphs whose wrapper can be read; a step may refer to their kernels."""
    if region.backend:
        return [*opaque_sides(region, has_backward=False).values()]
    found: list[AnySide] = []
    for graph in (region.graph(phase) for phase in PHASES):
        with contextlib.suppress(ProvenanceError, SetupError):
            found += [] if graph is None else [CompiledSide.of(graph)]
    return found


def post_grad_of(sides: Iterable[AnySide], reason: str) -> tuple[PostGradNode, ...]:
    """The post-grad nodes of compiled graphs; `reason` says why those without a time have none."""
    return tuple(node for side in sides for node in post_grad_records(side, reason))


def graph_inputs_of(sides: Iterable[AnySide]) -> tuple[GraphInput, ...]:
    """What compiled graphs read without computing it."""
    return tuple(entry for side in sides for entry in side.graph.inputs)


def with_fates(
    region: Region,
    nodes: Sequence[NodeRecord],
    sides: Iterable[AnySide],
    kernels: Sequence[KernelRecord],
) -> tuple[NodeRecord, ...]:
    """The nodes with what became of each."""
    forward = [side for side in sides if side.graph.phase == "forward"]
    vanished = {name: fate for side in forward for name, fate in side.graph.vanished.items()}
    output = next(node for node in region.gm.graph.nodes if node.op == "output")
    results = [source.name for source in output.all_input_nodes]
    constants = [node.name for side in forward for node in side.graph.post_grad if node.op == "get_attr"]
    known = fates(nodes, post_grad_of(forward, ""), kernels, results, vanished, constants)
    if region.backend:
        known |= opaque_fates(nodes, region.backend)
    else:
        known |= _transformed_fates(region, known)
    return tuple(replace(node, fate=known[node.name]) for node in nodes)


def ungrouped_note(region: Region) -> str:
    """Tells of calls whose sizes no group was made for."""
    calls = count_text(region.groups.ungrouped, "call")
    kept = count_text(region.backend_options.groups, "group")
    return (
        f"{calls} had other sizes than the {kept} that are kept, and are not in this profile: torch.compile(..., "
        "options={'groups': N}) keeps more"
    )


def _transformed_fates(region: Region, known: Mapping[str, Fate]) -> dict[str, Fate]:
    """Of calls inside `vmap` or `func.grad` of which no op is left: the compiler saw only what they make of others."""
    found: dict[str, Fate] = {}
    for name, part in transformed(region.gm).items():
        fate = known.get(name)
        if fate is not None and fate.kind == "unknown" and not fate.note.endswith(NO_WORK):
            others = [key for node in part.nodes if node.name in known for key in known[node.name].kernels]
            found[name] = Fate(
                kind="rewritten", kernels=tuple(dict.fromkeys(others)), note="traced through by functorch"
            )
    return found


def _marked(node: NodeRecord, reason: str) -> NodeRecord:
    missing = Measurement(status="skipped", reason=reason)
    return replace(node, isolated=missing, in_graph=missing, backward_isolated=missing, backward_in_graph=missing)


def unit_count(region: Region) -> int:
    """How many units measuring the region will visit, for the progress bar."""
    return len(region.nodes) + sum(len(graph.kernels) + n_ops(graph) for graph in region.graphs)

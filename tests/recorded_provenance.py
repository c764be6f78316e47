"""Reads what `tests/data/record_provenance.py` recorded, and maps it as a measured region's kernels and nodes are."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphbench.inductor.sites import Site, all_kernels
from graphbench.provenance.claims import IrNode, KernelOrigins
from graphbench.provenance.fates import fates
from graphbench.provenance.ownership import Ownership, owned
from graphbench.provenance.sources import roles
from graphbench.records import Fate, KernelRecord, NodeRecord, PostGradNode


@dataclass(frozen=True)
class RecordedGraph:
    """One compiled graph as Inductor announced it."""

    phase: str
    post_grad: tuple[PostGradNode, ...]
    kernels: tuple[KernelOrigins, ...]
    sites: tuple[Site, ...]
    ownership: Mapping[str, Ownership]


@dataclass(frozen=True)
class RecordedRegion:
    """One region with its map, made anew from what was recorded."""

    nodes: tuple[NodeRecord, ...]
    graphs: tuple[RecordedGraph, ...]
    kernels: tuple[KernelRecord, ...]
    fates: Mapping[str, Fate]


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return found


def regions(recorded: Mapping[str, Any]) -> list[RecordedRegion]:
    return [_region(entry) for entry in recorded["regions"]]


def _region(entry: Mapping[str, Any]) -> RecordedRegion:
    nodes = tuple(_node(node) for node in entry["nodes"])
    graphs = tuple(_graph(graph) for graph in entry["graphs"])
    kernels = tuple(kernel for graph in graphs for kernel in _kernels(graph))
    forward = [node for graph in graphs if graph.phase == "forward" for node in graph.post_grad]
    computing = [node for node in forward if node.op not in ("placeholder", "get_attr")]
    vanished = {
        name: Fate(kind=kind, note=note)
        for graph in entry["graphs"]
        for name, (kind, note) in graph.get("vanished", {}).items()
    }
    return RecordedRegion(nodes, graphs, kernels, fates(nodes, computing, kernels, entry["results"], vanished))


def _node(entry: Mapping[str, Any]) -> NodeRecord:
    return NodeRecord(
        name=entry["name"],
        op="call_function",
        op_type=entry["op_type"],
        kind=entry["kind"],
        inputs=tuple(entry["inputs"]),
        arguments=None,
        outputs=(),
        module=entry["module"],
    )


def _tuples(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()}


def _graph(entry: Mapping[str, Any]) -> RecordedGraph:
    post_grad = tuple(PostGradNode(**_tuples(node)) for node in entry["post_grad"])
    kernels = tuple(
        KernelOrigins(kernel["key"], kernel["is_extern"], tuple(IrNode(**_tuples(ir)) for ir in kernel["irs"]))
        for kernel in entry["kernels"]
    )
    sites = tuple(Site(**_tuples(site)) for site in entry["sites"])
    return RecordedGraph(entry["phase"], post_grad, kernels, sites, owned(post_grad, all_kernels(kernels, sites)))


def _kernels(graph: RecordedGraph) -> list[KernelRecord]:
    nodes = {node.name: node for node in graph.post_grad}
    found = []
    for site in graph.sites:
        ownership = graph.ownership.get(site.key, Ownership())
        found.append(
            KernelRecord(
                key=f"{graph.phase}/{site.name}:{site.position}",
                phase=graph.phase,
                name=site.name,
                handle=site.handle,
                kind=site.kind,
                executes=tuple(name for name in nodes if name in ownership.executes | ownership.recomputes),
                recomputes=tuple(name for name in nodes if name in ownership.recomputes),
                parts=tuple((name, ownership.parts[name]) for name in nodes if name in ownership.parts),
                reads=ownership.reads,
                roles=roles(ownership, nodes),
            )
        )
    return found

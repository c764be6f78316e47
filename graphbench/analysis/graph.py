"""A profile as a graph of nodes and kernels, and its critical path. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphbench.analysis.digest import Digest
from graphbench.analysis.graph_facts import graph_facts, kernel_facts, known, node_facts
from graphbench.analysis.rows import profile_rows
from graphbench.analysis.views import source_text
from graphbench.records import KernelRecord, NodeRecord, Phase, PostGradNode, ProfileRecord, RegionRecord

if TYPE_CHECKING:
    import networkx

PHASES: tuple[Phase, ...] = ("forward", "backward")


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticalPath:
    """The longest chain of kernels of one phase of a region, each of which reads what the one before it wrote.

    Times are isolated medians in nanoseconds. `total_ns - path_ns` is what could at most run beside it.
    Of the `count` kernels of the phase `missing` have no time, and count as nothing in both.
    """

    region: str
    phase: Phase
    kernels: tuple[str, ...]
    path_ns: float
    total_ns: float
    count: int
    missing: int


def profile_graph(record: ProfileRecord, digest: Digest | None = None) -> networkx.DiGraph[str]:
    """Nodes, post-grad nodes and kernels of every region as one directed graph.

    Vertices are `REGION/node/NAME`, `REGION/PHASE/post_grad/NAME` and `REGION/KERNEL`, with the attributes `what`
    (`node`, `post-grad node` or `kernel`), `region`, `name`, `kind` and, where it is known, `isolated_ns`. Nodes also
    have `op_type`, `fate`, `module`, `source`, `backward_ns` (isolated) and `in_graph_ns`; post-grad nodes `phase` and
    `target`; kernels `phase`, `calls` and `in_graph_ns`; `graph_facts` has the others of nodes and kernels, and those
    of the graph as a whole. What is not known is no attribute, so that every format can hold them. A kernel's
    `isolated_ns` is of one call, its `in_graph_ns` of all.

    Edges have `relation`: `feeds` between nodes, between post-grad nodes and from a kernel to one that reads what it
    wrote; `becomes` from a node to a post-grad node that it was lowered to; the roles from a node to a kernel
    (`differentiates, recomputes` where it has two), with their `moved_bytes`, and `executes` or `recomputes` from a
    post-grad node to a kernel.

    Args:
        record: a profile.
        digest: statistics already computed for this record.

    Source: `networkx.DiGraph`, networkx 3.
    """
    import networkx

    digest = digest or Digest()
    rows = profile_rows(record, digest)
    graph: networkx.DiGraph[str] = networkx.DiGraph()
    graph.graph.update(graph_facts(record))
    for region in record.regions:
        _add_nodes(graph, region, digest)
        _add_post_grad(graph, region, digest)
        for kernel in region.kernels:
            _add_kernel(graph, region, kernel, digest)
    for node_row in rows.nodes:
        graph.nodes[f"{node_row.region}/node/{node_row.name}"].update(node_facts(node_row))
    for row in rows.fusions:
        graph.nodes[f"{row.region}/{row.key}"].update(kernel_facts(row))
    for region in record.regions:
        for phase in PHASES:
            for writer, reader in kernel_edges(region, phase):
                graph.add_edge(f"{region.key}/{writer}", f"{region.key}/{reader}", relation="feeds")
    return graph


def critical_paths(record: ProfileRecord, digest: Digest | None = None) -> list[CriticalPath]:
    """The critical path of every region's forward and backward, by isolated time. Kernels without a time are counted.

    Args:
        record: a profile.
        digest: statistics already computed for this record.

    Source: `networkx.dag_longest_path`, networkx 3.
    """
    import networkx

    digest = digest or Digest()
    found = []
    for region in record.regions:
        for phase in PHASES:
            kernels = [kernel for kernel in region.kernels if kernel.phase == phase]
            if not kernels:
                continue
            times = {k.key: (digest.median(k.isolated) or 0.0) * max(1, k.calls) for k in kernels}
            graph: networkx.DiGraph[str] = networkx.DiGraph()
            graph.add_weighted_edges_from(("", key, time_ns) for key, time_ns in times.items())
            graph.add_weighted_edges_from((one, other, times[other]) for one, other in kernel_edges(region, phase))
            path = tuple(networkx.dag_longest_path(graph))[1:]
            found.append(
                CriticalPath(
                    region=region.key,
                    phase=phase,
                    kernels=path,
                    path_ns=sum(times[key] for key in path),
                    total_ns=sum(times.values()),
                    count=len(kernels),
                    missing=sum(digest.median(kernel.isolated) is None for kernel in kernels),
                )
            )
    return found


def kernel_edges(region: RegionRecord, phase: Phase) -> list[tuple[str, str]]:
    """Pairs of keys of a phase's kernels: one that writes, and a later one that reads it, in the wrapper's order.

    What a kernel recomputes it keeps to itself: whoever reads that reads it from another.
    """
    found: dict[tuple[str, str], None] = {}
    writers: dict[str, list[str]] = {}
    prepared: dict[str, list[str]] = {}
    for kernel in (kernel for kernel in region.kernels if kernel.phase == phase):
        made_for = [key for name in kernel.executes for key in prepared.get(name, ())]
        before = [key for name in kernel.reads for key in writers.get(name, ())]
        found.update(dict.fromkeys((key, kernel.key) for key in (*before, *made_for) if key != kernel.key))
        for name in (name for name in kernel.executes if name not in kernel.recomputes):
            writers.setdefault(name, []).append(kernel.key)
        for name in _prepared(kernel):
            # A copy of a result stands before whoever reads that, a copy of an argument before the call.
            copies = writers if name in kernel.reads else prepared
            copies.setdefault(name, []).append(kernel.key)
    return list(found)


def _prepared(kernel: KernelRecord) -> list[str]:
    roles = kernel.roles if not kernel.executes else ()
    return [name for role in roles if role.role == "prepares" for name in role.post_grad]


def _add_nodes(graph: networkx.DiGraph[str], region: RegionRecord, digest: Digest) -> None:
    for node in region.nodes:
        graph.add_node(f"{region.key}/node/{node.name}", **_node_attributes(region.key, node, digest))
    for node in region.nodes:
        for source in node.inputs:
            if f"{region.key}/node/{source}" in graph:
                graph.add_edge(f"{region.key}/node/{source}", f"{region.key}/node/{node.name}", relation="feeds")


def _add_post_grad(graph: networkx.DiGraph[str], region: RegionRecord, digest: Digest) -> None:
    for node in region.post_grad:
        graph.add_node(_post_grad_key(region, node.phase, node.name), **_post_grad_attributes(region.key, node, digest))
    for node in region.post_grad:
        key = _post_grad_key(region, node.phase, node.name)
        for source in node.inputs:
            if _post_grad_key(region, node.phase, source) in graph:
                graph.add_edge(_post_grad_key(region, node.phase, source), key, relation="feeds")
        for source in node.sources:
            if f"{region.key}/node/{source}" in graph:
                graph.add_edge(f"{region.key}/node/{source}", key, relation="becomes")


def _add_kernel(graph: networkx.DiGraph[str], region: RegionRecord, kernel: KernelRecord, digest: Digest) -> None:
    key = f"{region.key}/{kernel.key}"
    times = {"isolated_ns": digest.median(kernel.isolated), "in_graph_ns": digest.median(kernel.in_graph)}
    facts = {"what": "kernel", "region": region.key, "name": kernel.name, "kind": kernel.kind, "phase": kernel.phase}
    graph.add_node(key, **known({**facts, "calls": kernel.calls, **times}))
    for node in dict.fromkeys(role.node for role in kernel.roles):
        roles = [role for role in kernel.roles if role.node == node]
        moved_bytes = sum(role.moved_bytes for role in roles)
        relation = ", ".join(role.role for role in roles)
        if f"{region.key}/node/{node}" in graph:
            graph.add_edge(f"{region.key}/node/{node}", key, relation=relation, moved_bytes=moved_bytes)
    for name in kernel.executes:
        relation = "recomputes" if name in kernel.recomputes else "executes"
        if _post_grad_key(region, kernel.phase, name) in graph:
            graph.add_edge(_post_grad_key(region, kernel.phase, name), key, relation=relation)


def _post_grad_key(region: RegionRecord, phase: Phase, name: str) -> str:
    return f"{region.key}/{phase}/post_grad/{name}"


def _node_attributes(region: str, node: NodeRecord, digest: Digest) -> dict[str, Any]:
    return known(
        {
            "what": "node",
            "region": region,
            "name": node.name,
            "kind": node.kind,
            "op_type": node.op_type,
            "fate": node.fate.kind,
            "module": node.module or None,
            "source": source_text(node.source) or None,
            "isolated_ns": digest.median(node.isolated),
            "backward_ns": digest.median(node.backward_isolated),
            "in_graph_ns": digest.median(node.in_graph),
        }
    )


def _post_grad_attributes(region: str, node: PostGradNode, digest: Digest) -> dict[str, Any]:
    kind = "view" if node.is_view else "compute"
    facts = {"what": "post-grad node", "region": region, "name": node.name, "kind": kind, "phase": node.phase}
    return known({**facts, "target": node.target, "isolated_ns": digest.median(node.isolated)})

"""Model Explorer's JSON: the graphs of a profile (`GraphCollection`), onto which `overlay` puts one metric.

Checked against google-ai-edge/model-explorer at c0f8dba and its package ai-edge-model-explorer 0.1.34 (2026-11-30).
"""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from graphbench.analysis.digest import Digest
from graphbench.analysis.fusion import FusionRow
from graphbench.analysis.graph import PHASES, kernel_edges
from graphbench.analysis.rows import ProfileRows, profile_rows
from graphbench.analysis.views import NodeRow, fate_text, source_text, spec_text
from graphbench.plaintext import clean
from graphbench.records import NodeRecord, Phase, ProfileRecord, RegionRecord
from graphbench.report.base import RenderOptions, check_options
from graphbench.report.columns import roles_text
from graphbench.report.graph.vertices import unique_names
from graphbench.units import format_duration, format_percent, format_ratio

if TYPE_CHECKING:
    from typing_extensions import Unpack

Json = dict[str, Any]


class RegionRows(NamedTuple):
    """The rows of one region."""

    nodes: list[NodeRow]
    fusions: list[FusionRow]


class ModelExplorerGraphReporter:
    """One graph of a region's nodes (`r0`), nested as its modules are, and one of each phase's kernels (`r0/forward`).

    Nodes are named as in the profile, kernels by their keys; an edge is data that goes from one to the other.
    """

    suffix = ".json"

    def render(self, record: ProfileRecord, **options: Unpack[RenderOptions]) -> str:
        """The JSON text, to be opened in Model Explorer as a model.

        Source: `GraphCollection` of `input_graph.ts`, which `loadGraphsJson` of `common/utils.ts` takes as it is.

        Raises:
            UsageError: an option: this format takes none.
        """
        check_options("model-explorer-graph", options, ())
        digest = Digest()
        rows = rows_by_region(profile_rows(record, digest))
        graphs = [graph for region in record.regions for graph in _graphs(record, region, rows[region.key])]
        collection = {"label": clean(record.subject or "graphbench"), "graphs": graphs, "graphSorting": "name_asc"}
        return json.dumps(collection, indent=1) + "\n"


def nodes_graph_id(region: RegionRecord) -> str:
    """The id of the graph of a region's nodes."""
    return clean(region.key)


def kernels_graph_id(region: RegionRecord, phase: Phase) -> str:
    """The id of the graph of the kernels of a phase."""
    return f"{nodes_graph_id(region)}/{phase}"


def node_ids(region: RegionRecord) -> Mapping[str, str]:
    """Ids within a graph by name of the node."""
    return unique_names(node.name for node in region.nodes)


def kernel_ids(region: RegionRecord) -> Mapping[str, str]:
    """Ids within a graph by key of the kernel."""
    return unique_names(kernel.key for kernel in region.kernels)


def rows_by_region(rows: ProfileRows) -> Mapping[str, RegionRows]:
    """The rows of each region; of one without any, none."""
    found: dict[str, RegionRows] = defaultdict(lambda: RegionRows([], []))
    for row in rows.nodes:
        found[row.region].nodes.append(row)
    for fusion in rows.fusions:
        found[fusion.region].fusions.append(fusion)
    return found


def _graphs(record: ProfileRecord, region: RegionRecord, rows: RegionRows) -> list[Json]:
    about = {"": _about(record, region)}
    graphs: list[Json] = []
    if region.nodes:
        timed = {row.name: row for row in rows.nodes}
        graphs.append({"id": nodes_graph_id(region), "nodes": _nodes(region, timed), "groupNodeAttributes": about})
    for phase in PHASES:
        fusions = [row for row in rows.fusions if row.phase == phase]
        if fusions:
            nodes = _kernels(region, phase, fusions)
            graphs.append({"id": kernels_graph_id(region, phase), "nodes": nodes, "groupNodeAttributes": about})
    return graphs


def _about(record: ProfileRecord, region: RegionRecord) -> Mapping[str, str]:
    facts = {
        "region": f"{region.key} {source_text(region.location)}",
        "subject": record.subject,
        "timer": record.policy.timer,
        "cache": record.policy.cache,
        "measured": record.created,
    }
    return {name: clean(text) for name, text in facts.items() if text}


def _nodes(region: RegionRecord, rows: Mapping[str, NodeRow]) -> list[Json]:
    ids = node_ids(region)
    return [
        {
            "id": ids[node.name],
            "label": clean(node.op_type),
            "namespace": _namespace(node.module.split(".")),
            "attrs": _attributes(_node_facts(node, rows.get(node.name))),
            "incomingEdges": _edges(ids[name] for name in node.inputs if name in ids),
            "outputsMetadata": [
                {"id": str(position), "attrs": [{"key": "tensor_shape", "value": spec_text(spec)}]}
                for position, spec in enumerate(node.outputs)
            ],
        }
        for node in region.nodes
    ]


def _kernels(region: RegionRecord, phase: Phase, rows: Sequence[FusionRow]) -> list[Json]:
    ids = kernel_ids(region)
    modules = {node.name: node.module.split(".") for node in region.nodes}
    readers: dict[str, list[str]] = {}
    for writer, reader in kernel_edges(region, phase):
        readers.setdefault(reader, []).append(ids[writer])
    return [
        {
            "id": ids[row.key],
            "label": clean(row.name),
            "namespace": _namespace(_common([modules[name] for name in row.nodes if name in modules])),
            "attrs": _attributes(_kernel_facts(row)),
            "incomingEdges": _edges(readers.get(row.key, ())),
        }
        for row in rows
    ]


def _node_facts(node: NodeRecord, row: NodeRow | None) -> Iterable[tuple[str, str | None]]:
    yield from (("name", node.name), ("kind", node.kind), ("fate", fate_text(node.fate)))
    yield from (("module", node.module), ("source", source_text(node.source)))
    if row is None:
        return
    yield "isolated", _known(row.isolated_p50_ns, format_duration)
    yield "backward isolated", _known(row.backward_p50_ns, format_duration)
    yield "in graph", _known(row.in_graph_ns, format_duration)
    yield "compiled forward", _known(row.compiled.forward_ns, format_duration)
    yield "compiled backward", _known(row.compiled.backward_ns, format_duration)
    yield "share", _known(row.share, format_percent)
    yield from (("bound", row.limit.bound), ("of limit", _known(row.limit.part, format_percent)))
    yield from (("not measured", row.reason), ("warnings", "; ".join(row.warnings)))


def _kernel_facts(row: FusionRow) -> Iterable[tuple[str, str | None]]:
    yield from (("key", row.key), ("kind", row.kind), ("calls", str(row.calls)), ("nodes", roles_text(row.roles)))
    yield "fused", _known(row.fused_ns, format_duration)
    yield "eager", _known(row.eager.p50_ns if row.eager else None, format_duration)
    yield "unfused", _known(row.unfused_ns, format_duration)
    yield "in graph", _known(row.in_graph_ns, format_duration)
    yield from (("verdict", row.verdict), ("ratio", _known(row.ratio, format_ratio)))
    yield from (("bound", row.limit.bound), ("of limit", _known(row.limit.part, format_percent)))
    yield from (("not known", "; ".join(row.reasons)), ("warnings", "; ".join(row.warnings)))


def _known(value: float | None, write: Callable[[float], str]) -> str | None:
    return None if value is None else write(value)


def _attributes(facts: Iterable[tuple[str, str | None]]) -> list[Json]:
    return [{"key": key, "value": clean(value)} for key, value in facts if value]


def _namespace(parts: Sequence[str]) -> str:
    """A path of modules. Source: `splitNamespace` and `processNodes`: `/` is escaped, `;` separates alternatives."""
    return "/".join(clean(part).replace("/", "\\/").replace(";", ",") for part in parts if part)


def _common(paths: Sequence[Sequence[str]]) -> list[str]:
    """The modules that all of these are in, from the outermost."""
    levels = (set(parts) for parts in zip(*paths, strict=False))
    return [parts.pop() for parts in itertools.takewhile(lambda parts: len(parts) == 1, levels)]


def _edges(sources: Iterable[str]) -> list[Json]:
    return [
        {"sourceNodeId": source, "sourceNodeOutputId": "0", "targetNodeInputId": str(position)}
        for position, source in enumerate(sources)
    ]

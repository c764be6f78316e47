"""Nodes and kernels of a profile as a DOT file, for Graphviz: `dot -Tsvg graph.dot -o graph.svg`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from graphbench.analysis.graph import PHASES, profile_graph
from graphbench.analysis.matching import meant
from graphbench.analysis.views import source_text
from graphbench.plaintext import clean
from graphbench.records import ProfileRecord, RegionRecord
from graphbench.report.base import RenderOptions, check_options
from graphbench.report.graph.vertices import unique_names
from graphbench.report.names import shorten_kernel_of_kind, shorten_tail
from graphbench.units import format_duration, format_ratio

if TYPE_CHECKING:
    import networkx
    from typing_extensions import Unpack

# Lines and arrowheads tell the roles apart, not colours.
_EDGES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "executes": "style=solid, penwidth=1.5",
        "differentiates": "style=solid, arrowhead=empty",
        "recomputes": "style=dashed",
        "prepares": "style=dashed, arrowhead=odiamond",
        "contributes": "style=dotted, arrowhead=vee, constraint=false",
        "feeds": 'color="#808080", arrowhead=open, arrowsize=0.6',
    }
)
_LEGEND: Final = (
    "ellipses: nodes (dashed: they compute nothing); boxes: kernels; the darker, the more time",
    "thick: executes; hollow head: backward of it; dashed: recomputes; diamond: prepares for it; dotted: only reads; "
    "grey: feeds",
)
_HEAD: Final = (
    "rankdir=TB; compound=true; newrank=true;",
    'graph [fontname="Helvetica", fontsize=11];',
    'node [fontname="Helvetica", fontsize=10];',
    'edge [fontname="Helvetica", fontsize=8];',
)
_NAME_WIDTH: Final = 40


class DotReporter:
    """Nodes and kernels by region and phase, with their times and, as edges, data flow and roles; takes `select`.

    Post-grad nodes are left out: GraphML has them. Of a training step with hundreds of nodes `dot` finds no layout in
    minutes: `select` nodes of one layer, which brings the kernels that work for them, or let `sfdp` lay it out.
    """

    suffix = ".dot"

    def render(self, record: ProfileRecord, **options: Unpack[RenderOptions]) -> str:
        """The DOT text, in the same order each time.

        Source: the DOT language and `escString`, graphviz.org, checked with Graphviz 2.43.

        Raises:
            UsageError: another option, or a pattern that means no node.
        """
        check_options("dot", options, ("select",))
        graph = profile_graph(record)
        graph.remove_nodes_from(set(graph) - _shown(record, graph, options.get("select", ())))
        for vertex, name in unique_names(graph).items():
            graph.nodes[vertex]["id"] = quoted(name)
        return "\n".join(_lines(record, graph)) + "\n"


def _shown(record: ProfileRecord, graph: networkx.DiGraph[str], select: Sequence[str]) -> set[str]:
    """The nodes that are meant, and the kernels that do more for them than read them; without patterns, all."""
    if not select:
        return {vertex for vertex in graph if graph.nodes[vertex]["what"] != "post-grad node"}
    every = [(region, node) for region in record.regions for node in region.nodes]
    nodes = {f"{region.key}/node/{node.name}" for region, node in meant(every, select, option="select")}
    kernels = {
        kernel
        for node in nodes
        for kernel, facts in graph[node].items()
        if graph.nodes[kernel]["what"] == "kernel" and facts["relation"] != "contributes"
    }
    return nodes | kernels


def quoted(text: str, *, newline: str = "\\n") -> str:
    """A text as a DOT string that shows just this: nothing in it is a keyword, an escape, an entity or HTML.

    Lines of the text end in `newline`, which says how they are aligned.
    """
    lines = (clean(line).replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;") for line in text.split("\n"))
    return f'"{newline.join(lines)}"'


def _lines(record: ProfileRecord, graph: networkx.DiGraph[str]) -> Iterator[str]:
    largest_ns = max((_time_ns(graph, vertex) or 0.0 for vertex in graph), default=0.0)
    yield "digraph graphbench {"
    yield from (f"  {line}" for line in _HEAD)
    title = f"{record.subject or 'a model'}: isolated times, {record.policy.timer}, {record.policy.cache}"
    yield f"  labelloc=t; label={quoted(chr(10).join((title, *_LEGEND)))};"
    for region in record.regions:
        yield from _cluster(region, graph, largest_ns)
    for source, target, facts in graph.edges(data=True):
        yield f"  {graph.nodes[source]['id']} -> {graph.nodes[target]['id']} [{_edge(facts['relation'])}];"
    yield "}"


def _cluster(region: RegionRecord, graph: networkx.DiGraph[str], largest_ns: float) -> Iterator[str]:
    """A region: its nodes, and beside them the kernels of its forward and backward."""
    nodes = [key for key in (f"{region.key}/node/{node.name}" for node in region.nodes) if key in graph]
    kernels = [kernel for kernel in region.kernels if f"{region.key}/{kernel.key}" in graph]
    if not nodes and not kernels:
        return
    where = source_text(region.location)
    yield f"  subgraph {quoted(f'cluster_{region.key}')} {{"
    yield f"    label={quoted(f'{region.key}  {where}'.rstrip())}; style=rounded;"
    yield from (f"    {_vertex(key, graph, largest_ns)}" for key in nodes)
    for phase in PHASES:
        keys = [f"{region.key}/{kernel.key}" for kernel in kernels if kernel.phase == phase]
        if keys:
            yield f"    subgraph {quoted(f'cluster_{region.key}_{phase}')} {{"
            yield f"      label={quoted(f'{phase}: kernels')}; style=dashed;"
            yield from (f"      {_vertex(key, graph, largest_ns)}" for key in keys)
            yield "    }"
    yield "  }"


def _vertex(vertex: str, graph: networkx.DiGraph[str], largest_ns: float) -> str:
    facts = graph.nodes[vertex]
    is_kernel = facts["what"] == "kernel"
    styles = ["filled"] if is_kernel or facts["kind"] == "compute" else ["filled", "dashed"]
    time_ns = _time_ns(graph, vertex)
    # The square root: small times are still told from none.
    shade = math.sqrt(time_ns / largest_ns) if time_ns and largest_ns else 0.0
    return (
        f"{facts['id']} [shape={'box' if is_kernel else 'ellipse'}, style={quoted(','.join(styles))}, "
        f'fillcolor="0.58 {0.65 * shade:.3f} 1.0", label={quoted(_label(facts, time_ns))}, tooltip={quoted(vertex)}];'
    )


def _label(facts: Mapping[str, object], time_ns: float | None) -> str:
    name = str(facts["name"])
    if facts["what"] != "kernel":
        op_type = str(facts["op_type"])
        lines = [shorten_tail(name, _NAME_WIDTH), *([op_type] if op_type != name else [])]
    else:
        short = shorten_kernel_of_kind(name, _NAME_WIDTH)
        lines = [name if short.isdigit() else short, str(facts["kind"])]
    times = [format_duration(time_ns, digits=3)] if time_ns is not None else []
    judged = [str(facts["verdict"])] if facts.get("verdict") else []
    ratio = facts.get("ratio")
    judged += [format_ratio(ratio)] if isinstance(ratio, float) and judged else []
    return "\n".join([*lines, *([", ".join([*times, *judged])] if times or judged else [])])


def _edge(relation: str) -> str:
    """The style of an edge; of several roles that of the first, all of them in words."""
    names = relation.split(", ")
    style = _EDGES[names[0]]
    return style if len(names) == 1 else f"{style}, label={quoted(relation)}"


def _time_ns(graph: networkx.DiGraph[str], vertex: str) -> float | None:
    """Of a node one isolated call, of a kernel all of them."""
    facts = graph.nodes[vertex]
    time_ns: float | None = facts.get("fused_ns") if facts["what"] == "kernel" else facts.get("isolated_ns")
    return time_ns

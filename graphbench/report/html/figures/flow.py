"""From modules and source lines through nodes to kernels: where the compiled time goes. A picture, an icicle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from graphbench.analysis.digest import Digest
from graphbench.analysis.flow import Flow, FlowPart, kernel_flow, walk
from graphbench.analysis.group_homes import NO_OWNER
from graphbench.records import ProfileRecord
from graphbench.report.html.figures.drawing import (
    TimeAxis,
    category,
    colour,
    duration,
    escaped,
    hover,
    layout,
    part,
    tint,
)
from graphbench.report.html.model import Figure, kernel_id, node_id
from graphbench.report.names import shorten, shorten_kernel_of_kind
from graphbench.units import count_text

_HEIGHT: Final = 760
_WIDTH: Final = 29
_WORDS: Final = {
    "all": "all kernels",
    "module": "module",
    "source": "source line",
    "node": "nodes",
    "kernel": "kernels",
    "others": "small parts",
}


def flow_figure(record: ProfileRecord, digest: Digest | None = None) -> Figure | None:
    """Columns of ever smaller parts of all kernels' time; `None` where no kernel has one.

    Args:
        record: a profile.
        digest: statistics already computed for this record.
    """
    flow = kernel_flow(record, digest)
    root = flow.root
    if not root.time_ns:
        return None
    parts = list(walk(root))
    scale = TimeAxis.up_to(root.time_ns)
    modules = {key: entry for key, parent, entry in parts if parent == "0"}
    shades = {key: _shade(entry, position) for position, (key, entry) in enumerate(modules.items())}
    trace = {
        "type": "icicle",
        "ids": [key for key, _, _ in parts],
        "parents": [parent for _, parent, _ in parts],
        "labels": [_label(entry) for _, _, entry in parts],
        # Parts add up by themselves: a sum that is off by a rounding would be refused.
        "values": [scale.of(entry.time_ns) if not entry.parts else 0 for _, _, entry in parts],
        "branchvalues": "remainder",
        "customdata": [_row_id(entry) for _, _, entry in parts],
        "hoverinfo": "text",
        "hovertext": [_hover(entry, root) for _, _, entry in parts],
        "texttemplate": "%{label}  %{percentRoot:.1%}",
        "textposition": "middle left",
        "textfont": {"size": 12, "color": colour("text")},
        "sort": False,
        "tiling": {"orientation": "h", "pad": 1},
        "pathbar": {"thickness": 22},
        "leaf": {"opacity": 1},
        "marker": {
            "colors": [tint(_colour(key, entry, shades)) for key, _, entry in parts],
            "line": {"width": 0.5, "color": colour("surface")},
        },
    }
    return Figure(
        id="flow",
        wide=True,
        title="From source lines through nodes to kernels",
        caption=_caption(flow),
        traces=(trace,),
        layout=layout(_HEIGHT, margin={"l": 0, "r": 0, "t": 26, "b": 0}, uniformtext={"minsize": 10, "mode": "hide"}),
        totals_ns={"compiled": root.time_ns},
        alternative=tuple((_plain(entry), part(entry.time_ns, root.time_ns)) for entry in root.children),
    )


def _plain(entry: FlowPart) -> str:
    if entry.what in ("all", "others"):
        return f"all kernels: {duration(entry.time_ns)}" if entry.what == "all" else f"{entry.count} others"
    if entry.what == "node" and len(entry.rows) == 1:
        return next(iter(entry.rows))[1]
    return f"{_phase(entry)}{entry.name}{_times(entry)}"


def _times(entry: FlowPart) -> str:
    return f" ×{len(entry.rows)}" if len(entry.rows) > 1 else ""


def _phase(entry: FlowPart) -> str:
    """Kernels of the backward are marked as nodes' backwards are."""
    if entry.what != "kernel":
        return ""
    return "∂ " if all(key.startswith("backward/") for _, key in entry.rows) else ""


def _label(entry: FlowPart) -> str:
    """What fits: of a source line its place, whose code is in the text that a pointer brings up."""
    if entry.what == "source":
        return escaped(shorten(entry.name.split(" ", 1)[0], _WIDTH))
    if entry.what != "kernel":
        return escaped(shorten(_plain(entry), _WIDTH))
    before, after = _phase(entry), _times(entry)
    return escaped(before + shorten_kernel_of_kind(entry.name, _WIDTH - len(before + after)) + after)


def _row_id(entry: FlowPart) -> str:
    """The row that a click shows: the longest of those that are one part."""
    if not entry.rows:
        return ""
    region, name = max(entry.rows, key=lambda row: entry.rows[row])
    return node_id(region, name) if entry.what == "node" else kernel_id(region, name)


def _hover(entry: FlowPart, root: FlowPart) -> str:
    facts = [("time", part(entry.time_ns, root.time_ns))]
    rows = sorted(entry.rows, key=lambda row: -entry.rows[row])
    if len(rows) > 1:
        facts += [(f"longest of {len(rows)}", f"{rows[0][1]}, {duration(entry.rows[rows[0]])}")]
    facts += [("not told apart", count_text(entry.count, "part"))] if entry.what == "others" else []
    return hover(f"{_WORDS[entry.what]}: {_plain(entry)}" if entry.what != "all" else _WORDS["all"], facts)


def _shade(module: FlowPart, position: int) -> str:
    """The colour of a module; what has no owner, or is not told apart, has none of its own."""
    return "idle" if module.what == "others" or module.name == NO_OWNER else category(position)


def _colour(key: str, entry: FlowPart, shades: Mapping[str, str]) -> str:
    """All of a module is of its colour, but for what is not told apart."""
    if entry.what in ("all", "others"):
        return "idle"
    return shades[".".join(key.split(".")[:2])]


def _caption(flow: Flow) -> str:
    root = flow.root
    text = (
        f"The isolated medians of all compiled kernels, {duration(root.time_ns)}, by module (repeated layers as one), "
        "source line, nodes of one op type, and the kernels that work for them (∂: in backward). A kernel of several "
        "nodes is divided over them by the bytes that each moves in it. Parts below 0.1 % are one part together. A "
        "click makes a part the root; one on a kernel shows it, or the longest of those that are one part."
    )
    if NO_OWNER in {entry.name for entry in root.parts.values()}:
        text += f" {NO_OWNER}: no node is known for these kernels."
    if flow.missing:
        names = ", ".join(key for _, key in flow.missing[:3])
        more = f" and {len(flow.missing) - 3} more" if len(flow.missing) > 3 else ""
        text += f" Without a time, and not drawn: {count_text(len(flow.missing), 'kernel')} ({names}{more})."
    return text

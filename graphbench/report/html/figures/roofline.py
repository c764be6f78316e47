"""Rooflines: what kernels and nodes reach beside what the device was seen to do. A picture of two panels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from graphbench.analysis.digest import Digest
from graphbench.analysis.rates import LeftOut, RatePoint, left_out, rate_points, roofs
from graphbench.analysis.roofline import Ceilings
from graphbench.analysis.rows import ProfileRows
from graphbench.records import KernelKind, ProfileRecord
from graphbench.report.html.figures.drawing import Trace, added, colour, duration, hover, layout, legend, part
from graphbench.report.html.figures.roofs import LEFT, RIGHT, Panel, roof_traces
from graphbench.report.html.model import Figure, kernel_id, node_id
from graphbench.units import count_text, format_flops, format_percent, format_rate, format_traffic

MOST_POINTS: Final = 1500
"""Rows drawn at most, those with the largest shares: more would make the page slow, and hide one another."""
LAUNCH_BOUND: Final = "launch-bound"
_HEIGHT: Final = 520
_SMALLEST, _LARGEST = 7.0, 44.0  # pixels, of a row without time and of one that takes all of it


class _Look(NamedTuple):
    """How rows of one kind are drawn, and what the legend calls them."""

    name: str
    symbol: str
    colour: str


_KERNELS: Final[Mapping[KernelKind, _Look]] = {
    "triton": _Look("triton kernel", "circle", "cat-1"),
    "cpp": _Look("cpp kernel", "circle", "cat-1"),
    "extern": _Look("extern kernel", "square", "cat-3"),
    "template": _Look("template kernel", "diamond", "cat-5"),
    "fallback": _Look("fallback kernel", "triangle-up", "cat-4"),
    "user-triton": _Look("user-triton kernel", "pentagon", "cat-6"),
    "custom": _Look("custom kernel", "star", "cat-7"),
    "collective": _Look("collective kernel", "cross", "cat-8"),
    "opaque": _Look("whole graph", "hexagon", "cat-2"),
}
_FORWARD: Final = _Look("node alone", "circle-open", "eager")
_BACKWARD: Final = _Look("node's backward alone", "diamond-open", "eager")


def roofline_figure(
    record: ProfileRecord, digest: Digest | None = None, rows: ProfileRows | None = None
) -> Figure | None:
    """Rows with FLOPs over FLOP per byte, those without over bytes; `None` where none of them has a rate.

    Args:
        record: a profile.
        digest: statistics already computed for this record.
        rows: its rows, where they are made already.
    """
    every = rate_points(record, digest, rows)
    rated = sorted((point for point in every if not point.left_out), key=lambda point: -(point.share or 0.0))
    if not rated:
        return None
    shown, rest = rated[:MOST_POINTS], rated[MOST_POINTS:]
    panels = _panels(shown)
    devices = list(dict.fromkeys(point.device for point in shown))
    traces: list[Trace] = []
    for panel, points in panels:
        launches = {device: Ceilings.of(record.ceilings, device).launch_ns for device in devices}
        traces += roof_traces(panel, points, roofs(record, shown), launches)
    for panel, points in panels:
        traces += _point_traces(panel, points)
    return Figure(
        id="roofline",
        wide=True,
        title="How near rows get to the device's limits",
        caption=_caption(record, every, panels, rest),
        traces=tuple(_one_legend_entry_each(traces)),
        layout=_layout(panels),
        totals_ns=_totals(every),
        alternative=tuple(_words(point) for point in shown if point.kind is not None)[:50],
    )


def _panels(points: Sequence[RatePoint]) -> list[tuple[Panel, list[RatePoint]]]:
    """Rows with FLOPs on the left, those without on the right; one panel takes all of the width."""
    with_flops = [point for point in points if point.cost.flops]
    without = [point for point in points if not point.cost.flops]
    if not without:
        return [(LEFT.wide(), with_flops)]
    if not with_flops:
        return [(RIGHT.wide(), without)]
    return [(LEFT, with_flops), (RIGHT, without)]


def _look(point: RatePoint) -> _Look:
    if point.kind is not None:
        return _KERNELS[point.kind]
    return _FORWARD if point.phase == "forward" else _BACKWARD


def _point_traces(panel: Panel, points: Sequence[RatePoint]) -> list[Trace]:
    """Nodes, then kernels above them, a trace for each kind; last a mark on those that are bound by their launch."""
    looks = dict.fromkeys(_look(point) for point in sorted(points, key=lambda point: point.kind is not None))
    traces = [_points(panel, look, [point for point in points if _look(point) == look]) for look in looks]
    bound = [point for point in points if point.limit.bound == "launch"]
    if bound:
        marker = {"symbol": "circle", "size": 3, "color": colour("text"), "line": {"width": 0}}
        traces.append(_scatter(panel, LAUNCH_BOUND, bound, marker) | {"hoverinfo": "skip"})
    return traces


def _points(panel: Panel, look: _Look, points: Sequence[RatePoint]) -> Trace:
    hollow = look.symbol.endswith("-open")
    marker = {
        "symbol": look.symbol,
        "color": colour(look.colour),
        "size": [round(_size(point), 1) for point in points],
        "opacity": 0.9 if hollow else 0.75,
        "line": {"width": 1.2 if hollow else 0.8, "color": colour(look.colour if hollow else "surface")},
    }
    found = _scatter(panel, look.name, points, marker)
    found |= {"hoverinfo": "text", "hovertext": [_hover(point) for point in points]}
    return found | {"customdata": [_row_id(point) for point in points]}


def _scatter(panel: Panel, name: str, points: Sequence[RatePoint], marker: dict[str, Any]) -> Trace:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "legendgroup": name,
        **panel.axes,
        "x": [panel.x(point) for point in points],
        "y": [panel.y(point) for point in points],
        "marker": marker,
        "cliponaxis": False,
    }


def _one_legend_entry_each(traces: Iterable[Trace]) -> Iterable[Trace]:
    """Both panels have the same kinds of rows: each is told once."""
    told: set[str] = set()
    for trace in traces:
        name = trace.get("legendgroup", "")
        yield trace | {"showlegend": bool(name) and name not in told}
        told.add(name)


def _size(point: RatePoint) -> float:
    """The area of a mark grows with its share."""
    return _SMALLEST + (_LARGEST - _SMALLEST) * math.sqrt(point.share or 0.0)


def _row_id(point: RatePoint) -> str:
    return node_id(point.region, point.name) if point.kind is None else kernel_id(point.region, point.name)


def _hover(point: RatePoint) -> str:
    limit = point.limit
    whose = "kernels" if point.kind is not None else "nodes"
    time = ("isolated, all calls" if point.time_ns != point.once_ns else "isolated", point.time_ns)
    facts = [("isolated, one call", duration(point.once_ns))] if point.time_ns != point.once_ns else []
    facts += [
        (time[0], f"{duration(time[1])}, {format_percent(point.share)} of all {whose}"),
        ("moved", f"{format_traffic(point.cost.moved_bytes)}, {format_rate(point.bytes_per_s, 'B/s')}"),
    ]
    if point.cost.flops:
        rate = format_rate(point.flops_per_s, "FLOP/s")
        facts.append(("computed", f"{format_flops(point.cost.flops)} in {point.cost.arithmetic}, {rate}"))
        facts.append(("FLOP per byte", f"{point.cost.intensity:.3g}"))
    facts += [("of limit", format_percent(limit.part))] if limit.part is not None else []
    facts += [("bound by", limit.bound)] if limit.bound else []
    facts += [("no limit", limit.reason)] if limit.part is None and limit.reason else []
    facts += [("suspicious", limit.suspicious)] if limit.suspicious else []
    return hover(_name(point), facts)


def _name(point: RatePoint) -> str:
    return f"∂ {point.name}" if point.kind is None and point.phase == "backward" else point.name


def _layout(panels: Sequence[tuple[Panel, Sequence[RatePoint]]]) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for panel, points in panels:
        entries |= panel.layout(points)
    return layout(_HEIGHT, hovermode="closest", legend=legend(itemsizing="constant", traceorder="reversed"), **entries)


def _totals(points: Iterable[RatePoint]) -> dict[str, float]:
    points = list(points)
    kernels = added(point.time_ns for point in points if point.kind is not None)
    return {"nodes": added(point.time_ns for point in points if point.kind is None), "kernels": kernels}


def _caption(
    record: ProfileRecord,
    every: Sequence[RatePoint],
    panels: Sequence[tuple[Panel, Sequence[RatePoint]]],
    rest: Sequence[RatePoint],
) -> str:
    totals = _totals(every)
    told = []
    for panel, points in panels:
        kernels = [point for point in points if point.kind is not None]
        share = part(added(point.time_ns for point in kernels), totals["kernels"])
        nodes = count_text(len(points) - len(kernels), "node time")
        told.append(f"{panel.told}: {count_text(len(kernels), 'kernel')} of {share} and {nodes}.")
    told.append("Isolated medians of one call; the area of a mark is its share of all kernels, or of all nodes.")
    measured = dict.fromkeys(entry.measured[:10] for entry in record.ceilings)
    told.append(f"Lines: ceilings measured on this device, {' and '.join(measured)}." if measured else _NO_CEILINGS)
    missing = [_left_out(entry) for entry in left_out(every)]
    if rest:
        missing.append(f"the {len(rest)} smallest rows ({duration(added(point.time_ns for point in rest))})")
    return " ".join(told) + (f" Not drawn: {'; '.join(missing)}." if missing else "")


_NO_CEILINGS: Final = "The device's ceilings were not measured: there are no lines."


def _left_out(entry: LeftOut) -> str:
    time = f", {duration(entry.time_ns)}" if entry.time_ns else ""
    return f"{count_text(entry.count, entry.what)} ({entry.reason}{time})"


def _words(point: RatePoint) -> tuple[str, str]:
    limit = point.limit
    reached = f"{format_percent(limit.part)} of its limit, bound by {limit.bound}" if limit.part else limit.reason
    rates = format_rate(point.bytes_per_s, "B/s")
    rates += f", {format_rate(point.flops_per_s, 'FLOP/s')}" if point.cost.flops else ""
    return _name(point), f"{duration(point.time_ns)}; {rates}; {reached}"

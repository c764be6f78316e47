"""How times grow with the size of the inputs: lines on logarithmic axes, beside the power laws fitted to them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from graphbench.analysis.growth import Growth
from graphbench.analysis.scaling import Scaling, TotalScaling
from graphbench.analysis.scaling_groups import GroupScaling
from graphbench.report.html.figures.drawing import (
    TimeAxis,
    Trace,
    axis,
    category,
    colour,
    duration,
    hover,
    label,
    layout,
)
from graphbench.report.html.model import Figure
from graphbench.report.scaling_columns import growth_text
from graphbench.units import count_text

SHOWN: Final = 8
"""Groups drawn one by one: more lines cannot be told apart."""
_HEIGHT: Final = 430
_SYMBOLS: Final = ("circle", "square", "diamond", "triangle-up", "cross", "star", "pentagon", "hexagon")


def scaling_figures(found: Scaling) -> tuple[Figure, ...]:
    """Whole runs, then nodes by op type and by module, each over the size; what has no times is left out.

    Args:
        found: profiles over the sizes of their inputs.
    """
    pictures = [_totals(found)]
    for word, groups in (("op type", found.ops), ("module", found.modules)):
        pictures += [_groups(found, word, groups)] if word == "op type" or len(groups) > 1 else []
    return tuple(picture for picture in pictures if picture is not None)


def _totals(found: Scaling) -> Figure | None:
    totals = [total for total in found.totals if total.is_time and any(total.values)]
    if not totals:
        return None
    scale = _scale(total.values for total in totals)
    traces: list[Trace] = []
    for position, total in enumerate(totals):
        traces += _line(found, total.name, total.values, total.growth, "", position, scale, _shade(total, position))
    return Figure(
        id="scaling_totals",
        title="Whole runs over the size",
        caption=f"Medians of whole runs without labels. {_axis_words(found)}",
        traces=tuple(traces),
        layout=_layout(found, scale),
        totals_ns={total.name: total.values[-1] for total in totals if total.values[-1] is not None},
        alternative=tuple((total.name, _words(found, total.values, total.growth)) for total in totals),
    )


def _groups(found: Scaling, word: str, groups: Sequence[GroupScaling]) -> Figure | None:
    known = [group for group in groups if any(group.times_ns)]
    if not known:
        return None
    shown, rest = known[:SHOWN], [*known[SHOWN:], *(group for group in groups if not any(group.times_ns))]
    scale = _scale(group.times_ns for group in shown)
    traces: list[Trace] = []
    for position, group in enumerate(shown):
        shade = category(position)
        traces += _line(found, group.group, group.times_ns, group.growth, group.doubt, position, scale, shade)
    return Figure(
        id=f"scaling_{word.replace(' ', '_')}",
        title=f"Nodes over the size, by {word}",
        caption=_groups_caption(found, word, shown, rest),
        traces=tuple(traces),
        layout=_layout(found, scale),
        totals_ns={group.group: group.times_ns[-1] for group in shown if group.times_ns[-1] is not None},
        alternative=tuple((group.group, _words(found, group.times_ns, group.growth)) for group in known),
    )


def _shade(total: TotalScaling, position: int) -> str:
    """Eager and compiled runs have their colours on every picture; two bases of one are told apart by their symbol."""
    return "eager" if total.name.endswith(", eager") else "fused" if total.name.endswith(", compiled") else "muted"


def _scale(columns: Any) -> TimeAxis:
    return TimeAxis.up_to(max(value for values in columns for value in values if value is not None))


def _line(
    found: Scaling,
    name: str,
    times_ns: Sequence[float | None],
    growth: Growth | None,
    doubt: str,
    position: int,
    scale: TimeAxis,
    shade: str,
) -> list[Trace]:
    """The times of every set, and the power law through them, in the same colour."""
    told = f"{label(name, 36)}  n^{growth_text(growth, doubt)}" if growth else label(name, 36)
    points = sorted(zip(found.axis.values, times_ns, found.labels, strict=True), key=lambda point: point[0])
    several = len(set(found.axis.groups)) > 1
    trace: Trace = {
        "type": "scatter",
        "mode": "markers" if several else "lines+markers",
        "name": told,
        "legendgroup": name,
        "x": [size for size, _, _ in points],
        "y": [scale.of(time_ns) or None for _, time_ns, _ in points],
        "marker": {"symbol": _SYMBOLS[position % len(_SYMBOLS)], "size": 8, "color": colour(shade)},
        "line": {"color": colour(shade), "width": 2},
        "hoverinfo": "text",
        "hovertext": [_hover(name, text, time_ns, growth, doubt) for _, time_ns, text in points],
    }
    fit = None if several or growth is None else _fit(found, times_ns, growth.exponent)
    if fit is None:
        return [trace]
    dashed = {"color": colour(shade), "width": 1.2, "dash": "dot"}
    fitted = {"type": "scatter", "mode": "lines", "legendgroup": name, "showlegend": False, "hoverinfo": "skip"}
    return [trace, {**fitted, "x": list(fit[0]), "y": [scale.of(value) for value in fit[1]], "line": dashed}]


def _fit(
    found: Scaling, times_ns: Sequence[float | None], exponent: float
) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """Both ends of the power law: a line through the mean of the logarithms, as `growth` fits it."""
    known = [(math.log(size), math.log(time)) for size, time in zip(found.axis.values, times_ns, strict=True) if time]
    if len(known) < 3:  # through two points it is the line itself
        return None
    x = sum(size for size, _ in known) / len(known)
    y = sum(time for _, time in known) / len(known)
    ends = (min(size for size, _ in known), max(size for size, _ in known))
    first, last = (math.exp(y + exponent * (end - x)) for end in ends)
    return (math.exp(ends[0]), math.exp(ends[1])), (first, last)


def _hover(name: str, where: str, time_ns: float | None, growth: Growth | None, doubt: str) -> str:
    facts = [("set", where), ("time", duration(time_ns))]
    facts += [("grows as", f"n^{growth_text(growth, doubt)}")] if growth else []
    facts += [("says nothing of the work", doubt)] if doubt else []
    return hover(name, facts)


def _layout(found: Scaling, scale: TimeAxis) -> dict[str, Any]:
    sizes = sorted(set(found.axis.values))
    ticks = {"tickmode": "array", "tickvals": sizes, "ticktext": [str(size) for size in sizes]}
    return layout(
        _HEIGHT,
        hovermode="closest",
        xaxis=axis(f"n: {found.axis.name}", type="log", **(ticks if len(sizes) <= 12 else {})),
        yaxis=axis(f"time ({scale.unit})", type="log", dtick="D2", tickformat="~g"),
        legend={"x": 1.02, "xanchor": "left", "y": 1, "yanchor": "top", "tracegroupgap": 2},
    )


def _axis_words(found: Scaling) -> str:
    text = f"n is {found.axis.name}, both axes are logarithmic: a power law is a straight line"
    if len(set(found.axis.groups)) > 1:
        return f"{text}. Sets that differ in other dimensions too are points of one series, without a line."
    return f"{text}, that fitted to three points or more is dotted, its exponent beside the name."


def _groups_caption(found: Scaling, word: str, shown: Sequence[GroupScaling], rest: Sequence[GroupScaling]) -> str:
    text = (
        f"Sums of the nodes' isolated medians, forward and backward, by {word}: the {len(shown)} that take most at the "
        f"largest size. {_axis_words(found)}"
    )
    gaps = [group for group in shown if None in group.times_ns]
    if gaps:
        text += f" Without a time for every set: {', '.join(group.group for group in gaps)} ({gaps[0].reason})."
    if rest:
        text += f" Not drawn: {count_text(len(rest), f'other {word}')}."
    return text


def _words(found: Scaling, times_ns: Sequence[float | None], growth: Growth | None) -> str:
    times = ", ".join(f"{name}: {duration(time)}" for name, time in zip(found.labels, times_ns, strict=True))
    return f"{times}; grows as n^{growth_text(growth)}" if growth else times

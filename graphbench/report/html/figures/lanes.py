"""Spans on lanes as plotly draws them: a trace of bars for every kind, one time axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from graphbench.analysis.spans import BANDS, Fewer, Span, SpanKind
from graphbench.report.html.figures.drawing import (
    TimeAxis,
    Trace,
    axis,
    colour,
    duration,
    escaped,
    hover,
    layout,
    legend,
    rows_axis,
)

MOST_SPANS: Final = 2500
"""Bars of one picture: more make the page slow, and no screen is wide enough to show them."""
_BAND, _LANE, _AROUND = 26, 44, 90  # pixels
_NEXT: Final = 0.7
"""Every other bar of a kind is so opaque: neighbours are told apart, and none loses width to an edge."""


class _Look(NamedTuple):
    """How a kind is drawn, and what the legend calls it; bands are told by the words on them."""

    name: str
    colour: str
    pattern: str = ""
    opacity: float = 1.0


_LOOKS: Final[dict[SpanKind, _Look]] = {
    "phase": _Look("", "grid"),
    "graph": _Look("in a compiled graph", "fused", "", 0.55),
    "gap": _Look("in a gap", "gap", "", 0.55),
    "host": _Look("host issues a call", "host"),
    "compiled": _Look("compiled kernel", "fused"),
    "gap op": _Look("gap op", "gap"),
    "copy": _Look("copy", "cat-4"),
    "fill": _Look("fill", "cat-7"),
    "sync": _Look("host waits for a device", "bad", "x"),
    "idle": _Look("no device works", "idle", "/"),
    "eager forward": _Look("eager forward", "eager"),
    "eager backward": _Look("eager backward", "eager", "/"),
    "compiled forward": _Look("compiled forward", "fused"),
    "compiled backward": _Look("compiled backward", "fused", "/"),
    "rest": _Look("no row's time", "idle", "/"),
}


def lane_traces(drawn: Fewer, scale: TimeAxis, row_id: Callable[[Span], str]) -> list[Trace]:
    """A trace for every kind that there is, in the order of their kinds.

    Args:
        drawn: the spans.
        scale: of the time axis.
        row_id: the id of the row that a click on a span shows, "" for none.
    """
    found = []
    for kind, look in _LOOKS.items():
        spans = [span for span in drawn.spans if span.kind == kind]
        if spans:
            found.append(_trace(kind, look, spans, scale, row_id))
    return found


def _trace(kind: SpanKind, look: _Look, spans: Sequence[Span], scale: TimeAxis, row_id: Callable[[Span], str]) -> Trace:
    turns = (look.opacity, look.opacity if kind in BANDS or kind == "idle" else look.opacity * _NEXT)
    opacity = [turns[position % 2] for position in range(len(spans))]
    marker: dict[str, Any] = {"color": colour(look.colour), "opacity": opacity, "line": {"width": 0}}
    if look.pattern:
        marker["pattern"] = {"shape": look.pattern, "fillmode": "replace", "fgcolor": colour(look.colour), "size": 6}
    trace: Trace = {
        "type": "bar",
        "orientation": "h",
        "name": look.name,
        "showlegend": bool(look.name),
        "base": [scale.of(span.start_ns) for span in spans],
        "x": [scale.of(span.end_ns - span.start_ns) for span in spans],
        "y": [span.lane for span in spans],
        "width": 0.8,
        "marker": marker,
        "hoverinfo": "text",
        "hovertext": [_hover(span) for span in spans],
        "customdata": [row_id(span) for span in spans],
    }
    if kind in BANDS:
        words = {"textposition": "inside", "insidetextanchor": "middle", "textangle": 0, "constraintext": "inside"}
        trace |= {"text": [escaped(span.name) for span in spans], "textfont": {"color": colour("text")}, **words}
    return trace


def _hover(span: Span) -> str:
    title = span.name or _LOOKS[span.kind].name
    facts = []
    if span.count > 1:
        title = f"{span.count} × {_LOOKS[span.kind].name}"
        facts.append(("longest", f"{span.name}, {duration(span.longest_ns)}"))
    facts += [("what", _LOOKS[span.kind].name)] if span.name and span.count == 1 else []
    what = "before it" if span.kind == "idle" else "time"
    facts += [(what, duration(span.work_ns)), ("starts at", duration(span.start_ns)), ("place", span.place)]
    facts += [("device kernel", span.detail)] if span.detail and span.detail != span.name else []
    return hover(title, facts)


def lane_layout(lanes: Sequence[str], bands: int, scale: TimeAxis, end_ns: float, title: str) -> dict[str, Any]:
    """Lanes from the top; the time axis can be zoomed, the lanes stay.

    Args:
        lanes: their names.
        bands: how many of them say where the step was.
        scale: of the time axis.
        end_ns: where it ends.
        title: of the time axis, without its unit.
    """
    return layout(
        _AROUND + _BAND * bands + _LANE * (len(lanes) - bands),
        barmode="overlay",
        bargap=0,
        hovermode="closest",
        xaxis=axis(f"{title} ({scale.unit})", range=[0, (scale.of(end_ns) or 0.0) * 1.005]),
        yaxis=rows_axis(lanes),
        legend=legend(),
        uniformtext={"minsize": 10, "mode": "hide"},
    )


def finest_words(drawn: Fewer) -> str:
    """What was put together, "" where nothing was."""
    if not drawn.finest_ns:
        return ""
    return (
        f" Rows of one kind and place that lie within {duration(drawn.finest_ns)} are one bar, which tells how many "
        "they are and how long they work."
    )

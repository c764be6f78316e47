"""What all pictures share: colours by name, texts that plotly shows as they are, axes of time. Plain values only.

Source: plotly.js 4.1 reads `<b>`, `<br>`, `<a href>` and entities in every text of a figure, so that what a profile
holds has to be escaped; colours are `var(--NAME)` until `figures.js` puts in those of the page.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from graphbench.plaintext import clean
from graphbench.report.names import Shorten, shorten
from graphbench.units import MISSING, TimeUnit, format_duration, format_percent, time_unit

Trace = dict[str, Any]
LABEL_WIDTH: Final = 42
"""Characters of a label beside an axis; the whole name is in the text that a pointer brings up."""
SCALES_NS: Final[dict[TimeUnit, float]] = {"ns": 1.0, "µs": 1e3, "ms": 1e6, "s": 1e9}
_TOP: Final = 32  # pixels: there are the buttons, and a legend makes more room for itself
ROOM_BEHIND: Final = 1.13
"""What an axis of bars is longer than the longest of them, for the word behind it."""
CATEGORIES: Final = 8
"""Colours that the page has for what is of no meaning of its own."""


class TimeAxis(NamedTuple):
    """An axis of time: its unit, and how many nanoseconds that has."""

    unit: TimeUnit
    scale_ns: float

    @classmethod
    def up_to(cls, longest_ns: float) -> TimeAxis:
        """The largest unit in which the end of the axis is at least 1."""
        unit = time_unit([longest_ns])
        return cls(unit, SCALES_NS[unit])

    def of(self, time_ns: float | None) -> float | None:
        """Where a time lies on the axis; `None` stays `None`."""
        return None if time_ns is None else time_ns / self.scale_ns


def colour(name: str) -> str:
    """A colour of the page, such as `eager`."""
    return f"var(--{name})"


def tint(name: str) -> str:
    """A light shade of a colour of the page, on which its text is easy to read."""
    return f"tint(--{name})"


def category(position: int) -> str:
    """The name of one of the page's colours without a meaning, in turn."""
    return f"cat-{position % CATEGORIES + 1}"


def escaped(text: str) -> str:
    """A text that plotly shows as it is: one line, without markup."""
    return html.escape(clean(text), quote=False)


def label(text: str, width: int = LABEL_WIDTH, how: Shorten = shorten) -> str:
    """A name cut to what fits beside an axis."""
    return escaped(how(clean(text), width))


def hover(title: str, facts: Iterable[tuple[str, str]]) -> str:
    """What a pointer brings up: a title in bold, and a line for every fact that there is."""
    lines = [f"<b>{label(title, 90)}</b>"]
    lines += [f"{escaped(name)}: {label(value, 100)}" for name, value in facts if value]
    return "<br>".join(lines)


def duration(time_ns: float | None) -> str:
    """A time with its unit, `–` where there is none."""
    return format_duration(time_ns, digits=3)


def part(time_ns: float | None, whole_ns: float) -> str:
    """A time and its part of a whole, such as `1.20 ms (12.3 %)`."""
    if time_ns is None:
        return MISSING
    return f"{duration(time_ns)} ({format_percent(time_ns / whole_ns)})" if whole_ns else duration(time_ns)


def added(values: Iterable[float | None]) -> float:
    """Sum of those that are known."""
    return sum(value for value in values if value is not None)


def layout(height: int, **entries: Any) -> dict[str, Any]:
    """The layout of a picture so many pixels high; what is the same in all of them is in `figures.js`."""
    return {"height": height, "margin": {"l": 8, "r": 12, "t": _TOP, "b": 8}, **entries}


def axis(title: str, **entries: Any) -> dict[str, Any]:
    """An axis that makes room for its labels."""
    return {"title": {"text": escaped(title)}, "automargin": True, "zeroline": False, **entries}


def rows_axis(labels: Sequence[str], *, width: int = LABEL_WIDTH) -> dict[str, Any]:
    """An axis of names, the first at the top. Positions are numbers: two names may look alike when they are cut."""
    return {
        "tickmode": "array",
        "tickvals": list(range(len(labels))),
        "ticktext": [label(name, width) for name in labels],
        "range": [len(labels) - 0.4, -0.6],
        "automargin": True,
        "zeroline": False,
        "showgrid": False,
        "fixedrange": True,
        "ticks": "",
    }


def bars_axis(scale: TimeAxis, longest_ns: float) -> dict[str, Any]:
    """The axis of time of horizontal bars, with room for a word behind the longest."""
    return axis(f"time ({scale.unit})", range=[0, longest_ns / scale.scale_ns * ROOM_BEHIND], fixedrange=True)


def legend(**entries: Any) -> dict[str, Any]:
    """A legend above the picture, in a row."""
    return {
        "orientation": "h",
        "x": 0,
        "xanchor": "left",
        "y": 1.0,
        "yanchor": "bottom",
        "traceorder": "normal",
        **entries,
    }


def word_behind(positions: Sequence[float], ends: Sequence[float | None], texts: Sequence[str]) -> Trace:
    """A word behind each bar: `ends` of the bars on the axis, `positions` of the words across it."""
    return {
        "type": "scatter",
        "mode": "text",
        "x": list(ends),
        "y": list(positions),
        "text": [f" {escaped(text)}" for text in texts],
        "textposition": "middle right",
        "textfont": {"color": colour("muted"), "size": 12},
        "hoverinfo": "skip",
        "showlegend": False,
        "cliponaxis": False,
    }

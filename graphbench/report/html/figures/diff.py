"""Two profiles: what every module and op type cost before and after, and how the sum came to change. Bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from graphbench.analysis.diff import Diff
from graphbench.analysis.diff_groups import GroupDiffRow, group_diff
from graphbench.analysis.group_by import DiffGroupBy
from graphbench.report.html.figures.drawing import (
    TimeAxis,
    Trace,
    added,
    axis,
    bars_axis,
    colour,
    duration,
    hover,
    layout,
    legend,
    part,
    rows_axis,
    word_behind,
)
from graphbench.report.html.model import Figure
from graphbench.units import count_text, format_ratio

SHOWN: Final = 28
STEPS: Final = 12
"""Groups that a waterfall shows one by one."""
BAR: Final = 0.38
_ROW_HEIGHT: Final = 26
_WORDS: Final[dict[DiffGroupBy, str]] = {"module": "module", "op_type": "op type"}


@dataclass(frozen=True, slots=True)
class _Bar:
    """A group on both sides, or all further ones together."""

    name: str
    rows: tuple[GroupDiffRow, ...]

    @property
    def before_ns(self) -> float:
        return added(row.before_ns for row in self.rows)

    @property
    def after_ns(self) -> float:
        return added(row.after_ns for row in self.rows)

    @property
    def longest_ns(self) -> float:
        return max(self.before_ns, self.after_ns)

    @property
    def delta_ns(self) -> float:
        return self.after_ns - self.before_ns

    @property
    def left_out(self) -> int:
        return sum(row.left_out for row in self.rows)

    @property
    def ratio(self) -> float | None:
        return self.after_ns / self.before_ns if self.before_ns and self.after_ns else None

    @property
    def verdict(self) -> str:
        return self.rows[0].verdict or "" if len(self.rows) == 1 else ""


def diff_figures(result: Diff) -> tuple[Figure, ...]:
    """The pictures of a comparison: of what the change consists, and bars of both sides, by module and by op type.

    Times are sums of isolated medians of nodes, forward and backward, as in `diff_groups`. There is none by module
    where all nodes are of one.

    Args:
        result: two profiles, compared.
    """
    found: list[Figure] = []
    for by, word in _WORDS.items():
        rows, total = group_diff(result, by)
        if (total.before_ns or total.after_ns) and (by != "module" or len(rows) > 1):
            whole = _Bar("total", (total,))
            found += [_waterfall(by, word, rows, whole), _bars(by, word, rows, whole)]
    return tuple(found)


def _bars(by: str, word: str, rows: Sequence[GroupDiffRow], whole: _Bar) -> Figure:
    bars = _first(sorted(rows, key=_longer_ns, reverse=True), SHOWN, word)
    longest_ns = max(bar.longest_ns for bar in bars)
    scale = TimeAxis.up_to(longest_ns)
    texts = [f"{format_ratio(bar.ratio)}{f' {bar.verdict}' if bar.verdict else ''}" for bar in bars]
    ends = [scale.of(bar.longest_ns) for bar in bars]
    sides = (("before", "muted", -BAR / 2), ("after", "accent", BAR / 2))
    return Figure(
        id=f"both_{by}",
        title=f"Both profiles, by {word}",
        caption=_caption(word, whole, "Behind the bars: after ÷ before, and the verdict on the sum."),
        traces=(
            *(_side(name, shade, offset, bars, whole, scale) for name, shade, offset in sides),
            word_behind(range(len(bars)), ends, texts),
        ),
        layout=layout(
            70 + _ROW_HEIGHT * len(bars),
            barmode="overlay",
            bargap=0,
            hovermode="closest",
            xaxis=bars_axis(scale, longest_ns),
            yaxis=rows_axis([bar.name for bar in bars]),
            legend=legend(),
        ),
        totals_ns={"before": whole.before_ns, "after": whole.after_ns},
        alternative=tuple((bar.name, _words(bar)) for bar in (*bars, whole)),
    )


def _waterfall(by: str, word: str, rows: Sequence[GroupDiffRow], whole: _Bar) -> Figure:
    """From the sum before to the sum after, the largest changes one by one."""
    bars = _first([row for row in rows if row.delta_ns], STEPS, word)
    entries = [_Bar("before", whole.rows), *bars, _Bar("after", whole.rows)]
    scale = TimeAxis.up_to(max(whole.before_ns, whole.after_ns))
    values = [whole.before_ns, *(bar.delta_ns for bar in bars), whole.after_ns]
    start, end = _range(values)
    told = f"From the one to the other by the {min(len(bars), STEPS)} largest changes"
    told += ", and all others together" if len(bars) > STEPS else ""
    told += ", with the verdict on each; its colour is the sign."
    told += f" The axis starts at {duration(start)}." if start else ""
    return Figure(
        id=f"change_{by}",
        title=f"What changed, by {word}",
        caption=_caption(word, whole, told),
        traces=(_steps(entries, values, whole, scale),),
        layout=layout(
            60 + 26 * len(entries),
            hovermode="closest",
            showlegend=False,
            xaxis=axis(f"time ({scale.unit})", range=[scale.of(start), scale.of(end)]),
            yaxis=rows_axis([entry.name for entry in entries]),
        ),
        totals_ns={"before": whole.before_ns, "after": whole.after_ns},
        alternative=(
            ("before", duration(whole.before_ns)),
            *((bar.name, _signed(bar.delta_ns)) for bar in bars),
            ("after", duration(whole.after_ns)),
        ),
    )


def _steps(entries: Sequence[_Bar], values: Sequence[float], whole: _Bar, scale: TimeAxis) -> Trace:
    steps = [f"{_signed(bar.delta_ns)} {bar.verdict}".rstrip() for bar in entries[1:-1]]
    ends = [duration(whole.before_ns), *steps, duration(whole.after_ns)]
    changes: list[Any] = ["relative"] * (len(entries) - 2)
    return {
        "type": "waterfall",
        "orientation": "h",
        "measure": ["absolute", *changes, "total"],
        "x": [scale.of(value) for value in values],
        "y": list(range(len(entries))),
        "text": ends,
        "textposition": "outside",
        "cliponaxis": False,
        "increasing": {"marker": {"color": colour("bad")}},
        "decreasing": {"marker": {"color": colour("good")}},
        "totals": {"marker": {"color": colour("muted")}},
        "connector": {"line": {"color": colour("grid"), "width": 1}},
        "hoverinfo": "text",
        "hovertext": [_hover(entry, whole) for entry in entries],
    }


def _range(values: Sequence[float]) -> tuple[float, float]:
    """The axis starts near the lowest level, so that small changes of a large sum are seen; at 0 where it is near."""
    levels = [values[0]]
    for value in values[1:-1]:
        levels.append(levels[-1] + value)
    low, high = min(levels), max(levels)
    room = 0.12 * (high - low) or 0.1 * high
    start = low - 2 * room if high - low < 0.3 * high else 0.0
    return start, high + 1.5 * room


def _first(rows: Sequence[GroupDiffRow], count: int, word: str) -> list[_Bar]:
    """The first groups, and the others together."""
    known = [row for row in rows if _longer_ns(row)]
    shown = known if len(known) <= count else known[:count]
    found = [_Bar(row.group, (row,)) for row in shown]
    rest = tuple(known[len(shown) :])
    return found + ([_Bar(f"{len(rest)} other {word}s", rest)] if rest else [])


def _longer_ns(row: GroupDiffRow) -> float:
    return max(row.before_ns or 0.0, row.after_ns or 0.0)


def _side(name: str, shade: str, offset: float, bars: Sequence[_Bar], whole: _Bar, scale: TimeAxis) -> Trace:
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "y": [position + offset for position in range(len(bars))],
        "x": [scale.of(bar.before_ns if name == "before" else bar.after_ns) for bar in bars],
        "width": BAR,
        "marker": {"color": colour(shade)},
        "hoverinfo": "text",
        "hovertext": [_hover(bar, whole) for bar in bars],
    }


def _hover(bar: _Bar, whole: _Bar) -> str:
    facts = [("before", part(bar.before_ns, whole.before_ns)), ("after", part(bar.after_ns, whole.after_ns))]
    facts += [("change", _signed(bar.delta_ns)), ("after ÷ before", format_ratio(bar.ratio)), ("verdict", bar.verdict)]
    facts += [("left out", f"{count_text(bar.left_out, 'node')} without a time on both sides")] if bar.left_out else []
    return hover(bar.name, facts)


def _signed(value_ns: float) -> str:
    return duration(value_ns) if value_ns <= 0 else f"+{duration(value_ns)}"


def _caption(word: str, whole: _Bar, told: str) -> str:
    text = (
        f"Sums of the nodes' isolated medians, forward and backward, by {word}: {duration(whole.before_ns)} before, "
        f"{duration(whole.after_ns)} after ({_signed(whole.delta_ns)}, {format_ratio(whole.ratio)}). {told}"
    )
    if whole.left_out:
        text += f" {count_text(whole.left_out, 'node')} without a time on one side: in neither sum, and not drawn."
    return text


def _words(bar: _Bar) -> str:
    text = f"before {duration(bar.before_ns)}, after {duration(bar.after_ns)} ({_signed(bar.delta_ns)})"
    return f"{text}; {bar.verdict}" if bar.verdict else text

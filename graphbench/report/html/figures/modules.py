"""Before and after, by module: what eager and compiled code costs, repeated layers as one. A picture of bars."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from graphbench.analysis.digest import Digest
from graphbench.analysis.groups import GroupRow, group_rows
from graphbench.records import ProfileRecord
from graphbench.report.html.figures.drawing import (
    TimeAxis,
    Trace,
    added,
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
from graphbench.units import MISSING, count_text, format_ratio

SHOWN: Final = 20
BAR: Final = 0.38
_ROW_HEIGHT: Final = 30


@dataclass(frozen=True, slots=True)
class _Side:
    """One of the four parts of a bar: its name, colour, which of the two bars it is in, and what it shows."""

    name: str
    colour: str
    offset: float
    pattern: str
    attribute: str


_SIDES: Final = (
    _Side("eager forward", "eager", -BAR / 2, "", "eager_ns"),
    _Side("eager backward", "eager", -BAR / 2, "/", "eager_backward_ns"),
    _Side("compiled forward", "fused", BAR / 2, "", "compiled_ns"),
    _Side("compiled backward", "fused", BAR / 2, "/", "compiled_backward_ns"),
)


@dataclass(frozen=True, slots=True)
class _Bar:
    """A group, or all further ones together, with what is drawn of it in nanoseconds by side."""

    name: str
    rows: tuple[GroupRow, ...]

    def side_ns(self, side: _Side) -> float | None:
        return _known([getattr(row, side.attribute) for row in self.rows])

    @property
    def eager_ns(self) -> float | None:
        return _known(self.side_ns(side) for side in _SIDES[:2])

    @property
    def compiled_ns(self) -> float | None:
        return _known(self.side_ns(side) for side in _SIDES[2:])

    @property
    def longest_ns(self) -> float:
        return max(self.eager_ns or 0.0, self.compiled_ns or 0.0)

    @property
    def missing(self) -> int:
        return sum(row.missing for row in self.rows)

    @property
    def speedup(self) -> float | None:
        if self.missing or not self.eager_ns or not self.compiled_ns:
            return None
        return self.eager_ns / self.compiled_ns


def module_figure(record: ProfileRecord, digest: Digest | None = None) -> Figure | None:
    """Bars of every module, of paths cut where there are too many; `None` where nothing has a time, or no module.

    Args:
        record: a profile.
        digest: statistics already computed for this record.
    """
    digest = digest or Digest()
    rows, total = group_rows(record, "module", digest=digest)
    deepest = max((row.group.count(".") + 1 for row in rows), default=1)
    cut = ""
    for depth in range(deepest - 1, 0, -1):
        if len(rows) <= SHOWN:
            break
        fewer, _ = group_rows(record, "module", depth=depth, digest=digest)
        if len(fewer) > 1:
            rows, cut = fewer, f" Paths are cut after {count_text(depth, 'part')}."
    return _figure("modules", "module", rows, total, cut) if len(rows) > 1 else None


def op_type_figure(record: ProfileRecord, digest: Digest | None = None) -> Figure | None:
    """The same by op type; `None` where nothing has a time."""
    rows, total = group_rows(record, "op_type", digest=digest)
    return _figure("op_types", "op type", rows, total)


def _figure(name: str, word: str, rows: Sequence[GroupRow], total: GroupRow, cut: str = "") -> Figure | None:
    whole = _Bar("total", (total,))
    if not whole.eager_ns and not whole.compiled_ns:
        return None
    bars = _bars(rows, word)
    compiled = bool(total.kernels)
    totals = (("eager", whole.eager_ns), ("compiled", whole.compiled_ns if compiled else None))
    sides = [side for side in _SIDES if whole.side_ns(side) and (compiled or side.colour == "eager")]
    longest_ns = max(bar.longest_ns for bar in bars)
    scale = TimeAxis.up_to(longest_ns)
    return Figure(
        id=name,
        title=f"Before and after, by {word}",
        caption=_caption(whole, word, compiled, cut),
        traces=(*(_trace(side, bars, whole, scale) for side in sides), *([_ratios(bars, scale)] if compiled else [])),
        layout=_layout(bars, scale, longest_ns),
        totals_ns={name: total_ns for name, total_ns in totals if total_ns is not None},
        alternative=tuple((bar.name, _words(bar, compiled)) for bar in (*bars, whole)),
    )


def _bars(rows: Sequence[GroupRow], word: str) -> list[_Bar]:
    """The groups that cost most on either side, and the others together; none of views, which cost nothing."""
    ordered = sorted((row for row in rows if _longer_ns(row) or row.missing), key=lambda row: -_longer_ns(row))
    shown = ordered if len(ordered) <= SHOWN + 1 else ordered[:SHOWN]
    found = [_Bar(_name(row, word), (row,)) for row in shown]
    rest = tuple(ordered[len(shown) :])
    return found + ([_Bar(f"{len(rest)} other {word}s", rest)] if rest else [])


def _longer_ns(row: GroupRow) -> float:
    eager_ns, compiled_ns = (row.eager_ns, row.eager_backward_ns), (row.compiled_ns, row.compiled_backward_ns)
    return max(added(eager_ns), added(compiled_ns))


def _name(row: GroupRow, word: str) -> str:
    """A module with the number of its layers, an op type with that of its nodes."""
    count = row.layers if word == "module" else row.nodes
    return f"{row.group}  ×{count}" if count is not None and count > 1 else row.group


def _trace(side: _Side, bars: Sequence[_Bar], whole: _Bar, scale: TimeAxis) -> Trace:
    marker: dict[str, Any] = {"color": colour(side.colour)}
    if side.pattern:
        marker["pattern"] = {"shape": side.pattern, "fillmode": "replace", "fgcolor": colour(side.colour), "size": 6}
    return {
        "type": "bar",
        "orientation": "h",
        "name": side.name,
        "y": [position + side.offset for position in range(len(bars))],
        "x": [scale.of(bar.side_ns(side)) for bar in bars],
        "width": BAR,
        "marker": marker,
        "hoverinfo": "text",
        "hovertext": [_hover(bar, whole) for bar in bars],
    }


def _ratios(bars: Sequence[_Bar], scale: TimeAxis) -> Trace:
    """How much faster each is, behind its longer bar."""
    ends = [scale.of(bar.longest_ns) for bar in bars]
    texts = [f"{format_ratio(bar.speedup)}{' !' if bar.missing else ''}" for bar in bars]
    return word_behind(range(len(bars)), ends, texts)


def _hover(bar: _Bar, whole: _Bar) -> str:
    facts = [("eager", part(bar.eager_ns, whole.eager_ns or 0.0))]
    facts += [("compiled", part(bar.compiled_ns, whole.compiled_ns or 0.0)), ("speedup", format_ratio(bar.speedup))]
    facts += [(side.name, duration(bar.side_ns(side))) for side in _SIDES if whole.side_ns(side)]
    facts += [("nodes", str(sum(row.nodes for row in bar.rows)))]
    facts += [("missing", f"{count_text(bar.missing, 'time')}; sums are of the others")] if bar.missing else []
    return hover(bar.name, facts)


def _layout(bars: Sequence[_Bar], scale: TimeAxis, longest_ns: float) -> dict[str, Any]:
    return layout(
        70 + _ROW_HEIGHT * len(bars),
        barmode="stack",
        bargap=0,
        hovermode="closest",
        xaxis=bars_axis(scale, longest_ns),
        yaxis=rows_axis([bar.name for bar in bars]),
        legend=legend(),
    )


def _caption(whole: _Bar, word: str, compiled: bool, cut: str) -> str:
    parts = [f"Eager: sums of the nodes' isolated medians, {duration(whole.eager_ns)} in all"]
    if compiled:
        parts.append(
            "compiled: their parts of the compiled kernels' isolated medians, which are divided over their nodes by "
            f"the bytes that each moves in them, {duration(whole.compiled_ns)} in all"
        )
    text = f"{'; '.join(parts)}. Bars of every {word} add up to these totals."
    if word == "module":
        text += f" Repeated layers are one bar (×n).{cut}"
    else:
        text += " ×n: so many nodes."
    if whole.missing:
        text += f" !: {count_text(whole.missing, 'time')} of nodes and kernels missing; sums are of the others."
    return text


def _words(bar: _Bar, compiled: bool) -> str:
    if not compiled:
        return f"eager {duration(bar.eager_ns)}"
    ratio = format_ratio(bar.speedup)
    text = f"eager {duration(bar.eager_ns)}, compiled {duration(bar.compiled_ns)}"
    text += f", speedup {ratio}" if ratio != MISSING else ""
    return f"{text}; {count_text(bar.missing, 'time')} missing" if bar.missing else text


def _known(values: Iterable[float | None]) -> float | None:
    """Sum of those that are known; `None` where all that is more than 0 is missing."""
    values = list(values)
    total_ns = added(values)
    return total_ns if total_ns or None not in values else None

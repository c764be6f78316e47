"""Stretches of time on lanes, and fewer of them where there are too many to be drawn. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from graphbench.records import Phase

RunKind = Literal["eager forward", "eager backward", "compiled forward", "compiled backward", "rest"]
StepKind = Literal["phase", "graph", "gap", "host", "compiled", "gap op", "copy", "fill", "sync", "idle"]
SpanKind = RunKind | StepKind
"""What happened: `phase`, `graph` and `gap` say where a step was, `rest` is what no row of a run explains."""
BANDS: Final[frozenset[SpanKind]] = frozenset({"phase", "graph", "gap"})
FINEST: Final = 4096
"""Parts of the whole time that are the first to be drawn as one: no screen is wider."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One stretch: `work_ns` of it is work, all of it but where several were put together.

    `region` and `name` are those of a node or kernel, `row` the position of a row of the step; `None` where it has
    none. `detail` is what else is known, such as the device's name of a kernel. `count` were put together, of which it
    names the longest, of `longest_ns`.
    """

    lane: int
    kind: SpanKind
    start_ns: float
    end_ns: float
    work_ns: float
    name: str = ""
    region: str | None = None
    row: int | None = None
    phase: Phase | None = None
    place: str = ""
    detail: str = ""
    count: int = 1
    longest_ns: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fewer:
    """Spans. Within `finest_ns` those of one kind, lane and place are one; 0 where all are told apart."""

    spans: tuple[Span, ...]
    finest_ns: float


def fewer(spans: Sequence[Span], most: int) -> Fewer:
    """Put together what no screen shows apart, then what lies within ever longer stretches; work adds up.

    Args:
        spans: sorted by start on each lane.
        most: how many are wanted; there are more where so many differ in lane, kind or place.
    """
    if len(spans) <= most:
        return Fewer(spans=tuple(spans), finest_ns=0.0)
    whole_ns = max(span.end_ns for span in spans) - min(span.start_ns for span in spans)
    found, finest_ns = list(spans), whole_ns / FINEST
    while True:
        left = _joined(found, finest_ns)
        if len(left) <= most or finest_ns > whole_ns:
            return Fewer(spans=tuple(left), finest_ns=finest_ns)
        found, finest_ns = left, 2 * finest_ns


def _joined(spans: Sequence[Span], finest_ns: float) -> list[Span]:
    found: list[Span] = []
    last: dict[int, int] = {}
    for span in spans:
        before = last.get(span.lane)
        if before is not None and _are_one(found[before], span, finest_ns):
            found[before] = _join(found[before], span)
        else:
            last[span.lane] = len(found)
            found.append(span)
    return found


def _are_one(one: Span, other: Span, finest_ns: float) -> bool:
    alike = (one.kind, one.place, one.region, one.phase) == (other.kind, other.place, other.region, other.phase)
    return alike and one.kind not in BANDS and max(one.end_ns, other.end_ns) - one.start_ns <= finest_ns


def _join(one: Span, other: Span) -> Span:
    longest = max(one, other, key=lambda span: span.longest_ns or span.work_ns)
    return replace(
        longest,
        start_ns=min(one.start_ns, other.start_ns),
        end_ns=max(one.end_ns, other.end_ns),
        work_ns=one.work_ns + other.work_ns,
        count=one.count + other.count,
        longest_ns=longest.longest_ns or longest.work_ns,
    )

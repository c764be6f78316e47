"""The tables of a whole step: its parts, and its places in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from graphbench.analysis.places import PlaceRow
from graphbench.analysis.stats import quantile
from graphbench.analysis.step_parts import StepPart
from graphbench.analysis.steps import StepSummary
from graphbench.report.column import Column
from graphbench.report.names import shorten, shorten_head
from graphbench.step_records import StepRecord
from graphbench.units import format_bytes, format_duration

PLACES_SHOWN = 40
IDLE_EXPLAINED = (
    "idle: no device work until the first launch of this place came; host-bound: idle for longer than it worked"
)
_PREFIXES = {"part": "", "rest": "", "total": "", "of which": "of which ", "user phase": "phase "}

STEP_COLUMNS: tuple[Column[StepPart], ...] = (
    Column(name="part", key="part", kind="text", get=lambda row: _PREFIXES[row.kind] + row.name, shrink=20),
    Column(name="rows", key="rows", kind="number", get=lambda row: row.rows),
    Column(name="calls", key="calls", kind="number", get=lambda row: row.calls),
    Column(name="launches", key="launches", kind="number", get=lambda row: row.launches),
    Column(name="time", key="time", kind="time", get=lambda row: row.time_ns),
    Column(name="share", key="share", kind="fraction", get=lambda row: row.share),
    Column(name="host", key="host", kind="time", get=lambda row: row.host_ns),
    Column(name="elapsed", key="elapsed", kind="time", get=lambda row: row.elapsed_ns),
    Column(
        name="copied",
        key="copied_bytes",
        kind="number",
        get=lambda row: row.copied_bytes,
        brief=lambda row: format_bytes(row.copied_bytes) if row.copied_bytes else "",
        shown="nonzero",
    ),
    Column(name="missing", key="missing", kind="number", get=lambda row: row.missing, shown="nonzero"),
)


def _followers(row: PlaceRow) -> str:
    return ", ".join(row.place.followed_by) if row.place else ""


PLACE_COLUMNS: tuple[Column[PlaceRow], ...] = (
    Column(name="place", key="place", kind="text", get=lambda row: row.key, shrink=18, shorten=shorten),
    Column(name="calls", key="calls", kind="number", get=lambda row: row.place.calls if row.place else None),
    Column(name="rows", key="rows", kind="number", get=lambda row: row.rows),
    Column(name="host", key="host", kind="time", get=lambda row: row.host_ns),
    Column(name="time", key="time", kind="time", get=lambda row: row.time_ns),
    Column(name="idle", key="idle", kind="time", get=lambda row: row.idle_ns),
    Column(name="idle\nbehind", key="idle_behind", kind="time", get=lambda row: row.idle_behind_ns, shown="wide"),
    Column(name="launches", key="launches", kind="number", get=lambda row: row.launches),
    Column(name="per\nms", key="launches_per_ms", kind="number", get=lambda row: row.launches_per_ms),
    Column(name="syncs", key="syncs", kind="number", get=lambda row: row.syncs, shown="nonzero"),
    Column(
        name="",
        key="host_bound",
        kind="text",
        get=lambda row: row.host_bound,
        brief=lambda row: "host-bound" if row.host_bound else "",
        shown="nonzero",
        shrink=None,
    ),
    Column(name="then", key="followed_by", kind="text", get=_followers, shown="nonzero", shorten=shorten_head),
)

STEP_LEAVE: Final = ("rows", "launches", "copied_bytes", "calls", "elapsed")
PLACES_LEAVE: Final = ("followed_by", "launches_per_ms", "rows", "calls", "syncs", "launches")
"""Columns by how little they matter where lines are narrow."""


def step_title(step: StepRecord, found: StepSummary) -> str:
    """What the parts of the table add up to."""
    overlap_ns = quantile(step.run.overlap_ns, 0.5)
    overlap = f" + overlap {format_duration(overlap_ns)}" if overlap_ns else ""
    return f"The step by part; parts add up to busy {format_duration(found.busy_ns)}{overlap}"


def places_title(shown: Sequence[PlaceRow], rows: Sequence[PlaceRow]) -> str:
    """How many places there are, of how many."""
    count = f"{len(rows)}" if len(shown) == len(rows) else f"the longest {len(shown)} of {len(rows)}"
    return f"Places of the step: compiled graphs and the gaps behind them, in its order ({count})"


def shown_places(rows: Sequence[PlaceRow], top: int | None, *, wide: bool = False) -> list[PlaceRow]:
    """In order of the step those that took longest: `top` of them, or as many as anybody reads, or all if `wide`."""
    kept = len(rows) if wide and top is None else PLACES_SHOWN if top is None else top
    if len(rows) <= kept:
        return list(rows)
    longest = sorted(range(len(rows)), key=lambda index: -_weight(rows[index]))[:kept]
    return [rows[index] for index in sorted(longest)]


def _weight(row: PlaceRow) -> float:
    return max(row.host_ns or 0.0, (row.time_ns or 0.0) + (row.idle_ns or 0.0))

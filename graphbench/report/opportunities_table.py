"""What could make the step faster, and when compiling has paid: lines of the printed report, columns of the others."""

from __future__ import annotations

import math
from collections.abc import Sequence

from graphbench.analysis.digest import Digest
from graphbench.analysis.fusion import FusionRow
from graphbench.analysis.opportunities import opportunities
from graphbench.analysis.opportunity import Opportunity
from graphbench.analysis.payoff import PayOff, pay_offs, whole_pay_off
from graphbench.analysis.roofline import NO_CEILINGS
from graphbench.analysis.size_groups import has_groups
from graphbench.analysis.views import source_text
from graphbench.plaintext import clean
from graphbench.records import ProfileRecord
from graphbench.report.base import DEFAULT_WIDTH
from graphbench.report.column import Column
from graphbench.report.names import shorten, shorten_head, shorten_kernel_of_kind, shorten_source
from graphbench.report.overview import names_text
from graphbench.units import count_text, format_duration, format_percent

OPPORTUNITIES_SHOWN = 10
LEAST_SHOWN = 0.001
"""Opportunities of a smaller part of the step are shown by CSV, or when so many are asked for."""
OVERLAP = (
    "each the most that it gives alone: they overlap and do not add up; % of in-graph time, of launch-bound ones and "
    "graph breaks of wall time"
)
COLUMNS_TOLD = (
    "wall: what the wall time gains of it, 0 where the device waits for the host all the same; n: equal places of "
    "repeated layers, together one row"
)
"""What columns of a table mean that lines of text say in words."""
_NOTE_WIDTH = 160
_NODES_NAMED = 3
_NAME_WIDTH = 48
_KERNEL_WIDTH = 36

OPPORTUNITY_COLUMNS: tuple[Column[Opportunity], ...] = (
    Column(name="kind", key="kind", kind="text", get=lambda row: row.kind),
    Column(name="at most", key="gain", kind="time", get=lambda row: row.gain_ns),
    Column(name="of step", key="part", kind="fraction", get=lambda row: row.part),
    Column(name="wall", key="wall_gain", kind="time", get=lambda row: row.wall_gain_ns),
    Column(name="n", key="count", kind="number", get=lambda row: row.count),
    Column(name="what", key="what", kind="text", get=lambda row: row.what),
    Column(name="nodes", key="nodes", kind="text", get=lambda row: ", ".join(row.nodes), brief=lambda r: _nodes(r)),
    Column(name="module", key="module", kind="text", get=lambda row: row.module, shown="nonzero"),
    Column(name="source", key="source", kind="text", get=lambda row: source_text(row.source)),
    Column(
        name="kernels", key="kernels", kind="text", get=lambda row: ", ".join(row.kernels), brief=lambda r: _brief(r)
    ),
    Column(name="note", key="note", kind="text", get=lambda row: row.note, shown="nonzero"),
    Column(name="of", key="of", kind="text", get=lambda row: row.of, shown="csv"),
    Column(name="region", key="region", kind="text", get=lambda row: row.region, shown="csv"),
    Column(name="phase", key="phase", kind="text", get=lambda row: row.phase or "", shown="csv"),
)


def opportunity_lines(
    record: ProfileRecord,
    digest: Digest | None = None,
    *,
    top: int | None = None,
    rows: Sequence[FusionRow] | None = None,
) -> list[str]:
    """The most promising opportunities, two lines each, and what is not known.

    Args:
        record: a profile.
        digest: statistics already computed for it.
        top: how many; 10 by default.
        rows: its fusions, already computed.
    """
    found = opportunities(record, digest, rows=rows)
    shown = shown_first(found, top)
    if not shown:
        small = f" of {format_percent(LEAST_SHOWN)} of the step" if found else ""
        return [f"Opportunities: none found{small}", *unknown_lines(record)]
    count = f"{len(shown)} of {len(found)}" if len(shown) < len(found) else f"{len(found)}"
    lines = [f"Opportunities ({count}; {OVERLAP})"]
    for number, entry in enumerate(shown, start=1):
        gain = f"{format_percent(entry.part):>7} {format_duration(entry.gain_ns, digits=3):>8}"
        lines.append(shorten_head(f"{number:>2}. {gain}  {clean(_head(entry))}", DEFAULT_WIDTH))
        details = _details(entry)
        lines += [f"    {clean(details)}"] if details else []
    return lines + unknown_lines(record)


def shown_first(found: Sequence[Opportunity], top: int | None) -> Sequence[Opportunity]:
    """Those to show: `top`, or ten of those that give a noticeable part of the step."""
    if top is not None:
        return found[:top]
    return [entry for entry in found if entry.part is None or entry.part >= LEAST_SHOWN][:OPPORTUNITIES_SHOWN]


def unknown_lines(record: ProfileRecord) -> list[str]:
    """What kept opportunities from being found."""
    lines = []
    compiled = [region for region in record.regions if region.status == "ok" and region.kernels]
    if compiled and not record.ceilings:
        lines.append(f"{NO_CEILINGS}: missed fusions, and kernels far from what it can do, are not known")
    untimed = [kernel.key for region in compiled for kernel in region.kernels if kernel.in_graph.samples is None]
    if untimed:
        lines.append(f"not looked at: {count_text(len(untimed), 'kernel')} without an in-graph time")
    return lines


def _head(entry: Opportunity) -> str:
    often = f" x{entry.count}" if entry.count > 1 else ""
    return f"{entry.kind}{often}: {' '.join(entry.what.split())}"


def _details(entry: Opportunity) -> str:
    """Where it is, in which kernels, what else is known of it, and what of the gain the wall time gets."""
    places = [_nodes(entry), shorten(entry.module, _NAME_WIDTH), shorten_source(source_text(entry.source), _NAME_WIDTH)]
    parts = [", ".join(place for place in places if place), _brief(entry)]
    parts.append(shorten_head(" ".join(entry.note.split()), _NOTE_WIDTH))
    if entry.wall_gain_ns is not None and entry.wall_gain_ns < 0.99 * entry.gain_ns:
        parts.append(
            f"of the wall time at most {format_duration(entry.wall_gain_ns, digits=3)}"
            if entry.wall_gain_ns
            else "host-bound: no wall time until the host's part shrinks"
        )
    return "; ".join(part for part in parts if part)


def _nodes(entry: Opportunity) -> str:
    if entry.kind == "gap ops":  # named by what they are
        return ""
    more = f" and {len(entry.nodes) - _NODES_NAMED} more" if len(entry.nodes) > _NODES_NAMED else ""
    return ", ".join(shorten(name, _NAME_WIDTH) for name in entry.nodes[:_NODES_NAMED]) + more


def _brief(entry: Opportunity) -> str:
    """Kernels in short: a pair as `one + other`, many by their number."""
    if len(entry.kernels) > 2:
        return ""
    return " + ".join(shorten_kernel_of_kind(key.split("/", 1)[-1], _KERNEL_WIDTH) for key in entry.kernels)


def pay_off_lines(record: ProfileRecord) -> list[str]:
    """When compiling has paid: of all regions together, and of those for which it is another answer."""
    whole = whole_pay_off(record)
    if whole is None:
        return []
    found = pay_offs(record)
    many = found if len(found) > 1 else []
    took = "compiling" if whole.compile_ns is None else f"compiling took {format_duration(whole.compile_ns, digits=3)}"
    each = "a call of each group of sizes" if has_groups(record) else "a call of each region" if many else "a call"
    lines = [f"{took}{' in all' if many else ''}: {_answer(whole, each)}"]
    others: dict[str, list[str]] = {}
    for entry in many:
        if entry.calls is None and entry.reason != whole.reason:
            others.setdefault(entry.reason, []).append(entry.region)
    return lines + [f"compiling {names_text(regions)}: {clean(reason)}" for reason, regions in others.items()]


def _answer(found: PayOff, each: str) -> str:
    if found.calls is None:
        known = None not in (found.compile_ns, found.eager_ns, found.compiled_ns)
        eager, compiled = (format_duration(time_ns, digits=3) for time_ns in (found.eager_ns, found.compiled_ns))
        return f"{found.reason}{f' (wall: {eager} eager, {compiled} compiled)' if known else ''}"
    calls = math.ceil(found.calls)
    times = f"{calls:,} call{'s' if calls > 1 else ''}"
    return f"{each} saves {format_duration(found.saved_ns, digits=3)} of wall time, paid after {times}"

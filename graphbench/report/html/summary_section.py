"""The top of the page of one profile: the figures to see first, verdicts, before and after. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from graphbench.analysis.fusion_totals import AtLimit
from graphbench.analysis.graph_replays import graph_replays
from graphbench.analysis.roofline import OVER
from graphbench.analysis.totals import BeforeAfter
from graphbench.measurements import TimerName
from graphbench.report.column import Column
from graphbench.report.fusion_lines import BEYOND, fusion_lines
from graphbench.report.html.findings import Findings
from graphbench.report.html.model import Section, Table, Tile
from graphbench.report.html.tables import html_table
from graphbench.report.opportunities_table import pay_off_lines
from graphbench.report.overview import (
    basis_text,
    compares_sides,
    coverage_text,
    finding_lines,
    partial_sums,
    replay_lines,
    totals_lines,
)
from graphbench.units import MISSING, count_text, format_duration, format_percent, format_ratio

LATER: Final = ("owners: ", "nodes: ", "kernels: ", "memory: ", "to benchmark by hand: ", "by hand: ", "not measured: ")
"""How lines begin that say what was measured: their section comes last."""
_SHARE: Final = re.compile(r"(?P<what>attributed|labelled) (?P<part>\S+ %) \((?P<rows>[^)]*)\)")


def summary_section(found: Findings) -> Section:
    """Tiles, verdicts and the before/after table."""
    return Section(
        id="summary",
        title="Summary",
        tiles=tuple(_tiles(found)),
        lines=(*(line for line in _lines(found) if not line.startswith(LATER)), *_pay_off(found)),
        tables=(_before_after(found),) if compares_sides(found.record) else (),
    )


def measured_lines(found: Findings) -> tuple[str, ...]:
    """Of what there is a time, and of what not."""
    return tuple(line for line in _lines(found) if line.startswith(LATER))


def _lines(found: Findings) -> list[str]:
    paid = fusion_lines(found.fusion, found.summary.before_after)
    return finding_lines(found.record, found.summary, found.step, fusion=paid, wide=False)


def _pay_off(found: Findings) -> Sequence[str]:
    return () if found.only_ops else pay_off_lines(found.record)


def _before_after(found: Findings) -> Table:
    timer = found.record.policy.timer
    rows = totals_lines(found.summary, timer)
    return html_table(
        "before-after",
        "Before and after",
        totals_columns(timer),
        rows,
        head="basis",
        notes=(*partial_sums(found.summary), *replay_lines(found.record)),
    )


def totals_columns(timer: TimerName) -> tuple[Column[BeforeAfter], ...]:
    """The columns of the before/after table."""
    return (
        Column(name="of", key="part", kind="text", get=lambda row: row.part, shown="several"),
        Column(name="measured as", key="basis", kind="text", get=lambda row: basis_text(row, timer)),
        Column(name="eager", key="eager", kind="time", get=lambda row: row.eager_ns),
        Column(name="unfused", key="unfused", kind="time", get=lambda row: row.unfused_ns),
        Column(name="compiled", key="compiled", kind="time", get=lambda row: row.compiled_ns),
        Column(name="saved", key="saved", kind="time", get=lambda row: row.saved_ns),
        Column(name="speedup", key="speedup", kind="ratio", get=lambda row: row.speedup),
    )


def _tiles(found: Findings) -> Iterator[Tile]:
    yield from _speedup(found)
    yield from _step(found)
    if found.fusion.at_limit and found.fusion.at_limit.fused_ns:
        yield _at_limit(found.fusion.at_limit)
    if found.compiled:
        yield _coverage(found)
    yield from _graphs(found)
    if found.opportunities:
        first = found.opportunities[0]
        value = format_percent(first.part) if first.part is not None else format_duration(first.gain_ns)
        yield Tile(label="largest opportunity, at most", value=value, note=f"{first.kind}: {first.what}")
    if not found.only_ops:
        breaks = sum(entry.count for entry in found.record.breaks)
        recompiles = count_text(len(found.record.recompiles), "recompile")
        yield Tile(label="graph breaks", value=str(breaks), note=recompiles)


def _graphs(found: Findings) -> Iterator[Tile]:
    """What replaying CUDA graphs leaves of the time to issue; of several graphs, of all together."""
    hosts = [replay.host for replay in graph_replays(found.record)]
    known = [(host.replayed, host.without) for host in hosts if host.replayed is not None and host.without is not None]
    if known and len(known) == len(hosts):
        replayed_ns, without_ns = (sum(column) for column in zip(*known, strict=True))
        note = f"to issue what is replayed as CUDA graphs, instead of {format_duration(without_ns)}"
        yield Tile(label="issuing takes", value=format_duration(replayed_ns), note=note)


def _at_limit(limit: AtLimit) -> Tile:
    """What part of the kernels' time the device would need at the least."""
    reached = limit.limit_ns / limit.fused_ns
    note = f"{format_duration(limit.limit_ns)} at the limit, of {limit.kernels} of {limit.timed} timed kernels"
    note += f"; {BEYOND}" if reached > OVER else ""
    return Tile(label="of the device's limit", value=format_percent(reached), note=note)


def _coverage(found: Findings) -> Tile:
    """The line of coverage: its percentage, and in the note all else that it says."""
    text = coverage_text(found.summary.coverage, found.record.policy.timer)
    said = _SHARE.match(text)
    if said is None:
        return Tile(label="kernel time attributed", value=MISSING, note=text)
    return Tile(label=f"kernel time {said['what']}", value=said["part"], note=f"{said['rows']}{text[said.end() :]}")


def _speedup(found: Findings) -> Iterator[Tile]:
    """Eager against compiled by the first basis that has both, of forward and backward where there is one."""
    if not found.compiled:
        return
    timer = found.record.policy.timer
    lines = [line for line in totals_lines(found.summary, timer) if line.speedup is not None]
    chosen = next((line for line in lines if line.part == "both"), lines[0] if lines else None)
    if chosen is not None:
        part = "forward and backward" if chosen.part == "both" else chosen.part
        times = f"{format_duration(chosen.eager_ns)} eager → {format_duration(chosen.compiled_ns)} compiled"
        yield Tile(
            label=f"compiled against eager, {part}",
            value=format_ratio(chosen.speedup),
            note=f"{times}; {basis_text(chosen, timer)}",
        )


def _step(found: Findings) -> Iterator[Tile]:
    step = found.step
    if step is None:
        return
    known = [("device idle", step.idle), ("outside compiled graphs", step.gap_share)]
    note = ", ".join(f"{name} {format_percent(part)}" for name, part in known if part is not None and part >= 0)
    if step.plain_ns is None:
        yield Tile(label="step, as recorded", value=format_duration(step.wall_ns), note=note)
    else:
        yield Tile(label="step, without instrument", value=format_duration(step.plain_ns), note=note)

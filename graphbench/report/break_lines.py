"""The lines about graph breaks, each with its cost, recompiles, and notes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from graphbench.analysis.break_costs import NO_STEP, BreakCost, BreakRow, break_rows
from graphbench.analysis.digest import Digest
from graphbench.analysis.op_list import is_op_list
from graphbench.analysis.recompiles import RecompileRow, recompile_rows
from graphbench.measurements import SourceLine
from graphbench.plaintext import clean
from graphbench.records import TOLD_FIRST, ProfileRecord
from graphbench.report.names import shorten_head
from graphbench.report.overview import names_text
from graphbench.step_records import BreakKind
from graphbench.units import count_text, format_bytes, format_duration

BREAKS_SHOWN = 20
TEXT_WIDTH = 160
_KIND_WORDS: dict[BreakKind, str] = {
    "break": "",
    "disabled": "disabled function: ",
    "skipped": "frame runs eagerly: ",
    "limit": "recompile limit: ",
}


def break_lines(record: ProfileRecord, digest: Digest | None = None, *, wide: bool = False) -> list[str]:
    """Graph breaks by cost, recompiles and notes; what several regions note is told once.

    `wide` lists every break, and their texts in full.
    """
    if is_op_list(record):
        return list(note_lines(record))
    times = sum(entry.count for entry in record.breaks)
    often = f" ({times} times in all)" if times > len(record.breaks) else ""
    lines = [f"graph breaks: {len(record.breaks) or 'none'}{often}; recompiles: {len(record.recompiles)}"]
    rows = break_rows(record, digest)
    shown = rows if wide else rows[:BREAKS_SHOWN]
    for number, row in enumerate(shown, start=1):
        lines += _break(number if len(rows) > 1 else None, row, _whole if wide else _short)
    if len(shown) < len(rows):
        lines.append(f"  and {count_text(len(rows) - len(shown), 'cheaper break')}; wide lists them")
    lines += [f"  {_recompile(row, _whole if wide else _short)}" for row in recompile_rows(record)]
    return lines + list(note_lines(record))


def _break(number: int | None, row: BreakRow, cut: Callable[[str], str]) -> Iterator[str]:
    entry = row.graph_break
    ends = f" (ends {entry.region})" if entry.region else ""
    times = f" ({entry.count} times)" if entry.count > 1 else ""
    head = f"{f'{number}. ' if number else ''}{_where(entry.source)}: {_KIND_WORDS[entry.kind]}{cut(entry.reason)}"
    yield f"  {head}{ends}{times}"
    if entry.cause and entry.cause not in entry.reason:
        yield f"    cause: {cut(entry.cause)}"
    if row.cost is not None:
        yield f"    cost: {cost_text(row.cost)}"
    elif row.told_with is not None:
        yield f"    cost: that of {row.told_with + 1}., the same ops"
    elif row.reason and row.reason != NO_STEP:
        yield f"    cost: not placed: {row.reason}"
    if entry.hint:
        yield f"    hint: {cut(entry.hint)}"


def cost_text(cost: BreakCost) -> str:
    """Such as `r0 | r1: 3 ops, 2 kernels, 12.00 µs, 40.00 µs idle around it; host 90.00 µs; 4 B cuda to cpu; ...`."""
    between = " | ".join(cost.separates) if cost.separates else "ops of its function, their backward included"
    counts = [count_text(cost.calls, "op") + (" behind it, the caller's too" if _ends_the_forward(cost) else "")]
    counts += [] if cost.launches is None else [count_text(cost.launches, "kernel")]
    counts += [] if cost.time_ns is None else [format_duration(cost.time_ns)]
    counts += [f"{format_duration(cost.idle_ns)} idle around them"] if cost.idle_ns else []
    parts = [", ".join(counts)]
    told = cost.host_ns is None or cost.host_ns == cost.time_ns  # on the CPU an op's host time is its time
    parts += [] if told else [f"host {format_duration(cost.host_ns)}"]
    parts += [f"copied {format_bytes(size)} {direction}" for direction, size in cost.copied]
    if cost.syncs:
        named = [f"{name} x{count}" if count > 1 else name for name, count in cost.syncs]
        parts.append(f"{count_text(sum(n for _, n in cost.syncs), 'synchronisation')}: {names_text(named)}")
    return clean(f"{between}: {'; '.join(parts)}")


def _ends_the_forward(cost: BreakCost) -> bool:
    """Whether no graph of the forward follows the gap: what the caller runs then, as the loss, lies in it too."""
    return bool(cost.separates) and all(place == "end" or "/" in place for place in cost.separates[1:])


def _recompile(row: RecompileRow, cut: Callable[[str], str]) -> str:
    """Such as `recompile 0/1 (r1 takes any x[0]) net.py:3: from r0, whose guard failed: size mismatch`."""
    takes = f" takes any {clean(row.takes)}" if row.takes else ""
    made = f" ({row.region}{takes})" if row.region else ""
    why = cut(row.guard) if row.guard else "the guard that failed is not known"
    if row.guard and row.earlier:
        beside = f"from {row.guarded}, whose guard failed" if row.guarded else f"beside {names_text(row.earlier)}"
        why = f"{beside}: {why}"
    where = f" {_where(row.source)}" if row.source else ""
    return f"recompile {clean(row.compile_id)}{made}{where}: {why}"


def _where(source: SourceLine | None) -> str:
    return clean(f"{source.file}:{source.line}") if source else "unknown place"


def _short(text: str) -> str:
    return shorten_head(_whole(text), TEXT_WIDTH)


def _whole(text: str) -> str:
    return clean(" ".join(text.split()))


def note_lines(record: ProfileRecord) -> Iterator[str]:
    """What the profile, its step and its regions note; what several regions note is told once."""
    told_first = (note for note in record.notes if not note.startswith(TOLD_FIRST))
    for note in [*told_first, *(record.step.notes if record.step else ())]:
        yield f"note: {clean(note)}"
    of_regions: dict[str, list[str]] = {}
    for region in record.regions:
        for note in region.notes:
            of_regions.setdefault(note, []).append(region.key)
    for note, regions in of_regions.items():
        yield f"note: {names_text(regions)}: {clean(note)}"

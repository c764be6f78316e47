"""Two compared profiles as text: a summary, conditions that differ, totals, then every node with its verdict."""

from __future__ import annotations

from collections import Counter

from graphbench.analysis.diff import Diff
from graphbench.analysis.diff_totals import DiffTotal
from graphbench.analysis.stats import SAME_WITHIN
from graphbench.analysis.views import sort_rows
from graphbench.plaintext import clean
from graphbench.report.base import DEFAULT_WIDTH
from graphbench.report.column import Column, sort_keys
from graphbench.report.columns import DIFF_COLUMNS, GAP_DIFF_COLUMNS
from graphbench.report.grid import build, draw, wrap
from graphbench.report.overview import names_text
from graphbench.units import count_text, format_percent

_TOTAL_COLUMNS: tuple[Column[DiffTotal], ...] = (
    Column(name="total (uninstrumented)", key="name", kind="text", get=lambda row: row.name),
    Column(name="before", key="before", kind="time", get=lambda row: row.before_ns),
    Column(name="after", key="after", kind="time", get=lambda row: row.after_ns),
    Column(name="after/before", key="ratio", kind="ratio", get=lambda row: row.ratio),
    Column(name="verdict", key="verdict", kind="text", get=lambda row: row.verdict),
)


def render_diff(result: Diff, *, top: int | None = None, width: int = DEFAULT_WIDTH) -> str:
    """The comparison's text, ending with a line break; rows with the largest change first.

    Args:
        result: two profiles, compared.
        top: how many rows to show; `None` for all.
        width: of a line, in characters.

    Raises:
        UsageError: `top` is below 1.
    """
    lines = [f"warning: {clean(finding)}" for finding in result.findings]
    lines += [_counts(result), f"before: {clean(result.before)}", f"after:  {clean(result.after)}"]
    lines += [f"note: {clean(note)}" for note in result.notes]
    lines += [f"differs: {clean(f'{what}: {old} -> {new}')}" for what, old, new in result.environment]
    if not result.environment:
        lines.append("same environment and policy")
    lines.append(
        f"differences under {format_percent(result.noise, decimals=0)} between runs are noise on this timer "
        f"({result.timer}): such rows are unclear, under {format_percent(SAME_WITHIN, decimals=0)} the same"
        + (f", within one step of the stamps ({result.grain_ns:g} ns) too" if result.grain_ns else "")
    )
    lines += ["", draw(build(_TOTAL_COLUMNS, result.totals, wide=False), width)] if result.totals else []
    keys = {
        **sort_keys(DIFF_COLUMNS, "delta"),
        "change": lambda row: abs(row.delta_ns) if row.delta_ns is not None else None,
    }
    rows = sort_rows(result.rows, keys, "change", top)
    if rows:
        lines += ["", draw(build(DIFF_COLUMNS, rows, wide=False), width)]
    if any(row.repeats for row in rows):
        lines.append("= repeats the measurements of an equal node, and is counted with it")
    lines += _gaps(result, top, width)
    reasons: dict[str, list[str]] = {}
    for row in result.rows:
        if row.reason:
            reasons.setdefault(row.reason, []).append(row.name)
    lines += [f"– {clean(reason)}: {names_text(names)}" for reason, names in reasons.items()]
    return wrap(lines, width)


def _gaps(result: Diff, top: int | None, width: int) -> list[str]:
    """The gap ops of two steps, the largest change of time first."""
    if not result.gaps:
        return []
    keys = {"change": lambda row: None if row.delta_ns is None else abs(row.delta_ns)}
    rows = sort_rows(result.gaps, keys, "change", top)
    count = f"{len(rows)} of {len(result.gaps)}" if len(rows) < len(result.gaps) else f"{len(rows)}"
    title = f"Gap ops ({count}; times of all calls in one recorded step each, verdicts of one call alone)"
    reasons = Counter(row.reason for row in result.gaps if row.reason)
    told = [f"– {clean(reason)}: {count_text(times, 'gap op')}" for reason, times in reasons.items()]
    return ["", title, draw(build(GAP_DIFF_COLUMNS, rows, wide=False), width), *told]


def _counts(result: Diff) -> str:
    """How many measurements of nodes became what; rows that repeat one count with it."""
    counts: Counter[str] = Counter(
        row.verdict or ("not compared" if row.change == "both" else row.change)
        for row in result.rows
        if not row.repeats
    )
    words = ["faster", "slower", "same", "unclear", "added", "gone"]
    words += ["not compared"] if counts["not compared"] else []
    return "nodes: " + ", ".join(f"{counts[word]} {word}" for word in words)

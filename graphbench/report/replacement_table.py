"""A replacement as text: original and candidate alone and in their graph, saving predicted and measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphbench.analysis.replacements import ReplacementRow
from graphbench.condition_records import Environment, Policy
from graphbench.plaintext import clean
from graphbench.report.cells import Grid
from graphbench.report.column import Column
from graphbench.report.difference import DIFFERENCE_COLUMN, difference_text, is_wrong
from graphbench.report.grid import build
from graphbench.report.heading import policy_text, timer_lines
from graphbench.units import MISSING, count_text, format_duration, format_percent


def _kernels(row: ReplacementRow) -> str | None:
    if row.kernels is None:
        return None
    before, after = row.kernels
    return str(before) if before == after else f"{before} → {after}"


def _marks(row: ReplacementRow) -> str:
    sides = (row.original, row.candidate)
    return "!" if any(side is not None and side.measurement.warnings for side in sides) else ""


REPLACEMENT_COLUMNS: tuple[Column[ReplacementRow], ...] = (
    Column(name="", key="setting", kind="text", get=lambda row: row.setting, shrink=20),
    Column(name="original", key="original", kind="time", get=lambda row: row.original_ns, marks=_marks),
    Column(name="candidate", key="candidate", kind="time", get=lambda row: row.candidate_ns),
    Column(name="time/\noriginal", key="ratio", kind="ratio", get=lambda row: row.ratio),
    Column(name="verdict", key="verdict", kind="text", get=lambda row: row.verdict, shrink=7),
    Column(name="saving\npredicted", key="predicted", kind="time", get=lambda row: row.predicted_ns),
    Column(name="saving\nmeasured", key="saved", kind="time", get=lambda row: row.saved_ns),
    Column(name="kernels", key="kernels", kind="text", get=_kernels, shrink=7),
    DIFFERENCE_COLUMN,
)


def replacement_parts(
    rows: Sequence[ReplacementRow],
    *,
    nodes: Sequence[str],
    candidate: str,
    how: str,
    policy: Policy,
    environment: Environment,
    notes: Sequence[str] = (),
) -> list[str | Grid]:
    """What is told of one replacement: lines, its title first, and its table.

    Args:
        rows: alone first, then in the graph.
        nodes: what was replaced, as `r0/gelu`.
        candidate: by what.
        how: what the prediction was made from.
        policy: the budget of one implementation in one setting.
        environment: what it ran on.
        notes: what else a reader must know.
    """
    others = f" and {count_text(len(nodes) - 1, 'equal node')}" if len(nodes) > 1 else ""
    return [
        f"graphbench replacement of {clean(nodes[0])}{others} by {clean(candidate)}",
        f"{policy_text(policy, environment)} | original and candidate timed in A B B A order",
        *timer_lines(policy.timer),
        "",
        build(REPLACEMENT_COLUMNS, rows, wide=False),
        *(line for row in rows for line in _in_words(row)),
        f"predicted: {clean(how)}",
        *(line for row in rows for line in _remarks(row)),
        *(f"note: {clean(note)}" for note in notes),
    ]


def _in_words(row: ReplacementRow) -> Iterator[str]:
    if row.saved_ns is None or row.predicted_ns is None:
        return
    predicted = _saving(row.predicted_ns, row.predicted_part, ("save", "cost"))
    measured = _saving(row.saved_ns, row.saved_part, ("saves", "costs"))
    yield f"{row.setting}: predicted to {predicted}, {measured}: {row.verdict}"


def _saving(time_ns: float, part: float | None, words: tuple[str, str]) -> str:
    """A saving, or what is lost where it is below 0, with its part of the whole: `saves 2 ms (10.0 %)`."""
    size = f"{format_duration(abs(time_ns))} ({format_percent(None if part is None else abs(part))})"
    return f"{words[0]} {size}" if time_ns >= 0 else f"{words[1]} {size} more"


def _remarks(row: ReplacementRow) -> Iterator[str]:
    if row.reason:
        yield f"{MISSING} {row.setting}: {clean(row.reason)}"
    for side in (row.original, row.candidate):
        if side is None:
            continue
        if side.measurement.warnings:
            yield f"! {row.setting}, {clean(side.name)}: {clean('; '.join(side.measurement.warnings))}"
        if side.measurement.status != "ok":
            reason = clean(side.measurement.reason)
            yield f"{MISSING} {row.setting}, {clean(side.name)}: {side.measurement.status}: {reason}"
    if is_wrong(row) and row.difference is not None:
        note = clean(row.difference.note) or f"max diff {difference_text(row.difference)}"
        yield f"! {row.setting}: the candidate's result is not the original's ({note})"
    elif row.difference is not None and row.difference.equal is None:
        yield f"{MISSING} {row.setting}: results were not compared: {clean(row.difference.note)}"

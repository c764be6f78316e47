"""What is said of two compared profiles, for text and Markdown alike: verdict, counts, rule; and which rows changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from graphbench.analysis.diff import Diff
from graphbench.analysis.diff_fusions import FusionDiffRow
from graphbench.analysis.diff_gaps import GapDiffRow
from graphbench.analysis.diff_rows import OTHER_WORK, DiffRow
from graphbench.analysis.diff_rule import FALSE_ALARMS
from graphbench.analysis.diff_totals import EAGER_TOTALS, DiffTotal
from graphbench.analysis.stats import SAME_WITHIN
from graphbench.analysis.views import sort_rows
from graphbench.records import SHARED_CPU_NOTE
from graphbench.report.overview import names_text
from graphbench.units import count_text, format_duration, format_percent, format_ratio

RowT = TypeVar("RowT", DiffRow, FusionDiffRow, GapDiffRow)
_TOLD = {"slower": 0, "faster": 1}


def headline(result: Diff) -> str:
    """The verdict in one line: what became of the whole runs that were compiled, else of the rows."""
    if result.devices is not None:
        return f"another device: {result.devices[0]} -> {result.devices[1]}; ratios, but no verdicts"
    compiled = [total for total in result.totals if total.name not in EAGER_TOTALS]
    judged = [total for total in compiled if total.verdict in _TOLD]
    if judged:
        return "; ".join(_total_text(total) for total in sorted(judged, key=lambda total: _TOLD[str(total.verdict)]))
    if not any((changed(result.rows), changed(result.fusions), changed(result.gaps))):
        return _alike(compiled, result)
    told = ", ".join(f"{total.name} {total.verdict or 'not compared'}" for total in compiled)
    return f"rows differ, no whole run is faster or slower{f' ({told})' if told else ''}"


def _alike(compiled: Sequence[DiffTotal], result: Diff) -> str:
    """The verdict where no row tells of a difference: what could not be compared is not the same."""
    judged: list[DiffTotal | DiffRow | FusionDiffRow | GapDiffRow]
    judged = [*compiled, *result.rows, *result.fusions, *result.gaps]
    if not any(entry.verdict for entry in judged):
        return "nothing could be compared"
    missing = ", ".join(f"{total.name} not compared" for total in compiled if total.verdict is None)
    unclear = any(entry.verdict == "unclear" for entry in judged)
    found = "no difference beyond the noise" if unclear else "no difference"
    return f"{found} ({missing})" if missing else found


def _total_text(total: DiffTotal) -> str:
    times = f"{format_duration(total.before_ns)} -> {format_duration(total.after_ns)}"
    return f"{total.name} {total.verdict}: {times} ({format_ratio(total.ratio)})"


def counts_line(result: Diff) -> str:
    """How many measurements of nodes became what; rows that repeat one count with it."""
    counts = Counter(_word(row) for row in result.rows if not row.repeats)
    words = ["faster", "slower", "same", "unclear", "added", "gone"]
    words += [word for word in (OTHER_WORK, "not compared") if counts[word]]
    return "nodes: " + ", ".join(f"{counts[word]} {word}" for word in words)


def _word(row: DiffRow) -> str:
    if row.change != "both":
        return row.change
    return row.verdict or (OTHER_WORK if row.reason.startswith(OTHER_WORK) else "not compared")


def fusion_counts_line(result: Diff) -> str:
    """How many fusions became what; "" where there are none."""
    if not result.fusions:
        return ""
    changes = Counter(row.change for row in result.fusions)
    verdicts = Counter(row.verdict for row in result.fusions)
    told = [f"{changes[word]} {word}" for word in ("changed", "merged", "split", "added", "gone") if changes[word]]
    told += [f"{verdicts[word]} {word}" for word in ("faster", "slower") if verdicts[word]]
    return f"fusions: {changes['same']} of the same nodes{''.join(f', {entry}' for entry in told)}"


def rule_line(result: Diff) -> str:
    """Which differences are noise, and how often that is wrong."""
    if result.devices is not None:
        return ""
    rule = result.rule
    step = f", within one step of the stamps ({rule.grain_ns:g} ns) too" if rule.grain_ns else ""
    rate = f"of comparisons of the same code at most {format_percent(FALSE_ALARMS, decimals=0)} call any row so"
    if any(SHARED_CPU_NOTE in note for note in result.notes):
        rate = "on a shared CPU equal code may well be called faster or slower"
    return (
        f"differences under {format_percent(rule.noise, decimals=1)} between runs are noise on this timer "
        f"({result.timer}) among {count_text(rule.rows, 'row')}: such rows are unclear, under "
        f"{format_percent(SAME_WITHIN, decimals=0)} the same{step}; beyond, faster or slower; {rate}"
    )


def changed(rows: Iterable[RowT]) -> list[RowT]:
    """Rows that tell of a difference: judged faster or slower, of one side only, fused otherwise, or other work."""
    return [row for row in rows if _is_changed(row)]


def _is_changed(row: DiffRow | FusionDiffRow | GapDiffRow) -> bool:
    if row.verdict in _TOLD or row.change not in ("both", "same"):
        return True
    return isinstance(row, (DiffRow, FusionDiffRow)) and row.reason.startswith(OTHER_WORK)


def by_change(rows: Sequence[RowT], top: int | None) -> list[RowT]:
    """The rows with the largest change of time first.

    Raises:
        UsageError: `top` is below 1.
    """
    return sort_rows(rows, {"change": lambda row: None if row.delta_ns is None else abs(row.delta_ns)}, "change", top)


def hidden_line(all_rows: Sequence[RowT], shown: Sequence[RowT], what: str) -> str:
    """How many rows a table does not show because they say nothing; "" for none."""
    hidden = Counter(_hidden_word(row) for row in _without(all_rows, shown))
    if not hidden:
        return ""
    told = ", ".join(f"{count} {word}" for word, count in hidden.most_common())
    return f"not shown: {count_text(sum(hidden.values()), what)} ({told}); --all shows them"


def _hidden_word(row: DiffRow | FusionDiffRow | GapDiffRow) -> str:
    return row.verdict or "not compared"


def _without(rows: Iterable[RowT], shown: Sequence[RowT]) -> Iterator[RowT]:
    seen = {id(row) for row in shown}
    return (row for row in rows if id(row) not in seen)


def reason_lines(result: Diff) -> list[str]:
    """Why rows of nodes, fusions and totals have no verdict: each reason once, with whose it is."""
    reasons: dict[str, list[str]] = {}
    for row in result.rows:
        if row.reason and row.change == "both":
            reasons.setdefault(_brief(row.reason), []).append(row.name)
    for fusion in result.fusions:
        if fusion.reason and fusion.change not in ("added", "gone"):
            reasons.setdefault(_brief(fusion.reason), []).append(fusion.name)
    lines = [f"– {reason}: {names_text(list(dict.fromkeys(names)))}" for reason, names in reasons.items()]
    return lines + [f"– {total.name}: {total.reason}" for total in result.totals if total.reason]


def _brief(reason: str) -> str:
    """Other work is told row by row; here once for all."""
    return OTHER_WORK if reason.startswith(f"{OTHER_WORK}: ") and not reason.endswith("other nodes") else reason

"""Facts of a row in words: where it stands in the code, and what each measurement of it says. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from graphbench.analysis.digest import Digest
from graphbench.measurements import Comparison, Measurement, SourceLine
from graphbench.plaintext import clean, clean_lines
from graphbench.report.html.model import Series
from graphbench.units import count_text, format_duration

Fact = tuple[str, str]


def source_facts(source: SourceLine | None, name: str = "source") -> list[Fact]:
    """A source line: file, line and function, and the code that stands there."""
    if source is None:
        return []
    function = f" in {source.function}" if source.function else ""
    code = f"\n{source.code.strip()}" if source.code.strip() else ""
    return [(name, clean_lines(f"{source.file}:{source.line}{function}{code}"))]


def measured_facts(measured: Sequence[tuple[str, Measurement]], digest: Digest) -> list[Fact]:
    """Each measurement in words: its time, how it was taken and its warnings, or why there is none."""
    facts: list[Fact] = []
    for name, entry in measured:
        warnings = [f"! {warning}" for warning in entry.warnings]
        facts.append((name, joined([measurement_text(entry, digest), *warnings])))
        facts += comparison_facts(f"{name}: result", entry.fidelity)
    return facts


def measurement_text(entry: Measurement, digest: Digest) -> str:
    """Such as `p50 12.30 µs, p10 12.00 µs, p90 13.10 µs; n 100; cupti, cold-read, captured values`."""
    found = digest.summary(entry)
    if found is None:
        return f"{entry.status}: {entry.reason}" if entry.reason else entry.status
    times = ", ".join(
        f"{name} {format_duration(time_ns)}"
        for name, time_ns in (("p50", found.p50), ("p10", found.p10), ("p90", found.p90))
    )
    how = [str(entry.timer), str(entry.cache) if entry.cache else "", f"{entry.values} values" if entry.values else ""]
    inner = f" of {count_text(entry.inner, 'call')} each" if entry.inner > 1 else ""
    host_ns = digest.median(entry, "host_ns")
    host = f"; host {format_duration(host_ns)}" if host_ns is not None and entry.timer != "wallclock" else ""
    return f"{times}; n {found.n}{inner}{host}; {', '.join(part for part in how if part)}"


def comparison_facts(name: str, found: Comparison | None) -> list[Fact]:
    """How a result compares, named `name`; nothing where it is what it should be."""
    if found is None or (found.equal and not found.note):
        return []
    verdict = {True: "equal", False: "differs", None: "not compared"}[found.equal]
    size = f", by {found.max_abs:.1e}" if found.max_abs else ""
    note = f": {found.note}" if found.note else ""
    return [(name, clean(f"{verdict}{size}{note}"))]


def series(measured: Sequence[tuple[str, Measurement]]) -> tuple[Series, ...]:
    """The samples of what was measured."""
    return tuple(
        Series(name=name, values_ns=entry.samples.busy_ns) for name, entry in measured if entry.samples is not None
    )


def joined(lines: Sequence[str]) -> str:
    """Several lines of one fact."""
    return "\n".join(map(clean, lines))

"""The results of one machine: a JSON file that grows part by part, and the table that it says. Imports no torch."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from tabulate import tabulate

from tests.benchmarks.catalogue import BENCHMARKS, Benchmark
from tests.benchmarks.findings import Finding

FORMAT = 1
WIDTHS = [46, 32, 40, 8, 50]


class ResultsError(RuntimeError):
    """A results file that cannot be read, or that belongs to another machine."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one benchmark's script wrote. `error` says why it did not end well; `found` is then what it wrote before.

    `load` is the machine's load average when it began: other work than ours, if it exceeds the number of cores.
    """

    found: Mapping[str, Any]
    seconds: float
    finished: str
    error: str = ""
    load: float | None = None


@dataclass(slots=True)
class Results:
    """All parts of one machine. `notes` by row: why a bar is missed and what would mend it, written by hand."""

    environment: dict[str, Any]
    has: list[str]
    parts: dict[str, Part] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)

    def finished(self, name: str) -> bool:
        """Whether a benchmark ran to its end, whatever it found."""
        return name in self.parts and not self.parts[name].error


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    what: str
    bar: str
    finding: Finding
    note: str = ""


def read(path: Path) -> Results:
    """Results that were written before.

    Raises:
        ResultsError: no such file, or not one of this format.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise ResultsError(f"{path}: format {content['format']}, expected {FORMAT}")
        parts = {name: Part(**part) for name, part in content["parts"].items()}
        return Results(content["environment"], content["has"], parts, content["notes"])
    except FileNotFoundError:
        raise ResultsError(f"{path}: no such file; results of a run are written with --output") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ResultsError(f"{path}: no results of `python -m tests.benchmarks`: {error!r}") from error


def continued(path: Path, environment: dict[str, Any], has: list[str]) -> Results:
    """What a file holds already, to go on with; empty results where there is none.

    Raises:
        ResultsError: the file was made in another environment: its numbers do not belong beside those made here.
    """
    if not path.exists():
        return Results(environment, has)
    before = read(path)
    differing = {
        key: (before.environment.get(key), environment.get(key))
        for key in {*before.environment, *environment}
        if before.environment.get(key) != environment.get(key)
    }
    if differing:
        told = ", ".join(f"{key} {old} there, {new} here" for key, (old, new) in sorted(differing.items()))
        raise ResultsError(f"{path}: made in another environment ({told}); name another --output")
    return replace(before, has=has)


def write(results: Results, path: Path) -> None:
    """Replace the file as a whole: one that is cut short by a time limit is the one before."""
    content = {
        "format": FORMAT,
        "environment": results.environment,
        "has": results.has,
        "rows": [
            {"what": row.what, "bar": row.bar, "found": row.finding.text, "verdict": row.finding.verdict}
            | ({"why": row.finding.why} if row.finding.why else {})
            for row in rows(results)
        ],
        "notes": results.notes,
        "parts": {
            name: {entry.name: getattr(part, entry.name) for entry in fields(part)}
            for name, part in results.parts.items()
        },
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.partial")
    beside.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    beside.replace(path)


def rows(results: Results, benchmarks: Sequence[Benchmark] = BENCHMARKS) -> list[Row]:
    """All rows of the table, in the catalogue's order."""
    return [row for benchmark in benchmarks for row in _rows(results, benchmark)]


def _rows(results: Results, benchmark: Benchmark) -> list[Row]:
    findings = _findings(results.parts.get(benchmark.name), benchmark, results.has)
    return [
        Row(bar.what, bar.limit, finding, results.notes.get(bar.what, ""))
        for bar, finding in zip(benchmark.bars, findings, strict=True)
    ]


def _findings(part: Part | None, benchmark: Benchmark, has: Collection[str]) -> tuple[Finding, ...]:
    if part is None:
        return (Finding("", None, benchmark.lacks(has) or "not run yet"),) * len(benchmark.bars)
    try:
        findings = benchmark.judge(part.found)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        why = part.error or f"its result cannot be judged: {error!r}"
        return (Finding("", None, why),) * len(benchmark.bars)
    if not part.error:
        return findings
    # What it found before it died may miss a bar, but cannot meet one.
    return tuple(one if one.met is False else Finding(one.text, None, part.error) for one in findings)


def text(results: Results) -> str:
    """Environment, table, and the notes on what was missed."""
    lines = ["  ".join(f"{key} {value}" for key, value in results.environment.items()), ""]
    table = [
        [row.what, row.bar, row.finding.text, row.finding.verdict, _one_line(row.finding.why)] for row in rows(results)
    ]
    lines.append(tabulate(table, headers=["what", "bar", "found", "verdict", "why"], maxcolwidths=WIDTHS))
    notes = [f"{row.what}: {row.note}" for row in rows(results) if row.note]
    cores = results.environment.get("cores") or float("inf")
    shared = [f"{name} ({part.load:.1f})" for name, part in results.parts.items() if part.load and part.load > cores]
    if shared:
        notes.append(f"begun while the load average exceeded the {cores} cores, so far from idle: {', '.join(shared)}")
    return "\n".join([*lines, *(["", *notes] if notes else [])])


def _one_line(why: str, limit: int = 300) -> str:
    joined = " ".join(why.split())
    return joined if len(joined) <= limit else f"{joined[: limit - 3]}..."


def unmet(results: Results) -> list[str]:
    """Rows that were missed, and those that should have a finding and have none because a script failed."""
    failed = {bar.what for one in BENCHMARKS if one.name in results.parts for bar in one.bars}
    return [
        row.what
        for row in rows(results)
        if row.finding.met is False or (row.finding.met is None and row.what in failed)
    ]

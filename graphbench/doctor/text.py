"""Findings as text and as JSON. Pure."""

from __future__ import annotations

import dataclasses
import json
import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby

from graphbench.doctor.finding import Finding
from graphbench.plaintext import clean
from graphbench.units import count_text

_GAP = "  "


def as_text(findings: Sequence[Finding], *, version: str, width: int) -> str:
    """A line per finding, what to do below it, and in the end whether anything is in the way.

    Args:
        findings: in the order to print.
        version: graphbench's.
        width: of a line, in characters.
    """
    rows = list(_folded(findings))
    states = max(len("not applicable"), *(len(row.state) for row in rows))
    checks = max(len("check"), *(len(clean(row.check)) for row in rows))
    room = width - states - checks - 2 * len(_GAP)

    def line(state: str, check: str, found: str) -> str:
        return f"{state:<{states}}{_GAP}{check:<{checks}}{_GAP}{found}".rstrip()

    lines = [f"graphbench doctor ({clean(version)})", "", line("state", "check", "found")]
    lines.append(line("-" * states, "-" * checks, "-" * room))
    for row in rows:
        first, *rest = _told(row, room)
        lines.append(line(row.state, clean(row.check), first))
        lines += [line("", "", part) for part in rest]
    return "\n".join([*lines, "", *textwrap.wrap(summary(findings), width)]) + "\n"


def _folded(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Several things in a row that one reason makes pointless become one."""
    for (state, found, fix), group in groupby(findings, lambda entry: (entry.state, entry.found, entry.fix)):
        first, *others = [entry.check for entry in group]
        if state != "not applicable" or not others:
            yield from (Finding(check=check, state=state, found=found, fix=fix) for check in (first, *others))
        else:
            told = f"{found} ({', '.join((first, *others))})"
            yield Finding(check=f"{1 + len(others)} more", state=state, found=told, fix=fix)


def as_json(findings: Sequence[Finding], *, version: str) -> str:
    """An object with `graphbench`, `ok` (whether nothing is in the way) and `findings`."""
    plain = {
        "graphbench": version,
        "ok": not any(entry.state == "problem" for entry in findings),
        "findings": [dataclasses.asdict(entry) for entry in findings],
    }
    return json.dumps(plain, indent=2, ensure_ascii=False) + "\n"


def summary(findings: Sequence[Finding]) -> str:
    """Whether graphbench can measure here."""
    problems = [entry.check for entry in findings if entry.state == "problem"]
    warnings = sum(entry.state == "warning" for entry in findings)
    told = f"{count_text(warnings, 'warning')}" if warnings else "no warning"
    if problems:
        return f"{count_text(len(problems), 'problem')}, {told}: mend {', '.join(map(clean, problems))} first"
    return f"no problem, {told}: graphbench can measure here"


def _told(row: Finding, room: int) -> list[str]:
    """What was found and what to do, on one line where both fit. A path that is too long for a line is broken."""
    fix = f"fix: {row.fix}" if row.fix else ""
    together = f"{row.found}; {fix}" if fix else row.found
    parts = [together] if len(together) <= room else [row.found, fix]
    return [line for part in parts for line in textwrap.wrap(clean(part), max(1, room), break_on_hyphens=False)] or [""]

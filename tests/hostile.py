"""Damaged, edited and malicious profiles, for tests that nothing but a value or a named refusal comes of them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

from graphbench import document
from graphbench.analysis.diff import diff
from graphbench.records import ProfileRecord
from graphbench.report import REPORTERS
from graphbench.report.table import render_diff

Path = tuple[str | int, ...]

FORGED = "FORGED"
TEXTS = (
    "",
    "=cmd|' /C calc'!A0",
    "@SUM(1)",
    "a;=1+1",
    f"a\n{FORGED} b",
    f"a\r{FORGED}",
    f"a\u2028{FORGED}",
    "\x1b[31mred\x1b]0;title\x07",
    "\x9b31m",
    "\u202egnp.exe",
    "\u200b\ufeff\U000e0041",
    "\udcff\ud800",
    "<script>alert(1)</script>",
    "![x](http://example.org/x.png) [y]: z `code` | *b* _c_ ~~d~~ $e$",
    "../../etc/passwd",
    "/etc/passwd",
    "a" * 5000,
    "{0.__class__} %s %n {x}",
    "\x00",
    "r0/forward",
    "0/0",
    "1e999",
)
NUMBERS = (0, 1, -1, 2, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 2**64, 0.5, -0.5, 1e308, -1e308, 5e-324, 1e18)
VALUES: tuple[Any, ...] = (None, True, False, [], {}, [[]], [0], [1, 2], {"a": 1}, {"constant": 1, "n": 1_000_000})


def paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """Every place in a JSON value, the value itself left out."""
    entries: Iterator[tuple[str | int, Any]] = iter(())
    if isinstance(value, dict):
        entries = iter(value.items())
    elif isinstance(value, list):
        entries = iter(enumerate(value))
    for key, entry in entries:
        yield (*path, key)
        yield from paths(entry, (*path, key))


def found(value: Any, path: Path) -> Any:
    """What is at a place."""
    for part in path:
        value = value[part]
    return value


class Mutator:
    """Changes a profile's JSON in places that a generator of random numbers picks.

    Args:
        record: the profile to begin with.
        compact: whether its long columns are packed.
    """

    def __init__(self, record: ProfileRecord, *, compact: bool = False) -> None:
        self._plain = json.loads(document.dumps(record, compact=compact))
        self._plain.pop("sha256", None)
        self._paths = list(paths(self._plain))
        self._alike: dict[type, list[Any]] = {}
        for path in self._paths:
            value = found(self._plain, path)
            self._alike.setdefault(type(value), []).append(value)

    def mutated(self, draw: Random, changes: int) -> Any:
        """A copy with up to so many changes: a field removed, added or given another value, often one of its type."""
        plain = copy.deepcopy(self._plain)
        for _ in range(changes):
            path = draw.choice(self._paths)
            try:
                owner = found(plain, path[:-1])
                old = owner[path[-1]]
            except (KeyError, IndexError, TypeError):
                continue  # an earlier change took the place away
            if isinstance(owner, str):
                continue
            action = draw.randrange(12)
            if action == 0:
                del owner[path[-1]]
            elif action == 1 and isinstance(owner, list):
                owner.insert(0, copy.deepcopy(old))
            elif action == 2 and isinstance(owner, dict):
                owner[draw.choice(TEXTS)] = old
            else:
                owner[path[-1]] = self._value(draw, old)
        return plain

    def _value(self, draw: Random, old: Any) -> Any:
        kind = draw.randrange(10)
        if kind == 0:
            return copy.deepcopy(draw.choice(VALUES))
        if kind == 1:
            return draw.choice(TEXTS)
        if kind == 2:
            return draw.choice(NUMBERS)
        if isinstance(old, str) and kind < 6:
            return draw.choice(TEXTS)
        if isinstance(old, (int, float)) and kind < 6:
            return draw.choice(NUMBERS)
        return copy.deepcopy(draw.choice(self._alike[type(old)]))


def with_texts(record: ProfileRecord, text: str, keep: Callable[[Path, str], bool]) -> str:
    """A profile's JSON with a text behind every string that is no key, word of the schema or reference."""
    plain = json.loads(document.dumps(record, compact=False))
    for path in list(paths(plain)):
        value = found(plain, path)
        if isinstance(value, str) and not keep(path, value):
            found(plain, path[:-1])[path[-1]] = f"{value}{text}"
    return json.dumps(plain)


def renderings(record: ProfileRecord) -> Iterator[tuple[str, Callable[[], str]]]:
    """Everything that is printed of a profile, by name."""
    for options in ({}, {"wide": True}, {"width": 40}, {"group_by": "module"}, {"group_by": "source"}):
        yield f"table {options}", lambda options=options: REPORTERS["table"].render(record, **options)
    for options in ({}, {"wide": True}, {"group_by": "module", "depth": 1}, {"group_by": "source"}):
        yield f"markdown {options}", lambda options=options: REPORTERS["markdown"].render(record, **options)
    for table in ("nodes", "fusions", "gaps", "places", "step", "breaks"):
        yield f"csv {table}", lambda table=table: REPORTERS["csv"].render(record, table=table)
    yield "csv groups", lambda: REPORTERS["csv"].render(record, group_by="module")
    yield "json", lambda: REPORTERS["json"].render(record)


def comparisons(before: ProfileRecord, after: ProfileRecord) -> Iterator[tuple[str, Callable[[], str]]]:
    """Everything that is printed of two profiles, by name."""
    yield "diff", lambda: render_diff(diff(before, after))
    yield "diff narrow", lambda: render_diff(diff(after, before), width=40)


def chosen(values: Sequence[Any], draw: Random) -> Any:
    """One of several values."""
    return values[draw.randrange(len(values))]

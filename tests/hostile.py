"""Damaged, edited and malicious profiles, for tests that nothing but a value or a named refusal comes of them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise
from random import Random
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings

from graphbench import document
from graphbench.analysis.diff import diff
from graphbench.analysis.group_by import DIFF_GROUP_BY, GROUP_BY
from graphbench.analysis.what_if import what_if
from graphbench.errors import GraphbenchError, ProfileFormatError
from graphbench.records import FusionRefusal, ProfileRecord
from graphbench.report import REPORTERS
from graphbench.report.diff_data import DIFF_TABLES, csv_diff, json_diff
from graphbench.report.diff_markdown import markdown_diff
from graphbench.report.diff_table import render_diff
from graphbench.report.trace import TraceReporter
from tests.cost_samples import gated_mlp
from tests.samples import cpu_profile, gpu_profile
from tests.step_samples import eager_step, host_step, training_step

# Always the same examples: a failure is one for everybody. `tests/fuzz` looks for new ones.
FIXED = settings(derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))


def refused_mlp() -> ProfileRecord:
    """A profile with costs, traffic, ceilings and what Inductor did not fuse."""
    record = gated_mlp()
    (place,) = record.regions
    refusals = tuple(
        FusionRefusal(first=first.key, second=second.key, reason="not worth it")
        for first, second in pairwise(place.kernels)
    )
    return replace(record, regions=(replace(place, refusals=refusals),))


RECORDS = (cpu_profile, gpu_profile, training_step, host_step, eager_step, refused_mlp)
T = TypeVar("T")
JsonPath = tuple[str | int, ...]

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
FAULTS = 200
VALUES: tuple[Any, ...] = (None, True, False, [], {}, [[]], [0], [1, 2], {"a": 1}, {"constant": 1, "n": 1_000_000})


def faults(content: bytes, seed: int) -> Iterator[tuple[str, bytes]]:
    """Seeded damages of a file: most of them one flipped bit, some a cut."""
    draw = Random(seed)
    for index in range(FAULTS):
        at = draw.randrange(len(content))
        if index % 4 == 3:
            yield f"cut after {at} bytes", content[:at]
            continue
        bit = draw.randrange(8)
        yield f"bit {bit} of byte {at}", content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]


def paths(value: Any, path: JsonPath = ()) -> Iterator[JsonPath]:
    """Every place in a JSON value, the value itself left out."""
    entries: Iterator[tuple[str | int, Any]] = iter(())
    if isinstance(value, dict):
        entries = iter(value.items())
    elif isinstance(value, list):
        entries = iter(enumerate(value))
    for key, entry in entries:
        yield (*path, key)
        yield from paths(entry, (*path, key))


def found(value: Any, path: JsonPath) -> Any:
    """What is at a place."""
    for part in path:
        value = value[part]
    return value


class Mutator:
    """Changes a profile's JSON in places that a generator of random numbers picks.

    Args:
        plain: the JSON to begin with.
    """

    def __init__(self, plain: Any) -> None:
        self._plain = plain
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
                continue  # it put a text there
            action = draw.randrange(15)
            if action > 11 and isinstance(old, str):
                plain = _renamed(plain, old, draw.choice(TEXTS))
            elif action == 0:
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
        return copy.deepcopy(draw.choice(self._alike.get(type(old), [old])))  # an earlier change put `old` there


@cache
def mutator(make: Callable[[], ProfileRecord], compact: bool) -> Mutator:
    """The mutator of a profile, made once."""
    plain = json.loads(document.dumps(make(), compact=compact))
    plain.pop("sha256", None)
    return Mutator(plain)


def _renamed(value: Any, old: str, new: str) -> Any:
    """A JSON value with a text replaced wherever it stands, so that what refers to it still does."""
    if isinstance(value, dict):
        return {key: _renamed(entry, old, new) for key, entry in value.items()}
    if isinstance(value, list):
        return [_renamed(entry, old, new) for entry in value]
    return new if value == old and isinstance(value, str) else value


def hostile_everywhere(record: ProfileRecord, change: Callable[[str], str]) -> ProfileRecord:
    """A profile in which every text is changed that may be: names with what refers to them, not words of the schema."""
    plain = json.loads(document.dumps(record, compact=False))
    for text in {value: None for path in paths(plain) if isinstance(value := found(plain, path), str)}:
        changed = _renamed(plain, text, change(text))
        try:
            document.loads(json.dumps(changed))
        except ProfileFormatError:
            continue
        plain = changed
    return document.loads(json.dumps(plain))


def outcome(call: Callable[[], T]) -> T | None:
    """What a call returns, or `None` where it refuses by name. Whatever else it raises is a fault."""
    try:
        return call()
    except GraphbenchError as error:
        told = error
    assert told.message, "a refusal that says nothing"
    for text in (told.message, told.hint or ""):
        assert all(line.isprintable() for line in text.split("\n")), f"a message that a terminal obeys: {text!r}"
    return None


def renderings(record: ProfileRecord) -> Iterator[tuple[str, Callable[[], str]]]:
    """Everything that is printed of a profile, by name."""
    views: tuple[dict[str, Any], ...] = (
        {},
        {"wide": True},
        *({"group_by": way} for way in GROUP_BY),
    )
    for view in (*views, {"width": 40}):
        yield f"table {view}", partial(REPORTERS["table"].render, record, **view)
    for view in views:
        yield f"markdown {view}", partial(REPORTERS["markdown"].render, record, **view)
    for table in ("nodes", "fusions", "gaps", "places", "step", "breaks", "opportunities"):
        yield f"csv {table}", partial(REPORTERS["csv"].render, record, table=table)
    for group in GROUP_BY:
        yield f"csv groups {group}", partial(REPORTERS["csv"].render, record, group_by=group)
    yield "json", partial(REPORTERS["json"].render, record)
    yield "trace", partial(TraceReporter().render, record)
    yield "what if", lambda: str(what_if(record, "*"))


def files(record: ProfileRecord) -> Iterator[tuple[str, Callable[[], str]]]:
    """What is written of a profile for programs to open, by name."""
    for name in ("html", "graphml", "dot", "model-explorer-graph", "model-explorer"):
        yield name, partial(REPORTERS[name].render, record)


def comparisons(before: ProfileRecord, after: ProfileRecord) -> Iterator[tuple[str, Callable[[], str]]]:
    """Everything that is printed of two profiles, by name."""
    yield "diff", lambda: render_diff(diff(before, after))
    yield "diff narrow", lambda: render_diff(diff(after, before), width=40, every=True)
    for way in DIFF_GROUP_BY:
        yield f"diff groups {way}", lambda way=way: render_diff(diff(before, after), group_by=way)
    yield "diff markdown", lambda: markdown_diff(diff(before, after))
    yield "diff markdown groups", lambda: markdown_diff(diff(before, after), group_by="op_type")
    yield "diff csv groups", lambda: csv_diff(diff(before, after), group_by="shape")
    yield "diff json", lambda: json_diff(diff(before, after))
    for table in DIFF_TABLES:
        yield f"diff csv {table}", partial(csv_diff, diff(before, after), table=table)

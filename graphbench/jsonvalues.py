"""Plain JSON values: what is accepted where, and where exactly something did not fit."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

MAX_DEPTH = 64
INT64 = 1 << 63


class Mismatch(Exception):  # noqa: N818 - control flow inside reading and writing, never shown to a user as such
    """A value that does not fit its type hint; `field` is the dotted path to it, filled in while unwinding."""

    def __init__(self, found: str, expected: str) -> None:
        super().__init__(f"found {found}, expected {expected}")
        self.found = found
        self.expected = expected
        self._parts: list[str] = []

    def within(self, part: str) -> None:
        """Prefix the path with `part`: `.name` for a field, `[3]` for an entry."""
        self._parts.append(part)

    @property
    def field(self) -> str | None:
        """Dotted path, such as `regions[0].nodes[3].kind`, or `None` for the whole document."""
        return "".join(reversed(self._parts)).removeprefix(".") or None


def describe(value: object) -> str:
    """Say in a few words what a JSON value is, for error messages."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return f'"{value[:40]}…"' if len(value) > 40 else f'"{value}"'
    if isinstance(value, (int, float)):
        text = repr(value) if isinstance(value, float) or abs(value) < INT64 else "an integer beyond 64 bits"
        return f"the number {text}" if text[0] != "a" else text
    if isinstance(value, (list, tuple)):
        return f"a {type(value).__name__} of {len(value)}"
    return f"an object of {len(value)} fields" if isinstance(value, dict) else f"a {type(value).__name__}"


def string(value: Any, _pool: object = None) -> str:
    """Accept a string."""
    if not isinstance(value, str):
        raise Mismatch(describe(value), "a string")
    return value


def boolean(value: Any, _pool: object = None) -> bool:
    """Accept `true` or `false`."""
    if type(value) is not bool:
        raise Mismatch(describe(value), "true or false")
    return value


def integer(value: Any, _pool: object = None) -> int:
    """Accept an integer of at most 64 bits; `true` is none."""
    if type(value) is not int or not -INT64 <= value < INT64:
        raise Mismatch(describe(value), "an integer of at most 64 bits")
    return value


def number(value: Any, _pool: object = None) -> int | float:
    """Accept integers and finite floats; an integral float comes out as the equal integer, which is shorter in text."""
    if type(value) is int:
        return integer(value)
    if type(value) is not float or not math.isfinite(value):
        raise Mismatch(describe(value), "a finite number")
    return int(value) if value.is_integer() and abs(value) < 1 << 53 else value


def json_value(value: Any, depth: int) -> Any:
    """Check a free-form JSON value and return it. Floats stay floats: `1.0` and `1` are different arguments."""
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        return integer(value)
    if isinstance(value, float):
        number(value)
        return value
    if depth >= MAX_DEPTH:
        raise Mismatch("a deeper value", f"at most {MAX_DEPTH} levels of nesting")
    if isinstance(value, list):
        return [at(f"[{index}]", json_value, entry, depth + 1) for index, entry in enumerate(value)]
    if isinstance(value, dict):
        return {string(key): at(f".{key}", json_value, entry, depth + 1) for key, entry in value.items()}
    raise Mismatch(describe(value), "a JSON value")


def at(part: str, convert: Callable[..., Any], *args: Any) -> Any:
    """Convert a value; a mismatch learns that it happened within `part`."""
    try:
        return convert(*args)
    except Mismatch as mismatch:
        mismatch.within(part)
        raise


def entries(convert: Callable[[Any], Any], values: list[Any] | tuple[Any, ...]) -> list[Any]:
    """Convert every entry; a mismatch learns in which entry it happened."""
    try:
        return [convert(value) for value in values]
    except Mismatch:
        for index, value in enumerate(values):  # again, one by one, to say where
            at(f"[{index}]", convert, value)
        raise

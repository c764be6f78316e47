"""Plain JSON values: what is accepted where, long number columns packed, and where exactly something did not fit."""

from __future__ import annotations

import binascii
import math
import struct
from base64 import b64decode, b64encode
from collections.abc import Callable
from functools import lru_cache
from typing import Any

MAX_DEPTH = 64
MAX_COLUMN = 1_000_000
COMPACT_FROM = 16
_INT64 = 1 << 63
_PACKINGS: tuple[tuple[str, str, int], ...] = (("i4", "i", 1 << 31), ("i8", "q", _INT64))


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
        text = repr(value) if isinstance(value, float) or abs(value) < _INT64 else "an integer beyond 64 bits"
        return f"the number {text}" if text[0] != "a" else text
    if isinstance(value, (list, tuple)):
        return f"a {type(value).__name__} of {len(value)}"
    return f"an object of {len(value)} fields" if isinstance(value, dict) else f"a {type(value).__name__}"


def string(value: Any, _compact: bool = False) -> str:
    """Accept a string."""
    if not isinstance(value, str):
        raise Mismatch(describe(value), "a string")
    return value


def boolean(value: Any, _compact: bool = False) -> bool:
    """Accept `true` or `false`."""
    if type(value) is not bool:
        raise Mismatch(describe(value), "true or false")
    return value


def integer(value: Any, _compact: bool = False) -> int:
    """Accept an integer of at most 64 bits; `true` is none."""
    if type(value) is not int or not -_INT64 <= value < _INT64:
        raise Mismatch(describe(value), "an integer of at most 64 bits")
    return value


def number(value: Any, _compact: bool = False) -> int | float:
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


def decode_column(value: Any, *, integral: bool) -> tuple[Any, ...]:
    """Read a column of numbers: a list, `{"constant": v, "n": n}`, or base64 of little-endian `i4`, `i8` or `f8`.

    Raises:
        Mismatch: it is none of these, too long, or holds something else than (whole) finite numbers.
    """
    scalar, allowed = (integer, {int}) if integral else (number, {int, float})
    if type(value) is list:
        if not value or (set(map(type, value)) <= allowed and min(value) >= -_INT64 and max(value) < _INT64):
            return tuple(value)
        return tuple(entries(scalar, value))
    if type(value) is dict:
        return _unpack(value, scalar, integral)
    raise Mismatch(describe(value), "a list of numbers")


def encode_column(value: Any, *, integral: bool, compact: bool) -> Any:
    """Write a column as a list, or if `compact` and from `COMPACT_FROM` entries on in the shortest packed form.

    Raises:
        Mismatch: it is no tuple, or holds something else than (whole) finite numbers.
    """
    scalar, allowed = (integer, {int}) if integral else (number, {int, float})
    if type(value) is not tuple:
        raise Mismatch(describe(value), "a tuple of numbers")
    packed = compact and len(value) >= COMPACT_FROM
    if packed and set(map(type, value)) <= allowed and math.isfinite(sum(value)):
        return _pack(value, scalar)
    numbers = entries(scalar, value)
    return _pack(value, scalar) if packed else numbers


def _pack(numbers: tuple[int | float, ...], scalar: Callable[[Any], Any]) -> Any:
    low, high = min(numbers), max(numbers)
    if low == high:
        return {"constant": scalar(low), "n": len(numbers)}
    if all(isinstance(value, int) or value.is_integer() for value in numbers):
        for name, code, limit in _PACKINGS:
            if -limit <= low and high < limit:
                data = struct.pack(f"<{len(numbers)}{code}", *map(int, numbers))
                return {name: b64encode(data).decode("ascii")}
    if max(-low, high) >= 1 << 53:  # integers this large would be rounded
        return list(map(scalar, numbers))
    return {"f8": b64encode(struct.pack(f"<{len(numbers)}d", *numbers)).decode("ascii")}


def _unpack(packed: dict[str, Any], scalar: Callable[[Any], Any], integral: bool) -> tuple[Any, ...]:
    if "n" in packed and packed.keys() == {"constant", "n"}:
        count = packed["n"]
        if type(count) is not int or not 0 <= count <= MAX_COLUMN:
            raise Mismatch(f"n = {count}", f"a whole number up to {MAX_COLUMN}")
        return _constant(at(".constant", scalar, packed["constant"]), count)
    codes = {name: code for name, code, _ in _PACKINGS} | ({} if integral else {"f8": "d"})
    name = next(iter(packed), "")
    if len(packed) != 1 or name not in codes:
        raise Mismatch(describe(packed), f"a list, constant and n, or one of {', '.join(codes)}")
    encoded = at(f".{name}", string, packed[name])
    try:
        data = b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Mismatch(f"bad base64 ({error})", "base64") from error
    size = struct.calcsize(f"<{codes[name]}")
    if len(data) % size:
        raise Mismatch(f"{len(data)} bytes", f"a multiple of {size} bytes")
    values = struct.unpack(f"<{len(data) // size}{codes[name]}", data)
    if name == "f8" and not math.isfinite(sum(values)):
        return tuple(entries(scalar, values))
    return values


@lru_cache(maxsize=256, typed=True)
def _constant(value: int | float, count: int) -> tuple[int | float, ...]:
    """The same few constant columns (a copy time of 0, one kernel) occur in every row: they share one tuple."""
    return (value,) * count

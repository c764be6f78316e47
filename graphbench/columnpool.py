"""Columns of samples in a saved profile: long ones packed, each distinct one stored once and referred to by its index.

Equal units are measured once and many columns are equal (the span of a row with one kernel, a copy time of 0), so most
of a profile's columns repeat an earlier one. Read back, they are the very same tuple.
"""

from __future__ import annotations

import binascii
import math
import struct
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from graphbench.jsonvalues import INT64, Mismatch, at, describe, entries, integer, number, string

MAX_COLUMN = 1_000_000
MAX_CONSTANT_ENTRIES = 4_000_000  # a few bytes of text claim any number of them
CONSTANT_ENTRIES_PER_BYTE = 8
POOLED_FROM = 16  # entries: a shorter column is no longer than what would refer to it
_WHOLE: tuple[tuple[str, str, int, int], ...] = (
    ("u2", "H", 0, 1 << 16),
    ("i4", "i", -(1 << 31), 1 << 31),
    ("i8", "q", -INT64, INT64),
)
_CODES: Mapping[str, tuple[str, int]] = MappingProxyType(
    {name: (code, struct.calcsize(f"<{code}")) for name, code in (*(entry[:2] for entry in _WHOLE), ("f8", "d"))}
)

Column = tuple[Any, ...]
_decode_base64: Callable[[str], bytes] = (
    partial(binascii.a2b_base64, strict_mode=True) if sys.version_info >= (3, 11) else partial(b64decode, validate=True)
)


class Constants:
    """The constant columns of what is read, each distinct one made once, and a bound on all of them together.

    Args:
        text_bytes: length of what is read; it may claim 8 entries a byte and 4 million more, 64 times its size.
    """

    def __init__(self, text_bytes: int) -> None:
        self._made: dict[tuple[type, float, int], Column] = {}
        self._left = MAX_CONSTANT_ENTRIES + CONSTANT_ENTRIES_PER_BYTE * text_bytes

    def column(self, value: float, count: int) -> Column:
        """So many times a value.

        Raises:
            Mismatch: more entries than the text may claim.
        """
        key = (type(value), value, count)
        made = self._made.get(key)
        if made is None:
            self._left -= count
            if self._left < 0:
                raise Mismatch(f"{count} entries more of constant columns", "columns that fit the length of the text")
            made = self._made[key] = (value,) * count
        return made


class ColumnPool:
    """The distinct columns of one document.

    Args:
        columns: those of a document that is read, in order; a pool to write into starts empty.
    """

    def __init__(self, columns: list[Column] | None = None) -> None:
        self.columns = columns or []
        self.whole: set[int] = set()  # indices of columns found to hold whole numbers only
        self._index_of: dict[Column, int] = {}
        # By identity first, since hashing costs; each is kept, so that no other tuple takes its place in memory.
        self._seen: dict[int, tuple[int, Column]] = {}

    @classmethod
    def read(cls, plain: Any, constants: Constants | None = None) -> ColumnPool:
        """The pool of a document: a list of columns, each packed or a list of numbers.

        Args:
            plain: the list.
            constants: those of all that is read, of which this may be a part.

        Raises:
            Mismatch: it is none, or one of its columns is damaged.
        """
        if type(plain) is not list:
            raise Mismatch(describe(plain), "a list of columns")
        shared = Constants(0) if constants is None else constants
        return cls(entries(lambda packed: unpack(packed, shared), plain))

    def packed(self) -> list[Any]:
        """What `read` reads."""
        left, packed = MAX_CONSTANT_ENTRIES, []
        for column in self.columns:
            packed.append(pack(column, most_constant=min(left, MAX_COLUMN)))
            left -= len(column) if isinstance(packed[-1], dict) and "constant" in packed[-1] else 0
        return packed

    def decode(self, value: Any, *, integral: bool) -> Column:
        """A column from a document's field: a list of numbers, or the index of a column of the pool.

        Raises:
            Mismatch: it is neither, there is no such column, or it holds something else than (whole) finite numbers.
        """
        if type(value) is list:
            return _numbers(value, integral)
        if type(value) is not int:
            raise Mismatch(describe(value), "a list of numbers or the index of a column")
        if not 0 <= value < len(self.columns):
            raise Mismatch(f"column {value}", f"one of the document's {len(self.columns)} columns")
        column = self.columns[value]
        if integral and not self._is_whole(value):
            raise Mismatch(f"column {value}, which has fractions", "a column of whole numbers")
        return column

    def encode(self, column: Any, *, integral: bool) -> Any:
        """A column as a field of a document: short ones as they are, else an index into the pool, which then holds it.

        Raises:
            Mismatch: it is no tuple, or holds something else than (whole) finite numbers.
        """
        if type(column) is not tuple or len(column) < POOLED_FROM or (integral and not _is_whole(column)):
            return plain_column(column, integral=integral)
        known = self._seen.get(id(column))
        if known is None:
            known = self._seen[id(column)] = (self._add(column), column)
        return known[0]

    def _add(self, column: Column) -> int:
        if not _is_fit(column, {int, float}):
            plain_column(column, integral=False)  # says which entry is not
        index = self._index_of.setdefault(column, len(self.columns))
        if index == len(self.columns):
            self.columns.append(column)
        return index

    def _is_whole(self, index: int) -> bool:
        if index not in self.whole and _is_whole(self.columns[index]):
            self.whole.add(index)
        return index in self.whole


def plain_column(column: Any, *, integral: bool) -> list[Any]:
    """A column as a list of numbers.

    Raises:
        Mismatch: it is no tuple, or holds something else than (whole) finite numbers.
    """
    if type(column) is not tuple:
        raise Mismatch(describe(column), "a tuple of numbers")
    return entries(integer if integral else _entry, column)


def pack(column: Column, *, most_constant: int = MAX_COLUMN) -> Any:
    """The shortest form of a column of finite numbers, see `unpack`; `constant` for up to so many entries."""
    low, high = min(column), max(column)
    if low == high and len(column) <= most_constant:
        return {"constant": number(low), "n": len(column)}
    if _is_whole(column) or all(map(_is_integral, column)):
        for name, code, least, limit in _WHOLE:
            if least <= low and high < limit:
                return _base64(name, code, map(int, column))
    if max(-low, high) >= 1 << 53:  # integers this large would be rounded
        return [number(value) for value in column]
    return _base64("f8", "d", column)


def unpack(packed: Any, constants: Constants) -> Column:
    """A column: a list of numbers, `{"constant": v, "n": n}`, or base64 of little-endian `u2`, `i4`, `i8` or `f8`.

    Raises:
        Mismatch: it is none of these, too long, or holds something else than finite numbers.
    """
    if type(packed) is list:
        return _numbers(packed, integral=False)
    if type(packed) is not dict:
        raise Mismatch(describe(packed), "a packed column or a list of numbers")
    if len(packed) == 1:
        ((name, encoded),) = packed.items()
        if name in _CODES:
            return _from_base64(name, encoded)
    if packed.keys() != {"constant", "n"}:
        raise Mismatch(describe(packed), f"a list, constant and n, or one of {', '.join(_CODES)}")
    count = packed["n"]
    if type(count) is not int or not 0 <= count <= MAX_COLUMN:
        raise Mismatch(f"n = {describe(count)}", f"a whole number up to {MAX_COLUMN}")
    return constants.column(at(".constant", _entry, packed["constant"]), count)


def _base64(name: str, code: str, numbers: Any) -> dict[str, str]:
    values = tuple(numbers)
    return {name: b64encode(struct.pack(f"<{len(values)}{code}", *values)).decode("ascii")}


def _from_base64(name: str, encoded: Any) -> Column:
    code, size = _CODES[name]
    if type(encoded) is not str:
        at(f".{name}", string, encoded)
    try:
        data = _decode_base64(encoded)
    except (binascii.Error, ValueError) as error:
        raise Mismatch(f"bad base64 ({error})", "base64") from error
    if len(data) % size:
        raise Mismatch(f"{len(data)} bytes", f"a multiple of {size} bytes")
    values = struct.unpack(f"<{len(data) // size}{code}", data)
    # The norm is a quick bound of all; it is no number if one of them is none.
    if name == "f8" and not math.hypot(*values) < INT64:
        return tuple(entries(_entry, values))
    return values


def _numbers(values: list[Any], integral: bool) -> Column:
    if not values or _is_fit(values, {int} if integral else {int, float}):
        return tuple(values)
    return tuple(entries(integer if integral else _entry, values))


def _entry(value: Any) -> int | float:
    """Accept a number of at most 64 bits: with larger ones sums and squares would leave a float's range."""
    accepted = number(value)
    if not -INT64 <= accepted < INT64:
        raise Mismatch(describe(value), "a number of at most 64 bits")
    return accepted


def _is_fit(values: Column | list[Any], allowed: set[type]) -> bool:
    """Whether all are finite numbers of the allowed types, as quickly as that can be told."""
    return (
        set(map(type, values)) <= allowed
        and min(values) >= -INT64
        and max(values) < INT64
        and math.isfinite(sum(values))  # last: a sum of floats and larger integers may be none at all
    )


def _is_whole(column: Column) -> bool:
    return set(map(type, column)) <= {int}


def _is_integral(value: float) -> bool:
    return type(value) is int or float(value).is_integer()

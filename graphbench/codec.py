"""Strict JSON codec for frozen dataclasses, driven by their type hints: every field present, known and of its type.

Long number columns go into a pool (`columnpool`), so that profiles stay small and load fast.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable
from functools import cache
from typing import Any, Literal, NamedTuple, Union

from graphbench.columnpool import ColumnPool, plain_column
from graphbench.jsonvalues import Mismatch, at, boolean, describe, entries, integer, json_value, number, string


class Codec(NamedTuple):
    """How values of one type are read from and written as plain JSON values. Both raise `Mismatch`.

    Columns are looked up in and added to the pool; written without one, they stand where they belong, as lists.
    """

    decode: Callable[[Any, ColumnPool], Any]
    encode: Callable[[Any, ColumnPool | None], Any]


@cache
def codec(hint: Any) -> Codec:
    """Build the codec of a type hint: dataclass, `tuple`, `Literal`, `X | None`, JSON value or scalar.

    Raises:
        TypeError: the hint is none of these, which is a mistake in the records, not in a document.
    """
    if dataclasses.is_dataclass(hint):
        return _dataclass_codec(typing.cast(type, hint))
    if hint in _SCALARS:
        return _SCALARS[hint]
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return _literal_codec(args)
    if origin is tuple:
        return _tuple_codec(args)
    if origin in (Union, types.UnionType):
        if any(typing.get_origin(arg) is dict for arg in args):
            return Codec(lambda value, _pool: json_value(value, 0), lambda value, _pool: json_value(value, 0))
        others = [arg for arg in args if arg is not type(None)]
        if len(others) == 1:
            return _optional_codec(codec(others[0]))
    raise TypeError(f"no codec for the type hint {hint!r}")


_SCALARS: typing.Mapping[Any, Codec] = types.MappingProxyType(
    {
        str: Codec(string, string),
        bool: Codec(boolean, boolean),
        int: Codec(integer, integer),
        float: Codec(number, number),
    }
)


def _literal_codec(allowed: tuple[Any, ...]) -> Codec:
    known = {value: value for value in allowed}
    wanted = "one of " + ", ".join(str(value) for value in allowed)

    def convert(value: Any, _pool: object) -> Any:
        if not isinstance(value, str) or value not in known:
            raise Mismatch(describe(value), wanted)
        return value

    return Codec(convert, convert)


def _optional_codec(inner: Codec) -> Codec:
    decode, encode = inner  # looked up once, not for each of very many values
    return Codec(
        lambda value, pool: None if value is None else decode(value, pool),
        lambda value, pool: None if value is None else encode(value, pool),
    )


# --- tuples and columns of numbers ------------------------------------------------------------------------------------


def _tuple_codec(args: tuple[Any, ...]) -> Codec:
    if args[-1] is not Ellipsis:
        return _fixed_tuple_codec(tuple(codec(arg) for arg in args))
    if args[0] in (int, float):
        return _column_codec(integral=args[0] is int)
    item = codec(args[0])

    def decode(value: Any, pool: ColumnPool) -> tuple[Any, ...]:
        if type(value) is not list:
            raise Mismatch(describe(value), "a list")
        return tuple(entries(lambda entry: item.decode(entry, pool), value))

    def encode(value: Any, pool: ColumnPool | None) -> list[Any]:
        if type(value) is not tuple:
            raise Mismatch(describe(value), "a tuple")
        return entries(lambda entry: item.encode(entry, pool), value)

    return Codec(decode, encode)


def _column_codec(*, integral: bool) -> Codec:
    def encode(value: Any, pool: ColumnPool | None) -> Any:
        return plain_column(value, integral=integral) if pool is None else pool.encode(value, integral=integral)

    return Codec(lambda value, pool: pool.decode(value, integral=integral), encode)


def _fixed_tuple_codec(items: tuple[Codec, ...]) -> Codec:
    def check(value: Any, kind: type) -> None:
        if not isinstance(value, (list, tuple)) or type(value) is not kind or len(value) != len(items):
            raise Mismatch(describe(value), f"a list of {len(items)}")

    def decode(value: Any, pool: ColumnPool) -> tuple[Any, ...]:
        check(value, list)
        pairs = enumerate(zip(items, value, strict=True))
        return tuple(at(f"[{i}]", item.decode, entry, pool) for i, (item, entry) in pairs)

    def encode(value: Any, pool: ColumnPool | None) -> list[Any]:
        check(value, tuple)
        pairs = enumerate(zip(items, value, strict=True))
        return [at(f"[{i}]", item.encode, entry, pool) for i, (item, entry) in pairs]

    return Codec(decode, encode)


# --- dataclasses ------------------------------------------------------------------------------------------------------


def _dataclass_codec(cls: type) -> Codec:
    """Codec of a dataclass: an object with exactly its fields."""
    hints = typing.get_type_hints(cls)
    names = tuple(field.name for field in dataclasses.fields(cls))
    codecs = tuple((name, codec(hints[name])) for name in names)
    known = set(names)

    def decode(value: Any, pool: ColumnPool) -> Any:
        if type(value) is not dict:
            raise Mismatch(describe(value), f"an object ({cls.__name__})")
        if value.keys() != known:
            raise _wrong_fields(value, names)
        return cls(**{name: at(f".{name}", item.decode, value[name], pool) for name, item in codecs})

    def encode(value: Any, pool: ColumnPool | None) -> dict[str, Any]:
        if type(value) is not cls:
            raise Mismatch(describe(value), f"a {cls.__name__}")
        return {name: at(f".{name}", item.encode, getattr(value, name), pool) for name, item in codecs}

    return Codec(decode, encode)


def _wrong_fields(value: dict[str, Any], names: tuple[str, ...]) -> Mismatch:
    missing = [name for name in names if name not in value]
    unknown = [name for name in value if name not in names]
    if unknown:
        mismatch = Mismatch("an unknown field", "one of " + ", ".join(missing or names))
        mismatch.within(f".{unknown[0]}")
        return mismatch
    mismatch = Mismatch("no such field", "it to be present")
    mismatch.within(f".{missing[0]}")
    return mismatch

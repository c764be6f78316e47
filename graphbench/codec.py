"""Strict JSON codec for frozen dataclasses, driven by their type hints: every field present, known and of its type.

Long number columns are stored packed or as a constant, so that profiles stay small and load fast; short ones as lists.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable
from functools import cache
from typing import Any, Literal, NamedTuple, Union

from graphbench.jsonvalues import (
    Mismatch,
    at,
    boolean,
    decode_column,
    describe,
    encode_column,
    entries,
    integer,
    json_value,
    number,
    string,
)


class Codec(NamedTuple):
    """How values of one type are read from and written as plain JSON values. Both raise `Mismatch`."""

    decode: Callable[[Any], Any]
    encode: Callable[[Any, bool], Any]


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
            return Codec(lambda value: json_value(value, 0), lambda value, _compact: json_value(value, 0))
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

    def convert(value: Any, _compact: bool = False) -> Any:
        if not isinstance(value, str) or value not in known:
            raise Mismatch(describe(value), wanted)
        return value

    return Codec(convert, convert)


def _optional_codec(inner: Codec) -> Codec:
    decode, encode = inner  # looked up once, not for each of very many values
    return Codec(
        lambda value: None if value is None else decode(value),
        lambda value, compact: None if value is None else encode(value, compact),
    )


# --- tuples and columns of numbers ------------------------------------------------------------------------------------


def _tuple_codec(args: tuple[Any, ...]) -> Codec:
    if args[-1] is not Ellipsis:
        return _fixed_tuple_codec(tuple(codec(arg) for arg in args))
    if args[0] in (int, float):
        integral = args[0] is int
        return Codec(
            lambda value: decode_column(value, integral=integral),
            lambda value, compact: encode_column(value, integral=integral, compact=compact),
        )
    item = codec(args[0])

    def decode(value: Any) -> tuple[Any, ...]:
        if type(value) is not list:
            raise Mismatch(describe(value), "a list")
        return tuple(entries(item.decode, value))

    def encode(value: Any, compact: bool) -> list[Any]:
        if type(value) is not tuple:
            raise Mismatch(describe(value), "a tuple")
        return entries(lambda entry: item.encode(entry, compact), value)

    return Codec(decode, encode)


def _fixed_tuple_codec(items: tuple[Codec, ...]) -> Codec:
    def check(value: Any, kind: type) -> None:
        if not isinstance(value, (list, tuple)) or type(value) is not kind or len(value) != len(items):
            raise Mismatch(describe(value), f"a list of {len(items)}")

    def decode(value: Any) -> tuple[Any, ...]:
        check(value, list)
        return tuple(at(f"[{i}]", item.decode, entry) for i, (item, entry) in enumerate(zip(items, value, strict=True)))

    def encode(value: Any, compact: bool) -> list[Any]:
        check(value, tuple)
        pairs = enumerate(zip(items, value, strict=True))
        return [at(f"[{i}]", item.encode, entry, compact) for i, (item, entry) in pairs]

    return Codec(decode, encode)


# --- dataclasses ------------------------------------------------------------------------------------------------------


def _dataclass_codec(cls: type) -> Codec:
    """Codec of a dataclass: an object with exactly its fields.

    A number column equal to an earlier one of the same record is stored as `{"same_as": field}` (the span of a row
    with one kernel, for instance).
    """
    hints = typing.get_type_hints(cls)
    names = tuple(field.name for field in dataclasses.fields(cls))
    codecs = tuple((name, codec(hints[name])) for name in names)
    known = set(names)
    decoders = tuple((name, item.decode) for name, item in codecs)
    columns = frozenset(name for name in names if _is_column(hints[name]))

    def decode(value: Any) -> Any:
        if type(value) is not dict:
            raise Mismatch(describe(value), f"an object ({cls.__name__})")
        if value.keys() != known:
            raise _wrong_fields(value, names)
        if not columns:
            try:
                return cls(**{name: item(value[name]) for name, item in decoders})
            except Mismatch:
                pass  # decoded again below, field by field, to say where
        fields: dict[str, Any] = {}
        for name, item in decoders:
            raw = value[name]
            try:
                if name in columns and type(raw) is dict and "same_as" in raw:
                    fields[name] = _same_as(raw, fields, columns)
                else:
                    fields[name] = item(raw)
            except Mismatch as mismatch:
                mismatch.within(f".{name}")
                raise
        return cls(**fields)

    def encode(value: Any, compact: bool) -> dict[str, Any]:
        if type(value) is not cls:
            raise Mismatch(describe(value), f"a {cls.__name__}")
        plain: dict[str, Any] = {}
        for name, item in codecs:
            column = getattr(value, name)
            plain[name] = at(f".{name}", item.encode, column, compact)
            if compact and type(plain[name]) is dict and name in columns and "n" not in plain[name]:
                twin = next((other for other in plain if other in columns and getattr(value, other) == column), name)
                plain[name] = plain[name] if twin == name else {"same_as": twin}
        return plain

    return Codec(decode, encode)


def _is_column(hint: Any) -> bool:
    return bool(hint == tuple[float, ...] or hint == tuple[float, ...] | None)


def _same_as(raw: dict[str, Any], fields: dict[str, Any], columns: frozenset[str]) -> tuple[float, ...]:
    twin = raw["same_as"]
    column = fields.get(twin) if isinstance(twin, str) and twin in columns and len(raw) == 1 else None
    if column is None:
        raise Mismatch(f"same_as {describe(twin)}", "the name of an earlier column")
    return typing.cast("tuple[float, ...]", column)


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

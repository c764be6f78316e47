"""Decoders made for speed: one generated function a dataclass, which does the ordinary case without a call per field.

What is not ordinary is left to `codec`, which decides and says where. A whole profile has a million fields: checking
each through a function of its own takes longer than all the rest of loading it.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Callable
from functools import cache
from typing import Any, Literal, Union

from graphbench.codec import codec
from graphbench.columnpool import ColumnPool
from graphbench.jsonvalues import INT64, MAX_DEPTH

Decoder = Callable[[Any, ColumnPool], Any]


@cache
def quick_decoder(cls: type) -> Decoder:
    """A decoder of a dataclass that accepts exactly what `codec(cls).decode` accepts, without saying where it fails.

    Raises (the decoder):
        Mismatch, KeyError: the value does not fit. Only `codec(cls).decode` then knows the field.

    Raises:
        TypeError: a class without slots or with `__post_init__`, which is a mistake in the records.
    """
    if "__slots__" not in vars(cls) or hasattr(cls, "__post_init__"):
        raise TypeError(f"{cls.__name__}: expected a dataclass with slots and without __post_init__")
    hints = typing.get_type_hints(cls)
    names = [field.name for field in dataclasses.fields(cls)]
    scope: dict[str, Any] = {
        "cls": cls,
        "new": object.__new__,
        "strict": _strict(cls),
        "is_json": _is_json,
        "is_integers": _is_integers,
        "strings": {str},
        "low": -INT64,
        "high": INT64,
    }
    lines = [
        "def quick(value, pool):",
        f"    if type(value) is not dict or len(value) != {len(names)}:",
        "        return strict(value, pool)",
        "    columns, whole, made = pool.columns, pool.whole, new(cls)",
    ]
    for name in names:
        # Straight into the slot: `__init__` of a frozen class takes as long as all the checking.
        put = _named(vars(cls)[name].__set__, scope)
        lines.append(f"    {put}(made, {_expression(hints[name], f'value[{name!r}]', scope)})")
    source = "\n".join([*lines, "    return made"])
    exec(compile(source, f"<decoder of {cls.__name__}>", "exec"), scope)
    return typing.cast(Decoder, scope["quick"])


def _expression(hint: Any, value: str, scope: dict[str, Any]) -> str:
    """Python for the decoded `value`: the value itself if it plainly fits, else what `codec` makes of it."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType) and len(args) == 2 and args[1] is type(None):
        return f"(None if (v := {value}) is None else {_expression(args[0], 'v', scope)})"
    if dataclasses.is_dataclass(hint):
        return f"{_named(quick_decoder(typing.cast(type, hint)), scope)}({value}, pool)"
    if origin is tuple and args[-1] is Ellipsis and dataclasses.is_dataclass(args[0]):
        item, strict = _named(quick_decoder(typing.cast(type, args[0])), scope), _named(_strict(hint), scope)
        return f"(tuple([{item}(entry, pool) for entry in v]) if type(v := {value}) is list else {strict}(v, pool))"
    fits = _fits(hint, value, scope)
    if fits is None:
        return f"{_named(codec(hint).decode, scope)}({value}, pool)"
    plain, test = fits
    return f"({plain} if {test} else {_named(_strict(hint), scope)}(v, pool))"


def _strict(hint: Any) -> Decoder:
    """What `codec` makes of a value, for which a codec is built only if something is not ordinary."""
    built: list[Decoder] = []

    def decode(value: Any, pool: ColumnPool) -> Any:
        if not built:
            built.append(codec(hint).decode)
        return built[0](value, pool)

    return decode


def _fits(hint: Any, value: str, scope: dict[str, Any]) -> tuple[str, str] | None:
    """What to take, and the test that assigns `v` and says whether it plainly fits; `None` where `codec` must look."""
    if hint is str:
        return "v", f"type(v := {value}) is str"
    if hint is bool:
        return "v", f"type(v := {value}) is bool"
    if hint in (int, float):
        return "v", f"type(v := {value}) is int and low <= v < high"
    if typing.get_origin(hint) is Literal:
        known = _named(frozenset(typing.get_args(hint)), scope)
        return "v", f"type(v := {value}) is str and v in {known}"
    if hint == tuple[str, ...]:
        return "tuple(v)", f"type(v := {value}) is list and set(map(type, v)) <= strings"
    if hint == tuple[float, ...]:
        return "columns[v]", f"type(v := {value}) is int and 0 <= v < len(columns)"
    if hint == tuple[int, ...]:  # a column only if its index is known to be one of whole numbers
        test = f"(type(v := {value}) is int and v in whole) or is_integers(v)"
        return "(columns[v] if type(v) is int else tuple(v))", test
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple and set(args) == {int}:
        return "tuple(v)", f"is_integers(v := {value}) and len(v) == {len(args)}"
    if origin in (Union, types.UnionType) and any(typing.get_origin(arg) is dict for arg in args):
        return "v", f"is_json(v := {value}, 0)"  # `JsonValue`, whose own references are resolved in a hint
    return None


def _is_json(value: Any, depth: int) -> bool:
    """Whether a parsed value is plainly a JSON value; what `json.loads` made has no keys but strings."""
    kind = type(value)
    if value is None or kind is str or kind is bool:
        return True
    if kind is int:
        return bool(-INT64 <= value < INT64)
    if kind is float:
        return math.isfinite(value)
    if depth >= MAX_DEPTH or kind not in (list, dict):
        return False
    return all(_is_json(entry, depth + 1) for entry in (value if kind is list else value.values()))


def _is_integers(value: Any) -> bool:
    """Whether a parsed value is plainly a list of integers, such as a shape."""
    return (
        type(value) is list
        and set(map(type, value)) <= {int}
        and (not value or (min(value) >= -INT64 and max(value) < INT64))
    )


def _named(entry: object, scope: dict[str, Any]) -> str:
    """Put something into the function's scope and return its name there."""
    name = f"x{len(scope)}"
    scope[name] = entry
    return name

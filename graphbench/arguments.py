"""Arguments of public functions: whether they are of the types that the annotations say. Pure."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Protocol, Union, get_args, get_origin, get_type_hints, runtime_checkable

from graphbench.errors import UsageError

_WORDS = {bool: "True or False", int: "a whole number", float: "a number", str: "a text", type(None): "None"}


@runtime_checkable
class Stateful(Protocol):
    """A module, an optimizer, or anything else whose state can be taken and put back."""

    def state_dict(self) -> Any:
        """Its state."""

    def load_state_dict(self, state_dict: Any, /) -> Any:
        """Put a state back."""


def check_fields(options: Any) -> None:
    """Refuse a dataclass with a field whose value is not of its annotated type.

    Raises:
        UsageError: naming the first such field.
    """
    for name, expected in get_type_hints(type(options)).items():
        check_type(name, getattr(options, name), expected)


def check_type(name: str, value: object, expected: Any) -> None:
    """Refuse a value of another type. `True` is no number, a whole number is a number too.

    Args:
        name: of the argument.
        value: what was given.
        expected: `bool`, `int`, `float`, `str`, a `Literal`, a tuple of these, or a union of them and `None`.

    Raises:
        UsageError: with what was found and expected.
    """
    if not _fits(value, expected):
        raise UsageError(f"{name}={reprlib.repr(value)}: expected {_words(expected)}", subject=name)


def checked_path(name: str, value: object) -> Path:
    """A path from a string or a path-like object.

    Raises:
        UsageError: it is neither.
    """
    if not isinstance(value, str | PathLike):
        raise UsageError(f"{name}={reprlib.repr(value)}: expected a path, as str or pathlib.Path", subject=name)
    return Path(value)


def owners_of_state(name: str, value: Stateful | Iterable[Stateful]) -> tuple[Stateful, ...]:
    """Modules and optimizers from one of them or several.

    Raises:
        UsageError: something has no state that can be put back.
    """
    # A module is one owner even where it can be iterated over, as nn.Sequential can.
    given = (value,) if isinstance(value, Stateful) or not isinstance(value, Iterable) else tuple(value)
    for entry in given:
        if not isinstance(entry, Stateful):
            raise UsageError(
                f"{name}: found {reprlib.repr(entry)}, expected modules and optimizers",
                hint="what is put back has state_dict() and load_state_dict()",
                subject=name,
            )
    return given


def _fits(value: object, expected: Any) -> bool:
    if get_origin(expected) in (Union, UnionType):
        return any(_fits(value, one) for one in get_args(expected))
    if get_origin(expected) is Literal:
        return isinstance(value, str) and value in get_args(expected)
    if get_origin(expected) is tuple:
        return isinstance(value, tuple | list) and all(_fits(entry, get_args(expected)[0]) for entry in value)
    if isinstance(value, bool):
        return expected is bool
    return isinstance(value, int | float if expected is float else expected)


def _words(expected: Any) -> str:
    if get_origin(expected) in (Union, UnionType):
        return " or ".join(map(_words, get_args(expected)))
    if get_origin(expected) is Literal:
        return f"one of {', '.join(get_args(expected))}"
    if get_origin(expected) is tuple:
        return "a text, or several of them as a list"
    return _WORDS[expected]

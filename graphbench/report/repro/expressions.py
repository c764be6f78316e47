"""Calls out of a profile as Python text. A profile may be hostile: only what is known to be harmless becomes code."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Callable
from typing import Any, Final, cast

from graphbench.errors import UsageError
from graphbench.measurements import JsonValue
from graphbench.plaintext import quoted
from graphbench.torch_names import DTYPES, FORMATS, LAYOUTS, function_problem, is_method

_ENUMS: Final = {"dtype": DTYPES, "layout": LAYOUTS, "memory_format": FORMATS}
_DEVICE: Final = re.compile(r"(cpu|cuda|xpu|mps|hpu|meta)(:\d{1,4})?")
_STRING: Final = re.compile(r"[A-Za-z0-9_ ,.:>-]{0,200}")  # equations, modes and devices; no path goes in
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,80}")
_ATTRIBUTES: Final = frozenset(["T", "mT", "H", "mH", "real", "imag", "shape", "dtype", "device", "ndim"])
_TAKEN: Final = {*keyword.kwlist, *keyword.softkwlist, *dir(builtins), "torch", "operator"}
Resolve = Callable[[str], str]
"""Turns the name of a node into the expression for its value."""


class NotRebuilt(UsageError):  # noqa: N818 - what users see is a usage error; only rows that cannot be rebuilt raise it
    """Something of a row that cannot be written as a stand-alone script."""


def variable(name: str, taken: set[str]) -> str:
    """A free name for a variable, as near as can be to the one in the profile; it is taken then."""
    base = name if _NAME.fullmatch(name) and name not in _TAKEN and not name.startswith("__") else "value"
    found, number = base, 1
    while found in taken:
        number += 1
        found = f"{base}_{number}"
    taken.add(found)
    return found


def expression(value: JsonValue, resolve: Resolve) -> str:
    """An argument, as `calls.prototype` wrote it, as a Python expression.

    Raises:
        NotRebuilt: it is of a kind that no script can build.
    """
    if value is None or isinstance(value, (bool, int, float)):
        return repr(value)
    if isinstance(value, str):
        return _text(value)
    if not isinstance(value, dict) or (len(value) != 1 and "opaque" not in value):
        raise NotRebuilt("an argument is no value that graphbench records: the profile is damaged")
    kind, held = next(iter(value.items()))
    if kind == "node" and isinstance(held, str):
        return resolve(held)
    if kind in ("list", "tuple", "slice") and isinstance(held, list):
        return _sequence(kind, [expression(entry, resolve) for entry in held])
    if kind == "dict":
        return f"{{{', '.join(f'{expression(k, resolve)}: {expression(v, resolve)}' for k, v in _pairs(held))}}}"
    if kind == "ellipsis":
        return "..."
    if kind == "float" and held in ("nan", "inf", "-inf"):
        return f"float({held!r})"
    if kind == "complex" and isinstance(held, list) and all(isinstance(part, (int, float)) for part in held):
        return f"complex({', '.join(map(repr, held[:2]))})"
    if isinstance(held, str) and held in _ENUMS.get(kind, ()):
        return f"torch.{held}"
    if kind == "device" and isinstance(held, str):
        return f"torch.device({device(held)!r})"
    raise NotRebuilt(f"an argument is {_described(kind, held)}, which a profile does not hold and no script can build")


def call(op: str, callee: str, arguments: JsonValue, resolve: Resolve) -> str:
    """A recorded call as a Python expression.

    Args:
        op: `call_function` or `call_method`.
        callee: what is called, as `calls.callee` names it.
        arguments: `{"args": ..., "kwargs": ...}`, prototypes both.
        resolve: what the nodes among the arguments are called in the script.

    Raises:
        NotRebuilt: what is called is none of torch's own ops, or an argument cannot be built.
    """
    args, kwargs = parts(arguments)
    words = [expression(entry, resolve) for entry in args]
    words += [f"{_keyword(key)}={expression(entry, resolve)}" for key, entry in kwargs]
    if op == "call_method":
        if not is_method(callee) or not args:
            raise NotRebuilt(f"{_quoted(callee)} is called, which is no method of a tensor")
        return f"{words[0]}.{callee}({', '.join(words[1:])})"
    if op != "call_function":
        raise NotRebuilt(f"it is a {_quoted(op)} of {_quoted(callee)}, whose code a profile does not hold")
    if callee in ("getattr", "builtins.getattr") and len(args) == 2 and not kwargs and args[1] in _ATTRIBUTES:
        return f"{words[0]}.{args[1]}"
    return f"{_function(callee)}({', '.join(words)})"


def parts(arguments: JsonValue) -> tuple[list[JsonValue], list[tuple[str, JsonValue]]]:
    """Positional and keyword arguments of a recorded call.

    Raises:
        NotRebuilt: none were recorded.
    """
    found = arguments if isinstance(arguments, dict) else {}
    args, kwargs = found.get("args"), found.get("kwargs")
    if not isinstance(args, dict) or not isinstance(args.get("tuple"), list) or not isinstance(kwargs, dict):
        raise NotRebuilt("the profile holds no arguments of it")
    return cast("list[JsonValue]", args["tuple"]), [(str(key), entry) for key, entry in _pairs(kwargs.get("dict"))]


def names_in(value: JsonValue) -> list[str]:
    """Names of the nodes in an argument, in order."""
    if isinstance(value, list):
        return [name for entry in value for name in names_in(entry)]
    if not isinstance(value, dict):
        return []
    node = value.get("node")
    return [node] if isinstance(node, str) else [name for entry in value.values() for name in names_in(entry)]


def device(name: str) -> str:
    """A device's name, proven to be one.

    Raises:
        NotRebuilt: it is none.
    """
    if not _DEVICE.fullmatch(name):
        raise NotRebuilt(f"found the device {_quoted(name)}, expected one as cpu or cuda:0")
    return name


def _function(callee: str) -> str:
    problem = function_problem(callee)
    if problem:
        raise NotRebuilt(problem)
    return callee.replace("_operator.", "operator.", 1) if callee.startswith("_operator.") else callee


def _sequence(kind: str, items: list[str]) -> str:
    if kind == "slice":
        return f"slice({', '.join(items)})"
    if kind == "list":
        return f"[{', '.join(items)}]"
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"


def _pairs(held: JsonValue) -> list[tuple[Any, JsonValue]]:
    found = held if isinstance(held, list) else [None]
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in found):
        raise NotRebuilt("a dictionary among its arguments is damaged")
    return [(pair[0], pair[1]) for pair in cast("list[list[JsonValue]]", found)]


def _keyword(key: str) -> str:
    if not _NAME.fullmatch(key) or keyword.iskeyword(key):
        raise NotRebuilt(f"found the keyword {_quoted(key)}, expected a name")
    return key


def _text(value: str) -> str:
    if not _STRING.fullmatch(value):
        raise NotRebuilt(f"an argument is the text {_quoted(value)}, which no op of torch takes")
    return repr(value)


def _described(kind: str, held: JsonValue) -> str:
    return f"a {_quoted(held)}" if kind == "opaque" and isinstance(held, str) else f"of the kind {_quoted(kind)}"


def _quoted(text: str) -> str:
    return quoted(text, 100)

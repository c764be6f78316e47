"""Sizes of an op list: whole numbers, names that a sweep gives values to, and sums and products of them. No torch."""

from __future__ import annotations

import ast
import itertools
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from graphbench.models.yaml_cursor import Cursor

Sizes = Mapping[str, int]
LARGEST: Final = 2**63 - 1
MOST_VALUES: Final = 1000
_LONGEST: Final = 100
_OPERATIONS: Final[Mapping[type, Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


class _NoSizeError(ValueError):
    """Why a text is no size."""


def read_size(cursor: Cursor, sizes: Sizes, *, least: int = 0, most: int = LARGEST) -> int:
    """A size: a number, or an expression as `4*n` over the names of the sweep.

    Raises:
        UsageError: it is none, or out of range.
    """
    value = cursor.entry.value
    expected = "a size: a whole number, or names of the sweep with + - * // and brackets"
    if isinstance(value, str) and value:
        try:
            found = _evaluate(value, sizes)
        except _NoSizeError as error:
            names = f"names of the sweep: {', '.join(sizes)}" if sizes else "only the sweep of an op names sizes"
            raise cursor.error(expected, found=f"{value[:_LONGEST]!r} ({error})", hint=names) from error
    elif isinstance(value, int) and not isinstance(value, bool):
        found = value
    else:
        raise cursor.error(expected)
    if not least <= found <= most:
        shown = f"{value} = {found}" if isinstance(value, str) else str(found)
        raise cursor.error(f"a size from {least} to {most}", found=shown)
    return found


def _evaluate(text: str, sizes: Sizes) -> int:
    if len(text) > _LONGEST:
        raise _NoSizeError(f"it is longer than {_LONGEST} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise _NoSizeError("it is no expression") from error
    return _value(tree.body, sizes)


def _value(node: ast.expr, sizes: Sizes) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return _bounded(node.value)
    if isinstance(node, ast.Name):
        if node.id not in sizes:
            raise _NoSizeError(f"nothing gives {node.id} a value")
        return sizes[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, sizes)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        left, right = _value(node.left, sizes), _value(node.right, sizes)
        if isinstance(node.op, ast.FloorDiv) and right == 0:
            raise _NoSizeError("it divides by 0")
        return _bounded(_OPERATIONS[type(node.op)](left, right))
    raise _NoSizeError("only + - * // can be used")


def _bounded(value: int) -> int:
    if abs(value) > LARGEST:
        raise _NoSizeError(f"it is beyond {LARGEST}")
    return value


def read_sweep(op: Cursor, every: Cursor | None, together: Cursor | None, most: int) -> list[dict[str, int]]:
    """The sizes of each instance of an op.

    Args:
        op: the op.
        every: `sweep`, of which every combination is taken; the last name changes fastest.
        together: `zip`, whose names change together.
        most: so many instances at most.

    Returns:
        Names with their values, by instance; one without names where there is no sweep.

    Raises:
        UsageError: a name or value that is none, `zip` lists of different lengths, or too many instances.
    """
    swept = _values(every) if every is not None else {}
    zipped = _values(together) if together is not None else {}
    if together is not None:
        for name in zipped:
            if name in swept:
                raise together.error("each name in `sweep` or in `zip`", found=f"{name} in both")
        if len({len(values) for values in zipped.values()}) > 1:
            lengths = ", ".join(f"{name}: {len(values)}" for name, values in zipped.items())
            raise together.error("lists of one length, which are taken together", found=f"other lengths ({lengths})")
    rows = len(next(iter(zipped.values()))) if zipped else 1
    count = rows * math.prod(map(len, swept.values()))
    if count > most:
        raise op.error(f"at most {most} ops in the whole list", found=f"{count} more")
    return list(_instances(swept, zipped, rows))


def _instances(swept: Mapping[str, list[int]], zipped: Mapping[str, list[int]], rows: int) -> Iterator[dict[str, int]]:
    for row in range(rows):
        for values in itertools.product(*swept.values()):
            together = {name: values_[row] for name, values_ in zipped.items()}
            yield {**together, **dict(zip(swept, values, strict=True))}


def _values(cursor: Cursor) -> dict[str, list[int]]:
    found = {}
    for name, entry in cursor.mapping("sizes by name, as {n: [64, 128]}").items():
        if not name.isidentifier() or not name.isascii():
            raise entry.error("a name of letters and digits, as n", found=repr(name[:_LONGEST]))
        given = entry.items("values") if isinstance(entry.entry.value, list) else [entry]
        if not given or len(given) > MOST_VALUES:
            raise entry.error(f"1 to {MOST_VALUES} values")
        found[name] = [read_size(value, {}) for value in given]
    if not found:
        raise cursor.error("sizes by name, as {n: [64, 128]}")
    return found

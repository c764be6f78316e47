"""Sizes that a compiler left open: what their symbols are called, and their values in a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import torch
from torch import fx

NO_SIZES: Final[Mapping[str, int]] = MappingProxyType({})


def size_hint(size: int | torch.SymInt) -> int:
    """A size, or the example value of a symbolic one; -1 when it has none (data-dependent, or a ragged dimension).

    Source: `torch.SymInt.node`, `torch.nested._internal.nested_int.NestedIntNode`, torch 2.13.
    """
    if isinstance(size, int):
        return size
    if size.node.is_nested_int() or not size.node.has_hint():
        return -1
    return int(size.node.hint)


def size_in(size: int | torch.SymInt, sizes: Mapping[str, int]) -> int:
    """A size where symbols have these values; where they leave it open its example, as `size_hint`.

    Source: `torch.SymNode.expr`, torch 2.11 to 2.14.
    """
    if isinstance(size, int) or not sizes or size.node.is_nested_int():
        return size_hint(size)
    found = value_in(size.node.expr, sizes)
    return size_hint(size) if found is None else found


def value_in(expression: Any, sizes: Mapping[str, int]) -> int | None:
    """A sympy expression of sizes where its symbols have these values; `None` when they leave it open."""
    from sympy import Integer  # type: ignore[import-untyped]

    known = {symbol: Integer(sizes[str(symbol)]) for symbol in expression.free_symbols if str(symbol) in sizes}
    value = expression.xreplace(known)
    return int(value) if value.is_number else None


def symbolic_sizes(value: object) -> list[tuple[str, ...]]:
    """Sizes of the fake tensors in a node's meta data, as the compiler writes them; a size has one of its own."""
    if isinstance(value, torch.Tensor):
        return [tuple(map(str, value.shape))]
    if isinstance(value, torch.SymInt):
        return [(str(value),)]
    if isinstance(value, (list, tuple)):
        return [sizes for item in value for sizes in symbolic_sizes(item)]
    return []


def is_symbolic(value: object) -> bool:
    """Whether the meta data of a node has a size that is no number."""
    if isinstance(value, torch.Tensor):
        return any(isinstance(size, torch.SymInt) for size in value.shape)
    if isinstance(value, (list, tuple)):
        return any(map(is_symbolic, value))
    return isinstance(value, torch.SymInt)


class SizeInput(NamedTuple):
    """A symbol that a call of a graph gives a value: by an input that is a size, or as a dimension of a tensor."""

    symbol: str
    position: int
    dimension: int | None = None

    def value(self, args: Sequence[Any]) -> int:
        """Its value in a call with these inputs."""
        given = args[self.position]
        return int(given if self.dimension is None else given.shape[self.dimension])


def size_inputs(graph: fx.Graph) -> tuple[SizeInput, ...]:
    """The symbols whose values the inputs of a graph tell, in the order of the inputs.

    Source: the placeholders' `meta["example_value"]`, after AOTAutograd `meta["val"]`, of which a bare symbol is
        `SymInt.node.expr.is_symbol`, torch 2.11 to 2.14.
    """
    found: dict[str, SizeInput] = {}
    placeholders = [node.meta.get("example_value", node.meta.get("val")) for node in graph.find_nodes(op="placeholder")]
    for position, example in enumerate(placeholders):
        if _is_symbol(example):
            found[str(example)] = SizeInput(str(example), position)
    for position, example in enumerate(placeholders):
        for dimension, size in enumerate(example.shape) if isinstance(example, torch.Tensor) else ():
            if _is_symbol(size):
                found.setdefault(str(size), SizeInput(str(size), position, dimension))
    return tuple(found.values())


def _is_symbol(size: object) -> bool:
    return isinstance(size, torch.SymInt) and not size.node.is_nested_int() and bool(size.node.expr.is_symbol)

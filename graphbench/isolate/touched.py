"""Which bytes of its tensors one op must touch: all of what it reads and overwrites, but for the ops listed here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, Final, NamedTuple

import torch

from graphbench.tensors import byte_range, has_storage, tensors_of

ALLOCATES: Final = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted")
"""Ops that write nothing, nor read."""
MAKES: Final = (
    *("zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "randint_like"),
    *("new_zeros", "new_ones", "new_full"),
)
"""Ops that take shape and dtype of a tensor, and read none of it."""
OVERWRITES: Final = (
    *("copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_", "geometric_"),
    *("log_normal_", "cauchy_", "_foreach_zero_", "_foreach_copy_"),
)
"""In-place ops that do not need what they overwrite."""
ROWS: Final = {"embedding": ("weight", "indices", None), "index_select": ("self", "index", "dim")}
"""Ops that read whole rows: of which tensor, by which index, along which dimension (the first where `None`)."""
ELEMENTS: Final = {"gather": ("self", "index"), "take": ("self", "index")}
"""Ops that read one element for each of an index."""
SCATTERS: Final = ("scatter_", "scatter_add_", "scatter_reduce_", "scatter", "scatter_add", "scatter_reduce")
PARTS: Final = ("slice_scatter", "select_scatter", "diagonal_scatter", "as_strided_scatter")
"""Ops that return a copy of a tensor of which a part is another one's."""
RUNNING: Final = ("running_mean", "running_var")
"""What a batch norm in training updates; not every op of that kind says so in its schema."""
ATTENTION: Final = "_scaled_dot_product"


class Touched(NamedTuple):
    """Bytes that an op must read of a tensor that it is given, and bytes of it that it overwrites."""

    tensor: torch.Tensor
    read: int
    written: int


def distinct_bytes(tensor: torch.Tensor) -> int:
    """The bytes that a tensor has of its own: what is repeated by a stride of 0 counts once, whatever overlaps too."""
    if not tensor.numel():
        return 0
    sizes = [int(size) for size, step in zip(tensor.shape, tensor.stride(), strict=True) if step != 0]
    first, end = byte_range(tensor)
    return min(prod(sizes) * tensor.element_size(), end - first)


def of_call(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> list[Touched]:
    """What an op touches of each tensor among its arguments, those in lists included; not of its new results.

    Args:
        func: an `OpOverload`; its schema says what is written.
        args: positional arguments.
        kwargs: keyword arguments.
        result: what it returned.

    Source: `torch._ops.OpOverload._schema`, torch 2.11 to 2.14.
    """
    given = _named(func, args, kwargs)
    name = func._opname
    if name in ALLOCATES or name in MAKES or func.is_view:
        return [Touched(tensor, 0, 0) for tensor in tensors_of((args, dict(kwargs)))]
    rule = _RULES.get(name)
    special = rule(given, result) if rule is not None else {}
    found: list[Touched] = []
    for argument in func._schema.arguments:
        writes = argument.alias_info is not None and argument.alias_info.is_write
        writes = writes or (argument.name in RUNNING and bool(given.get("training")))
        only_written = writes and (argument.is_out or name in OVERWRITES)
        for tensor in tensors_of(given.get(argument.name)):
            whole = distinct_bytes(tensor) if has_storage(tensor) else 0
            read, written = special.get(argument.name, (whole, whole))
            found.append(Touched(tensor, 0 if only_written else min(read, whole), min(written, whole) if writes else 0))
    return found


def _named(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    names = [argument.name for argument in func._schema.arguments]
    return {**dict(zip(names, args, strict=False)), **kwargs}


Rule = Callable[[Mapping[str, Any], Any], dict[str, tuple[int, int]]]
"""Bytes read and written of some arguments by name, where an op does not touch all of them."""


def _rows(tensor_name: str, index_name: str, dim_name: str | None) -> Rule:
    def rule(given: Mapping[str, Any], result: Any) -> dict[str, tuple[int, int]]:
        tensor, index = given[tensor_name], given[index_name]
        size = tensor.shape[given[dim_name] if dim_name else 0] if tensor.dim() else 1
        rows = int(index.unique().numel())
        return {tensor_name: (distinct_bytes(tensor) * rows // max(1, int(size)), 0)}

    return rule


def _elements(tensor_name: str, index_name: str) -> Rule:
    def rule(given: Mapping[str, Any], result: Any) -> dict[str, tuple[int, int]]:
        return {tensor_name: (given[index_name].numel() * given[tensor_name].element_size(), 0)}

    return rule


def _scatter(*, adds: bool) -> Rule:
    """As many elements as the index has; in place, those are read only where something is added to them."""

    def rule(given: Mapping[str, Any], result: Any) -> dict[str, tuple[int, int]]:
        own, count = given["self"], given["index"].numel()
        part = count * own.element_size()
        found = {"self": (part if adds or given.get("reduce") else 0, part)} if result is own else {}
        source = given.get("src")
        if isinstance(source, torch.Tensor):
            found["src"] = (count * source.element_size(), 0)
        return found

    return rule


def _indexed(given: Mapping[str, Any]) -> int:
    """How many elements of `self` an `indices` list names."""
    own, indices = given["self"], given["indices"]
    shapes: list[torch.Size] = []
    rest, dim = 1, 0
    for index in indices:
        if index is None:
            rest, dim = rest * int(own.shape[dim]), dim + 1
        elif index.dtype in (torch.bool, torch.uint8):
            shapes.append(torch.Size([int(index.count_nonzero())]))
            dim += index.dim()
        else:
            shapes.append(index.shape)
            dim += 1
    named = prod(int(size) for size in torch.broadcast_shapes(*shapes))
    return named * rest * prod(int(size) for size in own.shape[dim:])


def _index(given: Mapping[str, Any], result: Any) -> dict[str, tuple[int, int]]:
    return {"self": (_indexed(given) * given["self"].element_size(), 0)}


def _index_put(given: Mapping[str, Any], result: Any) -> dict[str, tuple[int, int]]:
    own = given["self"]
    if result is not own:
        return {}
    part = _indexed(given) * own.element_size()
    return {"self": (part if given.get("accumulate") else 0, part)}


def _index_rows(given: Mapping[str, Any], result: Any) -> dict[str, tuple[int, int]]:
    """`index_add_`, `index_copy_`, `index_fill_`: rows of `self` along a dimension."""
    own = given["self"]
    if result is not own or not own.dim():
        return {}
    part = distinct_bytes(own) * int(given["index"].unique().numel()) // max(1, int(own.shape[given["dim"]]))
    return {"self": (part, part)}


def _index_overwrite(given: Mapping[str, Any], result: Any) -> dict[str, tuple[int, int]]:
    return {name: (0, written) for name, (_, written) in _index_rows(given, result).items()}


def _part(given: Mapping[str, Any], result: Any) -> dict[str, tuple[int, int]]:
    """What the other one's part replaces need not be read."""
    replaced = given["src"].numel() * given["self"].element_size()
    return {"self": (max(0, distinct_bytes(given["self"]) - replaced), 0)}


_RULES: Final[Mapping[str, Rule]] = {
    **{name: _rows(*names) for name, names in ROWS.items()},
    **{name: _elements(*names) for name, names in ELEMENTS.items()},
    **{name: _scatter(adds=name.startswith("scatter_add")) for name in SCATTERS},
    **dict.fromkeys(PARTS, _part),
    "index": _index,
    "_unsafe_index": _index,
    "_unsafe_masked_index": _index,
    "index_put": _index_put,
    "index_put_": _index_put,
    "_unsafe_index_put": _index_put,
    "_index_put_impl_": _index_put,
    "index_add_": _index_rows,
    "index_copy_": _index_overwrite,
    "index_fill_": _index_overwrite,
}


def scattered_bytes(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
    """Bytes that an op puts into a tensor by an index, whether it returns a copy or not; 0 of all other ops."""
    given = _named(func, args, kwargs)
    if func._opname in SCATTERS:
        return int(given["index"].numel()) * int(given["self"].element_size())
    if "index_put" in func._opname:
        count = int(given["values"].numel()) if "mask" in given else _indexed(given)
        return count * int(given["self"].element_size())
    return 0


def attended_part(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> float:
    """Of attention, the part of all pairs of query and key that counts; 1.0 of everything else.

    torch's formulas count all pairs. With a causal mask of equally many queries and keys, half of them are never
    looked at, and a kernel that leaves them out would stand beyond its limit, or half as far from it as it is.
    """
    if not func._opname.startswith(ATTENTION):
        return 1.0
    given = _named(func, args, kwargs)
    query, key = given.get("query"), given.get("key")
    if not given.get("is_causal") or query is None or key is None:
        return 1.0
    queries, keys = int(query.shape[-2]), int(key.shape[-2])
    return (queries + 1) / (2 * queries) if queries == keys and queries else 1.0

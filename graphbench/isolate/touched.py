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
ROWS: Final = {
    **dict.fromkeys(("embedding", "_embedding_bag", "_embedding_bag_forward_only"), ("weight", "indices", None)),
    "index_select": ("self", "index", "dim"),
}
"""Ops that read whole rows: of which tensor, by which index, along which dimension (the first where `None`)."""
CONVOLUTIONS: Final = ("convolution", "_convolution", "convolution_backward")
POOLS: Final = tuple(
    f"{kind}_pool{dims}" for dims in ("1d", "2d", "3d", "2d_with_indices", "3d_with_indices") for kind in ("max", "avg")
)
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


def _distinct_along(index: torch.Tensor, dim: int) -> int:
    """How many elements an index along a dimension names, each once: those of one line may be equal."""
    if not index.dim() or not index.numel():
        return index.numel()
    ordered = index.sort(dim).values
    return index.numel() // int(index.shape[dim]) + int(ordered.diff(dim=dim).count_nonzero())


def _gathered(given: Mapping[str, Any], result: Any) -> dict[str, tuple[int, int]]:
    return {"self": (_distinct_along(given["index"], given["dim"]) * given["self"].element_size(), 0)}


def _taken(given: Mapping[str, Any], result: Any) -> dict[str, tuple[int, int]]:
    return {"self": (int(given["index"].unique().numel()) * given["self"].element_size(), 0)}


def _scatter(*, adds: bool) -> Rule:
    """In place, what the index names is read only where something is added to it."""

    def rule(given: Mapping[str, Any], result: Any) -> dict[str, tuple[int, int]]:
        own, index = given["self"], given["index"]
        found = {}
        if result is own:
            part = _distinct_along(index, given["dim"]) * own.element_size()
            found["self"] = (part if adds or given.get("reduce") else 0, part)
        source = given.get("src")
        if isinstance(source, torch.Tensor):
            found["src"] = (index.numel() * source.element_size(), 0)
        return found

    return rule


def _indexed(given: Mapping[str, Any]) -> int:
    """How many elements of `self` an `indices` list names, each once."""
    own, indices = given["self"], given["indices"]
    positions: list[tuple[int, torch.Tensor]] = []
    rest, dim = 1, 0
    for index in indices:
        if index is None:
            rest, dim = rest * int(own.shape[dim]), dim + 1
            continue
        parts = index.nonzero(as_tuple=True) if index.dtype in (torch.bool, torch.uint8) else (index,)
        positions += [(int(own.shape[dim + offset]), part) for offset, part in enumerate(parts)]
        dim += len(parts)
    named = torch.zeros((), dtype=torch.int64, device=own.device)
    for size, position in positions:
        named = named * size + position.to(own.device, torch.int64) % max(1, size)
    return int(named.unique().numel()) * rest * prod(int(size) for size in own.shape[dim:])


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


def _convolved(given: Mapping[str, Any], result: Any) -> dict[str, tuple[int, int]]:
    """What the windows of a convolution step on; one that is transposed reads everything.

    Source: the schemas of `aten.convolution` and `aten.convolution_backward`, torch 2.11, 2.13 and 2.14.
    """
    own, weight = given["input"], given["weight"]
    of_input, of_weight, _ = given.get("output_mask", (True, True, True))
    read = distinct_bytes(own)
    if not given["transposed"] and own.dim() == weight.dim():
        outputs = given.get("grad_output", result)
        steps = (given["stride"], given["padding"], given["dilation"])
        read = _stepped_on(own, outputs, list(weight.shape[2:]), *steps)
    # A gradient is a product with the other one of the two.
    return {"input": (read if of_weight else 0, 0), "weight": (distinct_bytes(weight) if of_input else 0, 0)}


def _pooled(given: Mapping[str, Any], result: Any) -> dict[str, tuple[int, int]]:
    kernel = given["kernel_size"]
    steps = (given.get("stride") or kernel, given.get("padding", 0), given.get("dilation", 1))
    return {"self": (_stepped_on(given["self"], tensors_of(result)[0], kernel, *steps), 0)}


def _stepped_on(own: torch.Tensor, outputs: torch.Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any) -> int:
    """Bytes of a tensor that windows over its last dimensions touch: with steps beyond the window not all of them."""
    count = distinct_bytes(own)
    dims = min(own.dim(), outputs.dim()) - 2 if isinstance(kernel, int) else len(kernel)
    for dim in range(-dims, 0):
        width, step, before, apart = (
            int(value[dim] if len(value) > 1 else value[0]) if isinstance(value, (list, tuple)) else int(value)
            for value in (kernel, stride, padding, dilation)
        )
        size, windows = int(own.shape[dim]), int(outputs.shape[dim])
        if apart == 1 and width >= step:  # nothing lies between windows
            touched = max(0, min(size, (windows - 1) * step - before + width))
        else:
            places = {window * step - before + tap * apart for window in range(windows) for tap in range(width)}
            touched = sum(0 <= place < size for place in places)
        count = count * touched // max(1, size)
    return count


_RULES: Final[Mapping[str, Rule]] = {
    **{name: _rows(*names) for name, names in ROWS.items()},
    "gather": _gathered,
    "take": _taken,
    **{name: _scatter(adds=name.startswith("scatter_add")) for name in SCATTERS},
    **dict.fromkeys(PARTS, _part),
    **dict.fromkeys(CONVOLUTIONS, _convolved),
    **dict.fromkeys(POOLS, _pooled),
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

"""The identity of a unit: two calls with equal keys cost the same and are measured once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from graphbench.tensors import ALIGNMENT_BYTES, has_storage

PLAIN = (
    *(type(None), bool, int, float, complex, str, bytes, slice, type(Ellipsis)),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size),
)


class _Same:
    """Equal to itself alone. Keeps its object alive: the `id` of one that is gone may be another's later."""

    def __init__(self, thing: object) -> None:
        self._thing = thing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other._thing is self._thing

    def __hash__(self) -> int:
        return id(self._thing)


def unit_key(target: object, args: tuple[Any, ...], kwargs: Mapping[str, Any], *state: object) -> tuple[object, ...]:
    """The identity of a call: target, specs and aliasing of its tensors, every other argument, and ambient state."""
    leaves, tree = pytree.tree_flatten((args, dict(kwargs)))
    storages: dict[int, int] = {}
    parts = tuple(_leaf_key(leaf, storages) for leaf in leaves)
    return (target, str(tree), parts, *state)


def _leaf_key(leaf: object, storages: dict[int, int]) -> object:
    if isinstance(leaf, PLAIN):
        return (type(leaf).__name__, repr(leaf))
    if not isinstance(leaf, torch.Tensor):  # a graph, a module, a kernel: its repr does not tell what it does
        return ("object", _Same(leaf))
    if not has_storage(leaf):
        return ("opaque", _Same(leaf))
    storage = storages.setdefault(leaf.untyped_storage()._cdata, len(storages))
    phase = (leaf.data_ptr() % ALIGNMENT_BYTES) if leaf.numel() else 0
    return (
        tuple(leaf.shape),
        leaf.stride(),
        leaf.dtype,
        leaf.device,
        leaf.requires_grad,
        storage,
        phase,
        leaf.is_conj(),
        leaf.is_neg(),
    )

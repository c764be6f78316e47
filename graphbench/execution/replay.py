"""Fresh arguments for every replay: what a graph mutates is shadowed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from graphbench.tensors import alias, has_storage


@dataclass(frozen=True, slots=True)
class Geometry:
    """How a tensor lies in its storage."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    dtype: torch.dtype

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Geometry:
        """The geometry of a tensor."""
        return cls(tuple(tensor.shape), tuple(tensor.stride()), int(tensor.storage_offset()), tensor.dtype)


@dataclass(frozen=True, slots=True)
class CapturedInput:
    """One argument of a region as recorded on its first call.

    `value` is the parameter itself, a detached alias of any other tensor, a list of such, or a plain value. `base`
    is the geometry of the tensor that it was a view of.
    """

    value: Any
    requires_grad: bool = False
    is_parameter: bool = False
    mutated: bool = False
    base: Geometry | None = None


Storages = dict[int, torch.Tensor]
"""Copies by the key of the storage that they are of, as bytes."""


def shadow(inputs: Sequence[CapturedInput], kept: Storages | None = None) -> list[Any]:
    """Arguments for one run: parameters and unmutated tensors themselves, copies of what the graph mutates.

    Everything that shares storage with a mutated input is copied along, and views of one base stay views of one base
    (AOTAutograd's synthetic bases read `_base`). A mutated input that requires grad becomes a non-leaf that is no view.

    Copies go where those in `kept` lie, which is extended: a CUDA graph writes where it wrote when it was captured, and
    is captured again where a buffer has moved.

    Source: `torch._inductor.cudagraph_trees.CUDAGraphTreeManager`: in torch 2.11 such a capture counts towards
        the limit of captures above which it runs without graphs, in 2.13 and 2.14 it does not.
    """
    mutated = {_storage(entry.value) for entry in inputs if entry.mutated and isinstance(entry.value, torch.Tensor)}
    bases: dict[int, torch.Tensor] = {}
    return [_argument(entry, mutated, bases, {} if kept is None else kept) for entry in inputs]


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata) if has_storage(tensor) else id(tensor)


def _argument(entry: CapturedInput, mutated: set[int], bases: dict[int, torch.Tensor], kept: Storages) -> Any:
    tensor = entry.value
    if isinstance(tensor, list):  # emptied by the run, and what is in it may be written
        return [value.clone() if isinstance(value, torch.Tensor) else value for value in tensor]
    if not isinstance(tensor, torch.Tensor):
        return tensor
    if _storage(tensor) not in mutated:
        fresh = tensor.detach()  # parameters too: the user's hooks on them must not run
        return fresh.requires_grad_() if entry.requires_grad else fresh
    with torch.no_grad():
        copy = _copy(tensor, entry.base, bases, kept)
    if not entry.requires_grad:
        return copy
    return alias(copy.requires_grad_()) if entry.mutated else copy.requires_grad_()


def _copy(tensor: torch.Tensor, base: Geometry | None, bases: dict[int, torch.Tensor], kept: Storages) -> torch.Tensor:
    """A copy within the copied storage, as a view of the copied base where the original was a view."""
    if not has_storage(tensor):
        return tensor.clone()
    storage, geometry = tensor.untyped_storage(), Geometry.of(tensor)
    if storage._cdata not in bases:
        flat = torch.empty(0, dtype=torch.uint8, device=tensor.device)
        flat = flat.set_(storage, 0, (storage.nbytes(),), (1,))
        copy = kept.get(storage._cdata)
        if copy is None or copy.nbytes != flat.nbytes:
            copy = torch.empty_like(flat)
        flat = kept[storage._cdata] = copy.copy_(flat)
        bases[storage._cdata] = _placed(flat, base or geometry)
    root = bases[storage._cdata]
    if Geometry.of(root) == geometry:
        return root
    if root.dtype == tensor.dtype:
        return root.as_strided(geometry.shape, geometry.stride, geometry.offset)
    return _placed(root, geometry)


def _placed(owner: torch.Tensor, geometry: Geometry) -> torch.Tensor:
    """A tensor of its own, no view, over another one's storage."""
    fresh = torch.empty(0, dtype=geometry.dtype, device=owner.device)
    return fresh.set_(owner.untyped_storage(), geometry.offset, geometry.shape, geometry.stride)

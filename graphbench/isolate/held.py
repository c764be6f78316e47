"""Arguments kept until their call can be isolated: as they are within a budget, otherwise as specs to make anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

from graphbench.isolate.values import synthesize
from graphbench.tensors import byte_range, has_storage

CHANGED_INDEX = "what an integer argument held was overwritten later in the step"


@dataclass(frozen=True, slots=True)
class Stub:
    """A tensor that was not kept. Sizes in elements; `offset` modulo what keeps its alignment."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    offset: int

    def made(self) -> torch.Tensor:
        """A tensor of this kind with random values."""
        empty = torch.empty(0, dtype=self.dtype, device=self.device)
        low, high = byte_range(torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device="meta"))
        storage = torch.empty(
            self.offset + (high - low) // self.dtype.itemsize, dtype=self.dtype, device=self.device
        ).untyped_storage()
        empty.set_(storage, self.offset, self.shape, self.stride)
        synthesize(empty, empty)
        return empty


@dataclass(slots=True)
class HeldArguments:
    """The arguments of one call. `whole`: every tensor was kept."""

    leaves: list[Any]
    tree: Any
    versions: list[int | None]
    whole: bool

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The call's arguments, what was not kept made anew."""
        leaves = [leaf.made() if isinstance(leaf, Stub) else leaf for leaf in self.leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self.tree)
        return args, kwargs

    def changed_index(self, written: Callable[[Any], bool]) -> bool:
        """Whether an integer tensor was written since, but by the call itself: repeated, it would do other work.

        Args:
            written: whether the call writes an argument.
        """
        return any(
            isinstance(leaf, torch.Tensor)
            and not leaf.is_floating_point()
            and version is not None
            and leaf._version != version
            and not written(leaf)
            for leaf, version in zip(self.leaves, self.versions, strict=True)
        )


@dataclass(slots=True)
class Holder:
    """Keeps arguments, up to a budget of bytes that they alone may keep alive."""

    budget_bytes: int
    held_bytes: int = 0
    _storages: set[int] = field(default_factory=set)

    def hold(self, args: tuple[Any, ...], kwargs: dict[str, Any], *, floats: bool = True) -> HeldArguments:
        """Keep a call's arguments. Call it before the call writes them.

        Args:
            args: positional arguments.
            kwargs: named ones.
            floats: keep floating-point tensors too. Not in backward: autograd steals a gradient that nobody else holds.
        """
        leaves, tree = pytree.tree_flatten((args, kwargs))
        kept = [self._kept(leaf, floats) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        versions = [
            leaf._version if isinstance(leaf, torch.Tensor) and not leaf.is_inference() else None for leaf in kept
        ]
        return HeldArguments(kept, tree, versions, not any(isinstance(leaf, Stub) for leaf in kept))

    def _kept(self, tensor: torch.Tensor, floats: bool) -> torch.Tensor | Stub:
        if not has_storage(tensor):
            return tensor.detach()
        draws = tensor.is_floating_point() or tensor.is_complex()
        if (draws and not floats) or not self._fits(tensor):
            per_line = max(1, 64 // tensor.element_size())
            shape, stride = tuple(map(int, tensor.shape)), tuple(map(int, tensor.stride()))
            return Stub(shape, stride, tensor.dtype, tensor.device, int(tensor.storage_offset()) % per_line)
        return tensor.detach()  # the tensor itself would keep its autograd graph alive

    def _fits(self, tensor: torch.Tensor) -> bool:
        storage = tensor.untyped_storage()
        if storage._cdata in self._storages or isinstance(tensor, torch.nn.Parameter):
            return True
        if self.held_bytes + storage.nbytes() > self.budget_bytes:
            return False
        self.held_bytes += storage.nbytes()
        self._storages.add(storage._cdata)
        return True

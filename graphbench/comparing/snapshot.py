"""What a call's input tensors hold: kept as bytes, compared after a call, and put back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from graphbench.errors import IsolationError
from graphbench.execution.replay import Geometry
from graphbench.tensors import byte_range, unpoolable


@dataclass(frozen=True, slots=True)
class _Kept:
    """One tensor: where it lay, and a copy of the bytes between its first and its last element."""

    path: str
    tensor: torch.Tensor
    storage: torch.UntypedStorage
    geometry: Geometry
    requires_grad: bool
    saved: torch.Tensor

    @classmethod
    def of(cls, path: str, tensor: torch.Tensor) -> _Kept:
        reason = unpoolable(tensor)
        if reason is not None:
            raise IsolationError(
                f"{path}: cannot tell whether it is changed: {reason}",
                hint="bind it to the callable (functools.partial); what a callable holds is not checked",
                subject=path,
            )
        storage, geometry = tensor.untyped_storage(), Geometry.of(tensor)
        return cls(path, tensor, storage, geometry, tensor.requires_grad, _bytes_of(tensor).clone())

    def moved(self) -> bool:
        """Whether the tensor was given another storage, shape or stride."""
        if unpoolable(self.tensor) is not None:
            return True
        return self.tensor.untyped_storage()._cdata != self.storage._cdata or Geometry.of(self.tensor) != self.geometry

    def changes(self) -> list[str]:
        rewritten = self.moved() or not torch.equal(_bytes_of(self.tensor), self.saved)
        turned = self.tensor.requires_grad != self.requires_grad
        return [self.path] * rewritten + [f"{self.path}.requires_grad"] * turned

    def restore(self) -> None:
        with torch.no_grad():
            if self.moved():
                geometry = self.geometry
                self.tensor.set_(self.storage, geometry.offset, geometry.shape, geometry.stride)
            _bytes_of(self.tensor).copy_(self.saved)
        if self.tensor.requires_grad == self.requires_grad:
            return
        if not self.tensor.is_leaf and not self.tensor._is_view():  # a view's history is its base's, and stays
            self.tensor.detach_()  # written in place by what requires grad
        if self.tensor.is_leaf:
            self.tensor.requires_grad_(self.requires_grad)


class Snapshot:
    """The tensors of nested inputs as they are now, each with its gradient.

    Only tensors in tuples, lists, dicts and other containers that `torch.utils._pytree` knows are seen, not what an
    object or a module holds.

    Args:
        inputs: positional arguments. A copy of their tensors' bytes is held.

    Raises:
        IsolationError: a tensor without ordinary storage, which cannot be compared byte by byte.
    """

    def __init__(self, inputs: Sequence[Any]) -> None:
        entries, self._spec = pytree.tree_flatten_with_path(tuple(inputs))
        self._leaves = [leaf for _, leaf in entries]
        self._kept: list[_Kept] = []
        self._grads: list[tuple[str, torch.Tensor, torch.Tensor | None]] = []
        seen: set[int] = set()
        with torch.no_grad():
            for path, leaf in entries:
                if isinstance(leaf, torch.Tensor) and id(leaf) not in seen:
                    seen.add(id(leaf))
                    self._keep(_input_name(path), leaf)

    def _keep(self, path: str, tensor: torch.Tensor) -> None:
        self._kept.append(_Kept.of(path, tensor))
        if _has_grad(tensor):
            self._grads.append((f"{path}.grad", tensor, tensor.grad))
            if tensor.grad is not None:
                self._kept.append(_Kept.of(f"{path}.grad", tensor.grad))

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The input tensors, each once, without gradients."""
        return [leaf for leaf in self._leaves if isinstance(leaf, torch.Tensor)]

    @property
    def has_containers(self) -> bool:
        """Whether any argument is a list, dict or other container, which a call could change."""
        return any(not pytree.tree_is_leaf(argument) for argument in self.arguments())

    def arguments(self) -> tuple[Any, ...]:
        """The inputs in fresh containers, so that what a call does to a list or dict stays with that call."""
        found: tuple[Any, ...] = pytree.tree_unflatten(self._leaves, self._spec)
        return found

    def changed(self) -> list[str]:
        """Which inputs differ from what they were, by position and key: `input 0['weight']`."""
        replaced = [path for path, tensor, grad in self._grads if _has_grad(tensor) and tensor.grad is not grad]
        return [*(change for kept in self._kept for change in kept.changes()), *replaced]

    def restore(self) -> None:
        """Put back what was changed; what was not is not touched."""
        for kept in self._kept:
            if kept.changes():
                kept.restore()
        for _, tensor, grad in self._grads:
            if _has_grad(tensor) and tensor.grad is not grad:
                tensor.grad = grad


def _has_grad(tensor: torch.Tensor) -> bool:
    """Whether gradients may be kept on it; torch warns when others are asked for theirs."""
    return tensor.is_leaf or tensor.retains_grad


def _input_name(path: tuple[Any, ...]) -> str:
    """`input 1['weight'][0]` of a pytree's path."""
    return f"input {path[0].idx}{pytree.keystr(path[1:])}"


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    low, high = byte_range(tensor)
    flat = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    return flat.set_(tensor.untyped_storage(), low, (high - low,), (1,))

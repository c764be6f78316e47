"""Pooled copies of a call's tensors: shape, stride, alignment, values and aliasing kept, in storage of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from graphbench.errors import IsolationError
from graphbench.tensors import (
    ALIGNMENT_BYTES,
    alias,
    byte_range,
    is_packed,
    is_wrapper,
    parts_of,
    rebuilt,
    spec_of,
    tensors_of,
    unpoolable,
)

BlockKey = tuple[int, int]
PIECE_BYTES = 32 << 20  # blocks are compared in pieces: comparing makes a tensor as long as what it compares


class TensorPool:
    """The tensors of one call, copied block by block: one block per storage and run of bytes without a gap.

    Args:
        tree: nested arguments; everything but tensors is passed on as it is.

    Raises:
        IsolationError: a tensor that cannot be copied faithfully, by name of what it is.
    """

    def __init__(self, tree: Any) -> None:
        leaves, self._spec = pytree.tree_flatten(tree)
        self._leaves = leaves
        self._blocks: dict[BlockKey, torch.Tensor] = {}
        self._originals: dict[BlockKey, torch.Tensor] = {}
        self._saved: dict[BlockKey, torch.Tensor] = {}
        self._places: dict[int, tuple[torch.Tensor, int]] = {}
        plain = [part for leaf in tensors_of(leaves) for part in parts_of(leaf)]
        for tensor in plain:
            reason = unpoolable(tensor)
            if reason is not None:
                raise IsolationError(f"cannot copy an argument of shape {spec_of(tensor).shape}: {reason}")
            if tensor.data_ptr() % tensor.element_size():
                raise IsolationError(
                    f"cannot copy an argument of shape {tuple(tensor.shape)}: its elements are unaligned"
                )
        with torch.no_grad(), torch.inference_mode(False):
            for storage, low, high, members in _merged_ranges(plain):
                self._copy_block((storage, low), high, members)

    def _copy_block(self, key: BlockKey, high: int, members: list[torch.Tensor]) -> None:
        low = key[1]
        phase = (members[0].untyped_storage().data_ptr() + low) % ALIGNMENT_BYTES
        buffer = torch.empty(phase + high - low, dtype=torch.uint8, device=members[0].device)
        # A CPU allocation is itself aligned to 64 bytes, a CUDA one to 512, so phases carry over.
        block = _bytes_of(buffer, phase, phase + high - low)
        self._originals[key] = _bytes_of(members[0], low, high)
        block.copy_(self._originals[key])
        self._blocks[key] = block
        for tensor in members:
            self._places[id(tensor)] = (buffer, phase + byte_range(tensor)[0] - low)

    @property
    def originals(self) -> Any:
        """The arguments that were copied, as they were given."""
        return pytree.tree_unflatten(self._leaves, self._spec)

    @property
    def nbytes(self) -> int:
        """Bytes held beside the originals."""
        return sum(block.numel() for block in (*self._blocks.values(), *self._saved.values()))

    def tree(self, *, with_grad: bool = True) -> Any:
        """The call's arguments over the pooled storage: fresh views each time, one object per distinct original.

        Args:
            with_grad: give tensors that required grad a grad-requiring alias; otherwise none requires grad.
        """
        made: dict[int, torch.Tensor] = {}
        parts: dict[int, torch.Tensor] = {}  # what several wrappers are made of is one tensor here too
        for leaf in tensors_of(self._leaves):
            if id(leaf) not in made:
                made[id(leaf)] = self._view(leaf, with_grad, parts)
        rebuilt = [made[id(leaf)] if isinstance(leaf, torch.Tensor) else leaf for leaf in self._leaves]
        return pytree.tree_unflatten(rebuilt, self._spec)

    def _view(
        self, original: torch.Tensor, with_grad: bool, parts: dict[int, torch.Tensor] | None = None
    ) -> torch.Tensor:
        known = {} if parts is None else parts

        def made(part: torch.Tensor) -> torch.Tensor:
            if part is original:
                return self._plain_view(part)
            if id(part) not in known:
                known[id(part)] = self._plain_view(part)
            return known[id(part)]

        with torch.no_grad():
            view = rebuilt(original, made)
        if view is original or not (with_grad and original.requires_grad):
            return view
        leaf = view.requires_grad_()
        return alias(leaf) if torch.is_grad_enabled() else leaf

    def _plain_view(self, original: torch.Tensor) -> torch.Tensor:
        buffer, first = self._places[id(original)]
        view = torch.empty(0, dtype=original.dtype, device=original.device)
        view.set_(buffer.untyped_storage(), first // original.element_size(), original.shape, original.stride())
        view = torch._conj(view) if original.is_conj() else view
        return torch._neg_view(view) if original.is_neg() else view

    def current(self, original: torch.Tensor) -> torch.Tensor:
        """A copy of what the pooled twin of an original holds now."""
        return self._view(original, with_grad=False).clone()

    def blocks_of(self, originals: Iterable[torch.Tensor]) -> set[BlockKey]:
        """The blocks that hold the given original tensors."""
        found = set()
        for tensor in (part for original in originals for part in parts_of(original)):
            storage, first = tensor.untyped_storage()._cdata, byte_range(tensor)[0]
            found |= {
                key
                for key, block in self._blocks.items()
                if key[0] == storage and key[1] <= first < key[1] + block.numel()
            }
        return found

    def changed(self) -> set[BlockKey]:
        """Blocks whose bytes differ from what `restore` would put there."""
        return {key for key, block in self._blocks.items() if not _equal(block, self._kept(key))}

    def restore(self, keys: Iterable[BlockKey]) -> None:
        """Put blocks back to the originals' bytes, or to the filled-in ones after `fill`.

        The originals must still be as they were when they were copied.
        """
        with torch.no_grad():
            for key in keys:
                self._blocks[key].copy_(self._kept(key))

    def _kept(self, key: BlockKey) -> torch.Tensor:
        return self._saved[key] if key in self._saved else self._originals[key]

    def release(self) -> None:
        """Let the copies go."""
        for held in (self._blocks, self._originals, self._saved, self._places):
            held.clear()

    def fill(self, values: Callable[[torch.Tensor, torch.Tensor], None]) -> None:
        """Overwrite the pooled tensors by `values(original, pooled)`, called once per distinct original.

        Those of a wrapper keep what they hold: nobody knows what it means there. Integers come last: where another
        tensor shares their bytes, they are what is left there.
        """
        plain = {id(leaf): leaf for leaf in tensors_of(self._leaves) if not (is_wrapper(leaf) or is_packed(leaf))}
        for leaf in sorted(plain.values(), key=lambda leaf: not (leaf.is_floating_point() or leaf.is_complex())):
            values(leaf, self._view(leaf, with_grad=False))
        self._saved = {key: block.clone() for key, block in self._blocks.items()}


def copies_bytes(tensors: Iterable[torch.Tensor], device: torch.device) -> int:
    """Bytes that copying tensors will take on a device, as `TensorPool` copies them; those it refuses take none."""
    plain = (part for tensor in tensors for part in parts_of(tensor))
    found = [tensor for tensor in plain if tensor.device.type == device.type and unpoolable(tensor) is None]
    return sum(high - low for _, low, high, _ in _merged_ranges(found))


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    pairs = zip(one.split(PIECE_BYTES), other.split(PIECE_BYTES), strict=True)
    return all(torch.equal(*pair) for pair in pairs)


def _merged_ranges(tensors: list[torch.Tensor]) -> list[tuple[int, int, int, list[torch.Tensor]]]:
    """(storage, first byte, last byte, tensors) per run of tensors of one storage that overlap or touch.

    Weights that a library wants in one piece, as those of cuDNN's recurrent networks, touch.
    """
    by_storage: dict[int, list[tuple[int, int, torch.Tensor]]] = {}
    for tensor in tensors:
        by_storage.setdefault(tensor.untyped_storage()._cdata, []).append((*byte_range(tensor), tensor))
    found: list[tuple[int, int, int, list[torch.Tensor]]] = []
    for storage, ranges in by_storage.items():
        current: tuple[int, int, list[torch.Tensor]] | None = None
        for low, high, tensor in sorted(ranges, key=lambda entry: entry[:2]):
            if current is not None and (low <= current[1] or low == current[0]):
                current = (current[0], max(high, current[1]), [*current[2], tensor])
                continue
            if current is not None:
                found.append((storage, *current))
            current = (low, high, [tensor])
        if current is not None:
            found.append((storage, *current))
    return found


def _bytes_of(tensor: torch.Tensor, low: int, high: int) -> torch.Tensor:
    view = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    return view.set_(tensor.untyped_storage(), low, (high - low,), (1,))

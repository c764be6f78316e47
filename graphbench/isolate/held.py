"""Arguments kept until their call can be isolated: as they are within a budget, otherwise as specs to make anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from graphbench.isolate.values import make_up
from graphbench.measurements import TensorSpec
from graphbench.tensors import ALIGNMENT_BYTES, spec_of

LONG_LIST = 8
CHANGED = "what an argument held, which decides what the op does, was overwritten later in the step"


@dataclass(frozen=True, slots=True)
class Stub:
    """A tensor that was not kept. Sizes in elements; `offset` modulo what keeps its alignment."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    offset: int

    @property
    def nbytes(self) -> int:
        """Bytes that `made` keeps."""
        return self._length() * self.dtype.itemsize

    @property
    def drawn_bytes(self) -> int:
        """Bytes that drawing its values takes meanwhile."""
        return self._length() * max(4, self.dtype.itemsize)

    def _length(self) -> int:
        """Elements of a storage that holds it."""
        extent = 1 + sum((size - 1) * step for size, step in zip(self.shape, self.stride, strict=True))
        return self.offset + max(extent, 0)

    def made(self) -> torch.Tensor:
        """A tensor of this kind, with random values.

        Raises:
            IsolationError: it held integers, which cannot be made up.
        """
        flat = torch.empty(self._length(), dtype=self.dtype, device=self.device)
        make_up(flat)
        return flat.as_strided(self.shape, self.stride, self.offset)

    def spec(self) -> TensorSpec:
        """What it was."""
        return TensorSpec(
            shape=self.shape,
            stride=self.stride,
            dtype=str(self.dtype).removeprefix("torch."),
            device=str(self.device),
            storage_offset=self.offset,
        )


@dataclass(slots=True)
class HeldArguments:
    """The arguments of one call, nested as they were. `watched`: tensors whose values decide what the call does.

    Each with what is kept of it, and its version then: below autograd a detached tensor counts its own.
    """

    args: list[Any]
    kwargs: dict[str, Any]
    watched: list[tuple[torch.Tensor, torch.Tensor, int]] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        """Whether every tensor was kept."""
        return not any(isinstance(leaf, Stub) for leaf in self._leaves())

    @property
    def missing_bytes(self) -> int:
        """Bytes that `made` takes: what was not kept, and the numbers drawn for the largest of it."""
        sizes = [(leaf.nbytes, leaf.drawn_bytes) for leaf in self._leaves() if isinstance(leaf, Stub)]
        return sum(size for size, _ in sizes) + max((drawn for _, drawn in sizes), default=0)

    def specs(self) -> tuple[TensorSpec, ...]:
        """The call's tensors, in order."""
        return tuple(
            leaf.spec() if isinstance(leaf, Stub) else spec_of(leaf)
            for leaf in self._leaves()
            if isinstance(leaf, (Stub, torch.Tensor))
        )

    def made(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The call's arguments, what was not kept made anew."""
        args = tuple(_made(value) for value in self.args)
        return args, {name: _made(value) for name, value in self.kwargs.items()}

    def changed(self, written: Callable[[torch.Tensor], bool]) -> bool:
        """Whether a watched tensor was written since, but by the call itself: repeated, it would do other work.

        Args:
            written: whether the call writes an argument.
        """
        return any(tensor._version != version and not written(kept) for tensor, kept, version in self.watched)

    def _leaves(self) -> Iterator[Any]:
        for value in (*self.args, *self.kwargs.values()):
            if isinstance(value, list):
                yield from value
            else:
                yield value


def _is_plain(value: Any) -> bool:
    """Whether it is a tensor with a storage and an address of its own."""
    ordinary = type(value) in (torch.Tensor, torch.nn.Parameter) and value.layout is torch.strided
    return ordinary and not value.is_nested


def _made(value: Any) -> Any:
    if isinstance(value, list):
        return [_made(entry) for entry in value]
    return value.made() if isinstance(value, Stub) else value


@dataclass(slots=True)
class Holder:
    """Keeps arguments of ATen calls, up to a budget of bytes that they alone may keep alive.

    What it does is paid between the ops of a live step, where optimizers pass hundreds of tensors at once.
    """

    budget_bytes: int
    held_bytes: int = 0
    _seen: set[int] = field(default_factory=set)

    def hold(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], *, floats: bool = True, decisive: bool = False
    ) -> HeldArguments:
        """Keep a call's arguments. Call it before the call writes them.

        Args:
            args: positional arguments: tensors, lists of tensors, anything else.
            kwargs: named ones.
            floats: keep floating-point tensors too. Not in backward, which frees every gradient once it is used.
            decisive: floating-point values decide what the call does, as those of integers and masks always may.
        """
        held = HeldArguments([], {})
        held.args = [self._kept(value, held, floats, decisive) for value in args]
        held.kwargs = {name: self._kept(value, held, floats, decisive) for name, value in kwargs.items()}
        return held

    def _kept(self, value: Any, held: HeldArguments, floats: bool, decisive: bool) -> Any:
        if isinstance(value, torch.Tensor):
            return self._tensor(value, held, floats, decisive)
        if isinstance(value, (list, tuple)):
            if floats and len(value) > LONG_LIST and self._keeps_whole(value):
                return list(value)
            return [self._kept(entry, held, floats, decisive) for entry in value]
        return value

    def _keeps_whole(self, tensors: Sequence[Any]) -> bool:
        """Whether a long list of floating-point tensors may be kept without a look at each. Their owner keeps most."""
        if not all(_is_plain(tensor) and tensor.is_floating_point() and tensor.is_leaf for tensor in tensors):
            return False
        address = tensors[0].data_ptr()
        if address not in self._seen:
            nbytes = sum(tensor.nbytes for tensor in tensors)
            if self.held_bytes + nbytes > self.budget_bytes:
                return False
            self.held_bytes += nbytes
            self._seen.add(address)
        return True

    def _tensor(self, tensor: torch.Tensor, held: HeldArguments, floats: bool, decisive: bool) -> torch.Tensor | Stub:
        draws = tensor.is_floating_point() or tensor.is_complex()
        plain = _is_plain(tensor)
        if plain and ((draws and not floats) or not self._fits(tensor)):
            offset = int(tensor.storage_offset()) % max(1, ALIGNMENT_BYTES // tensor.element_size())
            return Stub(tuple(map(int, tensor.shape)), tensor.stride(), tensor.dtype, tensor.device, offset)
        # Not the autograd graph below it, nor one that a later write in place gives it, nor the shape that it gets so.
        # A subclass would hear of it, so it is only asked where it must be.
        kept = tensor if tensor.is_leaf and (tensor.requires_grad or not plain) else tensor.detach()
        watched = not draws or (decisive and tensor.is_leaf)
        if watched and not tensor.is_inference():
            held.watched.append((tensor, kept, tensor._version))
        return kept

    def _fits(self, tensor: torch.Tensor) -> bool:
        """Whether it may be kept. Tensors over one storage count for themselves: views of a kept one cost nothing."""
        address = tensor.data_ptr()
        if address in self._seen:
            return True
        if self.held_bytes + tensor.nbytes > self.budget_bytes:
            return False
        self.held_bytes += tensor.nbytes
        self._seen.add(address)
        return True

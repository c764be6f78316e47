"""Puts every tensor of a model where it is to run: parameters and buffers, and what modules hold beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import torch
from torch.utils._pytree import tree_map_only

from graphbench.models.inputs import Inputs

MOST_LEVELS: Final = 8
_NAMED: Final = 5
_OWN: Final = frozenset(vars(torch.nn.Module()))
"""What every module keeps its parameters, buffers, modules and hooks in."""
_LAST: Final = {4: torch.channels_last, 5: torch.channels_last_3d}


@dataclass(frozen=True, slots=True)
class Stray:
    """A tensor that a module holds as a plain attribute, where `nn.Module.to` does not find it; `put` replaces it."""

    name: str
    tensor: torch.Tensor
    put: Callable[[Any], None]


def place(module: torch.nn.Module, device: torch.device, dtype: torch.dtype | None) -> tuple[str, ...]:
    """Move a module, and the tensors that its modules hold as plain attributes, or in lists, tuples and dicts there.

    A tensor without dimensions may stay on the CPU, where torch takes it as a number.

    Args:
        module: is changed.
        device: where it goes.
        dtype: what floating-point parameters and buffers are cast to, `None` to leave them.

    Returns:
        What to tell the user: which such tensors were moved, and which could not be.

    Source: `torch.nn.Module.to`, torch 2.11, 2.13 and 2.14.
    """
    module.to(device=device, dtype=dtype)
    moved: list[str] = []
    left: list[str] = []
    copies: dict[int, torch.Tensor] = {}
    for stray in list(strays(module, device)):
        tensor = stray.tensor
        if tensor.dim() == 0 and tensor.device.type == "cpu":
            continue
        if not tensor.is_leaf:  # its graph would stay where it is
            left.append(stray.name)
            continue
        if id(tensor) not in copies:
            copies[id(tensor)] = tensor.detach().to(device).requires_grad_(tensor.requires_grad)
        stray.put(copies[id(tensor)])
        moved.append(stray.name)
    return (
        *_told(moved, f"moved to {device}, where .to() leaves tensors of plain attributes behind"),
        *_told(left, f"not on {device}, and not to be moved: computed from what requires a gradient"),
    )


def strays(module: torch.nn.Module, device: torch.device) -> Iterator[Stray]:
    """Tensors of plain attributes that are not on a device; what several names hold is found by each."""
    for path, owner in module.named_modules():
        seen: set[int] = set()
        for attribute, value in list(vars(owner).items()):
            if attribute in _OWN:
                continue
            name = f"{path}.{attribute}" if path else attribute
            for stray in _within(name, value, partial(vars(owner).__setitem__, attribute), 0, seen):
                if not is_there(stray.tensor.device, device):
                    yield stray


def is_there(found: torch.device, wanted: torch.device) -> bool:
    """Whether two devices are the same; of several GPUs both have an index."""
    return found.type == wanted.type and (found.type != "cuda" or found == wanted)


def channels_last(module: torch.nn.Module, inputs: Inputs) -> tuple[Inputs, str]:
    """Lay out weights, buffers and inputs of 4 and 5 dimensions channels last.

    Args:
        module: is changed.
        inputs: what it is called with.

    Returns:
        The inputs, and what to tell the user if nothing has so many dimensions, else "".
    """
    found = 0

    def laid_out(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal found
        if tensor.dim() not in _LAST:
            return tensor
        found += 1
        return tensor.contiguous(memory_format=_LAST[tensor.dim()])

    for held in (*module.parameters(), *module.buffers()):
        held.data = laid_out(held.data)
    args, kwargs = tree_map_only(torch.Tensor, laid_out, (list(inputs.args), dict(inputs.kwargs)))
    told = "" if found else "--channels-last changes nothing: no weight and no input has 4 or 5 dimensions"
    return replace(inputs, args=tuple(args), kwargs=kwargs), told


def _within(name: str, value: Any, put: Callable[[Any], None], level: int, seen: set[int]) -> Iterator[Stray]:
    if isinstance(value, torch.Tensor):
        yield Stray(name, value, put)
    holds = type(value) is tuple or isinstance(value, list | dict)
    if not holds or level > MOST_LEVELS or id(value) in seen:
        return
    if not isinstance(value, tuple):  # which each of its holders gets a new one of
        seen.add(id(value))
    holder = list(value) if isinstance(value, tuple) else value
    for key, entry in list(holder.items() if isinstance(holder, dict) else enumerate(holder)):
        replaced = partial(_put_into, holder, key, put if isinstance(value, tuple) else None)
        yield from _within(f"{name}[{key!r}]", entry, replaced, level + 1, seen)


def _put_into(holder: Any, key: Any, put_tuple: Callable[[Any], None] | None, value: Any) -> None:
    """Replace an entry; a tuple, whose entries `holder` lists, is replaced as a whole."""
    holder[key] = value
    if put_tuple is not None:
        put_tuple(tuple(holder))


def _told(names: list[str], what: str) -> Iterator[str]:
    """One line for all names."""
    if names:
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        yield f"{', '.join(names[:_NAMED])}{more}: {what}"

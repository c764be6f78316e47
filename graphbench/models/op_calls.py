"""The calls of an op list: what is called, on tensors with the values that the list asks for."""

from __future__ import annotations

import importlib
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import torch

from graphbench.errors import CaptureError, UsageError, first_line
from graphbench.measurements import JsonValue
from graphbench.models.op_tensors import TensorEntry, Values
from graphbench.models.oplist import MEASURED_DEVICE, METHOD, OpEntry, OpList
from graphbench.models.python_files import importable
from graphbench.models.yaml_cursor import nearest
from graphbench.tensors import alias

DRAWN_ELEMENTS: Final = 1 << 24
"""Random values are drawn up to so many and repeated beyond: drawing gigabytes takes longer than measuring."""
_ROOTS: Final[Mapping[str, object]] = {"torch": torch, "operator": operator, "_operator": operator, "math": math}
_STRUCTURED: Final = ("sorted", "permutation", "arange", "causal")


@dataclass(frozen=True, slots=True)
class BuiltOp:
    """A call that can be made: `function(*args, **kwargs)`. Its tensors are on the device."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


def import_modules(names: tuple[str, ...]) -> None:
    """Import the modules that register custom ops; their code runs.

    Raises:
        UsageError: there is none of that name.
        CaptureError: it raised.
    """
    for name in names:
        try:
            with importable(Path.cwd()):
                importlib.import_module(name)
        except ModuleNotFoundError as error:
            hint = "name a module that can be imported from here, as my_package.ops"
            raise UsageError(f"--import {name}: {first_line(error)}", hint=hint, subject="--import") from error
        except Exception as error:
            message = f"--import {name}: it raised {type(error).__name__}: {first_line(error)}"
            raise CaptureError(message, hint="--debug shows the traceback", subject="--import") from error


def function_of(op_list: OpList, op: OpEntry) -> Callable[..., Any]:
    """What an op calls: a function, or a method of its first argument.

    Raises:
        UsageError: torch has nothing of that name; with the line, and names that are alike.
    """
    if op.is_method:
        return _method(op_list, op)
    root, *names = op.target.split(".")
    found: Any = _ROOTS[root]
    for name in names:
        owner, found = found, getattr(found, name, None)
        if found is None:
            raise _unknown(op_list, op, name, owner)
    if not callable(found) or isinstance(found, ModuleType | type):
        kind = "a module" if isinstance(found, ModuleType) else f"a {type(found).__name__}"
        raise UsageError(f"{_where(op_list, op)}: found {kind}, expected an op that can be called", subject=op.name)
    return found  # type: ignore[no-any-return]


def _method(op_list: OpList, op: OpEntry) -> Callable[..., Any]:
    name = op.target.removeprefix(METHOD)
    if not callable(getattr(torch.Tensor, name, None)):
        raise _unknown(op_list, op, name, torch.Tensor)

    def method(owner: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(owner, name)(*args, **kwargs)

    method.__name__ = name
    return method


def _where(op_list: OpList, op: OpEntry) -> str:
    return f"{op_list.file}:{op.line}: {op.name}: target {op.target}"


def _unknown(op_list: OpList, op: OpEntry, name: str, owner: object) -> UsageError:
    hint = nearest(name, [known for known in dir(owner) if not known.startswith("__")])
    if op.needs_import:
        hint = "is it registered by the module that --import names?"
    message = f"{_where(op_list, op)}: torch {torch.__version__} has no such op"
    return UsageError(message, hint=hint, subject=op.name)


def build_op(op: OpEntry, device: torch.device, seed: int) -> BuiltOp:
    """Make the arguments of an op.

    Args:
        op: the op.
        device: where its tensors go, but for those that stay on the host.
        seed: equal ops get equal values, on every device.

    Raises:
        RuntimeError: torch cannot make one of them, for want of memory for instance.
    """
    with torch.inference_mode(False), torch.enable_grad():
        tensors = _tensors(op.tensors, device, torch.Generator().manual_seed(seed))
    args = tuple(_value(entry, tensors, device) for entry in op.args)
    return BuiltOp(args, {name: _value(entry, tensors, device) for name, entry in op.kwargs.items()})


def tensor_bytes(op: OpEntry, device: torch.device) -> int:
    """Bytes that the tensors of an op take on a device."""
    sizes: dict[str, int] = {}
    for name, entry in op.tensors.items():
        if not entry.on_host or device.type == "cpu":
            key = f"storage {entry.storage}" if entry.storage else name
            itemsize = getattr(torch, entry.dtype).itemsize
            sizes[key] = max(sizes.get(key, 0), entry.extent * itemsize)
    return sum(sizes.values())


def _tensors(
    entries: Mapping[str, TensorEntry], device: torch.device, generator: torch.Generator
) -> dict[str, torch.Tensor]:
    """The tensors by name; those of one storage share its memory."""
    storages: dict[str, torch.Tensor] = {}
    together: dict[str, list[TensorEntry]] = {}
    for name, entry in entries.items():
        together.setdefault(f"storage {entry.storage}" if entry.storage else name, []).append(entry)
    for key, members in together.items():
        first = members[0]
        place = torch.device("cpu") if first.on_host else device
        count = max(entry.extent for entry in members)
        drawn = _drawn(first.values, min(count, DRAWN_ELEMENTS), first.dtype, generator).to(place)
        storages[key] = drawn if count <= DRAWN_ELEMENTS else _repeated(drawn, count)
    found = {}
    for name, entry in entries.items():
        storage = storages[f"storage {entry.storage}" if entry.storage else name]
        tensor = storage.as_strided(entry.shape, entry.stride, entry.storage_offset)
        if entry.values.kind in _STRUCTURED:
            _arrange(tensor, entry.values, generator)
        found[name] = alias(tensor.detach().requires_grad_()) if entry.requires_grad else tensor
    return found


def _drawn(values: Values, count: int, dtype_name: str, generator: torch.Generator) -> torch.Tensor:
    """So many elements of a storage, one after the other, on the CPU; zeros where `_arrange` fills them."""
    dtype: torch.dtype = getattr(torch, dtype_name)
    size, numbers = (count,), values.numbers
    wide = torch.complex64 if dtype.is_complex else torch.float64 if dtype is torch.float64 else torch.float32
    if values.kind == "normal":
        drawn = torch.randn(size, generator=generator, dtype=wide)
    elif values.kind == "uniform":
        drawn = torch.rand(size, generator=generator, dtype=wide).mul_(numbers[1] - numbers[0]).add_(numbers[0])
    elif values.kind == "below":
        drawn = torch.randint(0, min(int(numbers[0]), 2**63 - 1), size, generator=generator)
    elif values.kind == "mask":
        drawn = torch.rand(size, generator=generator) < numbers[0]
    else:
        drawn = torch.full(size, 1.0 if values.kind == "ones" else 0.0)
    return drawn.to(dtype)


def _repeated(drawn: torch.Tensor, count: int) -> torch.Tensor:
    """So many elements, on the device: what was drawn, again and again."""
    whole = torch.empty(count, dtype=drawn.dtype, device=drawn.device)
    for part in whole.split(drawn.numel()):
        part.copy_(drawn[: part.numel()])
    return whole


def _arrange(tensor: torch.Tensor, values: Values, generator: torch.Generator) -> None:
    """Give a tensor values that depend on where they stand. Dimensions without a step hold one entry."""
    once = tensor[tuple(slice(0, 1) if step == 0 else slice(None) for step in tensor.stride())]
    shape = tuple(once.shape)
    if not once.numel():
        return
    if values.kind == "arange":
        made = torch.arange(shape[-1] if shape else 1).expand(shape)
    elif values.kind == "permutation":
        made = torch.rand(shape, generator=generator).argsort(-1) if shape else torch.zeros(())
    elif values.kind == "sorted":
        made = _drawn(_unsorted(values), math.prod(shape), "float32" if not values.numbers else "int64", generator)
        made = made.reshape(shape).sort(-1).values if shape else made.reshape(())
    else:
        made = _causal(shape, tensor.dtype)
    once.copy_(made)


def _unsorted(values: Values) -> Values:
    return Values(kind="below", numbers=values.numbers) if values.numbers else Values(kind="normal")


def _causal(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """True up to the diagonal of the last two dimensions; of floats 0 there and -inf above, to be added."""
    kept = torch.ones(shape[-2:], dtype=torch.bool).tril() if len(shape) > 1 else torch.ones(shape, dtype=torch.bool)
    made = kept if dtype is torch.bool else torch.zeros(kept.shape).masked_fill(~kept, float("-inf"))
    return made.expand(shape)


def _value(entry: JsonValue, tensors: Mapping[str, torch.Tensor], device: torch.device) -> Any:
    """An argument of its prototype."""
    if not isinstance(entry, dict):
        return entry
    kind, held = next(iter(entry.items()))
    if kind == "node":
        return tensors[str(held)]
    if isinstance(held, list):
        values = [_value(part, tensors, device) for part in held]
        if kind == "list":
            return values
        return tuple(values) if kind == "tuple" else slice(*values) if kind == "slice" else complex(*values)
    if kind == "float":
        return float(str(held))
    if kind == "ellipsis":
        return Ellipsis
    if kind == "device":
        return device if held == MEASURED_DEVICE else torch.device(str(held))
    return getattr(torch, str(held))

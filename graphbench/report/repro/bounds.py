"""Which integers a call may be given: those that index something must lie inside of it. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from graphbench.analysis.indexing import ALONG, CLASSES, FLAT, INDEXED, ITEMS, ROWS
from graphbench.measurements import JsonValue, TensorSpec
from graphbench.report.repro.expressions import names_in

Specs = Callable[[str], TensorSpec | None]
DEFAULT_BOUND: Final = 100
_ANY: Final = 1 << 62
_VALUES_MATTER = re.compile(
    r"\w*(embedding|index|gather|scatter|sort|topk|unique|nonzero|masked_select|masked_scatter|searchsorted|bucketize|"
    r"getitem|setitem|where|nll_loss|cross_entropy|multinomial|bincount|histc|repeat_interleave|one_hot|argwhere)\w*"
)
_NEEDS_POSITIVE = re.compile(
    r"multinomial|bernoulli_?|poisson|binary_cross_entropy|log(2|10)?_?|r?sqrt_?|pow|\w*batch_norm\w*|_standard_gamma"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One call of a script: its result's name, the op without namespace, and the prototypes of its arguments."""

    result: str
    op: str
    args: list[JsonValue]
    kwargs: Mapping[str, JsonValue] = field(default_factory=dict)

    def names(self) -> list[str]:
        """The nodes that it reads."""
        return names_in([*self.args, *self.kwargs.values()])


def is_integer(spec: TensorSpec | None) -> bool:
    """Whether a tensor holds integers, which may be indices."""
    return spec is not None and spec.dtype.removeprefix("u").startswith("int")


def values_matter(steps: Iterable[Step]) -> list[str]:
    """The ops whose time may depend on the values that they are given."""
    return list(dict.fromkeys(step.op for step in steps if _VALUES_MATTER.fullmatch(step.op)))


def needs_positive(steps: Iterable[Step]) -> bool:
    """Whether an op is undefined below zero, or refuses it."""
    return any(_NEEDS_POSITIVE.fullmatch(step.op) for step in steps)


def bounds(steps: list[Step], specs: Specs) -> dict[str, int]:
    """For each integer tensor that must stay below something, that.

    A bound on a result is one on the integers that it is computed from: views, `where`, casts.
    """
    found: dict[str, int] = {}
    for step in reversed(steps):
        bound = min(_bound_of(step, specs), found.get(step.result, _ANY))
        for name in step.names():
            if bound < _ANY and is_integer(specs(name)):
                found[name] = max(1, min(bound, found.get(name, _ANY)))
    return found


def _bound_of(step: Step, specs: Specs) -> int:
    """What the integers among a call's arguments must stay below; `_ANY` where nothing limits them."""
    tables = [spec for name in step.names() if (spec := specs(name)) is not None and not is_integer(spec)]
    if ROWS.fullmatch(step.op):
        return max((spec.shape[0] for spec in tables if len(spec.shape) == 2), default=_ANY)
    if step.op == "embedding_dense_backward":
        return _integer(step.args[2:3])
    if step.op == "one_hot":
        return _integer([*step.args[1:2], *[step.kwargs[key] for key in ("num_classes",) if key in step.kwargs]])
    own = _own(step, specs)
    if own is None:
        return _ANY
    if CLASSES.fullmatch(step.op):
        return own.shape[1] if len(own.shape) > 1 else _only(own.shape)
    if step.op in FLAT:
        return math.prod(own.shape)
    if ALONG.fullmatch(step.op):
        dim = step.kwargs.get("dim", step.args[1] if len(step.args) > 1 else None)
        known = type(dim) is int and -len(own.shape) <= dim < len(own.shape)
        return own.shape[dim] if known and type(dim) is int else _least(own.shape)
    return _least(_indexed(step, own)) if INDEXED.fullmatch(step.op) else _ANY


def _own(step: Step, specs: Specs) -> TensorSpec | None:
    """What an op works on: its first argument."""
    names = names_in(step.args[:1]) or step.names()
    return specs(names[0]) if names else None


def _indexed(step: Step, own: TensorSpec) -> tuple[int, ...]:
    """Sizes of the dimensions that tensors index; all of them where that cannot be told."""
    position = 2 if step.op.startswith("_unsafe_masked") else 1
    index = step.args[position] if len(step.args) > position else None
    if not isinstance(index, dict):
        return own.shape
    entries = index.get("list", index.get("tuple", [index]))
    if not isinstance(entries, list) or any(isinstance(entry, dict) and "ellipsis" in entry for entry in entries):
        return own.shape
    is_aten = step.op not in ITEMS  # there None stands for a whole dimension, here for a new one
    sized = [entry for entry in entries if is_aten or entry is not None]
    found = tuple(size for size, entry in zip(own.shape, sized, strict=False) if names_in(entry))
    return found or own.shape


def _least(shape: Iterable[int]) -> int:
    return min((size for size in shape if size > 0), default=_ANY)


def _only(shape: tuple[int, ...]) -> int:
    return shape[0] if shape else _ANY


def _integer(given: list[JsonValue]) -> int:
    return next((value for value in given if type(value) is int and value > 0), _ANY)

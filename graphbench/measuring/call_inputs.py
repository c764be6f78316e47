"""What a model or a step was called with, as records: specs of tensors, and values of what is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from graphbench.measurements import JsonValue
from graphbench.records import InputRecord
from graphbench.tensors import spec_of

_LONGEST = 200  # characters of a value that JSON has no word for


def input_records(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[InputRecord, ...]:
    """One record a tensor or value: `0`, `1`, ... by position, then by name; `images[0]` inside a container.

    `source` is the expression that finds it in `args` and `kwargs`.
    """
    found = []
    for holder, given in (("args", dict(enumerate(args))), ("kwargs", dict(kwargs))):
        for key, value in given.items():
            for path, leaf in pytree.tree_flatten_with_path(value)[0]:
                inside = pytree.keystr(path)
                found.append(_record(f"{key}{inside}", f"{holder}[{key!r}]{inside}", leaf))
    return tuple(found)


def _record(name: str, source: str, leaf: object) -> InputRecord:
    if isinstance(leaf, torch.Tensor):
        return InputRecord(name=name, source=source, kind="tensor", spec=spec_of(leaf))
    return InputRecord(name=name, source=source, kind="value", value=_json(leaf))


def _json(value: object) -> JsonValue:
    """A number or text as it is; anything else in Python's words."""
    exact = value is None or isinstance(value, (bool, str)) or (isinstance(value, int) and abs(value) < 1 << 63)
    if exact or (isinstance(value, float) and abs(value) < float("inf")):
        return value  # type: ignore[return-value]
    return repr(value)[:_LONGEST]

"""Calls of FX graphs as plain JSON: what is called, and with what. Shared by all who read graphs."""

from __future__ import annotations

import torch
from torch import fx

from graphbench.measurements import JsonValue


def callee(node: fx.Node) -> str:
    """What a node calls: `torch._C._nn.linear`, `torch.ops.aten.relu.default`, of a method its name.

    Source: `torch.fx.node._get_qualified_name`, with which FX writes a graph as code, torch 2.11, 2.13 and 2.14.
    """
    target = node.target
    if isinstance(target, str):
        return target
    if (op := getattr(target, "stands_for", None)) is not None:
        return str(op)
    try:
        return str(fx.node._get_qualified_name(target))
    except (RuntimeError, AttributeError):  # a callable object: torch has no name for it either
        return str(getattr(target, "__name__", type(target).__name__))


def prototype(value: object) -> JsonValue:
    """An argument as JSON that rebuilds it: nodes, dtypes, devices, slices and containers are tagged by kind."""
    if isinstance(value, fx.Node):
        return {"node": value.name}
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else {"float": repr(value)}
    if isinstance(value, slice):
        return {"slice": [prototype(value.start), prototype(value.stop), prototype(value.step)]}
    if isinstance(value, list):
        return {"list": [prototype(item) for item in value]}
    if isinstance(value, tuple):
        return {"tuple": [prototype(item) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[prototype(key), prototype(item)] for key, item in value.items()]}
    if value is Ellipsis:
        return {"ellipsis": True}
    if isinstance(value, (torch.dtype, torch.device, torch.layout, torch.memory_format)):
        return {type(value).__name__: str(value).removeprefix("torch.")}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    return {"opaque": f"{type(value).__module__}.{type(value).__qualname__}", "repr": repr(value)[:200]}

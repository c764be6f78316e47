"""A node's call with copies of the arguments that it had: the region is replayed eagerly to find them."""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from graphbench.analysis.views import spec_text
from graphbench.capture import ambient
from graphbench.condition_records import Ambient
from graphbench.errors import CaptureError, IsolationError
from graphbench.execution.interpreter import run_eager
from graphbench.execution.replay import shadow
from graphbench.isolate.pool import TensorPool
from graphbench.measuring.eager import function_of
from graphbench.replacing.target import Target
from graphbench.tensors import spec_of, tensors_of


@dataclass(frozen=True, slots=True)
class LiveCall:
    """What a node calls, the copies of its arguments, and the ambient state where it stands in its graph."""

    name: str
    function: Callable[..., Any]
    state: Ambient
    pool: TensorPool

    def arguments(self, *, with_grad: bool = True) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Its arguments over the copies. Whoever gets them must not write to them.

        Args:
            with_grad: let them require grad where the originals did.
        """
        args, kwargs = self.pool.tree(with_grad=with_grad)
        return tuple(args), dict(kwargs)

    def as_text(self) -> str:
        """Its arguments as a call shows them, as `(f32[8,16], approximate='none')`."""
        args, kwargs = self.pool.originals
        shown = [_shown(value) for value in args] + [f"{name}={_shown(value)}" for name, value in kwargs.items()]
        return f"({', '.join(shown)})"

    def writable(self) -> TensorPool:
        """Copies of the copies, which may be written; what is written is found and put back by them."""
        return TensorPool(self.arguments(with_grad=False))


def _shown(value: Any) -> str:
    return spec_text(spec_of(value)) if isinstance(value, torch.Tensor) else reprlib.repr(value)


def live_call(target: Target) -> LiveCall:
    """Replay a node's region eagerly, and copy the arguments that the node is called with.

    The region's inputs must be present, and its ambient state in force.

    Raises:
        CaptureError: the replay raised before the node, or does not reach it.
        IsolationError: an argument cannot be copied byte by byte.
    """
    capture = target.region.capture
    assert capture is not None
    found: list[LiveCall] = []

    def visit(node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any], call: Callable[[], Any]) -> Any:
        if node.name == target.node.name and not found:
            found.append(_copied(target, node, args, kwargs))
        return call()

    torch.clear_autocast_cache()
    run_eager(target.region.gm, shadow(capture.values), visit)
    if not found:
        raise CaptureError(f"{target.name}: the eager replay of its region does not reach it", subject=target.name)
    return found[0]


def _copied(target: Target, node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> LiveCall:
    kinds = {"cpu", *(tensor.device.type for tensor in tensors_of((args, kwargs)))}
    try:
        pool = TensorPool((args, kwargs))
    except IsolationError as error:
        raise IsolationError(f"{target.name}: {error.message}", subject=target.name) from error
    return LiveCall(target.name, function_of(node), ambient.current(tuple(sorted(kinds))), pool)

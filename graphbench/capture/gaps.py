"""What runs eagerly outside compiled graphs: a dispatch mode that hears every such op and leaves compiled code on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from graphbench.capture import source_lines
from graphbench.measurements import SourceLine

GapPhase = Literal["forward", "backward", "optimizer"]


@dataclass(frozen=True, slots=True)
class GapOp:
    """An op outside compiled graphs: `op_type` as `add` or `ns.op`; where the user's code was."""

    op_type: str
    phase: GapPhase
    source: SourceLine | None

    @property
    def row(self) -> str:
        """The row that equal gap ops share."""
        where = f"{self.source.file}:{self.source.line}" if self.source else "autograd"
        return f"gap/{self.phase}/{self.op_type}@{where}"


class CompiledDepth(threading.local):
    """How many compiled graphs the thread is inside; their own extern calls are no gap ops."""

    depth = 0


class GapMode(TorchDispatchMode):
    """Hands every op that no compiled graph runs to `on_op(op, call)`, which must return `call()`'s result.

    Source: `TorchDispatchMode.ignore_compile_internals`, torch 2.11 to 2.14; a mode without it makes compiled code run
    eagerly, silently.
    """

    supports_higher_order_operators = True

    def __init__(self, inside: CompiledDepth, on_op: Callable[[GapOp, Callable[[], Any]], Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._inside = inside
        self._on_op = on_op

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Keep compiled code compiled."""
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Label one op."""
        if self._inside.depth or getattr(func, "namespace", "") == "profiler":  # marks of a profiler are no work
            return func(*args, **(kwargs or {}))
        return self._on_op(_gap_op(func), lambda: func(*args, **(kwargs or {})))


def _gap_op(func: Any) -> GapOp:
    source, in_optimizer = source_lines.of_caller()
    in_backward = torch._C._current_graph_task_id() != -1
    name = str(getattr(func, "_opname", None) or getattr(func, "__name__", func))
    space = getattr(func, "namespace", "aten")
    phase: GapPhase = "backward" if in_backward else "optimizer" if in_optimizer else "forward"
    return GapOp(name if space in ("aten", "higher_order") else f"{space}.{name}", phase, source)

"""How an op says how it is to be benchmarked: the protocol `__graphbench_bench__`. No torch import."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

BENCH: Final = "__graphbench_bench__"
"""The attribute that graphbench looks for."""


@dataclass(frozen=True, slots=True)
class BenchInputs:
    """What one call of an op was given, nested as it was.

    Tensors are copies, with the shapes, strides, alignment, aliasing and values of the call's own; none requires grad,
    but while the op's backward is measured. They may be kept, and are put back before every sample where the op
    writes them. Everything else is the call's own object. `args` are positional, `kwargs` named. Of a Triton kernel
    all arguments are named, constants too, and `grid` is what it is launched over.
    """

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


@runtime_checkable
class Benchable(Protocol):
    """An op that says how it is benchmarked alone, since its arguments do not rebuild its call.

    The attribute may be of a function, an operator of `torch.library`, an `autograd.Function`, a Triton kernel, or of
    an object among the call's arguments.
    """

    def __graphbench_bench__(self, inputs: BenchInputs) -> Callable[[], object]:
        """Prepare one call, and return what makes it.

        Args:
            inputs: what the call was given.

        Returns:
            A callable without arguments, which is timed again and again: it must do the same work every time, on the
            device and in the thread that it is called in, and allocate no more than its results. Results with the
            layouts of the real call's are compared with those; `None` leaves that out.
        """
        ...

"""What runs eagerly outside compiled graphs: a dispatch mode that hears every such op and leaves compiled code on."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import thread as pools
from contextlib import AbstractContextManager
from typing import Any

from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _get_current_dispatch_mode,
    _get_current_dispatch_mode_stack,
    _pop_mode,
    _push_mode,
)

from graphbench.put_back import put_back, replaced

GapCall = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
"""`on_op(function, args, kwargs)`: must call `function` and return its result."""

QUERIES = {
    *("dim", "is_contiguous", "sym_is_contiguous", "is_non_overlapping_and_dense", "is_strides_like_format"),
    *("layout", "device", "numel", "size", "storage_offset", "stride"),
    *("sym_numel", "sym_size", "sym_storage_offset", "sym_stride"),
}
"""What torch asks a tensor subclass about itself through the dispatcher: no work, and asked under autograd's locks, so
that whoever looks at the tensor meanwhile (`grad_fn`, `is_leaf`) may wait for itself for ever.

Source: `ConcretePyInterpreterVTable` (torch/csrc/PyInterpreter.cpp), `VariableHooks::grad_fn`, torch 2.11 to 2.14.
"""


class Depth(threading.local):
    """How deep the thread is inside what is labelled as a whole (a compiled graph, a gap op): no gap op is in there."""

    depth = 0

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """While inside, the thread's ops are none of their own."""
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1


class GapMode(TorchDispatchMode):
    """Hands every op of its thread that no compiled graph runs to `on_op`. Autograd's threads inherit it.

    Source: `TorchDispatchMode.ignore_compile_internals`, torch 2.11 to 2.14; a mode without it makes compiled code run
    eagerly, silently. `at::ThreadLocalState` carries modes into the threads of the autograd engine.
    """

    supports_higher_order_operators = True

    def __init__(self, inside: Depth, on_op: GapCall) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._inside = inside
        self._on_op = on_op

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Keep compiled code compiled."""
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Pass one op on."""
        if self._inside.depth or _is_no_work(func):
            return func(*args, **(kwargs or {}))
        return self._on_op(func, args, kwargs or {})


def _is_no_work(function: Any) -> bool:
    """Whether it is a mark of a profiler, or a question to a tensor subclass."""
    space = getattr(function, "namespace", "")
    return space == "profiler" or (space in ("aten", "prim") and function._opname in QUERIES)


@contextlib.contextmanager
def modes_put_back() -> Iterator[None]:
    """The calling thread's dispatch modes are afterwards those that they were.

    Source: `torch.utils._python_dispatch._push_mode`, `_pop_mode`, torch 2.11 to 2.14.
    """
    before = _get_current_dispatch_mode_stack()

    def undo() -> None:
        if [id(mode) for mode in _get_current_dispatch_mode_stack()] == [id(mode) for mode in before]:
            return
        while _get_current_dispatch_mode_stack():
            _pop_mode()
        for mode in before:
            _push_mode(mode)

    with put_back(undo):
        yield


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """While inside, ops of this thread are not even looked at: a mode costs every op of a compiled graph some µs.

    A mode of the user's own that lies above stays, and so does what lies below it.
    """
    mode = _get_current_dispatch_mode()
    if not isinstance(mode, GapMode):
        yield
        return
    with modes_put_back():
        _pop_mode()
        yield


@contextlib.contextmanager
def in_other_threads(around: Callable[[], AbstractContextManager[GapMode]]) -> Iterator[None]:
    """While inside, threads that are started and tasks of thread pools run within `around()`, under the mode it gives.

    A thread that ran before and takes no tasks from a pool cannot be reached. Tasks of a thread that was started while
    inside are within `around()` already.

    Source: `threading.Thread._bootstrap_inner`, `concurrent.futures.thread._WorkItem.run`, Python 3.10 to 3.13;
        `torch.utils._python_dispatch._push_mode`, torch 2.11 to 2.14.
    """
    depth = Depth()
    with contextlib.ExitStack() as undo:
        for owner, name in ((threading.Thread, "_bootstrap_inner"), (pools._WorkItem, "run")):
            undo.enter_context(_wrapped(owner, name, around, depth))
        yield


@contextlib.contextmanager
def _wrapped(
    owner: Any, name: str, around: Callable[[], AbstractContextManager[GapMode]], depth: Depth
) -> Iterator[None]:
    below = getattr(owner, name)

    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        if depth.depth:
            return below(self, *args, **kwargs)
        with depth.inside(), around() as mode:
            # Not `with mode`: that also sets flags of the whole process, which two threads would put back out of order.
            _push_mode(mode)
            try:
                return below(self, *args, **kwargs)
            finally:
                _pop_mode()

    with replaced(owner, name, wrapped):
        yield


@contextlib.contextmanager
def foreign_modes() -> Iterator[set[str]]:
    """Names of the dispatch modes, on now or entered while inside, under which torch runs compiled code eagerly.

    Source: `torch.utils._python_dispatch.is_in_any_mode_without_ignore_compile_internals`, which Dynamo asks for every
        frame, torch 2.11 to 2.14.
    """
    found = {_name(mode) for mode in _get_current_dispatch_mode_stack() if _disables(mode)}
    enter = TorchDispatchMode.__enter__

    def entered(mode: TorchDispatchMode) -> Any:
        if _disables(mode):
            found.add(_name(mode))
        return enter(mode)  # type: ignore[no-untyped-call]

    with replaced(TorchDispatchMode, "__enter__", entered):
        yield found


def _disables(mode: TorchDispatchMode) -> bool:
    return not type(mode).ignore_compile_internals()


def _name(mode: TorchDispatchMode) -> str:
    return type(mode).__name__

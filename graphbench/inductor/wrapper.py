"""Labelled execution of Inductor's own wrapper: its code object is swapped while measuring, and put back.

Kernels are neither loaded nor tuned again; not measuring, nothing of graphbench is in the wrapper.
"""

from __future__ import annotations

import ast
import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from threading import get_ident
from types import CodeType, FrameType, FunctionType
from typing import Any, Final, NamedTuple, cast

import torch
from torch._inductor.output_code import CompiledFxGraph

from graphbench.errors import ProvenanceError
from graphbench.inductor.compile import CompiledGraph
from graphbench.inductor.cuda_graphs import called_instead, is_wrapped, partitions
from graphbench.inductor.sites import HOOK_NAME, RUNNER, CppArguments, Site, cpp_arguments, instrument
from graphbench.probes.features import require
from graphbench.put_back import put_back, replaced

KernelHook = Callable[[Site, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
LEAVING_S: Final = 1.0
"""How long to wait for threads that are still inside an instrumented call."""


class Swap(NamedTuple):
    """A function of the generated wrapper with its own code, and the code that stands in for it while measuring."""

    function: FunctionType
    plain: CodeType
    instrumented: CodeType


@dataclass(frozen=True, slots=True)
class Wrapper:
    """The instrumented twin of one graph's loaded wrapper module."""

    graph: CompiledGraph
    source: str
    sites: tuple[Site, ...]
    call: FunctionType
    namespace: Mapping[str, Any]
    swaps: tuple[Swap, ...]
    cpp: Mapping[str, CppArguments]


def prepare(graph: CompiledGraph) -> Wrapper:
    """Compile the instrumented classes and functions in a copy of the loaded module's globals (same kernel objects).

    Done once per graph: it takes some ms, and code that has run before runs faster.

    Raises:
        ProvenanceError: the artifact has no Python wrapper, or one without the class that is labelled.
        SetupError: this torch writes wrappers of another shape.

    Source: `torch._inductor.output_code.CompiledFxGraph.compiled_fn_runner` and `.source_code`, torch 2.11, 2.13, 2.14.
    """
    if graph.prepared is not None:
        return cast("Wrapper", graph.prepared)
    require("labelling")
    call = getattr(type(graph.artifact.compiled_fn_runner), "call", None)
    source = graph.artifact.source_code
    if not isinstance(call, FunctionType) or not (instrumented := instrument(source)).has_runner:
        raise ProvenanceError(
            f"this graph's code has no class {RUNNER} with a method call, so its kernel calls cannot be labelled",
            hint="compile without graph_partition=False, cpp_wrapper and ahead-of-time packaging",
        )
    namespace = dict(call.__globals__)
    exec(compile(instrumented.definitions, call.__globals__["__file__"], "exec"), namespace)
    written = cpp_arguments(ast.parse(source))
    graph.prepared = Wrapper(graph, source, instrumented.sites, call, namespace, _swaps(call, namespace), written)
    return cast("Wrapper", graph.prepared)


@contextlib.contextmanager
def labelled(wrapper: Wrapper, on_kernel: KernelHook) -> Iterator[None]:
    """Send every kernel call of the graph through `on_kernel` while inside, in whatever thread it happens.

    `on_kernel(site, function, args, kwargs)` must call `function` and return its result. A graph that Inductor
    wrapped in CUDA graphs runs uncaptured meanwhile: a replay would pass the swapped code by.

    Afterwards the functions have the code that they had when the wrapper was prepared, so that a process forked while
    another thread was inside is mended by the first use of its own.
    """

    def hook(site: int, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return on_kernel(wrapper.sites[site], function, args, kwargs)

    with contextlib.ExitStack() as undo:
        if is_wrapped(wrapper.graph):
            undo.enter_context(_uncaptured(wrapper, hook))
        else:
            undo.enter_context(_hooked(wrapper, hook))
            for swap in wrapper.swaps:
                undo.enter_context(_swapped(*swap))
        yield


@contextlib.contextmanager
def _swapped(function: FunctionType, plain: CodeType, instrumented: CodeType) -> Iterator[None]:
    with put_back(partial(setattr, function, "__code__", plain)):
        function.__code__ = instrumented
        yield


@contextlib.contextmanager
def _hooked(wrapper: Wrapper, hook: Callable[..., Any]) -> Iterator[None]:
    """The hook's name in the wrapper's module. It stays for a thread that is still running instrumented code."""
    module = wrapper.call.__globals__

    def unhook() -> None:
        module[HOOK_NAME] = _passed_on  # whoever is late in there makes plain calls
        if _left_by_others(wrapper):
            module.pop(HOOK_NAME, None)

    with put_back(unhook):
        module[HOOK_NAME] = hook
        yield


def _passed_on(site: int, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


def _left_by_others(wrapper: Wrapper) -> bool:
    """Wait until no other thread runs the instrumented code, which is in no function any more; `False` if one stays."""
    codes = {swap.instrumented for swap in wrapper.swaps}
    end_s = time.monotonic() + LEAVING_S
    while any(_runs(frame, codes) for thread, frame in sys._current_frames().items() if thread != get_ident()):
        if time.monotonic() > end_s:
            return False
        time.sleep(0.001)
    return True


def _runs(frame: FrameType | None, codes: set[CodeType]) -> bool:
    while frame is not None:
        if frame.f_code in codes:
            return True
        frame = frame.f_back
    return False


def _swaps(call: FunctionType, namespace: Mapping[str, Any]) -> tuple[Swap, ...]:
    """The wrapper's `call` and every module-level function that its source defines (partitions, branches, bodies)."""
    swaps = [Swap(call, call.__code__, namespace["Runner"].call.__code__)]
    for name, function in call.__globals__.items():
        twin = namespace.get(name, function)
        if twin is not function and isinstance(function, FunctionType) and isinstance(twin, FunctionType):
            swaps.append(Swap(function, function.__code__, twin.__code__))
    return tuple(swaps)


@contextlib.contextmanager
def _uncaptured(wrapper: Wrapper, hook: Callable[..., Any]) -> Iterator[None]:
    """Put a fresh runner, instrumented and uncaptured, in place of the callable that replays CUDA graphs."""
    namespace = dict(wrapper.namespace)
    exec(compile(instrument(wrapper.source).definitions, namespace["__file__"], "exec"), namespace)
    namespace[HOOK_NAME] = hook
    runner = namespace["Runner"](partitions=partitions(namespace))
    with called_instead(wrapper.graph, runner.call):
        yield


@contextlib.contextmanager
def around_calls(graph: CompiledGraph, enter: Callable[[list[Any]], AbstractContextManager[None]]) -> Iterator[None]:
    """While inside, every call of the compiled graph runs within `enter(inputs)`, which must leave these alone."""

    def around(below: Callable[[list[Any]], Any], args: list[Any]) -> Any:
        with enter(args):
            return below(args)

    with _in_front(graph, around):
        yield


@contextlib.contextmanager
def before_calls(graph: CompiledGraph, look: Callable[[list[Any]], None]) -> Iterator[None]:
    """While inside, `look` is shown the inputs of every call of the compiled graph first; it must leave them alone."""

    def before(below: Callable[[list[Any]], Any], args: list[Any]) -> Any:
        look(args)
        return below(args)

    with _in_front(graph, before):
        yield


@contextlib.contextmanager
def _in_front(graph: CompiledGraph, stand_in: Callable[[Callable[[list[Any]], Any], list[Any]], Any]) -> Iterator[None]:
    """Let `stand_in(below, args)` stand in for the graph's callable; `below` empties the list that it is given.

    Source: `CompiledFxGraph.current_callable`, read on each call, torch 2.11, 2.13 and 2.14.
    """
    below = graph.artifact.current_callable

    def call(args: list[Any]) -> Any:
        return stand_in(below, args)

    call._boxed_call = True  # type: ignore[attr-defined]
    with replaced(graph.artifact, "current_callable", call):
        yield


@contextlib.contextmanager
def all_calls(heard: Callable[[Any], None]) -> Iterator[None]:
    """While inside, `heard` is given the artifact of every graph of Inductor's that is called, whoever compiled it.

    Source: `torch._inductor.output_code.CompiledFxGraph.__call__`, torch 2.11 to 2.14.
    """
    below = CompiledFxGraph.__call__

    def call(artifact: CompiledFxGraph, inputs: Sequence[Any]) -> Any:
        heard(artifact)
        return below(artifact, inputs)

    with replaced(CompiledFxGraph, "__call__", call):
        yield


def is_plain(graph: CompiledGraph) -> bool:
    """Whether Inductor's own code is in place: neither the hook in the module nor a call of it in the code object."""
    call = getattr(type(graph.artifact.compiled_fn_runner), "call", None)
    return call is None or (HOOK_NAME not in call.__globals__ and HOOK_NAME not in call.__code__.co_names)


def written_arguments(
    wrapper: Wrapper, site: Site, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> set[int | str]:
    """Positions and names of the arguments that a kernel call writes.

    Triton kernels name what they write (`in_out_ptr*`, `out_ptr*`, `ws_ptr*`) and list other mutated arguments; C++
    kernels declare const pointers; torch ops have a schema; extern calls write `out=`.

    Source: `torch._inductor.runtime.triton_heuristics.CachingAutotuner` (`fn.arg_names`, `mutated_arg_names`,
    `reset_to_zero_arg_names`), torch 2.11 and 2.13.
    """
    if site.name in wrapper.cpp:
        return set(wrapper.cpp[site.name].written)
    autotuner: Any = getattr(function, "__self__", None)
    names = getattr(getattr(autotuner, "fn", None), "arg_names", None)
    if names is not None:
        mutated = {*(autotuner.mutated_arg_names or ()), *(getattr(autotuner, "reset_to_zero_arg_names", None) or ())}
        prefixes = ("in_out_ptr", "out_ptr", "ws_ptr") if site.kind != "user-triton" else ()
        return {
            i
            for i, name in enumerate(names[: len(args)])
            if name in mutated or (prefixes and name.startswith(prefixes))
        }
    if isinstance(function, torch._ops.OpOverload):
        arguments = function._schema.arguments
        return {
            argument.name if argument.kwarg_only or index >= len(args) else index
            for index, argument in enumerate(arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        }
    return {name for name in kwargs if name == "out"}


def updated_arguments(wrapper: Wrapper, site: Site, function: Callable[..., Any]) -> set[int]:
    """Positions of those arguments that a generated kernel writes and reads as well.

    Outputs that it mutates (`out_ptr*`) are the ends of in-place ops, which overwrite, more often than sums.

    Source: as of `written_arguments`.
    """
    if site.name in wrapper.cpp:
        return set(wrapper.cpp[site.name].updated)
    autotuner: Any = getattr(function, "__self__", None)
    names = getattr(getattr(autotuner, "fn", None), "arg_names", None) or ()
    mutated = set(getattr(autotuner, "mutated_arg_names", None) or ())
    return {
        i
        for i, name in enumerate(names)
        if name.startswith("in_out_ptr") or (name in mutated and not name.startswith("out_ptr"))
    }

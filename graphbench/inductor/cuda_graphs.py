"""CUDA graphs that Inductor put around a compiled graph: whether it did, why not, and running past them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from graphbench.inductor.compile import CompiledGraph
from graphbench.inductor.partitions import PARTITION
from graphbench.inductor.refusals import REASON_CHARACTERS
from graphbench.put_back import replaced

SKIPPING: Final = "skipping cudagraphs due to "


def is_wrapped(graph: CompiledGraph) -> bool:
    """Whether Inductor put CUDA graphs around this graph's kernels, or around some of them.

    Source: `CompiledFxGraph.fx_kwargs["cudagraphs"]` and `.disabled_cudagraphs_reason`, torch 2.11, 2.13 and 2.14.
    """
    cudagraphs = graph.artifact.fx_kwargs.get("cudagraphs")
    return bool(getattr(cudagraphs, "value", cudagraphs)) and graph.artifact.disabled_cudagraphs_reason is None


def replays(graph: CompiledGraph) -> bool:
    """Whether replays of this graph are those of CUDA graphs.

    What writes an input that may lie elsewhere at every call runs without, though it was wrapped.
    """
    return is_wrapped(graph) and not _moving(graph)


def not_used(graph: CompiledGraph) -> str:
    """Why CUDA graphs, asked for, are not replayed; "" where they are, or nobody asked for them.

    Source: `torch._inductor.output_code.cudagraph_partition_post_compile` and `cudagraph_post_compile`, and what they
        check, torch 2.11, 2.13 and 2.14.
    """
    artifact = graph.artifact
    if artifact is None or not graph.asked_for_cuda_graphs or replays(graph):
        return ""
    if is_wrapped(graph):
        names = ", ".join(_moving(graph))
        return f"it writes inputs that are neither parameters nor buffers nor marked static: {names}"
    if "cuda" not in artifact.device_types:
        where = ", ".join(sorted(artifact.device_types)) or "no device"
        return f"its kernels run on {where}, and a CUDA graph holds work of a CUDA device only"
    if artifact.disabled_cudagraphs_reason:
        return " ".join(artifact.disabled_cudagraphs_reason.split()).removeprefix(SKIPPING)[:REASON_CHARACTERS]
    failed = getattr(artifact.cudagraph_info, "cudagraph_fail_reasons", None)
    if failed:
        return ", ".join(failed)
    if not artifact.partition_maps:
        return "none of its kernels can be in one"
    return "Inductor gave them up for another graph of the region"


def _moving(graph: CompiledGraph) -> tuple[str, ...]:
    """Inputs that the graph writes and of which Inductor does not know that they stay where they are.

    Source: `torch._inductor.cudagraph_utils.check_for_mutation`, which each call asks, torch 2.11, 2.13 and 2.14.
    """
    artifact = graph.artifact
    moving = set(artifact.mutated_input_idxs) - set(artifact.fx_kwargs.get("static_input_idxs") or ())
    if not moving:
        return ()
    names = [node.name for node in graph.inputs]
    return tuple(names[index] if index < len(names) else f"input {index}" for index in sorted(moving))


@contextlib.contextmanager
def passed_by(graph: CompiledGraph) -> Iterator[None]:
    """While inside, every call of the graph runs Inductor's own code, its kernels launched one by one.

    Source: `CompiledFxGraph.compiled_fn_runner`, a `Runner` of the generated module, of which only the partitions were
        wrapped; its module has the functions as they were written. torch 2.11, 2.13 and 2.14.
    """
    kind = type(graph.artifact.compiled_fn_runner)
    with called_instead(graph, kind(partitions=partitions(kind.call.__globals__)).call):
        yield


def partitions(namespace: Mapping[str, Any]) -> list[Callable[[list[Any]], Any]]:
    """The partitions that a generated wrapper defines, in their order."""
    numbered = {int(found[1]): name for name in namespace if (found := PARTITION.fullmatch(name))}
    return [namespace[numbered[number]] for number in sorted(numbered)]


@contextlib.contextmanager
def called_instead(graph: CompiledGraph, call: Callable[[list[Any]], Any]) -> Iterator[None]:
    """Put `call` in place of what replays CUDA graphs. A backward tells those of its forward that it has begun.

    Source: `torch._inductor.output_code.maybe_handle_backward_generation`, which does so for a backward without CUDA
        graphs; `torch._inductor.cudagraph_trees.get_manager`, torch 2.11, 2.13 and 2.14.
    """
    manager = _manager(graph) if graph.phase == "backward" else None

    def backward(args: list[Any]) -> Any:
        if manager is not None:
            manager.set_to_running_backward()
        return call(args)

    backward._boxed_call = True  # type: ignore[attr-defined]
    with replaced(graph.artifact, "current_callable", backward if manager is not None else call):
        yield


def _manager(graph: CompiledGraph) -> Any:
    from torch._inductor.cudagraph_trees import get_manager

    return get_manager(next(iter(graph.artifact.device_idxs)), create_if_none_exists=False)

"""The region's graph as it is and with the candidate in it: compiled the same way, and timed against each other."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import fx

from graphbench.capture import graphs
from graphbench.comparing.compare import compare_implementations
from graphbench.comparing.implementation import Implementation
from graphbench.comparing.table import ImplementationTable
from graphbench.errors import CaptureError, GraphbenchError, first_line
from graphbench.execution.backward import Backward, edges_of
from graphbench.execution.replay import CapturedInput, shadow
from graphbench.inductor import wrapper as wrappers
from graphbench.inductor.compile import CompiledGraph, compile_region
from graphbench.isolate.bench_unit import RngState
from graphbench.isolate.compare import compare_trees
from graphbench.measurements import Comparison
from graphbench.options import MeasureOptions
from graphbench.records import Phase
from graphbench.regions import Capture, Region
from graphbench.replacing.alone import CANDIDATE, ORIGINAL
from graphbench.replacing.rewriting import Traced, rewritten
from graphbench.tensors import random_tangent, tensors_of

CHAIN_TOLERANCE = 10.0
"""Results of a whole graph may differ by so many times what one op's may."""


@dataclass(slots=True)
class CompiledCopy:
    """A copy of the region's graph, compiled. Every run takes the arguments that `prepare` made `ready`, untimed.

    `tangents` are those of every backward, the same list for both copies; empty until the results are known.
    """

    name: str
    compiled: Callable[..., Any]
    inputs: Sequence[CapturedInput]
    graphs: list[CompiledGraph]
    tangents: list[torch.Tensor]
    ready: list[Any] = field(default_factory=list)

    def prepare(self) -> None:
        """Make the next run's arguments."""
        self.ready = shadow(self.inputs)

    def forward(self) -> Any:
        """Run once."""
        ready, self.ready = self.ready, []
        return self.compiled(*ready)

    def forward_and_backward(self) -> tuple[Any, ...]:
        """Run once, then the backward from the same tangents in every run. Returns the results and the gradients.

        Autocast is off in the backward, as where users call it.
        """
        edges = edges_of(self.ready)
        results = self.forward()
        outputs = grown(results)
        kind = self.tangents[0].device.type
        outside = torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else contextlib.nullcontext()
        with outside:
            return results, Backward(outputs, edges, self.tangents).run()

    def kernels(self, phase: Phase) -> int:
        """How many kernel calls Inductor made of its graph of a phase."""
        found = [graph for graph in self.graphs if graph.phase == phase and graph.artifact is not None]
        return len(wrappers.prepare(found[-1]).sites) if found else 0


def grown(results: Any) -> list[torch.Tensor]:
    """The results that have a backward, each once."""
    found = {id(tensor): tensor for tensor in tensors_of(results)}.values()
    return [tensor for tensor in found if tensor.requires_grad and tensor.grad_fn is not None]


def compiled_copies(region: Region, names: Sequence[str], traced: Traced) -> tuple[CompiledCopy, CompiledCopy]:
    """Both graphs, compiled by Inductor with the region's own options; the session hears nothing of them.

    Inputs must be present, and the region's ambient state in force.

    Raises:
        CaptureError: Inductor refuses the graph with the candidate in it.
    """
    capture = region.capture
    assert capture is not None
    tangents: list[torch.Tensor] = []
    original = _compiled(ORIGINAL, region, graphs.copy_graph(region.gm, to_compile=True), capture.values, tangents)
    lifted = [CapturedInput(value.detach(), requires_grad=value.requires_grad) for value in traced.lifted]
    with_candidate = rewritten(region.gm, names, traced)
    return original, _compiled(CANDIDATE, region, with_candidate, [*capture.values, *lifted], tangents)


def _compiled(
    name: str, region: Region, gm: fx.GraphModule, inputs: Sequence[CapturedInput], tangents: list[torch.Tensor]
) -> CompiledCopy:
    made: list[CompiledGraph] = []
    _as_from_dynamo(gm, region.compile_id)
    try:
        compiled = compile_region(gm, shadow(inputs), region.backend_options, made.append)
    except GraphbenchError:
        raise
    except Exception as error:
        raise CaptureError(
            f"{region.key}: compiling its graph with the {name} raised {type(error).__name__}: {first_line(error)}",
            hint="--debug shows the traceback",
            subject=region.key,
        ) from error
    return CompiledCopy(name, compiled, inputs, made, tangents)


def _as_from_dynamo(gm: fx.GraphModule, compile_id: str) -> None:
    """Let AOTAutograd read which inputs are parameters: CUDA graphs copy all others in at every replay.

    It asks for sources that only Dynamo knows where the graph holds tensors itself; such a graph is left as it is.

    Source: `torch._functorch._aot_autograd.frontend_utils._try_get_metadata_from_dynamo`, torch 2.11, 2.13 and 2.14.
    """
    if gm.state_dict():
        return
    gm.meta["dynamo_compile_id"] = compile_id
    vars(gm)["_param_name_to_source"] = {}
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            vars(node).setdefault("_dynamo_source", None)


@dataclass(frozen=True, slots=True)
class InGraph:
    """What both graphs did: compared, then timed. `step` is forward and backward, `None` without a backward.

    `kernels` are the counts of kernel calls of the original and of the candidate, forward first.
    """

    forward: ImplementationTable
    step: ImplementationTable | None
    difference: Comparison
    step_difference: Comparison | None
    kernels: tuple[tuple[int, int], tuple[int, int]]


def time_in_graph(
    capture: Capture, copies: tuple[CompiledCopy, CompiledCopy], options: MeasureOptions, draws: str, tolerance: float
) -> InGraph:
    """Run both graphs once and compare, then time them, A B B A, forward and with the backward.

    Args:
        capture: of the region.
        copies: the original first.
        options: how to measure; whole runs find caches as the run before left them.
        draws: why results are not compared, where random numbers are drawn by what was replaced.
        tolerance: as for one op; a whole graph may differ by 10 times as much.
    """
    warm = replace(options, l2="warm") if capture.device.type == "cuda" and options.l2 is None else options
    difference = _compared(capture.device, copies, CompiledCopy.forward, draws, tolerance)
    forward = _timed(copies, CompiledCopy.forward, warm, capture.device)
    step = step_difference = None
    original = copies[0]
    original.prepare()
    outputs = grown(original.forward())
    if outputs:
        original.tangents += [random_tangent(output.detach()) for output in outputs]
        del outputs
        step_difference = _compared(capture.device, copies, CompiledCopy.forward_and_backward, draws, tolerance)
        step = _timed(copies, CompiledCopy.forward_and_backward, warm, capture.device)
    counts = [(each.kernels("forward"), each.kernels("backward")) for each in copies]
    kernels = tuple(zip(*counts, strict=True))
    return InGraph(forward, step, difference, step_difference, (kernels[0], kernels[1]))


def _compared(
    device: torch.device,
    copies: tuple[CompiledCopy, CompiledCopy],
    run: Callable[[CompiledCopy], Any],
    draws: str,
    tolerance: float,
) -> Comparison:
    """How the candidate's results differ; both start from the same random state."""
    generators = RngState(device)
    found: list[list[torch.Tensor]] = []
    for each in copies:
        generators.restore()
        torch.clear_autocast_cache()
        each.prepare()
        written = [value for value, entry in zip(each.ready, each.inputs, strict=True) if entry.mutated]
        results = [*tensors_of(run(each)), *tensors_of(written)]
        found.append([result.detach().clone() for result in results])
        del results  # CUDA graphs go on from the graph whose results are alive
    generators.restore()
    if draws:
        return Comparison(equal=None, max_abs=None, note=draws)
    return compare_trees(found[1], found[0], tolerance=CHAIN_TOLERANCE * tolerance)


def _timed(
    copies: Sequence[CompiledCopy],
    run: Callable[[CompiledCopy], Any],
    options: MeasureOptions,
    device: torch.device,
) -> ImplementationTable:
    entries = [Implementation(each.name, partial(run, each), inputs=(), reset=each.prepare) for each in copies]
    return compare_implementations(entries, (), options, device=device)

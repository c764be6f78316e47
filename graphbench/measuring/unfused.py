"""Unfused times: the graph that Inductor lowered, run op by op before the compiled call, each op isolated meanwhile."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from threading import get_ident
from typing import Any

import torch
from torch import fx

from graphbench.capture import ambient
from graphbench.condition_records import Policy
from graphbench.conservation import post_grad_row
from graphbench.errors import ContextLostError, JournalError, first_line
from graphbench.execution.lowered import run_lowered
from graphbench.inductor import wrapper as wrappers
from graphbench.inductor.compile import CompiledGraph
from graphbench.isolate.costs import span_of
from graphbench.measurements import Measurement, Status
from graphbench.measuring.calls import Call, Counted, Verdict
from graphbench.measuring.collectives import COLLECTIVE, is_collective
from graphbench.measuring.compiled import CompiledSide
from graphbench.measuring.isolating import Isolator
from graphbench.measuring.needs import Touched
from graphbench.measuring.opaque import OpaqueSide
from graphbench.measuring.runs import unmeasured
from graphbench.measuring.traffic import Contents, Written
from graphbench.measuring.unit_sizes import result_bytes
from graphbench.records import NO_TENSOR, VIEW, Phase, PostGradNode
from graphbench.tensors import shares_storage, tensors_of

NESTED = "part of a graph that an op runs: timed as that op"


def n_ops(graph: CompiledGraph) -> int:
    """How many ops isolating a graph's will visit."""
    if graph.lowered is None or not graph.post_grad:
        return 0
    return sum(node.op.startswith("call_") for node in graph.lowered.graph.nodes)


def quartered(policy: Policy) -> Policy:
    """The budgets of ops: a quarter of other units', since there are many times as many. Counts stay what they are."""
    return replace(
        policy,
        warmup_ms=policy.warmup_ms / 4,
        measure_ms=policy.measure_ms / 4,
        max_samples=max(policy.min_samples, policy.max_samples // 4),
    )


@contextlib.contextmanager
def isolating_ops(side: CompiledSide, isolator: Isolator, tick: Callable[[], None]) -> Iterator[None]:
    """While inside, the calling thread's first call of the graph is preceded by a run of its ops, each isolated.

    Args:
        side: the graph; its `unfused` is filled in.
        isolator: times the units.
        tick: called after every op.
    """
    thread = get_ident()

    def before(args: list[Any]) -> None:
        if get_ident() == thread:
            if n_ops(side.graph) and not side.unfused_ran:
                _isolate_ops(side, args, isolator, tick)
            side.begin_traffic(args)

    with wrappers.before_calls(side.graph, before):
        yield


def _isolate_ops(side: CompiledSide, args: Sequence[Any], isolator: Isolator, tick: Callable[[], None]) -> None:
    lowered, found = side.graph.lowered, side.unfused
    assert lowered is not None
    side.unfused_ran = True
    values = Contents.of_inputs([node.name for node in lowered.graph.find_nodes(op="placeholder")], args)

    def visit(node: fx.Node, node_args: tuple[Any, ...], kwargs: dict[str, Any], call: Callable[[], Any]) -> Any:
        result, verdict = _isolate_op(side.graph.phase, node, node_args, kwargs, call, isolator)
        found[node.name] = verdict.measurement
        side.touched[node.name] = _touched(verdict.counted, result, values)
        for span in verdict.counted.spans:
            if span.written:
                values.put(Written(span.first, span.end, node.name, node.name, node.name))
        tick()
        return result

    def lost(node: fx.Node, status: Status, reason: str) -> None:
        found[node.name] = Measurement(status=status, reason=reason)
        tick()

    try:
        with _as_compiled():
            run_lowered(lowered, args, visit, lost)
    except (JournalError, ContextLostError):
        raise
    except Exception as error:  # noqa: BLE001 - the compiled call behind it must be made whatever this run raises
        side.unfused_stopped = f"the run of the lowered graph raised {type(error).__name__}: {first_line(error)}"


@contextlib.contextmanager
def _as_compiled() -> Iterator[None]:
    """No gradients and no autocast, as inside compiled code: both are in the graph already. Generators do not move."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(ambient.rng_untouched())
        stack.enter_context(torch.no_grad())
        for kind in ambient.DEVICE_TYPES:
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        yield


def _isolate_op(
    phase: Phase,
    node: fx.Node,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    call: Callable[[], Any],
    isolator: Isolator,
) -> tuple[Any, Verdict]:
    """The op's real result, and what it takes alone. A view that copies after all (`reshape`) is no view."""
    target: Any = node.target
    if not isinstance(target, torch._ops.OpOverload | torch._ops.HigherOrderOperator):
        result = call()
        return result, Verdict(unmeasured(VIEW if tensors_of(result) else NO_TENSOR))
    if is_collective(target):
        return call(), Verdict(unmeasured(COLLECTIVE))
    real = call
    if getattr(target, "is_view", False) or str(target).startswith("aten.sym_"):
        viewed = call()
        outputs, inputs = tensors_of(viewed), tensors_of((args, kwargs))
        if all(shares_storage(output, inputs) for output in outputs):
            return viewed, Verdict(unmeasured(VIEW if outputs else NO_TENSOR))
        real = lambda: viewed  # noqa: E731 - the call has been made
    unit = Call(
        post_grad_row(phase, node.name),
        target,
        args,
        kwargs,
        identity=target,
        synthetic=phase == "backward",
        result_bytes=0 if real is not call else result_bytes(node.meta.get("val")),
    )
    result, verdict = isolator.isolate(unit, real)
    return result, Verdict(unmeasured(VIEW)) if verdict.is_view else verdict


def _touched(counted: Counted, result: Any, values: Contents) -> Touched:
    """What an op reads of others' values by their names, makes and scatters; of a view, whose memory it shows."""
    if counted.work is None or counted.work.read_bytes is None:  # a view or an item of a result: it was not counted
        spans = [span for tensor in tensors_of(result) if (span := span_of(tensor))]
        shown = [entry.node for span in spans for entry, _ in values.at(span.first, span.end)]
        return Touched(base=shown[0] if shown else "")
    reads: dict[str, int] = {}
    for span in counted.spans:
        for entry, part in values.at(span.first, span.end) if span.read else ():
            reads[entry.node] = reads.get(entry.node, 0) + round(span.read * part)
    made = sum(span.written for span in counted.spans)
    return Touched(reads, made, counted.scattered_bytes)


def post_grad_records(side: CompiledSide | OpaqueSide, reason: str) -> tuple[PostGradNode, ...]:
    """The graph's post-grad nodes with their unfused times; `reason` says why the graph was not run, if it was not."""
    stopped, absent = side.unfused_stopped, reason or "not executed by the replayed call"
    nodes = (node for node in side.graph.post_grad if node.op not in ("placeholder", "get_attr"))
    missing = Measurement(status="failed", reason=stopped) if stopped else unmeasured(absent)
    return tuple(_record(node, side.unfused, missing) for node in nodes)


def _record(node: PostGradNode, unfused: Mapping[str, Measurement], missing: Measurement) -> PostGradNode:
    measurement = unfused.get(node.name) or (unmeasured(NESTED) if "." in node.name else missing)
    found_a_view = measurement.reason == VIEW and node.target != "getitem"  # some of which their schema does not tell
    return replace(node, isolated=measurement, is_view=node.is_view or found_a_view)

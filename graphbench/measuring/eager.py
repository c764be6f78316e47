"""The eager side of a region: its nodes labelled in order, each isolated with its backward where its inputs live."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import fx

from graphbench.errors import CaptureError, ContextLostError
from graphbench.execution.interpreter import run_eager
from graphbench.execution.replay import shadow
from graphbench.execution.transforms import Transformed, transformed
from graphbench.isolate.bench_unit import RngState
from graphbench.measurements import Measurement
from graphbench.measuring.calls import Call, not_isolated
from graphbench.measuring.isolating import Isolator
from graphbench.measuring.runs import Label, WholeRun, replaying, unmeasured
from graphbench.measuring.unit_sizes import result_bytes
from graphbench.records import NodeKind, NodeRecord
from graphbench.regions import Region
from graphbench.runs.ledger import Book
from graphbench.tensors import has_storage, on_host, spec_of, tensors_of

VALUES_BUDGET_BYTES = 1 << 30
VALUES_PARTS = 4
NODES_PASS = "nodes"


PRINTS = "it prints, and is not repeated alone: every run of the graph does it once"
INSIDE_TRANSFORM = "inside vmap or func.grad, whose values lie in no memory of their own: timed with the rest as {row}"


@dataclass(slots=True)
class EagerResults:
    """What the isolating pass found, by node name; `values` are eager results wanted for comparison with kernels.

    They and the `result` are kept on the host.
    """

    isolated: dict[str, Measurement] = field(default_factory=dict)
    backward: dict[str, Measurement] = field(default_factory=dict)
    kinds: dict[str, NodeKind] = field(default_factory=dict)
    outputs: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    values: dict[str, torch.Tensor] = field(default_factory=dict)
    result: Any = None
    draws: bool = False
    stopped: str = ""


def eager_run(region: Region, label: Label) -> WholeRun:
    """The region's own graph, node by node, every call but those that only set state under its node's label."""
    capture = region.capture
    assert capture is not None
    state = {node.name for node in region.nodes if node.kind == "state"}

    def visit(node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any], call: Callable[[], Any]) -> Any:
        return call() if node.name in state else label.call(node.name, call)

    def body(args: list[Any]) -> Any:
        return run_eager(region.gm, args, visit) if label.session is not None else region.gm(*args)

    def setup() -> list[Any]:
        torch.clear_autocast_cache()  # or only the first of many runs under one autocast would cast the weights
        return shadow(capture.values)

    return WholeRun(f"{region.key} eager", str(capture.device), setup, body)


def isolate_nodes(
    region: Region, isolator: Isolator, wanted: Collection[str], tick: Callable[[], None]
) -> EagerResults:
    """Isolate every node during one eager run.

    Args:
        region: a captured region.
        isolator: times the units; what is kept counts as held in its budget.
        wanted: nodes whose eager value is kept for comparison, up to 1 GiB and a quarter of what the budget leaves.
        tick: called after every node.

    Returns:
        Results by node. When the run stops early, the nodes behind it are missing and `stopped` says why.
    """
    found = EagerResults()
    _recall(found, isolator.book)
    if NODES_PASS in isolator.book.stopped or isolator.guard.is_lost():
        found.stopped = isolator.book.stopped.get(NODES_PASS, isolator.guard.reason)
        return found
    isolator.book.begin("pass", NODES_PASS)
    kinds = {node.name: node.kind for node in region.nodes}
    capture = region.capture
    assert capture is not None
    left = isolator.budget.left_bytes() if capture.device.type == "cpu" else None
    room = VALUES_BUDGET_BYTES if left is None else min(VALUES_BUDGET_BYTES, left // VALUES_PARTS)
    rng = RngState(capture.device)
    torch.clear_autocast_cache()

    parts = transformed(region.gm)

    def visit(node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any], call: Callable[[], Any]) -> Any:
        nonlocal room
        part = parts.get(node.name)
        if part is not None:
            result = _within(part, node, args, kwargs, call, isolator, found)
        elif kinds[node.name] == "state":
            result = call()
            found.isolated[node.name] = unmeasured("sets state only; runs, but is no timed row")
            found.backward[node.name] = unmeasured("sets state only")
        else:
            found.kinds[node.name] = kinds[node.name]
            result = _isolate_node(node, args, kwargs, call, isolator, found)
        found.outputs[node.name] = tuple(spec_of(tensor) for tensor in tensors_of(result))
        comparable = node.name in wanted and isinstance(result, torch.Tensor) and has_storage(result)
        if comparable and result.nbytes <= room:
            found.values[node.name] = result.detach().to("cpu", copy=True)
            room -= result.nbytes
            if result.device.type == "cpu":
                isolator.budget.held_bytes += result.nbytes
        tick()
        return result

    try:
        with replaying(f"{region.key} eager"):
            args = shadow(capture.values)
        # Its graph would keep everything that autograd saved until the region is done.
        found.result = on_host(run_eager(region.gm, args, visit))
    except (CaptureError, ContextLostError) as error:
        _stopped(found, isolator, error, kinds)
    found.draws = not isolator.guard.is_lost() and rng.moved()
    return found


def _stopped(
    found: EagerResults, isolator: Isolator, error: CaptureError | ContextLostError, kinds: Collection[str]
) -> None:
    """Note why the run came to no end. Of a lost device, the unit that lost it has told already."""
    if not isinstance(error, ContextLostError):
        try:
            isolator.guard.look(isolator.device, error)
        except ContextLostError as loss:
            error = loss
    if isinstance(error, ContextLostError):
        isolator.book.stop(NODES_PASS, error.message)
        isolator.guard.leave_if_lost()
    if isolator.guard.lost:
        found.stopped = isolator.guard.reason
        _recall(found, isolator.book)
        return
    found.stopped = error.message
    if error.subject is not None and error.subject in kinds:
        found.isolated[error.subject] = Measurement(status="failed", reason=error.message)


def _recall(found: EagerResults, book: Book) -> None:
    """Take over what was found of the nodes: by an earlier process, or in a run that came to no end."""
    for (kind, row), unit in book.units.items():
        (found.isolated if kind == "isolated" else found.backward)[row] = unit.measurement
        if unit.has_effect is False or unit.is_view:
            found.kinds[row] = "host" if unit.has_effect is False else "view"


def _isolate_node(
    node: fx.Node,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    call: Callable[[], Any],
    isolator: Isolator,
    found: EagerResults,
) -> Any:
    function = function_of(node)
    unit = Call(
        node.name,
        function,
        args,
        kwargs,
        identity=node.target,
        state=_live_state(),
        with_grad=True,
        result_bytes=0 if found.kinds.get(node.name) == "view" else result_bytes(node.meta.get("example_value")),
    )
    if _prints(function):
        found.backward[node.name] = unmeasured(PRINTS)
        result, verdict = not_isolated(unit, call, PRINTS)
        found.isolated[node.name], found.kinds[node.name] = verdict.measurement, "host"
        return result
    found.backward[node.name] = isolator.isolate_backward(unit)  # before the real call may write its arguments
    result, verdict = isolator.isolate(unit, call)
    found.isolated[node.name] = verdict.measurement
    if verdict.has_effect is False:
        found.kinds[node.name] = "host"
    elif verdict.is_view:
        found.kinds[node.name] = "view"
    return result


def _prints(function: Callable[..., Any]) -> bool:
    """Whether it is torch's op for printing. Source: `torch.ops.higher_order.print`, torch 2.11 to 2.14."""
    return isinstance(function, torch._ops.HigherOrderOperator) and function.__name__ == "print"


def _within(
    part: Transformed,
    node: fx.Node,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    call: Callable[[], Any],
    isolator: Isolator,
    found: EagerResults,
) -> Any:
    """Make a call inside a transform. Its values cannot be copied: the whole part is isolated once it is left."""
    part.see(node, args, kwargs)
    result = call()
    reason = INSIDE_TRANSFORM.format(row=part.row)
    found.isolated.setdefault(node.name, unmeasured(reason))
    found.backward.setdefault(node.name, unmeasured(reason))
    given = part.arguments() if node.name == part.last else None
    if given is not None:
        unit = Call(part.row, part.module, given, {}, identity=part.module, state=_live_state(), with_grad=True)
        found.backward[part.row] = isolator.isolate_backward(unit)
        _, verdict = isolator.isolate(unit, lambda: part.module(*given))
        found.isolated[part.row] = verdict.measurement
    return result


def function_of(node: fx.Node) -> Callable[..., Any]:
    """What a node calls: a function, or a method of its first argument."""
    target = node.target
    if isinstance(target, str):
        name = target

        def method(owner: Any, *args: Any, **kwargs: Any) -> Any:
            return getattr(owner, name)(*args, **kwargs)

        method.__name__ = name
        return method
    return target


def _live_state() -> tuple[object, ...]:
    """Ambient state at this node, as the graph itself may have changed it."""
    kinds = ("cpu", "cuda")
    autocast = tuple((torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in kinds)
    return (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), autocast, torch.get_default_dtype())


def node_records(
    region: Region, found: EagerResults, in_graph: Mapping[str, Measurement], reason: str
) -> tuple[NodeRecord, ...]:
    """The region's nodes with what was measured of them; `reason` says why in-graph times are missing."""
    behind = found.stopped or "eager replay did not reach it"
    return tuple(
        replace(
            node,
            kind=found.kinds.get(node.name, node.kind),
            outputs=found.outputs.get(node.name, node.outputs),
            isolated=found.isolated.get(node.name, unmeasured(behind)),
            backward_isolated=found.backward.get(node.name, unmeasured(behind)),
            in_graph=in_graph.get(
                node.name, unmeasured("sets state only" if node.kind == "state" else reason or behind)
            ),
        )
        for node in region.nodes
    )

"""A copy of a region's graph in which nodes are replaced by what a candidate does, traced by Dynamo."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from graphbench.capture import graphs
from graphbench.errors import CaptureError, UsageError, first_line
from graphbench.replacing.live_call import LiveCall

LIFTED = "candidate_input"
"""How placeholders are called for tensors that a candidate holds beside its arguments."""


@dataclass(frozen=True, slots=True)
class Traced:
    """What a candidate does, as a graph.

    `inputs` has for each placeholder the position of an argument, or of a tensor in `lifted`, which the candidate holds
    itself. `results` is the candidate's result, each of its tensors as the position of an output or of an argument.
    """

    gm: fx.GraphModule | None
    inputs: tuple[_Place, ...]
    results: Any
    lifted: tuple[torch.Tensor, ...] = ()


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a value comes from: `argument`, `lifted` or `output`, and which one."""

    what: str
    position: int


@dataclass(slots=True)
class _Kept:
    """The graph that Dynamo made, and one run of it."""

    gm: fx.GraphModule | None = None
    values: list[Any] = field(default_factory=list)
    results: list[Any] = field(default_factory=list)


def trace(call: LiveCall, candidate: Callable[..., Any]) -> Traced:
    """Let Dynamo trace a candidate on the node's arguments, as it would inside the model.

    The ambient state of the node must be in force.

    Raises:
        CaptureError: Dynamo cannot make one graph of it.

    Source: `torch.compile(fullgraph=True)`, which calls a backend's result with the very tensors that the function was
        called with; torch 2.11, 2.13 and 2.14.
    """
    args, kwargs = call.arguments()
    kept = _Kept()

    def keep(gm: fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        def run(*values: Any) -> Any:
            kept.gm, kept.values = gm, list(values)
            kept.results = list(gm.forward(*values))
            return tuple(kept.results)

        return run

    traced = torch.compile(_fresh(candidate), backend=keep, fullgraph=True, dynamic=False)
    try:
        result = traced(*args, **kwargs)
    except Exception as error:
        raise CaptureError(
            f"{call.name}: Dynamo cannot trace the candidate: {type(error).__name__}: {first_line(error)}",
            hint="wrap it in an op with a fake implementation: torch.library.custom_op, and register_fake",
            subject=call.name,
        ) from error
    return _placed(call, kept, pytree.tree_leaves((args, kwargs)), result)


def _fresh(candidate: Callable[..., Any]) -> Callable[..., Any]:
    """A function that calls the candidate, with code of its own: Dynamo keeps graphs by code, and only so many."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return candidate(*args, **kwargs)

    return FunctionType(call.__code__.replace(), call.__globals__, "candidate", None, call.__closure__)


def _placed(call: LiveCall, kept: _Kept, arguments: list[Any], result: Any) -> Traced:
    lifted: list[torch.Tensor] = []

    def source(value: Any) -> _Place:
        position = _index(value, arguments)
        if position is not None:
            return _Place("argument", position)
        if not isinstance(value, torch.Tensor):
            raise CaptureError(
                f"{call.name}: the candidate's graph reads a {type(value).__name__} that is none of its arguments",
                subject=call.name,
            )
        lifted.append(value)
        return _Place("lifted", len(lifted) - 1)

    def place(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        position = _index(value, kept.results)
        if position is not None:
            return _Place("output", position)
        position = _index(value, arguments)
        if position is None:
            raise CaptureError(
                f"{call.name}: the candidate returns a tensor that its graph does not make",
                hint="return what is computed from the arguments",
                subject=call.name,
            )
        return _Place("argument", position)

    inputs = tuple(map(source, kept.values))
    return Traced(kept.gm, inputs, pytree.tree_map(place, result), tuple(lifted))


def _index(value: Any, values: Sequence[Any]) -> int | None:
    return next((position for position, other in enumerate(values) if other is value), None)


def rewritten(gm: fx.GraphModule, names: Sequence[str], traced: Traced) -> fx.GraphModule:
    """A copy of a region's graph that does a candidate's ops in the place of nodes.

    Tensors in `traced.lifted` are inputs behind the region's own.

    Args:
        gm: the region's graph.
        names: of the nodes; the others keep theirs.
        traced: the candidate.

    Raises:
        UsageError: the graph reads a node's result in a way that the candidate's does not allow.
    """
    copy = graphs.copy_graph(gm, to_compile=True)
    nodes = {node.name: node for node in copy.graph.nodes}
    lifted = _new_inputs(copy.graph, len(traced.lifted))
    for name in names:
        _replace(copy, nodes[name], traced, lifted)
    copy.graph.lint()
    copy.recompile()
    return copy


def _new_inputs(graph: fx.Graph, count: int) -> list[fx.Node]:
    last = next((node for node in reversed(graph.nodes) if node.op == "placeholder"), None)
    made: list[fx.Node] = []
    with graph.inserting_after(last) if last is not None else graph.inserting_before(next(iter(graph.nodes))):
        made += [graph.placeholder(f"{LIFTED}_{position}") for position in reversed(range(count))]
    return made[::-1] if last is not None else made


def _replace(copy: fx.GraphModule, node: fx.Node, traced: Traced, lifted: Sequence[fx.Node]) -> None:
    arguments = pytree.tree_leaves((node.args, node.kwargs))
    outputs: list[Any] = []
    if traced.gm is not None:
        known = {"argument": arguments, "lifted": lifted}
        inputs = [known[place.what][place.position] for place in traced.inputs]
        outputs = _inlined(copy, node, traced.gm, inputs)
    values = {"argument": arguments, "output": outputs}
    result = pytree.tree_map(
        lambda place: values[place.what][place.position] if isinstance(place, _Place) else place, traced.results
    )
    _hand_on(node, result)
    copy.graph.erase_node(node)


def _inlined(copy: fx.GraphModule, before: fx.Node, gm: fx.GraphModule, inputs: Sequence[Any]) -> list[Any]:
    """Put a graph's nodes into another one. Returns what its outputs are there."""
    known: dict[fx.Node, Any] = dict(
        zip((node for node in gm.graph.nodes if node.op == "placeholder"), inputs, strict=True)
    )
    with copy.graph.inserting_before(before):
        for node in gm.graph.nodes:
            if node.op == "output":
                return list(fx.map_arg(node.args[0], lambda inner: known[inner]))
            if node in known:
                continue
            known[node] = copy.graph.node_copy(node, lambda inner: known[inner])
            if node.op == "get_attr":
                known[node].target = _adopted(copy, gm, str(node.target))
    return []


def _adopted(copy: fx.GraphModule, gm: fx.GraphModule, target: str) -> str:
    """Give an attribute of one graph module to another one, under a name that is free there."""
    value = operator.attrgetter(target)(gm)
    stem = f"candidate_{target.replace('.', '_')}"
    name = next(name for name in (stem, *(f"{stem}_{i}" for i in range(1 << 20))) if not hasattr(copy, name))
    setattr(copy, name, value)
    return name


def _hand_on(node: fx.Node, result: Any) -> None:
    """Let whoever read a node read the candidate's result."""
    if isinstance(result, fx.Node):
        node.replace_all_uses_with(result)
        return
    for user in list(node.users):
        index = user.args[1] if user.target is operator.getitem and user.args[0] is node else None
        picked = result[index] if isinstance(index, int) and isinstance(result, (tuple, list)) else None
        if not isinstance(picked, fx.Node):
            raise UsageError(
                f"{node.name}: {user.name} reads its result, which the candidate returns as a "
                f"{type(result).__name__}: expected a tensor, or a tuple that is taken apart",
                subject=node.name,
            )
        user.replace_all_uses_with(picked)
        user.graph.erase_node(user)

"""The graph that Inductor lowered, run op by op: nothing outside is written; an op that fails loses only its users."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from graphbench.errors import ContextLostError, JournalError, first_line
from graphbench.execution.interpreter import NodeVisit, StreamingInterpreter
from graphbench.execution.replay import CapturedInput, shadow
from graphbench.measurements import Status

OnLost = Callable[[fx.Node, Status, str], None]
UNSAFE_VIEWS = ("_unsafe_view",)  # share storage with what they read, and their schema does not say so


@dataclass(frozen=True, slots=True)
class Lost:
    """Stands for the value of a node that could not be run."""

    node: str


def run_lowered(gm: fx.GraphModule, inputs: Sequence[Any], visit: NodeVisit, lost: OnLost) -> None:
    """Run a lowered graph eagerly on its real inputs; what it writes is copied first. Results are not kept.

    Args:
        gm: the graph, after Inductor's passes.
        inputs: its inputs in order: tensors, generators, plain values.
        visit: as of `StreamingInterpreter`.
        lost: hears of every node without a value: failed with what it raised, or skipped since it reads such a node.
    """

    def guarded(node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any], call: Callable[[], Any]) -> Any:
        missing = next((leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Lost)), None)
        if missing is not None:
            lost(node, "skipped", f"reads {missing.node}, which could not be run")
            return missing
        if _is_lowering(node.target):
            lost(node, "skipped", f"{node.name} is a lowering of Inductor's own, which has no eager form")
            return Lost(node.name)
        try:
            result = visit(node, args, kwargs, call)
        except (JournalError, ContextLostError):
            raise
        except Exception as error:  # noqa: BLE001 - whatever an op raises fails its row, not the run
            lost(node, "failed", f"run eagerly it raises {type(error).__name__}: {first_line(error)}")
            return Lost(node.name)
        return None if all(user.op == "output" for user in node.users) else result

    StreamingInterpreter(gm, guarded).run(*_own_inputs(gm.graph, inputs))


def _is_lowering(target: Any) -> bool:
    """Whether a call is what Inductor puts in the place of a pattern, to be called while lowering only.

    Source: `torch._inductor.pattern_matcher.LoweringPatternEntry.apply` makes calls of the handler itself, torch 2.11
        to 2.14.
    """
    return callable(target) and str(getattr(target, "__module__", "")).startswith("torch._inductor.")


def _own_inputs(graph: fx.Graph, inputs: Sequence[Any]) -> list[Any]:
    written = written_inputs(graph)
    placeholders = graph.find_nodes(op="placeholder")
    return shadow(
        [
            CapturedInput(_own_generator(value), mutated=node in written)
            for node, value in zip(placeholders, inputs, strict=True)
        ]
    )


def _own_generator(value: Any) -> Any:
    """A copy of a generator; anything else as it is."""
    return value.clone_state() if isinstance(value, torch.Generator) else value


def written_inputs(graph: fx.Graph) -> set[fx.Node]:
    """The placeholders that a graph may write, directly or through what shares storage with them."""
    pending = [value for node in graph.nodes for value in _written(node)]
    found: set[fx.Node] = set()
    while pending:
        node = pending.pop()
        if node not in found:
            found.add(node)
            pending.extend(_shared(node))
    return {node for node in found if node.op == "placeholder"}


def _written(node: fx.Node) -> list[fx.Node]:
    """What a call may write: as its schema says, and everything where there is none, as in user-written kernels."""
    if isinstance(node.target, torch._ops.OpOverload):
        return _where(node, lambda argument: argument.alias_info is not None and argument.alias_info.is_write)
    if isinstance(node.target, torch._ops.HigherOrderOperator):
        bodies = list(_bodies(node))
        if not bodies or any(_written(inner) for body in bodies for inner in body.graph.nodes):
            return node.all_input_nodes
    return []


def _bodies(node: fx.Node) -> Iterator[fx.GraphModule]:
    """The graphs that a higher-order op is given."""
    owner = node.graph.owning_module
    for source in node.all_input_nodes:
        value = getattr(owner, str(source.target), None) if source.op == "get_attr" else None
        if isinstance(value, fx.GraphModule):
            yield value


def _shared(node: fx.Node) -> list[fx.Node]:
    """What a node's value may share storage with. Ops made of others, prims and plain functions do not tell."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return node.all_input_nodes
    composite = torch._C._dispatch_has_kernel_for_dispatch_key(target.name(), "CompositeImplicitAutograd")
    if composite or target.namespace == "prims" or target._opname in UNSAFE_VIEWS:
        return node.all_input_nodes
    return _where(node, lambda argument: argument.alias_info is not None)


def _where(node: fx.Node, wanted: Callable[[Any], bool]) -> list[fx.Node]:
    """The nodes passed for the arguments of an op that are wanted.

    Source: `torch._ops.OpOverload._schema.arguments`, torch 2.11 to 2.14.
    """
    schema: Any = node.target
    found: list[fx.Node] = []
    for position, argument in enumerate(schema._schema.arguments):
        if wanted(argument):
            given = node.args[position] if position < len(node.args) else node.kwargs.get(argument.name)
            found += [leaf for leaf in pytree.tree_leaves(given) if isinstance(leaf, fx.Node)]
    return found

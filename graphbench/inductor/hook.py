"""Listens to Inductor's scheduler: which FX nodes stand behind every kernel that it emits, as plain records."""

from __future__ import annotations

import contextlib
import importlib
import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from threading import get_ident
from typing import Any, NamedTuple

import torch
from torch import fx

from graphbench.calls import callee, prototype
from graphbench.inductor.joint import NESTED, JointGraph
from graphbench.inductor.origins import Lineage, op_name, together
from graphbench.inductor.partitions import noting_partitions
from graphbench.inductor.refusals import Refusal, Refused, noting_refusals, operations_of, scheduled
from graphbench.inductor.symbolic import SymbolicParts, known_size, moved_bytes
from graphbench.probes.features import require
from graphbench.provenance.claims import IrNode, KernelOrigins
from graphbench.put_back import replaced
from graphbench.records import GraphInput, Phase, PostGradNode
from graphbench.symbolic import is_symbolic, size_inputs
from graphbench.tensors import fake_specs

LAYOUTS = ("inductor_force_stride_order",)
"""Ops that ask for an order of strides, which their argument may have: views, materialised by a kernel where not."""
HOOK = "set_kernel_post_grad_provenance_tracing"
IMPORTERS = ("torch._inductor.debug", "torch._inductor.codegen.triton", "torch._inductor.codegen.cpp")


class AnnouncedIr(NamedTuple):
    """An IR node with the buffers that it reads, and the bytes that it reads and writes, and these as an expression."""

    ir: Any
    reads: tuple[str, ...]
    moved_bytes: int | None
    symbolic: Any = None


@dataclass(slots=True)
class Emitted:
    """What the scheduler announced while one graph was compiled. Holds FX node objects; short-lived.

    Per kernel: its key, whether it is an extern call, and its IR nodes, each with the buffers that it reads and the
    bytes that it moves. `fault` says what could not be read; `refused` which fusions the scheduler did not make,
    `parted` which operations it keeps out of CUDA graphs, and why.
    """

    fault: str = ""
    refused: Refused = field(default_factory=Refused)
    parted: dict[str, str] = field(default_factory=dict)
    kernels: list[tuple[str, bool, list[AnnouncedIr]]] = field(default_factory=list)

    def refusals(self) -> tuple[Refusal, ...]:
        """The refused fusions between kernels that were made."""
        return self.refused.between_kernels()

    def outside(self) -> dict[str, str]:
        """Why kernels cannot be in a CUDA graph, by their key; the others can."""
        made_of = self.refused.kernel_of
        return {made_of[operation]: why for operation, why in self.parted.items() if operation in made_of}


@contextlib.contextmanager
def listening() -> Iterator[Emitted]:
    """Collect every kernel that Inductor emits inside, by standing in front of its own provenance function.

    Only the calling thread is listened to: Inductor emits the kernels of a graph in the thread that compiles it.

    Raises:
        SetupError: this torch has no such function, or another one; what it tells cannot be trusted.

    Source: `torch._inductor.debug.set_kernel_post_grad_provenance_tracing`, torch 2.11, 2.13 and 2.14. Two code
    generators import it by name, `ir` and `scheduler` when they call it.
    """
    require("mapping")
    modules = [module for module in map(importlib.import_module, IMPORTERS) if hasattr(module, HOOK)]
    original = getattr(modules[0], HOOK)
    emitted = Emitted()
    thread = get_ident()

    def announce(node_schedule: Any, kernel_name: str, is_extern: bool = False) -> Any:
        handle = original(node_schedule, kernel_name, is_extern)
        if get_ident() != thread:  # another backend compiles there meanwhile
            return handle
        try:
            irs = _irs(node_schedule, is_extern)
            emitted.refused.emitted(f"{kernel_name}:{handle}", operations_of(node_schedule, is_extern))
        except Exception as error:  # noqa: BLE001 - the user's model must compile whatever we fail to read; reports say so
            emitted.fault = f"{kernel_name}: {type(error).__name__}: {error}"
            irs = []
        emitted.kernels.append((f"{kernel_name}:{handle}", is_extern, irs))
        return handle

    with contextlib.ExitStack() as undo:
        emitted.refused = undo.enter_context(noting_refusals())
        emitted.parted = undo.enter_context(noting_partitions())
        for module in modules:
            undo.enter_context(replaced(module, HOOK, announce))
        yield emitted


def _irs(node_schedule: Any, is_extern: bool) -> list[AnnouncedIr]:
    if is_extern:
        return [AnnouncedIr(node_schedule, _arguments(node_schedule), None)]
    return [
        AnnouncedIr(entry.node, _reads(entry), _moved(entry), _symbolic_moved(entry))
        for entry in scheduled(node_schedule)
        if _has_origins(entry)
    ]


def _has_origins(entry: Any) -> bool:
    return hasattr(getattr(entry, "node", None), "origins")


def to_records(
    emitted: Emitted,
    graph: fx.Graph,
    phase: Phase,
    joint: JointGraph,
) -> tuple[tuple[PostGradNode, ...], tuple[KernelOrigins, ...]]:
    """Plain records of one compiled graph.

    Args:
        emitted: what `listening` collected while it was compiled.
        graph: the graph that was lowered, after all of Inductor's passes.
        phase: whether it is a region's forward or backward graph.
        joint: the region's graph before Inductor's passes; what is not of this region is no source.
    """
    stood_in_for = joint.stood_in_for(graph, phase)
    names, bodies = _qualified_names(emitted, graph), _bodies(graph)

    def lineage(node: fx.Node) -> Lineage:
        if node.graph is graph:
            return _lineage(node, phase, joint, stood_in_for)
        found = joint.lineage_of(node, phase, nested=True)
        runs = bodies.get(id(node.graph), ())
        if len(runs) < 2 and (found.sources or found.differentiates or not runs):
            return found
        # The branches of a `cond`'s backward; and a body that several calls share, which is theirs as well.
        return together([found, *(_lineage(call, phase, joint, stood_in_for) for call in runs)])

    returned = _returned(graph)
    nodes = tuple(
        _post_grad_node(node, name, names, phase, lineage(node), node in returned)
        for node, name in names.items()
        if node.op != "output"
    )
    kernels = tuple(
        KernelOrigins(key, is_extern, tuple(_ir_node(announced, names) for announced in irs))
        for key, is_extern, irs in emitted.kernels
    )
    return nodes, kernels


def symbolic_parts(emitted: Emitted, graph: fx.Graph) -> SymbolicParts | None:
    """What of a graph's records depends on the sizes of a call; `None` where all sizes are numbers."""
    nodes = {name: node for node, name in _qualified_names(emitted, graph).items() if node.op != "output"}
    if not any(is_symbolic(node.meta.get("val")) for node in nodes.values()):
        return None
    moved = {
        (key, index): announced.symbolic
        for key, _, irs in emitted.kernels
        for index, announced in enumerate(irs)
        if announced.symbolic is not None
    }
    return SymbolicParts(nodes, moved, size_inputs(graph))


def _qualified_names(emitted: Emitted, graph: fx.Graph) -> dict[fx.Node, str]:
    """Every node of the graph and of the nested graphs that kernels come from: their own name, made unique."""
    origins = (origin for _, _, irs in emitted.kernels for announced in irs for origin in announced.ir.origins)
    nested = [other for other in dict.fromkeys(origin.graph for origin in origins) if other is not graph]
    names = {node: node.name for node in graph.nodes}
    for index, other in enumerate(nested):
        names.update((node, f"g{index}.{node.name}") for node in other.nodes)
    return names


def _ir_node(announced: AnnouncedIr, names: dict[fx.Node, str]) -> IrNode:
    node = announced.ir
    exact = names.get(node.origin_node) if node.origin_node is not None else None
    return IrNode(
        buffer=_name(node),
        exact=exact,
        origins=tuple(names[origin] for origin in node.origins if origin in names),
        reads=announced.reads,
        mutates=tuple(node.get_mutation_names()),
        moved_bytes=announced.moved_bytes,
    )


def _name(ir: Any) -> str:
    """A buffer's name; calls that only mutate (user-written Triton kernels) have one as operations alone."""
    return str(getattr(ir, "name", None) or getattr(ir, "operation_name", None) or "unnamed")


def _reads(entry: Any) -> tuple[str, ...]:
    """Names of the buffers that a scheduler node reads, those left out that only order it after others.

    Source: `torch._inductor.scheduler.BaseSchedulerNode.read_writes`, torch 2.11, 2.13 and 2.14.
    """
    from torch._inductor import dependencies

    reads = entry.read_writes.reads
    return tuple(_buffer(dep.name) for dep in reads if not isinstance(dep, dependencies.WeakDep))


def _buffer(name: str) -> str:
    """A buffer by the name under which its kernel was announced: a call's several results are buffers of their own.

    Source: `torch._inductor.ir.MultiOutput.inputs`, `GraphLowering.try_get_buffer`, torch 2.11, 2.13 and 2.14.
    """
    from torch._inductor import ir
    from torch._inductor.virtualized import V

    buffer: Any = V.graph.try_get_buffer(name)
    while isinstance(buffer, ir.MultiOutput):
        buffer = buffer.inputs[0]
        name = str(buffer.get_name())
    return name


def _moved(entry: Any) -> int:
    """Bytes that a scheduler node reads and writes, by its own indexing: of what it slices, the slice.

    Source: `torch._inductor.dependencies.Dep.numbytes_hint`, torch 2.11, 2.13 and 2.14.
    """
    from torch._inductor import dependencies

    deps = entry.read_writes.reads | entry.read_writes.writes
    return sum(int(dep.numbytes_hint()) for dep in deps if not isinstance(dep, dependencies.WeakDep))


def _symbolic_moved(entry: Any) -> Any:
    """The same as a sympy expression over the graph's symbols; `None` where every size is a number.

    Source: `torch._inductor.dependencies.Dep.get_numel`, `SizeVarAllocator.remove_precomputed_replacements`,
        `torch._inductor.virtualized.V.graph`, torch 2.11, 2.13 and 2.14.
    """
    from torch._inductor import dependencies
    from torch._inductor.virtualized import V

    total: Any = 0
    for dep in entry.read_writes.reads | entry.read_writes.writes:
        if not isinstance(dep, dependencies.WeakDep):
            with contextlib.suppress(NotImplementedError):  # a buffer without a layout, of which no bytes count
                total += dep.get_numel() * V.graph.get_dtype(dep.name).itemsize
    if not getattr(total, "free_symbols", None):
        return None
    return V.graph.sizevars.remove_precomputed_replacements(total)


def _arguments(call: Any) -> tuple[str, ...]:
    """Names of the buffers that an extern call takes, in order. Source: `ir.ExternKernel.inputs`, torch 2.13."""
    return tuple(_buffer(buffer.get_name()) for buffer in getattr(call, "inputs", ()) if hasattr(buffer, "get_name"))


def _post_grad_node(
    node: fx.Node,
    name: str,
    names: dict[fx.Node, str],
    phase: Phase,
    lineage: Lineage,
    returned: bool,
) -> PostGradNode:
    is_view = _is_view(node)
    calls = node.op.startswith("call_")
    return PostGradNode(
        name=name,
        phase=phase,
        op=node.op,
        target=op_name(node),
        inputs=tuple(names[source] for source in node.all_input_nodes if source in names),
        sources=lineage.sources,
        differentiates=lineage.differentiates,
        rewrote=lineage.rewrote,
        moved_bytes=0 if is_view or node.target is operator.getitem else moved_bytes(node),
        is_view=is_view,
        callee=callee(node) if calls else "",
        arguments={"args": prototype(node.args), "kwargs": prototype(node.kwargs)} if calls else None,
        outputs=tuple(fake_specs(node.meta.get("val"))),
        returned=returned,
    )


def graph_inputs(graph: fx.Graph, phase: Phase) -> tuple[GraphInput, ...]:
    """What a graph reads without computing it: its inputs and constants, of symbolic sizes the hints."""
    found = []
    for node in graph.nodes:
        value = node.meta.get("val")
        if node.op not in ("placeholder", "get_attr") or value is None:
            continue
        if isinstance(value, torch.Tensor):
            found.append(GraphInput(name=node.name, phase=phase, spec=fake_specs(value)[0]))
        elif isinstance(value, torch.SymInt) or type(value) is int:
            found.append(GraphInput(name=node.name, phase=phase, value=known_size(value)))
    return tuple(found)


def _returned(graph: fx.Graph) -> set[fx.Node]:
    """What a graph returns, and what that is a view of."""
    found: set[fx.Node] = set()
    for node in [source for output in graph.find_nodes(op="output") for source in output.all_input_nodes]:
        found.add(node)
        while (_is_view(node) or node.target is operator.getitem) and node.all_input_nodes:
            node = node.all_input_nodes[0]
            found.add(node)
    return found


def _is_view(node: fx.Node) -> bool:
    """Whether it moves nothing; an item of a view that has several, as of `split`, is one too."""
    while node.target is operator.getitem and isinstance(node.args[0], fx.Node):
        node = node.args[0]
    return bool(getattr(node.target, "is_view", False)) or op_name(node) in LAYOUTS


def _bodies(graph: fx.Graph) -> dict[int, list[fx.Node]]:
    """`id` of every graph that calls of the graph run -> those calls."""
    found: dict[int, list[fx.Node]] = {}
    for node in graph.nodes:
        body = getattr(graph.owning_module, str(node.target), None) if node.op == "get_attr" else None
        if isinstance(body, fx.GraphModule):
            found.setdefault(id(body.graph), []).extend(node.users)
    return {body: _same_body(calls, graph) for body, calls in found.items()}


def _same_body(calls: list[fx.Node], graph: fx.Graph) -> list[fx.Node]:
    """The calls and those of bodies of the same name, which is lowered once and called for all.

    Source: `torch.ops.higher_order.invoke_subgraph`, whose second argument is that name, torch 2.11, 2.13 and 2.14.
    """
    names = {call.args[1] for call in calls if op_name(call) == NESTED}
    alike = [node for node in graph.nodes if op_name(node) == NESTED and node.args[1] in names]
    return list(dict.fromkeys([*calls, *alike]))


def _lineage(node: fx.Node, phase: Phase, joint: JointGraph, stood_in_for: Mapping[str, Lineage]) -> Lineage:
    found = stood_in_for.get(node.name)  # a new node's own meta data names but one of the nodes that it replaced
    if found is not None and (found.sources or found.differentiates):
        return found
    found = joint.lineage_of(node, phase)
    if node.target is torch.ops.aten.copy_.default and not found.sources and not found.differentiates:
        return Lineage(_made_of(node.args[1], joint, phase))  # the end of an input's mutation: whoever made the value
    return found


def _made_of(value: Any, joint: JointGraph, phase: Phase) -> tuple[str, ...]:
    """The Dynamo nodes that a value came from, directly or through nodes without any."""
    while isinstance(value, fx.Node):
        sources = joint.lineage_of(value, phase).sources
        if sources or not value.all_input_nodes:
            return sources
        value = value.all_input_nodes[0]
    return ()

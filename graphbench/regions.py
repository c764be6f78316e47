"""A region while it lives: its graph, what Inductor made of it, and the inputs of its first call."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import fx

from graphbench.capture import ambient, graphs
from graphbench.condition_records import Ambient
from graphbench.errors import CaptureError
from graphbench.execution.replay import CapturedInput, Geometry
from graphbench.execution.spill import Spilled, captured_bytes, spill
from graphbench.inductor.compile import BackendOptions, CompiledGraph
from graphbench.inductor.symbolic import for_sizes
from graphbench.measurements import SourceLine, TensorSpec
from graphbench.records import InputRecord, NodeRecord
from graphbench.symbolic import SizeInput, is_symbolic, size_inputs
from graphbench.tensors import device_of, has_storage, spec_of, tensors_of

REPLACED = "a parameter or buffer was replaced or moved since the region was captured"


@dataclass(slots=True, repr=False)
class Capture:
    """What a region's first call looked like: values, their records, ambient state.

    `nbytes`: memory that the values alone keep alive. What is `spilled` is among the values while they are present.
    """

    values: list[CapturedInput]
    records: tuple[InputRecord, ...]
    ambient: Ambient
    device: torch.device
    nbytes: int
    spilled: Spilled | None = None


@dataclass(slots=True, repr=False)
class SizeGroups:
    """The regions of one graph by the values that a call's sizes have. `ungrouped` calls had sizes of no group."""

    inputs: tuple[SizeInput, ...] | None = None
    by_values: dict[tuple[int, ...], Region] = field(default_factory=dict)
    ungrouped: int = 0

    def values(self, gm: fx.GraphModule, args: Sequence[Any]) -> tuple[int, ...]:
        """What a call's sizes are, of a graph that takes any."""
        if self.inputs is None:  # only now: compiling may have found sizes to be equal, or numbers
            self.inputs = size_inputs(gm.graph)
        return tuple([entry.value(args) for entry in self.inputs])


@dataclass(slots=True, eq=False, repr=False)
class Region:
    """One compiled Dynamo graph. `ticks` are the session's call numbers of its first and its latest call.

    `compile_ns` is the wall time until its forward could run. `backend_options` are what it was compiled with,
    `options` the same as text.

    A graph that takes any sizes is a region for every group of sizes that it is called with. They share the graph and
    what was made of it; all but the first are `shapes_of` that one. `bound` has the compiled graphs with records as of
    these sizes.
    """

    key: str
    compile_id: str
    gm: fx.GraphModule
    nodes: tuple[NodeRecord, ...]
    location: SourceLine | None
    frame: str
    options: tuple[tuple[str, str], ...] = ()
    backend_options: BackendOptions = field(default_factory=BackendOptions)
    graphs: list[CompiledGraph] = field(default_factory=list)
    compiled: Callable[..., Any] | None = None
    capture: Capture | None = None
    problem: str = ""
    compile_ns: int | None = None
    wants_capture: bool = True
    calls: int = 0
    first_tick: int = 0
    last_tick: int = 0
    shapes_of: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)
    groups: SizeGroups = field(default_factory=lambda: SizeGroups())
    bound: dict[int, CompiledGraph] = field(default_factory=dict)

    @property
    def backend(self) -> str:
        """The other backend that compiled it; empty for Inductor."""
        return self.backend_options.inner_name

    @property
    def takes_any_sizes(self) -> bool:
        """Whether its graph was made for more sizes than those of its first call."""
        return any(is_symbolic(node.meta.get("example_value")) for node in self.gm.graph.find_nodes(op="placeholder"))

    def group_of(self, args: Sequence[Any]) -> Region | None:
        """The region of a call's sizes, if there is one."""
        return self.groups.by_values.get(self.groups.values(self.gm, args))

    def new_group(self, args: Sequence[Any]) -> Region | None:
        """A region for the sizes of a call: itself for those of its first call; `None` when there are enough."""
        known, values = self.groups.by_values, self.groups.values(self.gm, args)
        if len(known) >= self.backend_options.groups:
            return None
        sizes = {entry.symbol: value for entry, value in zip(self.groups.inputs or (), values, strict=True)}
        nodes = graphs.node_records(self.gm, sizes)
        if not known:
            self.sizes, self.nodes, known[values] = sizes, nodes, self
        else:
            known[values] = replace(
                self,
                key=f"{self.key}.{len(known) + 1}",
                shapes_of=self.key,
                sizes=sizes,
                nodes=nodes,
                capture=None,
                problem="",
                wants_capture=True,
                calls=0,
                first_tick=0,
                last_tick=0,
                bound={},
            )
        return known[values]

    def group_running(self, graph: CompiledGraph, args: Sequence[Any]) -> Region:
        """The region of the sizes that one of its compiled graphs is called with; itself where those leave it open."""
        if len(self.groups.by_values) < 2 or graph.symbolic is None:
            return self
        sizes = {entry.symbol: entry.value(args) for entry in graph.symbolic.inputs}
        fitting = [group for group in self.groups.by_values.values() if _agree(group.sizes, sizes)]
        return fitting[0] if len(fitting) == 1 else self

    def compiled_call(self, args: Sequence[Any]) -> Any:
        """Run what Inductor compiled."""
        assert self.compiled is not None
        return self.compiled(*args)

    def record_call(self, args: Sequence[Any], budget_left: Callable[[torch.device], int]) -> Any:
        """Run a call and keep its inputs: parameters by reference, other tensors detached.

        What the call mutates is found by version counters; inference tensors have none and all count as mutated, and so
        do inputs of user-written Triton kernels, whose writes move no version.
        Past the bytes that the budget leaves on their device, other inputs than parameters and buffers are spilled;
        when that fails nothing is kept, and the region says so.
        """
        records = graphs.input_records(self.gm, args)
        state = ambient.current(tuple(sorted({"cpu", *(tensor.device.type for tensor in tensors_of(list(args)))})))
        versions = [_version(value) for value in args]
        captured = [_captured(value) for value in args]
        device = device_of(tensors_of(list(args)))
        result = self.compiled_call(args)
        hidden = graphs.written_by_user_kernels(self.gm)
        mutated = [
            record.name in hidden or _is_mutated(entry, version)
            for record, entry, version in zip(records, captured, versions, strict=True)
        ]
        owned = [value for value, record in zip(args, records, strict=True) if record.kind in ("parameter", "buffer")]
        values = [replace(entry, mutated=flag) for entry, flag in zip(captured, mutated, strict=True)]
        records = tuple(replace(record, mutated=flag) for record, flag in zip(records, mutated, strict=True))
        capture = Capture(values, records, state, device, captured_bytes(values, owned))
        self.capture = self._within(capture, owned, budget_left(device))
        return result

    def _within(self, capture: Capture, owned: list[torch.Tensor], budget_bytes: int) -> Capture | None:
        """The capture, its inputs spilled where they are more than a budget; `None` where they cannot be."""
        if capture.nbytes <= budget_bytes:
            return capture
        try:
            spilled = spill(capture.values, owned)
        except OSError as error:
            self.problem = (
                f"its inputs hold {capture.nbytes} bytes, more than the {budget_bytes} bytes that the capture budget "
                f"leaves, and cannot be put on disk: {error.strerror or error}"
            )
            return None
        return replace(capture, values=spilled.absent, nbytes=0, spilled=spilled)

    @contextlib.contextmanager
    def inputs_present(self) -> Iterator[None]:
        """While inside, inputs that were spilled are there.

        Raises:
            CaptureError: they cannot be brought back.
        """
        capture = self.capture
        if capture is None or capture.spilled is None:
            yield
            return
        capture.values = capture.spilled.brought_back()
        try:
            yield
        finally:
            capture.values = capture.spilled.absent

    def check_inputs(self) -> None:
        """Compare every captured input with its spec at capture.

        Raises:
            CaptureError: an input has another shape, dtype or device than when it was captured.
        """
        assert self.capture is not None
        for entry, record in zip(self.capture.values, self.capture.records, strict=True):
            if record.spec is None or not isinstance(entry.value, torch.Tensor):
                continue
            found = replace(spec_of(entry.value), requires_grad=record.spec.requires_grad)
            if found != record.spec:
                raise CaptureError(
                    f"{self.key}: {REPLACED}: {record.source}: found {_described(found)}, "
                    f"expected {_described(record.spec)}",
                    hint="call the model once more after graphbench.reset(), then measure",
                    subject=record.source,
                )

    def graph(self, phase: str) -> CompiledGraph | None:
        """The newest compiled graph of a phase that holds kernels, or `None`."""
        found = [graph for graph in self.graphs if graph.phase == phase and graph.artifact is not None]
        if not found or not self.sizes:
            return found[-1] if found else None
        newest = found[-1]
        if id(newest) not in self.bound:
            self.bound[id(newest)] = for_sizes(newest, self.sizes)
        return self.bound[id(newest)]


def _agree(sizes: Mapping[str, int], others: Mapping[str, int]) -> bool:
    return all(others.get(symbol, value) == value for symbol, value in sizes.items())


def _described(spec: TensorSpec) -> str:
    layout = f"strides {list(spec.stride)}, offset {spec.storage_offset}"
    return f"{spec.dtype}{list(spec.shape)} on {spec.device}, {layout}"


def _version(value: Any) -> int | None:
    return value._version if isinstance(value, torch.Tensor) and not value.is_inference() else None


def _is_mutated(entry: CapturedInput, version: int | None) -> bool:
    if not isinstance(entry.value, torch.Tensor):
        return False
    return version is None or bool(entry.value._version != version)


def _captured(value: Any) -> CapturedInput:
    if isinstance(value, list):  # compiled autograd's inputs come in one, which the call empties
        return CapturedInput([_captured(entry).value for entry in value])
    if not isinstance(value, torch.Tensor):
        return CapturedInput(value)
    if isinstance(value, torch.nn.Parameter):
        return CapturedInput(value, requires_grad=value.requires_grad, is_parameter=True)
    base = value._base
    geometry = Geometry.of(base) if base is not None and has_storage(base) else None
    return CapturedInput(value.detach(), requires_grad=value.requires_grad, base=geometry)

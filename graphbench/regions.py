"""A region while it lives: its graph, what Inductor made of it, and the inputs of its first call."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import fx

from graphbench.capture import ambient, graphs
from graphbench.errors import CaptureError
from graphbench.execution.replay import CapturedInput, Geometry
from graphbench.execution.spill import Spilled, captured_bytes, spill
from graphbench.inductor.compile import BackendOptions, CompiledGraph
from graphbench.measurements import SourceLine, TensorSpec
from graphbench.records import Ambient, InputRecord, NodeRecord
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


@dataclass(slots=True, eq=False, repr=False)
class Region:
    """One compiled Dynamo graph. `ticks` are the session's call numbers of its first and its latest call.

    `compile_ns` is the wall time until its forward could run. `backend_options` are what it was compiled with,
    `options` the same as text.
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
        return found[-1] if found else None


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

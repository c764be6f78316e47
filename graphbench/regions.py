"""A region while it lives: its graph, what Inductor made of it, and the inputs of its first call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import fx

from graphbench.capture import ambient, graphs
from graphbench.errors import CaptureError
from graphbench.execution.replay import CapturedInput, Geometry
from graphbench.inductor.compile import CompiledGraph
from graphbench.measurements import SourceLine, TensorSpec
from graphbench.records import Ambient, InputRecord, NodeRecord
from graphbench.tensors import device_of, has_storage, spec_of, tensors_of

REPLACED = "a parameter or buffer was replaced or moved since the region was captured"


@dataclass(slots=True, repr=False)
class Capture:
    """What a region's first call looked like: values, their records, ambient state. `nbytes`: memory kept alive."""

    values: list[CapturedInput]
    records: tuple[InputRecord, ...]
    ambient: Ambient
    device: torch.device
    nbytes: int


@dataclass(slots=True, eq=False, repr=False)
class Region:
    """One compiled Dynamo graph. `ticks` are the session's call numbers of its first and its latest call."""

    key: str
    compile_id: str
    gm: fx.GraphModule
    nodes: tuple[NodeRecord, ...]
    location: SourceLine | None
    frame: str
    options: tuple[tuple[str, str], ...] = ()
    graphs: list[CompiledGraph] = field(default_factory=list)
    compiled: Callable[..., Any] | None = None
    capture: Capture | None = None
    problem: str = ""
    wants_capture: bool = True
    calls: int = 0
    first_tick: int = 0
    last_tick: int = 0

    def compiled_call(self, args: Sequence[Any]) -> Any:
        """Run what Inductor compiled."""
        assert self.compiled is not None
        return self.compiled(*args)

    def record_call(self, args: Sequence[Any], budget_bytes: int) -> Any:
        """Run a call and keep its inputs: parameters by reference, other tensors detached.

        What the call mutates is found by version counters; inference tensors have none and all count as mutated, and so
        do inputs of user-written Triton kernels, whose writes move no version.
        Past `budget_bytes` of non-parameter inputs nothing is kept and the region says so.
        """
        records = graphs.input_records(self.gm, args)
        state = ambient.current(tuple(sorted({"cpu", *(tensor.device.type for tensor in tensors_of(list(args)))})))
        versions = [_version(value) for value in args]
        kept = sum(_held_bytes(value, record.kind) for value, record in zip(args, records, strict=True))
        if kept > budget_bytes:
            self.problem = f"its inputs hold {kept} bytes, more than the capture budget of {budget_bytes} bytes left"
            return self.compiled_call(args)
        captured = [_captured(value) for value in args]
        device = device_of(tensors_of(list(args)))
        result = self.compiled_call(args)
        hidden = graphs.written_by_user_kernels(self.gm)
        mutated = [
            record.name in hidden or _is_mutated(entry, version)
            for record, entry, version in zip(records, captured, versions, strict=True)
        ]
        self.capture = Capture(
            values=[replace(entry, mutated=flag) for entry, flag in zip(captured, mutated, strict=True)],
            records=tuple(replace(record, mutated=flag) for record, flag in zip(records, mutated, strict=True)),
            ambient=state,
            device=device,
            nbytes=kept,
        )
        return result

    def check_inputs(self) -> None:
        """Compare every captured input with its spec at capture.

        Raises:
            CaptureError: an input has another shape, dtype or device than when it was captured.
        """
        assert self.capture is not None
        for entry, record in zip(self.capture.values, self.capture.records, strict=True):
            if record.spec is None:
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


def _held_bytes(value: Any, kind: str) -> int:
    """Bytes that capturing keeps alive although the model itself might not."""
    if isinstance(value, list):
        return sum(_held_bytes(entry, "tensor") for entry in value if not isinstance(entry, torch.nn.Parameter))
    if not isinstance(value, torch.Tensor) or kind in ("parameter", "buffer") or not has_storage(value):
        return 0
    return value.untyped_storage().nbytes()

"""The records of an op list before anything is measured: a region for every ambient state, a node for every op."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from graphbench.capture import ambient
from graphbench.condition_records import Ambient, AutocastState
from graphbench.measurements import JsonValue, Measurement, SourceLine, TensorSpec
from graphbench.measuring.runs import unmeasured
from graphbench.models.op_state import OpState
from graphbench.models.op_tensors import STORAGE, TensorEntry
from graphbench.models.oplist import MEASURED_DEVICE, METHOD, OpEntry, OpList
from graphbench.records import OP_LIST_SIDE, Fate, InputRecord, NodeRecord, RegionRecord, Side
from graphbench.runs.partial import CUT_SHORT
from graphbench.torch_names import op_name

NO_ORDER = "an op list has no order of execution"


def ambient_of(state: OpState, base: Ambient, device: torch.device, *, train: bool) -> Ambient:
    """The state in force for an op: what it does not ask for is as in `base`, and gradients as `train` says."""
    kinds = sorted({"cpu", device.type})
    casts = [_autocast(state, entry, device.type) for entry in ambient.current(tuple(kinds)).autocast]

    def asked(own: bool | None, here: bool) -> bool:
        return here if own is None else own

    warn = base.deterministic_warn_only if state.deterministic is None else state.deterministic == "warn"
    return replace(
        base,
        grad_enabled=asked(state.grad, train),
        inference_mode=asked(state.inference_mode, base.inference_mode),
        autocast=tuple(casts),
        autocast_cache=asked(state.autocast_cache, base.autocast_cache),
        default_dtype=state.default_dtype or base.default_dtype,
        fp32_precision=tuple({**dict(base.fp32_precision), **dict(state.fp32_precision)}.items()),
        flags=tuple({**dict(base.flags), **dict(state.flags)}.items()),
        sdpa_backends=base.sdpa_backends if state.sdpa is None else state.sdpa,
        deterministic=base.deterministic if state.deterministic is None else bool(state.deterministic),
        deterministic_warn_only=warn,
        num_threads=state.num_threads or base.num_threads,
    )


def _autocast(state: OpState, here: AutocastState, device_type: str) -> AutocastState:
    if state.autocast is None or here.device_type != device_type:
        return here
    return replace(here, enabled=bool(state.autocast), dtype=state.autocast or here.dtype)


def region_of(op_list: OpList, key: str, device: torch.device, state: Ambient, ops: Sequence[OpEntry]) -> RegionRecord:
    """The region of ops of one state, with nothing measured yet."""
    side = Side(reason=OP_LIST_SIDE)
    return RegionRecord(
        key=key,
        compile_id="",
        status="skipped",
        reason=CUT_SHORT,
        location=SourceLine(file=op_list.file, line=1),
        device=str(device),
        inputs=tuple(
            InputRecord(name=f"{op.name}.{name}", source=_source(entry), kind="tensor", spec=_spec(entry, str(device)))
            for op in ops
            for name, entry in op.tensors.items()
        ),
        ambient=state,
        nodes=tuple(_node(op_list, op, str(device)) for op in ops),
        eager=side,
        eager_backward=side,
        forward=side,
        backward=side,
    )


def _source(entry: TensorEntry) -> str:
    return f"{entry.values}{STORAGE}{entry.storage}" if entry.storage else str(entry.values)


def _spec(entry: TensorEntry, device: str) -> TensorSpec:
    return TensorSpec(
        shape=entry.shape,
        stride=entry.stride,
        dtype=entry.dtype,
        device="cpu" if entry.on_host else device,
        storage_offset=entry.storage_offset,
        requires_grad=entry.requires_grad,
    )


def _node(op_list: OpList, op: OpEntry, device: str) -> NodeRecord:
    args = [_named(entry, op.name, device) for entry in op.args]
    kwargs: list[JsonValue] = [[name, _named(entry, op.name, device)] for name, entry in op.kwargs.items()]
    missing = Measurement(status="skipped", reason=CUT_SHORT)
    return NodeRecord(
        name=op.name,
        op="call_method" if op.is_method else "call_function",
        op_type=f"{op.target.split('.')[2]}.{op_name(op.target)}" if op.needs_import else op_name(op.target),
        kind="compute",
        inputs=tuple(f"{op.name}.{name}" for name in op.tensors),
        arguments={"args": {"tuple": args}, "kwargs": {"dict": kwargs}},
        outputs=(),
        module=op.module,
        source=SourceLine(file=op_list.file, line=op.line, code=f"name: {op.base}"),
        fate=Fate(kind="eager"),
        isolated=missing,
        in_graph=unmeasured(NO_ORDER),
        backward_isolated=missing,
        backward_in_graph=unmeasured(NO_ORDER),
        callee=op.target.removeprefix(METHOD),
    )


def _named(value: JsonValue, op: str, device: str) -> JsonValue:
    """An argument with the names that its tensors have in the profile."""
    if isinstance(value, list):
        return [_named(entry, op, device) for entry in value]
    if not isinstance(value, dict):
        return value
    if isinstance(node := value.get("node"), str):
        return {"node": f"{op}.{node}"}
    if value.get("device") == MEASURED_DEVICE:
        return {"device": device}
    return {kind: _named(held, op, device) for kind, held in value.items()}

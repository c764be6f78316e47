"""The global state under which a row's call ran, as plain data for a script. Pure."""

from __future__ import annotations

import re
from typing import Final

from graphbench.condition_records import Ambient
from graphbench.measurements import JsonValue
from graphbench.records import NodeRecord, RegionRecord
from graphbench.report.repro.expressions import NotRebuilt, device, parts
from graphbench.torch_names import DTYPES

FLAGS: Final = {
    "cudnn.enabled": "cudnn.enabled",
    "cudnn.benchmark": "cudnn.benchmark",
    "cudnn.deterministic": "cudnn.deterministic",
    "cuda.matmul.fp16_reduction": "cuda.matmul.allow_fp16_reduced_precision_reduction",
    "cuda.matmul.bf16_reduction": "cuda.matmul.allow_bf16_reduced_precision_reduction",
}
"""Names in `condition_records.Ambient.flags` -> attributes of `torch.backends`, torch 2.11 to 2.14."""
FP32_SETTINGS: Final = ("cuda.matmul", "cudnn.conv", "cudnn.rnn", "mkldnn.matmul", "mkldnn.conv", "mkldnn.rnn")
SDPA: Final = ("flash", "mem_efficient", "math", "cudnn")
_PRECISION: Final = re.compile(r"[a-z0-9_]{1,16}")
_TRANSFORM: Final = re.compile(r"_(vmap|grad|jvp|func)_(increment|decrement)_nesting")
Autocast = tuple[str, str | None, bool]
State = dict[str, object]


def state_before(region: RegionRecord, node: NodeRecord) -> State:
    """The state in which a node ran: that of the region's call, and what the graph itself changed before the node.

    Raises:
        NotRebuilt: it runs inside `vmap` or another transform, or the profile does not hold the state.
    """
    ambient = _ambient(region)
    grad, inference, depth = ambient.grad_enabled, ambient.inference_mode, 0
    entered: dict[str, Autocast] = {}
    for earlier in region.nodes:
        if earlier.name == node.name:
            break
        args = parts(earlier.arguments)[0] if earlier.kind == "state" else []
        if earlier.op_type == "_set_grad_enabled" and args:
            grad = args[0] is True
        elif earlier.op_type == "_enter_inference_mode" and args:
            inference = args[0] is True
        elif earlier.op_type == "_exit_inference_mode":
            inference = ambient.inference_mode
        elif earlier.op_type == "_enter_autocast":
            entered[earlier.name] = _autocast(args)
        elif earlier.op_type == "_exit_autocast" and args:
            entered.pop(_name(args[0]), None)
        elif (transform := _TRANSFORM.fullmatch(earlier.op_type)) is not None:
            depth += 1 if transform[2] == "increment" else -1
    if depth > 0:
        raise NotRebuilt("it runs inside vmap or func.grad, whose values have no storage of their own")
    casts: dict[str, Autocast] = {
        entry.device_type: (entry.device_type, entry.dtype, entry.enabled) for entry in ambient.autocast
    }
    casts.update({entry[0]: entry for entry in entered.values()})
    return _state(ambient, grad=grad, inference=inference, autocast=tuple(casts.values()))


def state_below(region: RegionRecord) -> State:
    """The state in which compiled code and post-grad nodes run: gradients and autocast are in the graph already."""
    return _state(_ambient(region), grad=False, inference=False, autocast=())


def _ambient(region: RegionRecord) -> Ambient:
    if region.ambient is None:
        raise NotRebuilt(f"the profile does not hold the state in which {region.key} was called")
    return region.ambient


def _state(ambient: Ambient, *, grad: bool, inference: bool, autocast: tuple[Autocast, ...]) -> State:
    return {
        "num_threads": ambient.num_threads,
        "default_dtype": _dtype(ambient.default_dtype),
        "fp32_precision": tuple(
            (name, value)
            for name, value in ambient.fp32_precision
            if name in FP32_SETTINGS and _PRECISION.fullmatch(value)
        ),
        "flags": tuple((FLAGS[name], value) for name, value in ambient.flags if name in FLAGS),
        "sdpa": tuple((name, name in ambient.sdpa_backends) for name in SDPA),
        "deterministic": (ambient.deterministic, ambient.deterministic_warn_only),
        "grad": grad,
        "inference": inference,
        "autocast": tuple((device(kind), dtype and _dtype(dtype), enabled) for kind, dtype, enabled in autocast),
        "autocast_cache": ambient.autocast_cache,
    }


def _autocast(args: list[JsonValue]) -> Autocast:
    """Source: `torch.amp.autocast_mode._enter_autocast(device_type, dtype, enabled, cache_enabled)`, torch 2.13."""
    kind, dtype, enabled = (*args, None, None, None)[:3]
    name = dtype.get("dtype") if isinstance(dtype, dict) else None
    if not isinstance(kind, str) or not isinstance(name, str | None):
        raise NotRebuilt("the profile does not say which autocast the graph entered before it")
    return kind, name, enabled is not False


def _name(value: JsonValue) -> str:
    found = value.get("node") if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


def _dtype(name: str) -> str:
    if name not in DTYPES:
        raise NotRebuilt(f"found the dtype {name[:40]!r}, which no script can build")
    return name

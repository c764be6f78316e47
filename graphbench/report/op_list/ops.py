"""A node of a profile as the fields of an op: target, tensors, arguments and state. Pure."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from graphbench.analysis.op_list import holds_ops
from graphbench.measurements import JsonValue, TensorSpec
from graphbench.models.op_state import FLAGS, FP32_SETTINGS
from graphbench.models.op_tensors import STORAGE, VALUE_KINDS, contiguous, default_values, largest_integer, value_class
from graphbench.models.oplist import HOST_DEVICE, MEASURED_DEVICE, METHOD, is_custom
from graphbench.plaintext import quoted
from graphbench.records import NodeRecord, RegionRecord
from graphbench.report.repro.bounds import DEFAULT_BOUND, Step, bounds, needs_positive
from graphbench.report.repro.draft import Built, Draft, Source
from graphbench.report.repro.expressions import NotRebuilt, names_in, parts
from graphbench.report.repro.state import state_before
from graphbench.torch_names import DTYPES, FORMATS, LAYOUTS, function_problem, is_method

ALIGNMENT_BYTES: Final = 64
_ITEM: Final = re.compile(r"(\d+)(?:_|fn|$)")
_NAMES: Final = {"dtype": DTYPES, "layout": LAYOUTS, "memory_format": FORMATS}
_SORTED: Final = {"bucketize": 1, "searchsorted": 0, "_convert_indices_from_coo_to_csr": 0}
"""Ops of which an argument must be sorted, and which."""
_ARITHMETIC: Final[Mapping[str, Callable[[int, int], int]]] = {
    f"_operator.{name}": getattr(operator, name) for name in ("add", "sub", "mul", "floordiv", "mod")
}
_LARGEST: Final = 2**63 - 1
_DEEPEST: Final = 50
Fields = dict[str, object]


@dataclass(frozen=True, slots=True)
class Exported:
    """An op's fields but for its name and state, its state, and whether it has a backward to measure."""

    fields: Fields
    state: Fields
    trains: bool = field(default=False)


def exported(region: RegionRecord, node: NodeRecord, sources: Mapping[str, Source]) -> Exported:
    """The op that a node is.

    Args:
        region: the node's.
        node: a compute node.
        sources: `draft.node_sources` of the region.

    Raises:
        NotRebuilt: it cannot be one, and why.
    """
    op = _Op(region, node, sources)
    fields: Fields = {"target": _target(node)}
    if node.module:
        fields["module"] = node.module
    args, kwargs = op.arguments()
    tensors = op.tensors()
    fields |= {"tensors": tensors} if tensors else {}
    fields |= {"args": args} if args else {}
    fields |= {"kwargs": kwargs} if kwargs else {}
    state = _state(region, node)
    trains = bool(state["grad"]) and any(spec.requires_grad for spec in node.outputs)
    return Exported(fields, state, trains)


def _target(node: NodeRecord) -> str:
    """What an op list may call.

    Raises:
        NotRebuilt: the node calls something else.
    """
    callee = node.callee
    if node.op == "call_method":
        if not is_method(callee):
            raise NotRebuilt(f"{quoted(callee, 100)} is called, which is no method of a tensor")
        return f"{METHOD}{callee}"
    if node.op != "call_function":
        raise NotRebuilt(f"it is a {quoted(node.op, 40)} of {quoted(callee, 100)}, whose code a profile does not hold")
    problem = "" if is_custom(callee) else function_problem(callee)
    if problem:
        raise NotRebuilt(problem)
    return callee.removeprefix("_") if callee.startswith("_operator.") else callee


class _Op:
    """One node's call: its arguments in the words of op lists, and the tensors that they name."""

    def __init__(self, region: RegionRecord, node: NodeRecord, sources: Mapping[str, Source]) -> None:
        self._region = region
        self._node = node
        self._draft = Draft(sources)
        self._names: dict[str, str] = {}
        self._given = _given_values(region) if holds_ops(region) else {}

    def arguments(self) -> tuple[list[object], Fields]:
        """Positional and keyword arguments."""
        args, kwargs = parts(self._node.arguments)
        read = names_in(args[:1])
        if self._node.callee == "_operator.getitem" and read and len(self._source(read[0]).outputs) > 1:
            raise NotRebuilt("it takes a result out of several, which moves nothing")
        found = [self._value(entry) for entry in args], {name: self._value(entry) for name, entry in kwargs}
        self._draft.note(self._node.name, self._node.callee, self._node.arguments)
        return found

    def _source(self, name: str) -> Source:
        source = self._draft.sources.get(name)
        if source is None:
            raise NotRebuilt(f"it reads {quoted(name, 80)!r}, of which the profile holds nothing")
        return source

    def _value(self, value: JsonValue) -> object:
        if isinstance(value, str) and not value.isprintable():
            raise NotRebuilt(f"an argument is the text {quoted(value, 100)}, which no op of torch takes")
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if not isinstance(value, dict) or (len(value) != 1 and "opaque" not in value):
            raise NotRebuilt("an argument is no value that graphbench records: the profile is damaged")
        kind, held = next(iter(value.items()))
        if kind == "node" and isinstance(held, str):
            return self._read(held)
        if kind == "list" and isinstance(held, list):
            return [self._value(entry) for entry in held]
        if kind in ("tuple", "slice") and isinstance(held, list):
            return {kind: [self._value(entry) for entry in held]}
        if kind == "float" and held in ("nan", "inf", "-inf"):
            return float(str(held))
        if kind == "ellipsis" or (kind == "complex" and isinstance(held, list)):
            return {kind: held}
        if isinstance(held, str) and held in _NAMES.get(kind, ()):
            return {kind: held}
        if kind == "device" and isinstance(held, str):
            return {kind: self._device(held)}
        what = quoted(held, 100) if kind == "opaque" and isinstance(held, str) else quoted(kind, 100)
        raise NotRebuilt(f"an argument is a {what}, which no op list can hold")

    def _device(self, name: str) -> str:
        """The device that is measured, or the host where the region runs elsewhere."""
        kind, own = name.partition(":")[0], self._region.device.partition(":")[0]
        if kind == own:
            return MEASURED_DEVICE
        if kind != HOST_DEVICE:
            raise NotRebuilt(f"it uses the device {quoted(name, 40)}, while its region runs on {self._region.device}")
        return HOST_DEVICE

    def _read(self, name: str) -> object:
        source = self._source(name)
        if not source.outputs:
            return self._number(name, source)
        self._draft.resolve(name)
        if len(source.outputs) == 1:
            return {"tensor": self._called(name)}
        return {"tuple": [{"tensor": self._called(f"{name}[{i}]")} for i in range(len(source.outputs))]}

    def _called(self, name: str) -> str:
        """What a tensor is called in the list: the same in every op, so that equal ops read the same."""
        return self._names.setdefault(name, f"t{len(self._names)}")

    def _number(self, name: str, source: Source, depth: int = 0) -> object:
        """A value that is no tensor: one that the region was given, or arithmetic on such."""
        if source.made_by is None:
            if isinstance(source.value, int | float):
                return source.value
            raise NotRebuilt(f"it reads {quoted(name, 80)!r}, of which there is no example")
        function = _ARITHMETIC.get(source.made_by.callee)
        args = parts(source.made_by.arguments)[0]
        if function is None or len(args) != 2 or depth > _DEEPEST:
            raise NotRebuilt(f"it reads {quoted(name, 80)!r}, which is computed while the model runs")
        numbers = [self._operand(entry, depth) for entry in args]
        if not all(type(number) is int and abs(number) < _LARGEST for number in numbers) or numbers[1] == 0:
            raise NotRebuilt(f"it reads {quoted(name, 80)!r}, which is computed while the model runs")
        return function(*cast("list[int]", numbers))

    def _operand(self, value: JsonValue, depth: int) -> Any:
        name = value.get("node") if isinstance(value, dict) else None
        if not isinstance(name, str):
            return value
        source = self._source(name)
        return None if source.outputs else self._number(name, source, depth + 1)

    def tensors(self) -> Fields:
        """The tensors that the arguments name."""
        steps, found = self._draft.steps, self._draft.tensors
        limits = bounds(steps, self._draft.spec)
        sizes = [size for built in found.values() for size in built.spec.shape if size > 1]
        default = min(sizes, default=DEFAULT_BOUND)
        in_order = _sorted_arguments(steps)
        together: dict[tuple[str, str, str], list[Built]] = {}
        for built in found.values():
            storage = self._given.get(built.name, ("", ""))[1] or built.storage
            together.setdefault((storage, built.spec.dtype, built.spec.device), []).append(built)
        fields: dict[str, Fields] = {}
        for number, members in enumerate(together.values()):
            start = _start(members)
            for built in members:
                entry = self._tensor(built.spec, start, limits.get(built.name, default))
                if built.name in self._given:
                    entry["values"] = self._given[built.name][0]  # nothing where it is the default
                elif built.name in in_order:
                    entry["values"] = _sorted_values(built.spec, default)
                elif needs_positive(steps) and value_class(built.spec.dtype) == "float":
                    entry["values"] = {"uniform": [0, 1]}
                if len(members) > 1:
                    entry["storage"] = f"s{number}"
                fields[self._called(built.name)] = {key: value for key, value in entry.items() if value is not None}
        return {name: fields[name] for name in self._names.values()}

    def _tensor(self, spec: TensorSpec, start: int, below: int) -> Fields:
        fields: Fields = {"shape": spec.shape, "dtype": spec.dtype}
        if spec.stride != contiguous(spec.shape):
            fields["stride"] = spec.stride
        if spec.storage_offset - start:
            fields["storage_offset"] = spec.storage_offset - start
        if value_class(spec.dtype) == "integer":
            fields["values"] = {"below": max(1, min(below, largest_integer(spec.dtype) + 1))}
        if spec.requires_grad and value_class(spec.dtype) == "float":
            fields["requires_grad"] = True
        if self._device(spec.device) == HOST_DEVICE:
            fields["device"] = HOST_DEVICE
        return fields


def _given_values(region: RegionRecord) -> dict[str, tuple[object, str]]:
    """Values and storage of the tensors of an op list, as `measuring.op_list` wrote them down, by name."""
    found: dict[str, tuple[object, str]] = {}
    for entry in region.inputs:
        text, _, storage = entry.source.partition(STORAGE)
        kind, *numbers = text.split(" ")
        try:
            given = [int(number) if number.isdecimal() else float(number) for number in numbers]
        except ValueError:
            continue  # the profile is damaged here: the tensor gets the values that any node's would
        known = entry.spec is not None and text == str(default_values(entry.spec.dtype))
        if kind in VALUE_KINDS and len(given) <= 2:
            values: object = {kind: given if len(given) > 1 else given[0]} if given else kind
            found[entry.name] = (None if known else values, storage)
    return found


def _start(members: list[Built]) -> int:
    """What of the offsets is left out, so that alignment stays what it was."""
    found = _ITEM.search(members[0].spec.dtype)
    aligned = max(1, ALIGNMENT_BYTES // max(1, int(found[1]) // 8 if found else 1))
    return min(built.spec.storage_offset for built in members) // aligned * aligned


def _sorted_arguments(steps: list[Step]) -> set[str]:
    """Names of the tensors that an op needs sorted."""
    found: set[str] = set()
    for step in steps:
        position = _SORTED.get(step.op)
        if position is not None:
            found.update(names_in(step.args[position : position + 1]))
            found.update(names_in([step.kwargs.get(key) for key in ("boundaries", "sorted_sequence")]))
    return found


def _sorted_values(spec: TensorSpec, default: int) -> object:
    return {"sorted": max(1, default)} if value_class(spec.dtype) == "integer" else "sorted"


def _state(region: RegionRecord, node: NodeRecord) -> Fields:
    """The ambient state in which a node ran, as fields of an op; the number of threads belongs to the machine."""
    found: Any = state_before(region, node)
    ambient = region.ambient
    assert ambient is not None
    own = region.device.partition(":")[0]
    casts = {kind: (dtype, enabled) for kind, dtype, enabled in found["autocast"]}
    others = [kind for kind, (_, enabled) in casts.items() if enabled and kind != own]
    if others:
        raise NotRebuilt(f"autocast of {quoted(others[0], 20)} was on, while its region runs on {own}")
    dtype, enabled = casts.get(own, (None, False))
    state: Fields = {"grad": found["grad"]}
    if found["inference"]:
        state["inference_mode"] = True
    state["autocast"] = (dtype or ("bfloat16" if own == HOST_DEVICE else "float16")) if enabled else False
    if enabled:
        state["autocast_cache"] = found["autocast_cache"]
    state["default_dtype"] = found["default_dtype"]
    state["fp32_precision"] = {name: value for name, value in found["fp32_precision"] if name in FP32_SETTINGS}
    state["flags"] = {name: value for name, value in ambient.flags if name in FLAGS}
    state["sdpa"] = [name for name, on in found["sdpa"] if on]
    state["deterministic"] = "warn" if found["deterministic"] == (True, True) else found["deterministic"][0]
    return state

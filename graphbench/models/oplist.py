"""Op lists: files of ops to benchmark without a model. Data only: reading one runs no code, and imports no torch.

    op-list: 1
    state: {autocast: bfloat16}
    ops:
      - name: scores
        target: torch.matmul
        args:
          - tensor: {shape: [8, n, 64], dtype: float16}
          - tensor: {shape: [8, 64, n], dtype: float16, stride: [64*n, 1, 64]}
        sweep: {n: [128, 256]}

`docs/op-list.md` describes every field. A `target` is a function below `torch`, `operator` or `math`, or a method of a
tensor as `Tensor.masked_fill`. Arguments are kept as `records.NodeRecord` keeps them: tensors as `{"node": name}`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from graphbench.errors import UsageError
from graphbench.measurements import JsonValue
from graphbench.models.op_state import NO_STATE, OpState, read_state
from graphbench.models.op_tensors import TensorEntry, check_storages, read_tensor
from graphbench.models.sizes import Sizes, read_size, read_sweep
from graphbench.models.yaml_cursor import Cursor, nearest, read_yaml, shown
from graphbench.torch_names import DTYPES, FORMATS, LAYOUTS, function_problem, is_method, op_name

VERSION: Final = 1
VERSION_FIELD: Final = "op-list"
MOST_OPS: Final = 10_000
METHOD: Final = "Tensor."
MEASURED_DEVICE: Final = "measured"
HOST_DEVICE: Final = "cpu"
KINDS: Final = (
    *("tensor", "size", "tuple", "slice", "ellipsis", "complex"),
    *("dtype", "layout", "memory_format", "device"),
)
"""What an argument that is no plain value can be: a mapping of one such name and its value."""
_NAMES: Final = {"dtype": DTYPES, "layout": LAYOUTS, "memory_format": FORMATS}
_FILE_FIELDS: Final = (VERSION_FIELD, "state", "ops")
_OP_FIELDS: Final = ("name", "target", "args", "kwargs", "tensors", "sweep", "zip", "state", "module")
_NAME: Final = re.compile(r"[A-Za-z_][\w.:/-]{0,120}", re.ASCII)
_KEYWORD: Final = re.compile(r"[A-Za-z_]\w{0,80}", re.ASCII)
_CUSTOM: Final = re.compile(
    r"torch\.ops\.(?!(aten|prims|higher_order)\.)[A-Za-z_]\w{0,80}\.\w{1,80}(\.\w{1,80})?", re.ASCII
)
_NO_WORK: Final = re.compile(
    r"torch\.(set_\w+|use_\w+|_?(enable|disable|init)\w*|seed|manual_seed|_from_blob)", re.ASCII | re.IGNORECASE
)
"""Functions of torch that set state of the process, or take an address, and compute nothing to be measured."""
_MATH: Final = re.compile(r"math\.[a-z][a-z0-9_]{0,20}")
FORMAT_HINT: Final = "graphbench docs op-list shows the format; graphbench export PROFILE --format op-list writes one"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpEntry:
    """One op to measure: an instance of the sweep, with its sizes filled in.

    `name` is unique and has the sizes in brackets, `base` has not. `args` and `kwargs` are prototypes; `tensors` are
    those that they name. `line` is where the op begins.
    """

    name: str
    base: str
    target: str
    args: tuple[JsonValue, ...]
    kwargs: Mapping[str, JsonValue]
    tensors: Mapping[str, TensorEntry]
    state: OpState = NO_STATE
    module: str = ""
    line: int = 0

    @property
    def is_method(self) -> bool:
        """Whether the target is a method of its first argument."""
        return self.target.startswith(METHOD)

    @property
    def needs_import(self) -> bool:
        """Whether the target is none of torch's own: a custom op, which some module must have registered."""
        return is_custom(self.target)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpList:
    """What a file says: its ops, in order, every one an instance."""

    file: str
    ops: tuple[OpEntry, ...] = field(repr=False)


def is_custom(target: str) -> bool:
    """Whether a target is a custom op by its name: `torch.ops.namespace.op` of another namespace than torch's."""
    return _CUSTOM.fullmatch(target) is not None


def read_op_list(path: Path) -> OpList:
    """Read an op list.

    Raises:
        UsageError: with file, line and field, what was found and what was expected.
    """
    try:
        return parse_op_list(read_yaml(path, "op list"))
    except UsageError as error:
        if error.hint:
            raise
        raise UsageError(error.message, hint=FORMAT_HINT, subject=error.subject) from error


def parse_op_list(root: Cursor) -> OpList:
    """An op list from the content of its file.

    Raises:
        UsageError: as `read_op_list`.
    """
    fields = root.fields(_FILE_FIELDS, f"an op list, with {', '.join(_FILE_FIELDS)}")
    version = fields.get(VERSION_FIELD)
    if version is None:
        raise root.error(f"`{VERSION_FIELD}: {VERSION}`, the version of the format", found="no version")
    if version.entry.value != VERSION or isinstance(version.entry.value, bool):
        raise version.error(f"{VERSION}, the version of the format that this graphbench reads")
    state = read_state(fields["state"], NO_STATE) if "state" in fields else NO_STATE
    if "ops" not in fields:
        raise root.error("the field `ops`, a list", found="none")
    found: list[OpEntry] = []
    known: dict[str, int] = {}
    for cursor in fields["ops"].items("ops"):
        entries = _read_op(cursor, state, MOST_OPS - len(found))
        base = entries[0].base
        if base in known:
            raise cursor.error("names that are unique", found=f"the name {shown(base)}, as in line {known[base]}")
        known[base] = cursor.entry.line
        found += entries
    if not found:
        raise fields["ops"].error("at least one op")
    return OpList(file=root.file, ops=tuple(found))


def _read_op(cursor: Cursor, state: OpState, room: int) -> list[OpEntry]:
    fields = cursor.fields(_OP_FIELDS, f"an op, with {', '.join(_OP_FIELDS)}")
    if "target" not in fields:
        raise cursor.error("the field `target`, as torch.matmul", found="none")
    target = _read_target(fields["target"])
    base = _read_name(fields["name"]) if "name" in fields else op_name(target)
    own = read_state(fields["state"], state) if "state" in fields else state
    module = fields["module"].text("a module's path") if "module" in fields else ""
    if room < 1:
        raise cursor.error(f"at most {MOST_OPS} ops, sweeps included", found="one more")
    found = []
    for sizes in read_sweep(cursor, fields.get("sweep"), fields.get("zip"), room):
        reader = _Arguments(fields, sizes)
        sized = ",".join(f"{name}={size}" for name, size in sizes.items())
        found.append(
            OpEntry(
                name=f"{base}[{sized}]" if sized else base,
                base=base,
                target=target,
                args=reader.args,
                kwargs=reader.kwargs,
                tensors=reader.used,
                state=own,
                module=module,
                line=cursor.entry.line,
            )
        )
        if target.startswith(METHOD) and not (found[-1].args and _is_tensor(found[-1].args[0])):
            raise cursor.error("a tensor as the first of `args`, whose method is called", found=f"none for {target}")
    return found


def _is_tensor(argument: JsonValue) -> bool:
    return isinstance(argument, dict) and "node" in argument


def _read_name(cursor: Cursor) -> str:
    name = cursor.text("a name")
    if not _NAME.fullmatch(name):
        raise cursor.error("a name of letters, digits and _ . : / -, which begins with a letter")
    return name


def _read_target(cursor: Cursor) -> str:
    """A name that may be called because a file says so.

    Raises:
        UsageError: it is none.
    """
    target = cursor.text("what is called, as torch.matmul or Tensor.masked_fill")
    if target.startswith(METHOD):
        known = is_method(target.removeprefix(METHOD))
    else:
        known = is_custom(target) or _MATH.fullmatch(target) is not None
        known = known or not (function_problem(target) or _NO_WORK.fullmatch(target))
    if known:
        return target
    hint = "an op list is data: only torch's own ops, operator.* and math.* are called"
    if target.startswith("torch.Tensor."):
        hint = f"a tensor's method is written {target.removeprefix('torch.')}"
    elif "." not in target:
        hint = f"write the whole name, as torch.{target} or {METHOD}{target}"
    raise cursor.error("a function below torch, operator or math, or a method as Tensor.masked_fill", hint=hint)


class _Arguments:
    """The arguments of one instance of an op, and the tensors among them."""

    def __init__(self, fields: Mapping[str, Cursor], sizes: Sizes) -> None:
        self._sizes = sizes
        self._named: dict[str, TensorEntry] = {}
        self.used: dict[str, TensorEntry] = {}
        named = fields["tensors"].mapping("tensors by name") if "tensors" in fields else {}
        for name, cursor in named.items():
            if not _KEYWORD.fullmatch(name):
                raise cursor.error("a tensor's name of letters, digits and _", found=shown(name))
            self._named[name] = read_tensor(cursor, sizes)
        args = fields["args"].items("arguments") if "args" in fields else []
        kwargs = fields["kwargs"].mapping("arguments by name") if "kwargs" in fields else {}
        self.args = tuple(self._value(cursor, f"arg{index}") for index, cursor in enumerate(args))
        self.kwargs = {self._keyword(name, cursor): self._value(cursor, name) for name, cursor in kwargs.items()}
        for name in self._named.keys() - self.used.keys():
            raise named[name].error(
                "a tensor that an argument names, as {tensor: " + name + "}", found="one that none does"
            )
        if named or self.used:
            check_storages(fields.get("tensors", fields.get("args", fields.get("kwargs"))), self.used)

    def _keyword(self, name: str, cursor: Cursor) -> str:
        if not _KEYWORD.fullmatch(name):
            raise cursor.error("an argument's name", found=shown(name))
        return name

    def _value(self, cursor: Cursor, name: str) -> JsonValue:
        value = cursor.entry.value
        if isinstance(value, list):
            return {"list": self._list(cursor, name)}
        if isinstance(value, dict):
            return self._tagged(cursor, name)
        if isinstance(value, float) and not math.isfinite(value):
            return {"float": repr(value)}
        if not (value is None or isinstance(value, bool | int | float | str)):
            raise cursor.error("an argument")
        return value

    def _list(self, cursor: Cursor, name: str) -> list[JsonValue]:
        entries = cursor.items("values")
        return [self._value(entry, f"{name}_{index}") for index, entry in enumerate(entries)]

    def _tagged(self, cursor: Cursor, name: str) -> JsonValue:
        entries = cursor.mapping("an argument")
        if len(entries) != 1:
            hint = "a tensor is written {tensor: {shape: [2, 3]}}" if "shape" in entries else None
            raise cursor.error(f"one of {', '.join(KINDS)} and its value", hint=hint)
        kind, entry = next(iter(entries.items()))
        if kind not in KINDS:
            hint = "a tensor is written {tensor: {shape: [2, 3]}}" if kind == "shape" else nearest(kind, KINDS)
            raise entry.error(f"one of {', '.join(KINDS)}", found=f"the kind {shown(kind)}", hint=hint)
        if kind == "tensor":
            return {"node": self._tensor(entry, name)}
        if kind == "size":
            return read_size(entry, self._sizes)
        if kind in _NAMES:
            return {kind: entry.chosen(_NAMES[kind], f"a {kind.replace('_', ' ')}")}
        return self._other(kind, entry, name)

    def _other(self, kind: str, entry: Cursor, name: str) -> JsonValue:
        if kind == "device":
            expected = f"{MEASURED_DEVICE} (the device that is measured, whichever it is) or {HOST_DEVICE}"
            return {"device": entry.chosen((MEASURED_DEVICE, HOST_DEVICE), expected)}
        if kind == "ellipsis":
            if not entry.flag():
                raise entry.error("true")
            return {"ellipsis": True}
        values = self._list(entry, name)
        if kind == "slice" and len(values) != 3:
            raise entry.error("[start, stop, step], with null for what is left out")
        if kind == "complex":
            return {"complex": [value.number("a number") for value in self._pair(entry)]}
        return {kind: values}

    def _pair(self, entry: Cursor) -> list[Cursor]:
        found = entry.items("[real, imaginary]")
        if len(found) != 2:
            raise entry.error("[real, imaginary]")
        return found

    def _tensor(self, cursor: Cursor, name: str) -> str:
        """The name of a tensor: one of `tensors`, or that of its argument where it stands there itself."""
        if isinstance(cursor.entry.value, str):
            named = cursor.chosen(self._named, "the name of one of `tensors`, or a tensor's fields")
            self.used[named] = self._named[named]
            return named
        while name in self._named or name in self.used:
            name += "_"
        self.used[name] = read_tensor(cursor, self._sizes)
        return name


def tensors_named(value: JsonValue) -> Iterator[str]:
    """Names of the tensors in an argument, in order."""
    if isinstance(value, list):
        for entry in value:
            yield from tensors_named(entry)
    elif isinstance(value, dict):
        node = value.get("node")
        if isinstance(node, str):
            yield node
        else:
            yield from tensors_named(list(value.values()))


def refuse_unknown_ops(op_list: OpList, imports: tuple[str, ...]) -> None:
    """Refuse custom ops where no module was named that registers them.

    Raises:
        UsageError: with the line of the first one.
    """
    for op in op_list.ops:
        if op.needs_import and not imports:
            raise UsageError(
                f"{op_list.file}:{op.line}: {op.name}: {op.target} is a custom op, which some module has to register",
                hint="name the module with --import my_package.ops (it is run), or imports=['my_package.ops']",
                subject=op.name,
            )

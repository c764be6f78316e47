"""The gap ops of a step while it runs: which row each falls into, and what is known of the row."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from graphbench.capture import source_lines
from graphbench.isolate.held import LONG_LIST, HeldArguments, Holder
from graphbench.measurements import Measurement, SourceLine, TensorSpec
from graphbench.measuring.collectives import is_collective
from graphbench.step_records import GapOpKind, StepPhase, StepRow
from graphbench.tensors import device_of, tensors_of

Parts = tuple[tuple[int, ...], tuple[int, ...], torch.dtype, torch.device, int, bool]
"""What a spec is made of, later: shape, stride, dtype, device, storage offset, whether it requires grad."""


@dataclass(slots=True)
class GapOp:
    """Gap ops that share a row; `held` are the arguments of the first of them. Other fields as in `StepRow`."""

    name: str
    function: Any
    op_type: str
    kind: GapOpKind
    phase: StepPhase
    place: str
    user_phase: str
    source: SourceLine | None
    autograd_node: str
    held: HeldArguments | None = None
    results: tuple[Parts, ...] | None = None
    calls: int = 0
    copied_bytes: int = 0
    copied: str = ""

    def row(self, in_graph: Measurement, isolated: Measurement) -> StepRow:
        """The row with what was measured of it."""
        return StepRow(
            name=self.name,
            op_type=self.op_type,
            in_graph=in_graph,
            isolated=isolated,
            kind=self.kind,
            calls=self.calls,
            phase=self.phase,
            place=self.place,
            user_phase=self.user_phase,
            source=self.source,
            autograd_node=self.autograd_node,
            inputs=self.held.specs() if self.held is not None else (),
            outputs=tuple(map(_spec, self.results or ())),
            copied_bytes=self.copied_bytes,
            copied=self.copied,
        )


class _Node(threading.local):
    """The autograd node at work in this thread, and where the memory is of what its ops made so far."""

    def __init__(self) -> None:
        self.node: Any = None
        self.made: set[int] = set()


class GapOps:
    """All rows of gap ops of one step.

    An op of the backward belongs to the line of the forward op whose autograd node is at work, found by the node's
    sequence number: the first op of the forward under a number is the one that autograd recorded.

    Source: `torch._C._current_autograd_node`, `torch._C._current_graph_task_id`,
        `torch.autograd._get_sequence_nr` (the number of this thread's next node), torch 2.11 to 2.14.
    """

    def __init__(self, holder: Holder, device: torch.device) -> None:
        self._device = device
        self.rows: dict[tuple[Any, ...], GapOp] = {}
        self._holder = holder
        self._lines: dict[int, SourceLine | None] = {}
        self._next_number = 0
        self._node = _Node()
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    def skip_numbers(self) -> None:
        """Nodes recorded so far, as those of compiled graphs, belong to no op seen here."""
        self._next_number = torch.autograd._get_sequence_nr()  # type: ignore[attr-defined]

    def find(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], place: str, user_phase: str) -> GapOp:
        """The row of one call, with the call counted and, the first time, its arguments kept."""
        phase, source, node, from_engine = self._origin()
        where = (source.file, source.line) if source is not None else node
        adds_up = from_engine and self._adds_up(function, args)
        key = (place, phase, user_phase, node, where, adds_up, function, _key_of(function, args, kwargs))
        op = self.rows.get(key)
        if op is None:
            op = self._new(function, args, kwargs, phase, place, user_phase, source, node)
            accumulates = adds_up or (from_engine and node == "AccumulateGrad")
            op.kind = "accumulation" if accumulates and op.kind == "op" else op.kind
            op = self.rows.setdefault(key, op)
        if self._counted(op, _copied_bytes(args) if op.copied else 0) == 1:
            decisive = op.kind == "sync" and op.op_type != "_local_scalar_dense"
            op.held = self._holder.hold(args, kwargs, floats=phase != "backward", decisive=decisive)
        return op

    def _counted(self, op: GapOp, copied_bytes: int) -> int:
        """Count a call, which other threads may be doing too. Returns which one it is."""
        with self._lock:
            op.calls += 1
            op.copied_bytes += copied_bytes
            return op.calls

    def let_go(self) -> None:
        """Let go of the autograd node that was at work last, and with it of its graph."""
        self._node = _Node()

    def forget_calls(self) -> None:
        """Forget what ran so far, and let its arguments go. The rows stay."""
        for op in self.rows.values():
            op.calls, op.copied_bytes, op.held = 0, 0, None
        self._holder = Holder(self._holder.budget_bytes)
        self._lines.clear()
        self._next_number = 0

    def made(self, result: Any) -> None:
        """An op of the backward had this result."""
        self._node.made.update(tensor.data_ptr() for tensor in tensors_of(result) if tensor.layout is torch.strided)

    def _adds_up(self, function: Any, args: tuple[Any, ...]) -> bool:
        """Whether the engine adds a gradient, that the node at work made, to one that another node had made before.

        It does so when the node is done, with the node still the current one. Known by the operand that is older.

        Source: `InputBuffer::add` and `Engine::evaluate_function` (torch/csrc/autograd), torch 2.11 to 2.14.
        """
        if function not in (torch.ops.aten.add.Tensor, torch.ops.aten.add_.Tensor) or len(args) != 2:
            return False
        if not all(isinstance(arg, torch.Tensor) and arg.layout is torch.strided for arg in args):
            return False
        made = [arg.data_ptr() in self._node.made for arg in args]
        return args[0].shape == args[1].shape and made.count(False) >= 1

    def launch(self, name: str, place: str, user_phase: str) -> GapOp:
        """The row of a launch that torch's dispatcher does not see, with the launch counted."""
        phase, source, node, _ = self._origin()
        where = (source.file, source.line) if source is not None else node
        key = (place, phase, user_phase, node, where, name)
        op = self.rows.get(key)
        if op is None:
            row = f"{place}|{phase}|{name}#{next(self._numbers)}"
            op = self.rows.setdefault(key, GapOp(row, None, name, "op", phase, place, user_phase, source, node))
        self._counted(op, 0)
        return op

    def _origin(self) -> tuple[StepPhase, SourceLine | None, str, bool]:
        """Phase, line and autograd node of the call in progress; whether autograd itself calls, not the user's code."""
        caller = source_lines.of_caller()
        if torch._C._current_graph_task_id() == -1:
            phase: StepPhase = "optimizer" if caller.optimizer else "backward" if caller.engine else "forward"
            if phase == "forward":
                self._claim_number(caller.source)
            return phase, caller.source, "", False
        node: Any = torch._C._current_autograd_node()
        if caller.optimizer:  # stepping in a hook
            return "optimizer", caller.source, "", False
        if node is None:
            return "backward", None if caller.engine else caller.source, "", False
        if node is not self._node.node:
            self._node.node, self._node.made = node, set()
        name = node.name().rpartition("::")[2]
        if caller.source is not None and not caller.engine:  # the user's own backward or hook
            return "backward", caller.source, name, False
        return "backward", self._lines.get(node._sequence_nr()), name, True

    def _claim_number(self, source: SourceLine | None) -> None:
        number = torch.autograd._get_sequence_nr()  # type: ignore[attr-defined]
        if number > self._next_number:
            self._next_number = number
            # Every thread counts for itself: a number that two lines have had tells nothing.
            known = self._lines.get(number - 1, source)
            self._lines[number - 1] = source if known == source else None

    def _new(
        self,
        function: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        phase: StepPhase,
        place: str,
        user_phase: str,
        source: SourceLine | None,
        node: str,
    ) -> GapOp:
        op_type = op_name(function)
        kind, copied = _kind(function, args, kwargs, self._device)
        return GapOp(
            name=f"{place}|{phase}|{op_type}#{next(self._numbers)}",
            function=function,
            op_type=op_type,
            kind=kind,
            phase=phase,
            place=place,
            user_phase=user_phase,
            source=source,
            autograd_node=node,
            copied=copied,
        )


def parts_of(tensor: torch.Tensor) -> Parts:
    """What a result is, read quickly between two ops of a live step."""
    if tensor.layout is not torch.strided or tensor.is_nested:
        return ((-1,) * tensor.dim(), (), tensor.dtype, tensor.device, 0, tensor.requires_grad)
    offset: Any = tensor.storage_offset()
    return (tensor.shape, tensor.stride(), tensor.dtype, tensor.device, offset, tensor.requires_grad)


def _spec(parts: Parts) -> TensorSpec:
    shape, stride, dtype, device, offset, requires_grad = parts
    return TensorSpec(
        shape=tuple(map(int, shape)),
        stride=tuple(map(int, stride)),
        dtype=str(dtype).removeprefix("torch."),
        device=str(device),
        storage_offset=int(offset),
        requires_grad=requires_grad,
    )


def op_name(function: Any) -> str:
    """An op as reports name it: `add`, or `ns.op` outside of ATen."""
    name = str(getattr(function, "_opname", None) or getattr(function, "__name__", function))
    space = getattr(function, "namespace", "aten")
    return name if space in ("aten", "higher_order") else f"{space}.{name}"


def _kind(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], device: torch.device) -> tuple[GapOpKind, str]:
    """What a reader must know of an op before its time, and the direction in which it copies between devices.

    Args:
        function: the op.
        args: its positional arguments.
        kwargs: its named ones.
        device: what the step runs on: reading a value on the CPU waits for no other device.
    """
    if is_collective(function):
        return "collective", ""
    copied = _copied(function, args, kwargs)
    if copied:
        return "copy", copied
    waits = _host_reads(function, args) and device_of(tensors_of(args)).type == device.type
    return ("sync" if waits else "op"), ""


def _host_reads(function: Any, args: tuple[Any, ...]) -> bool:
    """Whether the host must know a value of the result, or its shape, so that it waits for the device.

    Source: `torch.Tag.data_dependent_output`, `torch.Tag.dynamic_output_shape` of `OpOverload.tags`, torch 2.11 to
        2.14. `aten.index` has the second one whatever it is given and `aten.index_put_` none; what they do with masks
        depends on values.
    """
    if "index" in getattr(function, "_opname", ""):
        return any(tensor.dtype in (torch.bool, torch.uint8) for tensor in tensors_of(args[1:2]))
    tags = getattr(function, "tags", ())
    return torch.Tag.data_dependent_output in tags or torch.Tag.dynamic_output_shape in tags


def _copied(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """`cuda to cpu` of an op that copies between devices; otherwise empty."""
    if "copy" not in getattr(function, "_opname", ""):
        return ""
    tensors = tensors_of(args)
    kinds = [tensor.device.type for tensor in tensors]
    if "device" in kwargs and kwargs["device"] is not None:
        kinds = [torch.device(kwargs["device"]).type, *kinds]
    return f"{kinds[-1]} to {kinds[0]}" if len(set(kinds)) > 1 else ""


def _copied_bytes(args: tuple[Any, ...]) -> int:
    source = tensors_of(args)[-1]
    return source.numel() * source.element_size()


def _key_of(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What tells calls of one op and line apart: their tensors, and integers unless the op only makes a view.

    Of long lists of tensors, as optimizers pass them by the hundred, only length and ends are looked at.

    Floating-point numbers change nothing of what an op costs, and would make a row of every iteration of a loop.
    """
    integers = not getattr(function, "is_view", False)
    return _keys((*args, *kwargs.items()), integers)


def _keys(values: Iterable[Any], integers: bool) -> tuple[Any, ...]:
    return tuple(_key(value, integers) for value in values)


def _key(value: Any, integers: bool) -> Any:
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or value.is_nested:
            return (type(value), value.dtype, value.device, value.layout)
        return (value.shape, value.stride(), value.dtype, value.device)
    if isinstance(value, (list, tuple)):
        if len(value) > LONG_LIST and isinstance(value[0], torch.Tensor):
            return (len(value), _key(value[0], integers), _key(value[-1], integers))
        return _keys(value, integers)
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, bool):
        return (bool, value)  # or it would be 1
    if isinstance(value, int):
        return value if integers else int
    return value if isinstance(value, (torch.dtype, torch.device, torch.layout, torch.memory_format)) else type(value)

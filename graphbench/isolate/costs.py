"""Counts what a call has to do at least, while it is made: FLOPs by torch's formulas, bytes by what its ops touch.

Bytes are those that cross the call's border: of tensors that were there before, what its ops read and overwrite; of
its results, what is new. What it makes for itself on the way counts as nothing, however large.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from math import prod
from typing import Any, NamedTuple

import torch
from torch.utils import flop_counter
from torch.utils._python_dispatch import TorchDispatchMode

from graphbench.errors import first_line
from graphbench.isolate import touched
from graphbench.measurements import Work
from graphbench.tensors import PLAIN_TYPES, byte_range, has_storage, parts_of, tensors_of

aten: Any = torch.ops.aten
NO_FORMULA = "torch.utils.flop_counter.register_flop_formula gave it none"
CONVOLUTIONS = ("convolution", "conv", "cudnn_convolution")
NAMESPACES = ("aten", "prims")
"""Whose ops are known; what others compute is not."""
PRODUCTS = (
    *("_trilinear", "_cdist_forward", "_cdist_backward", "_euclidean_dist", "_scaled_grouped_mm"),
    *("_sparse_semi_structured_mm", "_sparse_semi_structured_addmm", "_sparse_semi_structured_linear"),
    *("_cslt_sparse_mm", "_weight_int4pack_mm"),
    *("_weight_int4pack_mm_for_cpu", "_weight_int8pack_mm", "_dyn_quant_matmul_4bit", "_cudnn_rnn"),
    *("_cudnn_rnn_backward", "mkldnn_rnn_layer", "mkldnn_rnn_layer_backward", "linalg_cholesky_ex", "linalg_eig"),
    *("_linalg_eigh", "linalg_inv_ex", "linalg_lstsq", "linalg_lu", "linalg_lu_factor_ex", "linalg_lu_solve"),
    *("linalg_matrix_exp", "linalg_qr", "_linalg_solve_ex", "linalg_solve_triangular", "_linalg_svd"),
)
"""Ops that compute products, and that no formula is known for."""


@cache
def _formulas() -> Mapping[Any, Callable[..., Any]]:
    """Formulas of ops that torch has none for, though they are products like those that it has.

    Source: absent from `torch.utils.flop_counter.flop_registry`, torch 2.11 to 2.14.
    """

    def with_shapes(formula: Callable[..., int]) -> Callable[..., int]:
        def counted(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
            return formula(*[tuple(arg.shape) if isinstance(arg, torch.Tensor) else arg for arg in args])

        return counted

    def grouped(left: tuple[int, ...], right: tuple[int, ...], *_: Any) -> int:
        return 2 * prod(left) * right[-1] // (left[0] if len(left) > len(right) else 1)

    def attention_backward(gradient: Any, query: Any, key: Any, value: Any, *_: Any) -> int:
        return int(flop_counter.sdpa_backward_flop_count(gradient, query, key, value))

    return {
        aten.mv: with_shapes(lambda matrix, vector: 2 * prod(matrix)),
        aten.addmv: with_shapes(lambda bias, matrix, vector, *_: 2 * prod(matrix)),
        aten.dot: with_shapes(lambda left, right: 2 * prod(left)),
        aten.vdot: with_shapes(lambda left, right: 2 * prod(left)),
        aten.addbmm: with_shapes(lambda bias, left, right, *_: 2 * prod(left) * right[2]),
        aten._grouped_mm: with_shapes(grouped),
        aten._int_mm: with_shapes(lambda left, right: 2 * prod(left) * right[1]),
        aten._addmm_activation: with_shapes(lambda bias, left, right, *_: 2 * prod(left) * right[1]),
        aten._scaled_dot_product_flash_attention_for_cpu: with_shapes(
            lambda query, key, value, *_: int(flop_counter.sdpa_flop_count(query, key, value))
        ),
        aten._scaled_dot_product_flash_attention_for_cpu_backward: with_shapes(attention_backward),
    }


def formula_of(packet: Any) -> Callable[..., Any] | None:
    """The FLOP formula of an op, the user's own included; `None` where there is none.

    Source: `torch.utils.flop_counter.flop_registry`, which `register_flop_formula` fills, torch 2.11 to 2.14.
    """
    return flop_counter.flop_registry.get(packet) or _formulas().get(packet)


class Span(NamedTuple):
    """A range of addresses, and how many distinct bytes of it were read and written."""

    first: int
    end: int
    read: int
    written: int


def span_of(tensor: torch.Tensor) -> Span | None:
    """Where a tensor lies, as if it were read whole; `None` for one that lies nowhere."""
    if not has_storage(tensor) or not tensor.numel():
        return None
    base = tensor.untyped_storage().data_ptr()
    first, end = byte_range(tensor)
    return Span(base + first, base + end, touched.distinct_bytes(tensor), 0)


@dataclass(slots=True)
class _Storage:
    """What was read and overwritten of one storage, in bytes by view of it, and which bytes the views cover.

    It is kept alive, or a result might be made where it was.
    """

    alive: torch.UntypedStorage
    read: dict[object, int] = field(default_factory=dict)
    written: dict[object, int] = field(default_factory=dict)
    first: int | None = None
    end: int = 0

    def add(self, tensor: torch.Tensor, read: int, written: int) -> None:
        key = (tensor.storage_offset(), tuple(tensor.shape), tensor.stride())
        first, end = byte_range(tensor)
        self.first, self.end = first if self.first is None else min(self.first, first), max(self.end, end)
        self.read[key] = max(read, self.read.get(key, 0))
        self.written[key] = max(written, self.written.get(key, 0))

    def span(self) -> Span:
        """All views together. Those that lie over one another are one: never more than all of them cover."""
        first, base = self.first or 0, self.alive.data_ptr()
        read, written = (min(sum(column.values()), self.end - first) for column in (self.read, self.written))
        return Span(base + first, base + self.end, read, written)


class WorkCounter(TorchDispatchMode):
    """Counts, while active, every op that the calling thread runs. The ops themselves run as they would.

    Source: `torch.utils._python_dispatch.TorchDispatchMode`; `supports_higher_order_operators` as in torch's own
        `FlopCounterMode`; `ignore_compile_internals`, without which compiled code would be switched off. torch 2.11 to
        2.14.
    """

    supports_higher_order_operators = True

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Compiled code runs compiled."""
        return True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._made: set[int] = set()
        self._unwritten: set[int] = set()  # of those, what is only allocated so far
        self._outside: dict[int, _Storage] = {}
        self._flops: dict[str, int] = {}
        self.untold = ""
        self.no_formula = ""  # the first op that may compute products, and whose FLOPs are not known
        self.scattered_bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an op, and count it; of a tensor subclass, the ops that it makes of it."""
        if any(kind not in PLAIN_TYPES for kind in types):
            return NotImplemented
        kwargs = kwargs or {}
        if not isinstance(func, torch._ops.OpOverload):
            self._lost(f"{func}: what it runs cannot be counted")
            return func(*args, **kwargs)
        if formula_of(func.overloadpacket) is None and _is_composite(func):
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        result = func(*args, **kwargs)
        try:
            self._count(func, args, kwargs, result)
        except Exception as error:  # noqa: BLE001 - whatever a formula raises, the user's op has run and goes on
            self._lost(f"{func}: counting raised {type(error).__name__}: {first_line(error)}")
        return result

    def _lost(self, reason: str) -> None:
        """An op was not counted: neither the bytes nor the FLOPs of the others are all that there are."""
        self.untold, self.no_formula = self.untold or reason, self.no_formula or reason

    def _count(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> None:
        formula = formula_of(func.overloadpacket)
        if formula is not None:
            flops = int(formula(*args, **kwargs, out_val=result))
            arithmetic = _arithmetic(func, tensors_of((args, dict(kwargs))))
            part = touched.attended_part(func, args, kwargs)
            self._flops[arithmetic] = self._flops.get(arithmetic, 0) + round(flops * part)
        elif func.namespace not in NAMESPACES or func._opname in PRODUCTS:
            self.no_formula = self.no_formula or f"{func.overloadpacket}: {NO_FORMULA}"
        self.scattered_bytes += touched.scattered_bytes(func, args, kwargs)
        inputs = touched.of_call(func, args, kwargs, result)
        for tensor, read, written in inputs:
            if not has_storage(tensor):
                self.untold = self.untold or f"{func}: a tensor that has no storage of its own"
                continue
            storage = tensor.untyped_storage()
            if written:
                self._unwritten.discard(storage._cdata)
            if storage._cdata not in self._made:
                self._outside.setdefault(storage._cdata, _Storage(storage)).add(tensor, read, written)
        known = {tensor.untyped_storage()._cdata for tensor, _, _ in inputs if has_storage(tensor)}
        outputs = {output.untyped_storage()._cdata for output in tensors_of(result) if has_storage(output)}
        new = outputs - known - self._outside.keys()
        self._made |= new
        self._unwritten = self._unwritten | new if func._opname in touched.ALLOCATES else self._unwritten - new

    def spans(self, result: Any) -> list[Span]:
        """What the counted call, which returned `result`, read and wrote: of memory that was there, and new results."""
        found = [entry.span() for entry in self._outside.values()]
        new: dict[int, _Storage] = {}
        for output in (part for tensor in tensors_of(result) for part in parts_of(tensor)):
            if span_of(output) is not None:
                storage = output.untyped_storage()
                if storage._cdata in self._made - self._unwritten:
                    new.setdefault(storage._cdata, _Storage(storage)).add(output, 0, touched.distinct_bytes(output))
        found += [entry.span() for entry in new.values()]
        return found

    def work(self, result: Any) -> Work:
        """What the counted call had to do.

        Args:
            result: what it returned, in any nesting; of that, what is new was written.
        """
        flops = sum(self._flops.values()) if self._flops and not self.no_formula else None
        arithmetic = max(self._flops, key=lambda name: self._flops[name]) if flops is not None else ""
        untold = self.untold
        if not untold and not all(has_storage(part) for tensor in tensors_of(result) for part in parts_of(tensor)):
            untold = "a result that has no storage of its own"
        if untold:
            return Work(flops=flops, arithmetic=arithmetic, reason=untold)
        spans = self.spans(result)
        return Work(
            flops=flops,
            arithmetic=arithmetic,
            read_bytes=sum(span.read for span in spans),
            written_bytes=sum(span.written for span in spans),
            reason=self.no_formula,
        )


@contextlib.contextmanager
def counting() -> Iterator[WorkCounter]:
    """Count what the calling thread runs inside; ask the counter for its `work` of the result.

    It looks at real values where they decide what is touched: rows of an embedding, masks.
    """
    counter = WorkCounter()
    with counter:
        yield counter


@cache
def _is_composite(func: Any) -> bool:
    """Whether an op is made of others, which are counted in its place. In inference mode a mode is asked before it is.

    Source: `torch._C._dispatch_has_kernel_for_dispatch_key`, `torch._ops.OpOverload.decompose`, torch 2.11 to 2.14.
    """
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"))


def _arithmetic(func: Any, tensors: list[torch.Tensor]) -> str:
    """What an op's products are done in: the dtype of its first tensor of numbers, or `tf32` where that is allowed."""
    numbers = [tensor for tensor in tensors if tensor.dim() >= 1] or tensors
    if not numbers:
        return ""
    dtype, device = numbers[0].dtype, numbers[0].device.type
    if dtype is torch.float32 and device == "cuda":
        backends: Any = torch.backends
        setting = backends.cudnn.conv if func._opname.startswith(CONVOLUTIONS) else backends.cuda.matmul
        return "tf32" if setting.fp32_precision == "tf32" else "float32"
    return str(dtype).removeprefix("torch.")

"""One call, made again and again on pooled copies: what it writes is found, restored between samples, and checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from graphbench.errors import IsolationError
from graphbench.isolate.compare import compare_trees
from graphbench.isolate.custom_ops import CustomBench
from graphbench.isolate.pool import BlockKey, TensorPool
from graphbench.isolate.values import is_drawn, synthesize
from graphbench.measurements import Comparison, ValuePolicy
from graphbench.tensors import (
    PLAIN_TYPES,
    device_allocations,
    device_of,
    is_packed,
    shares_storage,
    spec_of,
    tensor_version,
    tensors_of,
)


class BenchUnit:
    """A `timing.loop.Unit` over one call of a node's target or of a kernel.

    Building it runs the call once on the copies (the trial), with the generators as they are; they are put back
    afterwards. The caller then times it, lets it `finish`, makes the real call on the originals, and asks `compare` for
    the verdict. While it is timed, no result but the sample's own takes memory.

    Args:
        name: the row that the unit is measured for.
        function: what is called.
        args: positional arguments, originals; they must stay unchanged until the unit is dropped.
        kwargs: keyword arguments, likewise.
        written: originals known to be written (a kernel's output arguments); what else changes is found by the trial.
        with_grad: let copies require grad where the originals do.
        values: `captured` keeps the originals' values; so does `synthetic` where there is nothing to draw.
        device: where a call without tensor arguments runs.
        undefined: the result's values are undefined (`empty_like`): only shapes and strides are compared.
        draws_apart: integer results are bookkeeping of the random generator, which differs from call to call.
        bench: how the op wants to be benchmarked; what that makes is called in its place, on copies without gradients.

    Raises:
        IsolationError: an argument cannot be copied.
        Exception: whatever the call itself raises.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        *,
        written: tuple[torch.Tensor, ...] = (),
        with_grad: bool = False,
        values: ValuePolicy = "captured",
        device: torch.device | None = None,
        undefined: bool = False,
        draws_apart: bool = False,
        bench: CustomBench | None = None,
    ) -> None:
        self.name = name
        self._function = function
        self._originals = tensors_of((args, kwargs))
        self._device = device_of(self._originals) if self._originals or device is None else device
        self._draws_apart = draws_apart
        self._with_grad = with_grad = with_grad and bench is None
        self._undefined = undefined
        self.values = values if any(map(is_drawn, self._originals)) else "captured"
        self._comparable = self.values == "captured"
        self._pool = TensorPool((args, dict(kwargs)))
        if self.values == "synthetic":
            self._pool.fill(synthesize)
        self._autocast = torch.is_autocast_enabled(self._device.type)
        self._args, self._kwargs = self._pool.tree(with_grad=with_grad)
        self._bench = bench
        self._own = None if bench is None else bench.ready(self._args, self._kwargs)
        self._restored: set[BlockKey] = self._pool.blocks_of(written)
        self._rebuild = False
        self._results: list[torch.Tensor | None] = []
        self._effects: list[torch.Tensor] = []
        self._trial()
        self.needs_restore = bool(self._restored) or self._rebuild or self._autocast

    def _trial(self) -> None:
        self._rng = rng = RngState(self._device)
        copies = tensors_of((self._args, self._kwargs))
        layouts = [_layout(copy) for copy in copies]
        versions = [tensor_version(copy) for copy in copies]
        result = self.run()
        self.draws = rng.moved()
        rng.restore()
        reshaped = [_layout(copy) != layout for copy, layout in zip(copies, layouts, strict=True)]
        self._rebuild = any(reshaped)
        if self._rebuild and self._bench is not None:
            raise IsolationError("what its __graphbench_bench__ returned changes the shape of its inputs")
        # Versions tell of writes that left the same bytes, bytes of writes that moved no version (kernels).
        moved = [
            original
            for original, copy, version, other in zip(self._originals, copies, versions, reshaped, strict=True)
            if tensor_version(copy) != version and not other
        ]
        self._restored |= self._pool.changed() | self._pool.blocks_of(moved)
        outputs = tensors_of(result)
        self.device = str(device_of([*self._originals, *outputs]))
        aliases = [output for output in outputs if shares_storage(output, copies)]
        fresh_outputs = [output for output in outputs if all(output is not alias for alias in aliases)]
        own = self._bench is not None  # what it returns need not say what it does
        self.is_view = bool(outputs) and not fresh_outputs and not self._restored and not own
        self.has_effect = bool(outputs) or bool(self._restored) or own
        empty = not any(output.numel() for output in fresh_outputs) or self._undefined
        self.may_launch_nothing = not self._restored and empty and not own
        self._layouts = [_layout(output) for output in outputs]
        self._written = [original for original in self._originals if self._pool.blocks_of([original]) & self._restored]
        self.prepare()

    def prepare(self) -> None:
        """Put back what the call wrote, rebuild reshaped or grad-carrying arguments, forget autocast's weight casts."""
        self._pool.restore(self._restored)
        if self._rebuild or (self._restored and self._with_grad):
            self._args, self._kwargs = self._pool.tree(with_grad=self._with_grad)
        if self._autocast:
            torch.clear_autocast_cache()

    def run(self) -> object:
        """The call, once."""
        return self._function(*self._args, **self._kwargs) if self._own is None else self._own()

    def allocations(self) -> int | None:
        """Device allocations so far."""
        return device_allocations(self._device)

    def finish(self) -> None:
        """Call it once more as in the trial, keep what comes of it for `compare`, and let the copies go.

        It cannot be run after that. Moves the generators, which the caller puts back.
        """
        if self._comparable and not self._undefined:
            self.prepare()
            self._rng.restore()
            outputs, copies = tensors_of(self.run()), tensors_of((self._args, self._kwargs))
            self._layouts = [_layout(output) for output in outputs]
            # Aliases are judged by what was written below them.
            self._results = [None if shares_storage(output, copies) else output.detach() for output in outputs]
            self._effects = [self._pool.current(original) for original in self._written]
        self._args, self._kwargs, self._own = (), {}, None
        self._pool.release()

    def compare(self, real: Any) -> Comparison:
        """How what it was finished with differs from the real call's result and effects, which has been made by now."""
        if not self._comparable:
            return Comparison(equal=None, max_abs=None, note="synthetic values")
        outputs = tensors_of(real)
        layouts = [_layout(output) for output in outputs]
        if layouts != self._layouts and self._bench is not None:
            note = f"not compared: its __graphbench_bench__ gives {self._layouts or 'no tensors'}, the call {layouts}"
            return Comparison(equal=None, max_abs=None, note=note)
        if layouts != self._layouts:
            return Comparison(equal=False, max_abs=None, note=f"layouts differ: {self._layouts} instead of {layouts}")
        if self._undefined:
            return Comparison(equal=True, max_abs=None, note="values are undefined; shapes and strides are equal")
        pairs = [(mine, output) for mine, output in zip(self._results, outputs, strict=True) if mine is not None]
        fresh = [pair for pair in pairs if not self._draws_apart or pair[0].is_floating_point()]
        found = [mine for mine, _ in fresh] + self._effects
        if not found:
            return Comparison(equal=True, max_abs=0.0, note="a view")
        return compare_trees(found, [output for _, output in fresh] + self._written)


def _layout(tensor: torch.Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if type(tensor) in PLAIN_TYPES and not is_packed(tensor):
        return tuple(tensor.shape), tensor.stride()
    return spec_of(tensor).shape, ()


class RngState:
    """The generators that a call on one device can draw from, as they were when this was made."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._states = self._read()

    def _read(self) -> list[torch.Tensor]:
        states = [torch.get_rng_state()]
        if self._device.type == "cuda":
            states.append(torch.cuda.get_rng_state(self._device))
        return states

    def moved(self) -> bool:
        """Whether any of them has drawn since."""
        return any(not torch.equal(now, then) for now, then in zip(self._read(), self._states, strict=True))

    def restore(self) -> None:
        """Put them back."""
        torch.set_rng_state(self._states[0])
        if self._device.type == "cuda":
            torch.cuda.set_rng_state(self._states[1], self._device)

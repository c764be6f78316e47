"""What a device can do at most, found by doing it: large copies, reads, writes, matrix products, the shortest kernel.

Nothing here comes from a data sheet. The best of several ways to do each thing counts, and of that its best sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import torch

from graphbench.condition_records import Ceiling, CeilingKind, Policy
from graphbench.errors import GraphbenchError, first_line
from graphbench.measurements import EVENT_TIMERS
from graphbench.put_back import put_back
from graphbench.tensors import device_allocations
from graphbench.timing import loop
from graphbench.timing.base import Timer

CPU_BLOCKS: Final = (1 << 28,)
DEVICE_BLOCKS: Final = (1 << 28, 1 << 30)
"""Sizes in bytes of what is copied: many times what a cache holds."""
CACHED_BLOCKS: Final = (1 << 15, 1 << 18, 1 << 20, 1 << 22, 1 << 24)
"""Sizes in bytes of what is copied where caches are left warm, so that it comes from one of them."""
CPU_SIDES: Final = (128, 512, 1024)
DEVICE_SIDES: Final = (4096, 8192)
"""Sides of the square matrices that are multiplied."""
LONGEST_S: Final = 0.1
"""A product that takes longer is not tried larger: one that there is no fast code for would take minutes."""
TF32: Final = "tf32"
FLOAT8: Final = "float8"


@dataclass(slots=True)
class _Work:
    """A `timing.loop.Unit` over one way to do a thing, and how much of it that is: bytes or FLOP; 1.0 for a time."""

    name: str
    device: str
    call: Callable[[], object]
    amount: float = 1.0
    may_launch_nothing: bool = False
    needs_restore: bool = False

    def prepare(self) -> None:
        """Nothing to put back."""

    def run(self) -> object:
        """Do it once."""
        return self.call()

    def allocations(self) -> int | None:
        """Device allocations so far."""
        return device_allocations(torch.device(self.device))


@dataclass(frozen=True, slots=True)
class Found:
    """Ceilings, and what could not be found, with the reason."""

    ceilings: tuple[Ceiling, ...]
    missing: tuple[str, ...] = ()


def find_ceilings(
    timer: Timer, device: torch.device, arithmetics: tuple[str, ...], *, when: str, room_bytes: int | None, only: bool
) -> Found:
    """Measure what a device can do.

    Args:
        timer: the instrument that the rows are timed with, leaving the cache as it is.
        device: the device.
        arithmetics: what products are wanted in: dtypes, or `tf32`.
        when: the date that goes into the result.
        room_bytes: what may be taken there; blocks become smaller, and are left out where they would fit a cache.
        only: the products alone.

    Returns:
        What was found, in bytes per second, FLOP per second or nanoseconds.
    """
    search = _Search(timer, str(torch.empty(0, device=device).device), when, room_bytes)
    if not only:
        search.bandwidths()
        search.cached()
        search.shortest()
    for arithmetic in arithmetics:
        search.product(arithmetic)
    return Found(tuple(search.ceilings), tuple(search.missing))


class _Search:
    def __init__(self, timer: Timer, device: str, when: str, room_bytes: int | None) -> None:
        self.timer = timer
        self.device = device
        self.kind = torch.device(device).type
        self.when = when
        self.room_bytes = room_bytes
        self.ceilings: list[Ceiling] = []
        self.missing: list[str] = []
        policy = Policy(timer=timer.name, cache=timer.cache, values="synthetic", warmup_ms=20.0, measure_ms=60.0)
        self.policy = replace(policy, min_samples=5, max_samples=50)

    def bandwidths(self) -> None:
        """Copies, reads and writes of blocks that no cache holds, at the best of their sizes."""
        sizes = CPU_BLOCKS if self.kind == "cpu" else DEVICE_BLOCKS
        room = self.room_bytes if self.room_bytes is not None else 4 * max(sizes)
        fitting = [size for size in sizes if 4 * size <= room]
        if not fitting:
            self.missing.append(f"copy, read and write: {room} bytes are free, {4 * min(sizes)} are needed")
        best: dict[CeilingKind, tuple[float, str]] = {}
        for size in fitting:
            for kind, rate, how in self._rates_of(size):
                best[kind] = max(best.get(kind, (0.0, "")), (rate, how))
        for kind, (rate, how) in best.items():
            self._put(kind, rate, how)

    def cached(self) -> None:
        """Copies of blocks that some cache holds, the largest first: a smaller one is at least as fast."""
        best = 0.0
        for size in reversed(CACHED_BLOCKS):
            source = torch.ones(size // 4, dtype=torch.float32, device=self.device)
            target = torch.empty_like(source)
            call = partial(torch.mul, source, 2.0, out=target)
            best = max(best, self._rate(_Work("cached mul", self.device, call, 2.0 * size)) or 0.0)
            if best:
                self._put("copy", best, f"mul of {size} bytes", within_bytes=2 * size)

    def _rates_of(self, size: int) -> Iterator[tuple[CeilingKind, float, str]]:
        """Rates of blocks of one size, in bytes per second, each with how it was reached."""
        source = torch.ones(size // 4, dtype=torch.float32, device=self.device)
        target = torch.empty_like(source)
        total = torch.empty((), dtype=torch.float32, device=self.device)
        ways: tuple[tuple[CeilingKind, str, int, Callable[[], object]], ...] = (
            ("copy", "copy_", 2 * size, lambda: target.copy_(source)),
            ("copy", "mul", 2 * size, lambda: torch.mul(source, 2.0, out=target)),
            ("read", "sum", size, lambda: torch.sum(source, dim=0, out=total)),
            ("read", "amax", size, lambda: torch.amax(source, dim=0, out=total)),
            ("write", "fill_", size, lambda: target.fill_(1.0)),
        )
        for kind, name, amount, call in ways:
            rate = self._rate(_Work(name, self.device, call, float(amount)))
            if rate is not None:
                yield kind, rate, f"{name} of {size} bytes"

    def shortest(self) -> None:
        """The time of a kernel that does next to nothing; unknown where an instrument counts launching too."""
        if self.kind == "cpu" or self.timer.name in EVENT_TIMERS:
            return
        one = torch.ones((), dtype=torch.float32, device=self.device)
        ways = (("mul", lambda: torch.mul(one, one, out=one)), ("fill_", lambda: one.fill_(1.0)))
        found = [
            (time_ns, name) for name, call in ways if (time_ns := self._shortest_ns(_Work(name, self.device, call)))
        ]
        if found:
            shortest_ns, name = min(found)
            self._put("launch", shortest_ns, f"{name} of one element")

    def product(self, arithmetic: str) -> None:
        """Square matrix products, at the best of some sizes."""
        rates: list[tuple[float, int]] = []
        for side in CPU_SIDES if self.kind == "cpu" else DEVICE_SIDES:
            if self.room_bytes is not None and 3 * side * side * 8 > self.room_bytes:
                continue
            with _precision(arithmetic):
                try:
                    call = _product(arithmetic, side, self.device)
                except (RuntimeError, AttributeError, TypeError) as error:
                    self.missing.append(f"products in {arithmetic}: {first_line(error)}")
                    return
                rate = self._rate(_Work(f"mm {arithmetic}", self.device, call, 2.0 * side**3))
            if rate is not None:
                rates.append((rate, side))
                if 2.0 * side**3 > rate * LONGEST_S:
                    break
        if rates:
            rate, side = max(rates)
            self._put("matmul", rate, f"product of two {side}x{side} matrices", arithmetic)

    def _rate(self, work: _Work) -> float | None:
        shortest_ns = self._shortest_ns(work)
        return None if shortest_ns is None else work.amount / shortest_ns * 1e9

    def _shortest_ns(self, work: _Work) -> float | None:
        try:
            samples = loop.measure(self.timer, work, self.policy).samples
        except (GraphbenchError, RuntimeError) as error:
            self.missing.append(f"{work.name}: {first_line(error)}")
            return None
        shortest_ns = min(samples.busy_ns) if samples is not None else 0.0
        return shortest_ns or None

    def _put(
        self, kind: CeilingKind, value: float, how: str, arithmetic: str = "", within_bytes: int | None = None
    ) -> None:
        self.ceilings.append(
            Ceiling(
                device=self.device,
                kind=kind,
                value=value,
                measured=self.when,
                arithmetic=arithmetic,
                within_bytes=within_bytes,
                how=how,
            )
        )


def _product(arithmetic: str, side: int, device: str) -> Callable[[], object]:
    """One product of random matrices.

    Source: `torch._int_mm`, `torch._scaled_mm`, torch 2.11 to 2.14: the ops that such products are lowered to.
    """
    dtype = torch.float32 if arithmetic == TF32 else getattr(torch, arithmetic)
    if dtype is torch.int8:
        left, right = (torch.randint(-8, 8, (side, side), dtype=dtype, device=device) for _ in range(2))
        return lambda: torch._int_mm(left, right)
    left, right = (torch.randn(side, side, dtype=torch.float32, device=device).to(dtype) for _ in range(2))
    if arithmetic.startswith(FLOAT8):
        scaled_mm: Any = torch._scaled_mm
        one, columns = torch.ones((), dtype=torch.float32, device=device), right.t().contiguous().t()
        return lambda: scaled_mm(left, columns, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    out = torch.empty_like(left)
    torch.mm(left, right, out=out)  # what a dtype cannot do it says here
    return lambda: torch.mm(left, right, out=out)


@contextmanager
def _precision(arithmetic: str) -> Iterator[None]:
    """What CUDA's matrix products do with float32 while inside.

    Source: `torch.backends.cuda.matmul.fp32_precision`, torch 2.11 to 2.14.
    """
    setting: Any = torch.backends.cuda.matmul
    with put_back(partial(setattr, setting, "fp32_precision", setting.fp32_precision)):
        setting.fp32_precision = TF32 if arithmetic == TF32 else "ieee"
        yield

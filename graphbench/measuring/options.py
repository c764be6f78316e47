"""Measuring options, checked once, and the instruments that follow from them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import torch

from graphbench.arguments import check_fields
from graphbench.errors import UsageError
from graphbench.measurements import CacheState, ValuePolicy
from graphbench.records import Policy
from graphbench.timing.base import Timer
from graphbench.timing.clocks import ClockSource, NoClocks, clock_source
from graphbench.timing.events import EventTimer
from graphbench.timing.gpu import refuse_fork
from graphbench.timing.wallclock import WallClock

MOST_IN_BATCH = 64  # a device queues about a thousand launches before its host must wait
CeilingChoice = Literal["auto", "fresh", "off"]
TimerChoice = Literal["auto", "cupti", "wallclock", "cuda-events"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureOptions:
    """Keywords of `graphbench.measure()` and `graphbench.profile()`.

    Args:
        timer: `auto` takes `cupti` for regions on a CUDA device, `wallclock` on the CPU and timing events on other
            devices. `cuda-events`, only on request, times CUDA as those are timed; never compare it with `cupti`.
        l2: what isolated units find in the device's L2 cache; `None` means `cold-read` on a device, `warm` on the CPU.
        values: `captured` repeats units on the values seen, `synthetic` on random ones of the same kind.
        warmup_ms: warm-up budget per unit.
        measure_ms: sampling budget per unit.
        warmup: explicit number of warm-up calls instead.
        repeat: explicit number of samples instead.
        progress: show a progress bar on stderr; `None` means for anything over two seconds on a terminal.
        subject: what the profile calls the thing it measured.
        superseded: also measure regions that a recompile took over from.
        noise: go on sampling a unit until its median is known to this part of itself, as 0.01, or `noise_ms` are up.
        noise_ms: how long a unit may be sampled for that.
        batch: also time so many copies of every tiny unit queued back to back: a theoretical time without overhead.
        memory_budget: bytes that copies and whatever else measuring keeps may take on the device; `None` leaves it to
            what is free there. A unit that does not fit is skipped, with the figure.
        lock_gpu_clock: hold the GPU's SM clock at so many MHz while measuring; needs root. Reset afterwards.
        ceilings: what the device can do at most, which rows are set against: `auto` measures it once and keeps it for a
            month, `fresh` measures it again, `off` leaves it out.
        unit_timeout_s: how long one unit may take before its row fails; whole runs may take ten times as long. `None`
            for no limit. Heard in the main thread.
    """

    timer: TimerChoice = "auto"
    l2: CacheState | None = None
    values: ValuePolicy = "captured"
    warmup_ms: float = 25.0
    measure_ms: float = 100.0
    warmup: int | None = None
    repeat: int | None = None
    progress: bool | None = None
    subject: str = ""
    superseded: bool = False
    noise: float | None = None
    noise_ms: float = 1000.0
    batch: int | None = None
    lock_gpu_clock: int | None = None
    memory_budget: int | None = None
    ceilings: CeilingChoice = "auto"
    unit_timeout_s: float | None = 120.0

    def __post_init__(self) -> None:
        """Refuse what cannot be meant.

        Raises:
            UsageError: a value of another type, or outside its choices or range.
        """
        check_fields(self)
        for name in ("warmup_ms", "measure_ms", "noise_ms"):
            self._check(name, 0 <= getattr(self, name) < math.inf, "a number of milliseconds, at least 0")
        self._check("repeat", self.repeat is None or self.repeat >= 1, "at least 1")
        self._check("warmup", self.warmup is None or self.warmup >= 0, "at least 0")
        self._check("noise", self.noise is None or 0 < self.noise < 1, "a part of the median, as 0.01")
        self._check("unit_timeout_s", self.unit_timeout_s is None or 0 < self.unit_timeout_s < math.inf, "above 0")
        in_batch = self.batch is None or 2 <= self.batch <= MOST_IN_BATCH
        self._check("batch", in_batch, f"from 2 to {MOST_IN_BATCH} calls")
        self._check("memory_budget", self.memory_budget is None or self.memory_budget >= 1, "a number of bytes")
        self._check("lock_gpu_clock", self.lock_gpu_clock is None or self.lock_gpu_clock >= 1, "a clock in MHz")

    def _check(self, name: str, fits: bool, expected: str) -> None:
        if not fits:
            raise UsageError(f"{name}={getattr(self, name)!r}: expected {expected}", subject=name)


@dataclass(frozen=True, slots=True)
class Timers:
    """One instrument in two cache states: `isolated` for units, `running` (warm) for whole runs in execution order.

    `clocks` reads the clocks of the device that they time.
    """

    isolated: Timer
    running: Timer
    clocks: ClockSource = field(default_factory=NoClocks)


def timers_for(options: MeasureOptions, device: torch.device) -> Timers:
    """The instruments for what runs on a device.

    Raises:
        UsageError: a timer, an L2 state or a locked clock that the device does not have.
        SetupError: no CUPTI for a CUDA device, or another device without timing events.
    """
    if device.type == "cpu":
        if options.timer in ("cupti", "cuda-events"):
            raise UsageError(
                f"timer={options.timer!r} times CUDA devices; this model runs on the CPU", hint="use timer='auto'"
            )
        if options.l2 not in (None, "warm"):
            raise UsageError(f"l2={options.l2!r}: the CPU's caches are not cleared", hint="leave l2 out on the CPU")
        if options.batch is not None:
            raise UsageError(
                f"batch={options.batch}: calls are queued on a CUDA device only; this model runs on the CPU",
                hint="leave batch out on the CPU, where short calls are repeated within a sample anyway",
                subject="batch",
            )
        if options.lock_gpu_clock is not None:
            raise UsageError(
                f"lock_gpu_clock={options.lock_gpu_clock}: this model runs on the CPU, whose clock is not locked",
                hint="leave lock_gpu_clock out on the CPU",
                subject="lock_gpu_clock",
            )
        return Timers(WallClock(), WallClock())
    if options.timer == "wallclock":
        raise UsageError("timer='wallclock' cannot see device time", hint="use timer='auto'")
    if device.type == "cuda":
        refuse_fork()
    name = str(torch.empty(0, device=device).device)  # with its index
    if device.type != "cuda":
        return _accelerator_timers(options, name)
    if options.timer == "cuda-events":
        return Timers(EventTimer(name, options.l2 or "cold-read"), EventTimer(name, "warm"), clock_source(name))
    from graphbench.timing.cupti import CuptiTimer

    return Timers(CuptiTimer(name, options.l2 or "cold-read"), CuptiTimer(name, "warm"), clock_source(name))


def _accelerator_timers(options: MeasureOptions, device: str) -> Timers:
    """Timing events of a device that is neither the CPU nor CUDA. What only CUDA has is refused."""
    asked = (
        ("timer", options.timer, options.timer != "auto"),
        ("l2", options.l2, options.l2 not in (None, "warm")),
        ("batch", options.batch, options.batch is not None),
        ("lock_gpu_clock", options.lock_gpu_clock, options.lock_gpu_clock is not None),
    )
    for name, value, refused in asked:
        if refused:
            raise UsageError(
                f"{name}={value!r} is for CUDA devices; this model runs on {device}",
                hint=f"leave {name} out",
                subject=name,
            )
    timer = EventTimer(device, "warm")
    return Timers(timer, timer)


def policy_of(options: MeasureOptions, timers: Timers) -> Policy:
    """The policy that goes into the profile and into the measuring loop."""
    return Policy(
        timer=timers.isolated.name,
        cache=timers.isolated.cache,
        values=options.values,
        warmup_ms=options.warmup_ms,
        measure_ms=options.measure_ms,
        warmup=options.warmup,
        repeat=options.repeat,
        noise=options.noise,
        noise_ms=options.noise_ms,
        batch=options.batch,
        lock_gpu_clock_mhz=options.lock_gpu_clock,
        memory_budget_bytes=options.memory_budget,
    )

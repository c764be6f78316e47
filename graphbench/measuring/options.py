"""Measuring options, checked once, and the instruments that follow from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch

from graphbench.errors import SetupError, UsageError
from graphbench.records import CacheState, Policy, ValuePolicy
from graphbench.timing.base import Timer
from graphbench.timing.wallclock import WallClock

TimerChoice = Literal["auto", "cupti", "wallclock"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureOptions:
    """Keywords of `graphbench.measure()` and `graphbench.profile()`.

    Args:
        timer: `auto` takes `cupti` for regions on a CUDA device and `wallclock` on the CPU.
        l2: what isolated units find in the device's L2 cache; `None` means `cold-read` on a device, `warm` on the CPU.
        values: `captured` repeats units on the values seen, `synthetic` on random ones of the same kind.
        warmup_ms: warm-up budget per unit.
        measure_ms: sampling budget per unit.
        warmup: explicit number of warm-up calls instead.
        repeat: explicit number of samples instead.
        progress: show a progress bar on stderr; `None` means for anything over two seconds on a terminal.
        subject: what the profile calls the thing it measured.
        superseded: also measure regions that a recompile took over from.
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

    def __post_init__(self) -> None:
        """Refuse what cannot be meant.

        Raises:
            UsageError: a value outside its choices or range.
        """
        choices = (("timer", self.timer, get_args(TimerChoice)), ("values", self.values, get_args(ValuePolicy)))
        for name, value, known in choices:
            if value not in known:
                raise UsageError(f"{name}={value!r}: expected one of {', '.join(known)}", subject=name)
        if self.l2 is not None and self.l2 not in get_args(CacheState):
            raise UsageError(f"l2={self.l2!r}: expected one of {', '.join(get_args(CacheState))}", subject="l2")
        for name, number, least in (("warmup_ms", self.warmup_ms, 0.0), ("measure_ms", self.measure_ms, 0.0)):
            if not number >= least:
                raise UsageError(f"{name}={number!r}: expected a number of milliseconds, at least 0", subject=name)
        if self.repeat is not None and self.repeat < 1:
            raise UsageError(f"repeat={self.repeat!r}: expected at least 1", subject="repeat")
        if self.warmup is not None and self.warmup < 0:
            raise UsageError(f"warmup={self.warmup!r}: expected at least 0", subject="warmup")


@dataclass(frozen=True, slots=True)
class Timers:
    """One instrument in two cache states: `isolated` for units, `running` (warm) for whole runs in execution order."""

    isolated: Timer
    running: Timer


def timers_for(options: MeasureOptions, device: torch.device) -> Timers:
    """The instruments for what runs on a device.

    Raises:
        UsageError: an L2 state for the CPU, or a wall clock for a device.
        SetupError: no CUPTI for a CUDA device, or a device that graphbench cannot time.
    """
    if device.type == "cpu":
        if options.timer == "cupti":
            raise UsageError("timer='cupti' times CUDA devices; this model runs on the CPU", hint="use timer='auto'")
        if options.l2 not in (None, "warm"):
            raise UsageError(f"l2={options.l2!r}: the CPU's caches are not cleared", hint="leave l2 out on the CPU")
        return Timers(WallClock(), WallClock())
    if device.type != "cuda":
        raise SetupError(
            f"no timer for device type {device.type!r}", hint="run the model on a CUDA device or on the CPU"
        )
    if options.timer == "wallclock":
        raise UsageError("timer='wallclock' cannot see device time", hint="use timer='auto' or 'cupti'")
    from graphbench.timing.cupti import CuptiTimer

    name = str(torch.empty(0, device=device).device)  # with its index
    return Timers(CuptiTimer(name, options.l2 or "cold-read"), CuptiTimer(name, "warm"))


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
    )

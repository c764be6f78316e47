"""The instruments and the policy that follow from measuring options."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from graphbench.condition_records import Policy
from graphbench.errors import UsageError
from graphbench.options import MeasureOptions
from graphbench.probes.features import require
from graphbench.timing.base import Timer
from graphbench.timing.clocks import ClockSource, NoClocks, clock_source
from graphbench.timing.events import EventTimer
from graphbench.timing.gpu import refuse_fork
from graphbench.timing.wallclock import WallClock


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
        SetupError: no CUPTI for a CUDA device, a torch whose CUDA differs, or another device without timing events.
    """
    if device.type == "cuda":
        require("CUDA")
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
        select=options.select,
        exclude=options.exclude,
        only_regions=options.only_region,
        max_seconds=options.max_seconds,
    )

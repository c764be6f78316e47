"""Batch-execute: many copies of a tiny call, queued back to back, whose launch overhead would drown a single one.

The result is the theoretical time without overhead: what a call would cost on a device that never waits for its host.
No single call reaches it. It stands beside the measured time and never replaces it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Final

from graphbench.analysis.stats import quantile
from graphbench.collector import collector_paused
from graphbench.condition_records import Policy
from graphbench.errors import AttributionError, OffThreadLaunchError, TimingError, UsageError
from graphbench.timing.base import Recording, Sample, Session, Timer
from graphbench.timing.loop import CALIBRATION_CALLS, Plan, Unit, plan_of

Hold = Callable[[float], None]
"""Keeps the device busy for at least so many nanoseconds, on the stream that the calls will be queued in."""

HOLDS: Final = 3
HOLD_MARGIN: Final = 3.0
LEAST_HOLD_NS: Final = 200_000.0


class CudaHold:
    """A kernel that spins on one CUDA device's current stream.

    Args:
        device: CUDA device with its index, as `cuda:0`.

    Source: `torch.cuda._sleep`, which counts SM cycles (`clock64`), and the highest SM clock in kHz,
        `torch.cuda.get_device_properties(device).clock_rate` (torch 2.11 to 2.14): at a lower clock it holds longer.
    """

    def __init__(self, device: str) -> None:
        import torch

        self._torch = torch
        self._device = torch.device(device)
        self._cycles_per_ns = torch.cuda.get_device_properties(self._device).clock_rate / 1e6

    def __call__(self, duration_ns: float) -> None:
        """Launch the kernel and return at once. Call it under `Session.preparation()`."""
        with self._torch.cuda.device(self._device):
            self._torch.cuda._sleep(int(duration_ns * self._cycles_per_ns) + 1)


def batch_times(timer: Timer, units: Sequence[Unit], policy: Policy, *, hold: Hold | None = None) -> tuple[float, ...]:
    """Time calls queued back to back, once a sample each.

    Per sample: prepare all units untimed, hold the device until everything is queued, call all units under one label,
    drain. Nothing is cleared in between: a batch is throughput, and what one call leaves in the cache the next finds.

    Args:
        timer: instrument. A device's span counts, with the gaps between queued kernels and without the time held; on
            the CPU, where nothing is queued, the wall time.
        units: the same call on copies of its inputs, at least two. Each is called once a sample.
        policy: budgets or explicit counts, as for `loop.measure`.
        hold: keeps the device busy. Without it the device waits for its host, unless the calls are long.

    Returns:
        Nanoseconds per call, one entry per sample. Samples in which the device was not held for long enough are left
        out; when they are more than half, all are taken again with a longer hold.

    Raises:
        UsageError: fewer than two units.
        AttributionError: a sample without device work although its calls must launch some.
        OffThreadLaunchError: device work that the label did not catch.
        TimingError: the host needs longer to queue the calls than the device could be held; or from the timer.
    """
    if len(units) < 2:
        raise UsageError(f"a batch of {len(units)} calls: expected at least 2", hint="raise the batch's size")
    on_cpu = timer.name == "wallclock"
    batch = _Batch(timer, units, None if on_cpu else hold)
    plan = plan_of(policy, batch.calibrate(), on_cpu=on_cpu)
    for _ in range(HOLDS):
        recording = batch.record(plan)
        if len(batch.late) <= plan.samples / 2:
            return _per_call(recording, units, [i for i in range(plan.samples) if i not in batch.late])
        batch.hold_longer()
    raise TimingError(
        f"{units[0].name}: the host needs {batch.queued_ns / 1e6:.1f} ms to queue {len(units)} calls, longer than the "
        f"{batch.held_ns / 1e6:.1f} ms that the device was held",
        hint="make the batch smaller: a device takes only so many launches before its host must wait",
        subject=units[0].name,
    )


class _Batch:
    """The body of a session, and what its samples showed.

    `held_ns`: how long the device is held. `queued_ns`: the longest time of the host from the hold to the last launch.
    `late`: samples in which that was longer, so that the first call may have run before the last was queued.
    """

    def __init__(self, timer: Timer, units: Sequence[Unit], hold: Hold | None) -> None:
        self._timer = timer
        self._units = units
        self._hold = hold
        self._plan = Plan(warmup=0, samples=0)
        self.queued_ns = 0
        self.held_ns = 0.0
        self.late: set[int] = set()

    def calibrate(self) -> float:
        """Median wall time of a whole round in nanoseconds. Sets how long to hold."""
        rounds, queues = [], []
        for _ in range(CALIBRATION_CALLS):
            start_ns = perf_counter_ns()
            queues.append(self._round())
            rounds.append(perf_counter_ns() - start_ns)
        self.queued_ns = int(quantile(queues, 0.5))
        self.hold_longer()
        return max(quantile(rounds, 0.5) + self.held_ns, 1.0)

    def hold_longer(self) -> None:
        """Hold a margin longer than the host needed so far: a session makes every launch slower."""
        self.held_ns = max(HOLD_MARGIN * self.queued_ns, LEAST_HOLD_NS)

    def record(self, plan: Plan) -> Recording:
        """Warm up and take the samples in a session."""
        self._plan = plan
        return self._timer.record(self)

    def __call__(self, session: Session) -> None:
        """Warm up, then sample."""
        self.queued_ns = 0
        self.late.clear()
        with session.preparation():
            for _ in range(self._plan.warmup):
                self._round()
        with collector_paused():
            for sample in range(self._plan.samples):
                self._sample(session, sample)

    def _round(self) -> int:
        """One unlabelled batch. Returns how long the host took to queue it, in nanoseconds."""
        self._prepare()
        start_ns = perf_counter_ns()
        self._start_hold()
        results = [unit.run() for unit in self._units]
        queued_ns = perf_counter_ns() - start_ns
        self._timer.synchronize()
        del results
        return queued_ns

    def _sample(self, session: Session, sample: int) -> None:
        with session.preparation():
            self._prepare()
        start_ns = perf_counter_ns()
        with session.preparation():
            self._start_hold()
        with session.label(self._units[0].name, sample):
            results = [unit.run() for unit in self._units]
        queued_ns = perf_counter_ns() - start_ns
        self._timer.synchronize()
        del results
        self.queued_ns = max(self.queued_ns, queued_ns)
        if self._hold is not None and queued_ns > self.held_ns:
            self.late.add(sample)

    def _prepare(self) -> None:
        for unit in self._units:
            unit.prepare()
        self._timer.synchronize()

    def _start_hold(self) -> None:
        if self._hold is not None:
            self._hold(self.held_ns)


def _per_call(recording: Recording, units: Sequence[Unit], wanted: Sequence[int]) -> tuple[float, ...]:
    name = units[0].name
    if recording.unattributed:
        raise OffThreadLaunchError(
            f"{name}: a batch launched {', '.join(recording.unattributed)} outside its label",
            hint="the call launches from a thread of its own; it can only be timed as part of a whole run",
            subject=name,
        )
    found = recording.rows.get(name, {})
    samples = [found[i] for i in wanted if i in found]
    idle = sum(sample.n_kernels == 0 and sample.busy_ns == 0 for sample in samples)
    missing = len(wanted) - len(samples)
    if missing or (idle and not units[0].may_launch_nothing):
        raise AttributionError(
            f"{name}: of {len(wanted)} batches {missing} are not in the recording and {idle} left no device work, "
            "expected all with work",
            hint="another profiler may be taking the records; measure again in a fresh process",
            subject=name,
        )
    return tuple(_total_ns(sample) / len(units) for sample in samples)


def _total_ns(sample: Sample) -> float:
    """From the first launch's start to the last one's end; on the CPU, which knows no span, the wall time inside."""
    return sample.busy_ns if sample.span_ns is None else sample.span_ns

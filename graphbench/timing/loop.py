"""The measuring loop: one isolated unit, sampled until its budget is spent.

Sample counts, warm-up and the amortised inner loop are decided here, the same way for every instrument.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass, replace
from time import perf_counter_ns
from typing import Final, Protocol

from graphbench.analysis.stats import quantile
from graphbench.collector import collector_paused
from graphbench.errors import AttributionError, OffThreadLaunchError, UsageError
from graphbench.records import CacheState, Measurement, Policy, ValuePolicy
from graphbench.timing.base import Recording, Sample, Session, Timer
from graphbench.timing.host import host_times
from graphbench.timing.rows import columns, device_kernels, in_graph, run_record, warnings

__all__ = ["Unit", "in_graph", "measure", "run_record"]

CALIBRATION_CALLS: Final = 3
CPU_WARMUP_CALLS: Final = 50
CPU_WARMUP_LIMIT_NS: Final = 250_000_000
AMORTISE_BELOW_NS: Final = 20_000
GAUGE_CALLS: Final = 10
AMORTISED_SAMPLE_NS: Final = 100_000
NS_PER_MS: Final = 1_000_000
DEVICE_TIMERS: Final = ("cupti", "cuda-events")


class Unit(Protocol):
    """One call that can be repeated alone.

    Attributes:
        name: the row's name.
        device: torch device, as `cuda:0`.
        may_launch_nothing: a view, an allocation or the like: no device work is a right result then.
        needs_restore: `prepare` puts written blocks back, so two calls in a row are not the same work.
    """

    name: str
    device: str
    may_launch_nothing: bool
    needs_restore: bool

    def prepare(self) -> None:
        """Restore written blocks, random state and the autocast cache. Untimed, before every sample."""

    def run(self) -> object:
        """Make the call once. The result is kept until the sample is over."""

    def allocations(self) -> int | None:
        """Device allocations made so far in this process; `None` on the CPU."""


@dataclass(frozen=True, slots=True)
class _Plan:
    warmup: int
    samples: int
    inner: int = 1


def measure(
    timer: Timer, unit: Unit, policy: Policy, *, values: ValuePolicy | None = None, whole: bool = False
) -> Measurement:
    """Sample one unit within the policy's budgets.

    Three calibration calls, then a warm-up (which prepares and clears the cache like the samples do), then the
    samples: prepare and clear untimed, drain, call under the label, drain. Garbage collection is off while sampling.

    Args:
        timer: instrument; decides what `busy_ns` means and what is in the cache.
        unit: what to call.
        policy: budgets in milliseconds or explicit counts.
        values: what the unit's inputs are, stamped into the result.
        whole: the unit is a whole run, whose backward launches from autograd's own threads, where no label of ours is
            pushed: then all device work between the two drains counts, labelled or not, and only its union is known.

    Returns:
        A measurement with raw samples, or a failed one when most samples allocated device memory.

    Raises:
        AttributionError: a call launched nothing although it must.
        OffThreadLaunchError: device work that the label did not catch.
        TimingError: whatever the timer raises.
    """
    on_cpu = timer.name == "wallclock"
    round_ns = _calibrate(timer, unit)
    plan = _plan(policy, round_ns, on_cpu=on_cpu)
    if on_cpu:
        # A wall clock has no session to warm, and only a warm call tells how many of them make a sample.
        _warm_up(timer, unit, plan.warmup)
        plan = _amortised(unit, plan)
    sampler = _Sampler(timer, unit, plan, warm_up_inside=not on_cpu, whole=whole)
    recording = timer.record(sampler)
    if whole and not on_cpu:
        recording = _as_one_row(recording, unit)
    measurement = _measurement(recording, unit, plan, sampler.void, cache=timer.cache, values=values)
    return _with_host_times(measurement, timer, unit) if timer.name in DEVICE_TIMERS else measurement


def _with_host_times(measurement: Measurement, timer: Timer, unit: Unit) -> Measurement:
    """Host times taken again outside the session, which makes every launch slower for the host, not for the device."""
    if measurement.samples is None:
        return measurement
    with collector_paused():
        issue_ns, _ = host_times(timer, unit, len(measurement.samples.busy_ns))
    return replace(measurement, samples=replace(measurement.samples, host_ns=issue_ns))


def _calibrate(timer: Timer, unit: Unit) -> float:
    """Median wall time of one whole round (prepare, clear, call, drain) in nanoseconds."""
    rounds = []
    for _ in range(CALIBRATION_CALLS):
        start_ns = perf_counter_ns()
        _round(timer, unit)
        rounds.append(perf_counter_ns() - start_ns)
    return max(quantile(rounds, 0.5), 1.0)


def _round(timer: Timer, unit: Unit) -> None:
    unit.prepare()
    timer.clear_cache()
    result = unit.run()
    timer.synchronize()
    del result


def _warm_up(timer: Timer, unit: Unit, rounds: int) -> None:
    for _ in range(rounds):
        _round(timer, unit)


def _plan(policy: Policy, round_ns: float, *, on_cpu: bool) -> _Plan:
    warmup = math.ceil(policy.warmup_ms * NS_PER_MS / round_ns)
    if on_cpu:
        warmup = max(warmup, min(CPU_WARMUP_CALLS, int(CPU_WARMUP_LIMIT_NS / round_ns)))
    samples = int(policy.measure_ms * NS_PER_MS / round_ns)
    samples = max(policy.min_samples, min(samples, policy.max_samples))
    plan = _Plan(
        warmup=warmup if policy.warmup is None else policy.warmup,
        samples=samples if policy.repeat is None else policy.repeat,
    )
    if plan.samples < 1 or plan.warmup < 0:
        raise UsageError(
            f"{plan.samples} samples after {plan.warmup} warm-ups: expected at least 1 and 0",
            hint="raise `repeat`, `min_samples` or `warmup`",
        )
    return plan


def _amortised(unit: Unit, plan: _Plan) -> _Plan:
    """Repeat short calls within a sample, so that the clock's own cost and grain stay below 1 % of it."""
    if unit.needs_restore:
        return plan
    unit.prepare()
    results: list[object] = []
    spent_ns = 0
    start_ns = perf_counter_ns()
    while len(results) < GAUGE_CALLS and spent_ns < GAUGE_CALLS * AMORTISE_BELOW_NS:
        results.append(unit.run())
        spent_ns = perf_counter_ns() - start_ns
    call_ns = max(spent_ns / len(results), 1.0)
    if call_ns >= AMORTISE_BELOW_NS:
        return plan
    return _Plan(warmup=plan.warmup, samples=plan.samples, inner=math.ceil(AMORTISED_SAMPLE_NS / call_ns))


class _Sampler:
    """The body of a session. It may run more than once: a timer that lost records repeats it."""

    def __init__(self, timer: Timer, unit: Unit, plan: _Plan, *, warm_up_inside: bool, whole: bool) -> None:
        self._timer = timer
        self._unit = unit
        self._plan = plan
        self._warm_up_inside = warm_up_inside
        self._whole = whole
        self.void: set[int] = set()

    def __call__(self, session: Session) -> None:
        self.void.clear()
        if self._warm_up_inside:
            with session.preparation():
                _warm_up(self._timer, self._unit, self._plan.warmup)
        sample = self._one if self._plan.inner == 1 else self._several
        with collector_paused():
            for i in range(self._plan.samples):
                with session.preparation():
                    self._unit.prepare()
                    self._timer.clear_cache()
                self._timer.synchronize()
                before = self._unit.allocations()
                with session.window(i) if self._whole else nullcontext():
                    result = sample(session, i)
                self._timer.synchronize()
                if self._unit.allocations() != before:
                    self.void.add(i)
                del result

    def _one(self, session: Session, sample: int) -> object:
        run = self._unit.run
        with session.label(self._unit.name, sample):
            return run()

    def _several(self, session: Session, sample: int) -> object:
        run = self._unit.run
        results: list[object] = [None] * self._plan.inner
        with session.label(self._unit.name, sample):
            for i in range(len(results)):
                results[i] = run()
        return results


def _as_one_row(recording: Recording, unit: Unit) -> Recording:
    """Give everything that a window's run did to the unit's row."""
    rows = {
        sample: replace(
            cost,
            busy_ns=recording.runs[sample].busy_ns,
            span_ns=None,
            kernel_ns=None,
            copy_ns=None,
            memset_ns=None,
            n_kernels=recording.runs[sample].n_kernels,
            device_kernels=(),
        )
        for sample, cost in recording.rows.get(unit.name, {}).items()
    }
    return replace(recording, rows={unit.name: rows}, unattributed=())


def _measurement(
    recording: Recording,
    unit: Unit,
    plan: _Plan,
    void: set[int],
    *,
    cache: CacheState,
    values: ValuePolicy | None,
) -> Measurement:
    if recording.unattributed:
        raise OffThreadLaunchError(
            f"{unit.name}: launched {', '.join(recording.unattributed)} outside its label",
            hint="the call launches from a thread of its own; it can only be timed as part of a whole run",
            subject=unit.name,
        )
    samples = _labelled_samples(recording, unit, plan)
    kept = [samples[i] for i in range(plan.samples) if i not in void]
    if len(void) > plan.samples / 2:
        return Measurement(
            status="failed",
            reason=f"{len(void)} of {plan.samples} samples allocated device memory",
            timer=recording.timer,
            cache=cache,
            values=values,
            warmup=plan.warmup,
        )
    return Measurement(
        status="ok",
        timer=recording.timer,
        cache=cache,
        values=values,
        samples=columns(kept, plan.inner),
        inner=plan.inner,
        warmup=plan.warmup,
        device_kernels=device_kernels(kept),
        warnings=_void_warning(void, plan.samples) + warnings([sample.busy_ns for sample in kept]) + recording.notes,
    )


def _labelled_samples(recording: Recording, unit: Unit, plan: _Plan) -> dict[int, Sample]:
    found = dict(recording.rows.get(unit.name, {}))
    missing = [i for i in range(plan.samples) if i not in found]
    if missing:
        raise AttributionError(
            f"{unit.name}: {len(missing)} of {plan.samples} samples are not in the recording (first: {missing[0]})",
            hint="the instrument lost labels; measure again in a fresh process",
            subject=unit.name,
        )
    idle = [i for i in range(plan.samples) if found[i].n_kernels == 0 and found[i].busy_ns == 0]
    if idle and not unit.may_launch_nothing:
        raise AttributionError(
            f"{unit.name}: {len(idle)} of {plan.samples} calls left no device work (first: sample {idle[0]}), "
            "expected at least one kernel, copy or fill",
            hint="it is neither a view nor an allocation; another profiler may be taking the records",
            subject=unit.name,
        )
    return found


def _void_warning(void: set[int], samples: int) -> tuple[str, ...]:
    return (f"void: {len(void)} of {samples} samples allocated device memory",) if void else ()

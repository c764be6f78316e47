"""The measuring loop: one isolated unit, sampled until its budget is spent.

Sample counts, warm-up and the amortised inner loop are decided here, the same way for every instrument.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from time import perf_counter_ns
from typing import Final, Protocol

from graphbench.analysis.grain import stamp_grain_ns
from graphbench.analysis.stats import median_noise, quantile
from graphbench.analysis.warning_kinds import EVENT_FLOOR, NOISY, VOID, warning_kind
from graphbench.collector import collector_paused
from graphbench.condition_records import Policy
from graphbench.device_records import ClockState
from graphbench.errors import AttributionError, OffThreadLaunchError, TimingError, UsageError
from graphbench.measurements import Measurement, TimerName, ValuePolicy
from graphbench.timing.base import Recording, Sample, Session, Timer
from graphbench.timing.clocks import ClockSource, NoClocks, clock_warnings
from graphbench.timing.host import host_times
from graphbench.timing.rows import columns, device_kernels, drift, in_graph, run_record, warnings

__all__ = ["Unit", "in_graph", "measure", "run_record"]

CALIBRATION_CALLS: Final = 3
CPU_WARMUP_CALLS: Final = 50
CPU_WARMUP_LIMIT_NS: Final = 250_000_000
AMORTISE_BELOW_NS: Final = 20_000
GAUGE_CALLS: Final = 10
AMORTISED_SAMPLE_NS: Final = 100_000
NS_PER_MS: Final = 1_000_000
HOST_SAMPLES: Final = 50
"""Host times are taken in calls of their own, where every sample more is a call more."""


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
class Plan:
    """How often a unit is called: `inner` calls in each of `samples` samples, after `warmup` rounds."""

    warmup: int
    samples: int
    inner: int = 1


def measure(
    timer: Timer,
    unit: Unit,
    policy: Policy,
    *,
    values: ValuePolicy | None = None,
    whole: bool = False,
    clocks: ClockSource | None = None,
) -> Measurement:
    """Sample one unit within the policy's budgets.

    Three calibration calls, then a warm-up (which prepares and clears the cache like the samples do), then the
    samples: prepare and clear untimed, drain, call under the label, drain. Garbage collection is off while sampling.
    With `policy.noise`, sampling goes on until the median is known to that part of itself, or `noise_ms` are up.

    Args:
        timer: instrument; decides what `busy_ns` means and what is in the cache.
        unit: what to call.
        policy: budgets in milliseconds or explicit counts.
        values: what the unit's inputs are, stamped into the result.
        whole: the unit is a whole run, whose backward launches from autograd's own threads, where no label of ours is
            pushed: then all device work between the two drains counts, labelled or not, and only its union is known.
        clocks: read before the first sample, between and after the last.

    Returns:
        A measurement with raw samples, or a failed one when most samples allocated device memory.

    Raises:
        AttributionError: a call launched nothing although it must.
        OffThreadLaunchError: device work that the label did not catch.
        TimingError: whatever the timer raises.
    """
    on_cpu = timer.name == "wallclock"
    readings = _Readings(clocks or NoClocks())
    timer.synchronize()  # earlier work must not run into the first call; a device that cannot be used says so here
    round_ns = _calibrate(timer, unit)
    plan = plan_of(policy, round_ns, on_cpu=on_cpu)
    if on_cpu:
        # A wall clock has no session to warm, and only a warm call tells how many of them make a sample.
        _warm_up(timer, unit, plan.warmup)
        plan = _amortised(unit, plan)
    taken = _Taken()
    inside = plan.warmup if not on_cpu else 0
    started_ns = perf_counter_ns()
    while True:
        sampler = _Sampler(timer, unit, plan, warmup=inside, whole=whole, read=readings.take)
        recording = timer.record(sampler)
        if whole and not on_cpu:
            recording = _as_one_row(recording, unit)
        taken.add(recording, unit, plan, sampler.void)
        spent_ns = perf_counter_ns() - started_ns
        if policy.noise is None or taken.mostly_void or spent_ns > policy.noise_ms * NS_PER_MS:
            break
        if taken.noise <= policy.noise:
            break
        inside = 0
    readings.take()
    measurement = _measurement(taken, unit, plan, timer, policy, readings.states, values)
    return _with_host_times(measurement, timer, unit) if timer.slows_launches else measurement


def _with_host_times(measurement: Measurement, timer: Timer, unit: Unit) -> Measurement:
    """Host times taken again outside the session, which makes every launch slower for the host, not for the device."""
    if measurement.samples is None:
        return measurement
    with collector_paused():
        issue_ns, _ = host_times(timer, unit, min(HOST_SAMPLES, len(measurement.samples.busy_ns)))
    return replace(measurement, samples=replace(measurement.samples, host_ns=issue_ns))


class _Readings:
    """Clock readings around one unit's samples."""

    def __init__(self, clocks: ClockSource) -> None:
        self._clocks = clocks
        self.states: list[ClockState] = []

    def take(self) -> None:
        state = self._clocks.read()
        if state is not None:
            self.states.append(state)


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


def plan_of(policy: Policy, round_ns: float, *, on_cpu: bool) -> Plan:
    """The counts that a policy allows a unit of which one round takes `round_ns`.

    Raises:
        UsageError: no samples at all.
    """
    warmup = math.ceil(policy.warmup_ms * NS_PER_MS / round_ns)
    if on_cpu:
        warmup = max(warmup, min(CPU_WARMUP_CALLS, int(CPU_WARMUP_LIMIT_NS / round_ns)))
    samples = int(policy.measure_ms * NS_PER_MS / round_ns)
    samples = max(policy.min_samples, min(samples, policy.max_samples))
    plan = Plan(
        warmup=warmup if policy.warmup is None else policy.warmup,
        samples=samples if policy.repeat is None else policy.repeat,
    )
    if plan.samples < 1 or plan.warmup < 0:
        raise UsageError(
            f"{plan.samples} samples after {plan.warmup} warm-ups: expected at least 1 and 0",
            hint="raise `repeat`, `min_samples` or `warmup`",
        )
    return plan


def _amortised(unit: Unit, plan: Plan) -> Plan:
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
    return Plan(warmup=plan.warmup, samples=plan.samples, inner=math.ceil(AMORTISED_SAMPLE_NS / call_ns))


class _Sampler:
    """The body of a session. It may run more than once: a timer that lost records repeats it."""

    def __init__(
        self, timer: Timer, unit: Unit, plan: Plan, *, warmup: int, whole: bool, read: Callable[[], None]
    ) -> None:
        self._timer = timer
        self._unit = unit
        self._plan = plan
        self._warmup = warmup
        self._whole = whole
        self._read = read
        self.void: set[int] = set()

    def __call__(self, session: Session) -> None:
        self.void.clear()
        with session.preparation():
            _warm_up(self._timer, self._unit, self._warmup)
        self._read()
        sample = self._one if self._plan.inner == 1 else self._several
        with collector_paused():
            for i in range(self._plan.samples):
                if i == self._plan.samples // 2:
                    self._read()
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
    """Give everything that a window's run did to the unit's row; its span is known where all of it was labelled."""
    rows = {
        sample: replace(
            cost,
            busy_ns=recording.runs[sample].busy_ns,
            span_ns=cost.span_ns if cost.busy_ns == recording.runs[sample].busy_ns else None,
            kernel_ns=None,
            copy_ns=None,
            memset_ns=None,
            n_kernels=recording.runs[sample].n_kernels,
            device_kernels=(),
        )
        for sample, cost in recording.rows.get(unit.name, {}).items()
    }
    return replace(recording, rows={unit.name: rows}, unattributed=())


@dataclass(slots=True)
class _Taken:
    """The samples of all sessions of one unit."""

    kept: list[Sample] = field(default_factory=list)
    sampled: int = 0
    void: int = 0
    notes: dict[str, None] = field(default_factory=dict)
    timer: TimerName | None = None

    def add(self, recording: Recording, unit: Unit, plan: Plan, void: set[int]) -> None:
        """Add a session's samples but those that allocated device memory."""
        if recording.unattributed:
            raise OffThreadLaunchError(
                f"{unit.name}: launched {', '.join(recording.unattributed)} outside its label",
                hint="another thread launches it, as autograd's does in backward(): time graphbench.backward_of(out) "
                "instead, or let the timed call launch its work itself",
                subject=unit.name,
            )
        if self.timer not in (None, recording.timer):
            raise TimingError(f"{unit.name}: sampled by {self.timer} and by {recording.timer}, which do not compare")
        self.timer = recording.timer
        found = _labelled_samples(recording, unit, plan)
        self.kept += [found[i] for i in range(plan.samples) if i not in void]
        self.sampled += plan.samples
        self.void += len(void)
        self.notes.update(dict.fromkeys(recording.notes))

    @property
    def mostly_void(self) -> bool:
        return self.void > self.sampled / 2

    @property
    def noise(self) -> float:
        return median_noise([sample.busy_ns for sample in self.kept])


def _measurement(
    taken: _Taken,
    unit: Unit,
    plan: Plan,
    timer: Timer,
    policy: Policy,
    states: list[ClockState],
    values: ValuePolicy | None,
) -> Measurement:
    common = Measurement(
        status="failed", timer=taken.timer, cache=timer.cache, values=values, warmup=plan.warmup, clocks=tuple(states)
    )
    if taken.mostly_void:
        return replace(common, reason=f"{taken.void} of {taken.sampled} samples allocated device memory")
    busy_ns = [sample.busy_ns / plan.inner for sample in taken.kept]
    noisy: tuple[str, ...] = ()
    if policy.noise is not None and taken.noise > policy.noise:
        noisy = (
            f"{NOISY}: median known to {taken.noise:.1%} after {policy.noise_ms:g} ms, asked for {policy.noise:.1%}",
        )
    return replace(
        common,
        status="ok",
        samples=columns(taken.kept, plan.inner),
        inner=plan.inner,
        device_kernels=device_kernels(taken.kept),
        warnings=(
            *_void_warning(taken.void, taken.sampled),
            *warnings(busy_ns),
            *drift(busy_ns, grain_ns=0.0 if timer.name != "cupti" else stamp_grain_ns(busy_ns) or 0.0),
            *noisy,
            *clock_warnings(states),
            *(note for note in taken.notes if warning_kind(note) == EVENT_FLOOR),
        ),
    )


def _labelled_samples(recording: Recording, unit: Unit, plan: Plan) -> dict[int, Sample]:
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


def _void_warning(void: int, samples: int) -> tuple[str, ...]:
    return (f"{VOID}: {void} of {samples} samples allocated device memory",) if void else ()

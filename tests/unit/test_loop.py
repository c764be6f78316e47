"""The measuring loop and the reading of recordings, on the scripted timer."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from graphbench.condition_records import Policy
from graphbench.device_records import ClockState, DeviceKernel
from graphbench.errors import AttributionError, OffThreadLaunchError, TimingError, UsageError
from graphbench.measurements import Measurement, Samples, TimerName
from graphbench.timing.base import Recording, RunSample, Sample, Session
from graphbench.timing.fake import FakeTimer
from graphbench.timing.loop import in_graph, measure, run_record
from graphbench.timing.wallclock import WallClock
from graphbench.units import format_duration

POLICY = Policy(timer="fake", cache="warm", values="captured", warmup=2, repeat=30)
NO_WORK = Sample(busy_ns=0.0, host_ns=900.0, kernel_ns=0.0, n_kernels=0)


@dataclass
class FakeUnit:
    """Writes down what the loop does with it."""

    name: str = "row"
    device: str = "cpu"
    may_launch_nothing: bool = False
    needs_restore: bool = False
    on_run: Callable[[int], object] = lambda _: None
    allocated: Callable[[int], int | None] = lambda _: None
    events: list[str] = field(default_factory=list)
    runs: int = 0

    def prepare(self) -> None:
        self.events.append("prepare")

    def run(self) -> object:
        self.events.append("run")
        self.runs += 1
        return self.on_run(self.runs)

    def allocations(self) -> int | None:
        return self.allocated(self.runs)


def fake(cost: float | Sample = 100.0, **options: object) -> FakeTimer:
    return FakeTimer(lambda _row, _sample: cost, **options)  # type: ignore[arg-type]


def busy(measurement: Measurement) -> tuple[float, ...]:
    assert measurement.samples is not None, measurement.reason
    return measurement.samples.busy_ns


def test_explicit_counts_are_kept_to() -> None:
    unit = FakeUnit()
    measurement = measure(fake(), unit, POLICY)
    assert (len(busy(measurement)), measurement.warmup) == (30, 2)
    assert unit.runs == 3 + 2 + 30  # calibration, warm-up, samples


def test_samples_are_what_the_timer_measured() -> None:
    measurement = measure(FakeTimer(lambda _, sample: 100.0 + sample), FakeUnit(), replace(POLICY, repeat=3))
    assert busy(measurement) == (100.0, 101.0, 102.0)


def test_a_result_is_stamped_with_its_conditions() -> None:
    measurement = measure(fake(cache="cold-read"), FakeUnit(), POLICY, values="synthetic")
    stamps = (measurement.status, measurement.timer, measurement.cache, measurement.values, measurement.inner)
    assert stamps == ("ok", "fake", "cold-read", "synthetic", 1)


def test_every_call_is_prepared_and_finds_a_cleared_cache() -> None:
    unit, timer = FakeUnit(), fake()
    measure(timer, unit, POLICY)
    assert unit.events == ["prepare", "run"] * unit.runs
    assert timer.cleared == unit.runs


def test_slow_calls_get_the_least_number_of_samples() -> None:
    policy = Policy(timer="fake", cache="warm", values="captured", warmup_ms=0, measure_ms=0.0001, min_samples=4)
    assert len(busy(measure(fake(), FakeUnit(), policy))) == 4


def test_fast_calls_get_the_most_samples() -> None:
    policy = Policy(timer="fake", cache="warm", values="captured", warmup_ms=0, measure_ms=1e4, max_samples=25)
    assert len(busy(measure(fake(), FakeUnit(), policy))) == 25


def test_no_samples_at_all_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="0 samples"):
        measure(fake(), FakeUnit(), replace(POLICY, repeat=0))


def test_a_result_outlives_its_sample_and_is_dropped_after_it() -> None:
    class Tensor:
        def __del__(self) -> None:
            unit.events.append("dropped")

    class WatchedTimer(FakeTimer):
        def synchronize(self) -> None:
            unit.events.append("drained")

    unit = FakeUnit(on_run=lambda _: Tensor())
    measure(WatchedTimer(lambda _row, _sample: 1.0), unit, replace(POLICY, warmup=0, repeat=2))
    assert unit.events[-5:] == ["prepare", "drained", "run", "drained", "dropped"]


def test_garbage_collection_is_off_in_samples_and_on_again_afterwards() -> None:
    seen: list[bool] = []
    measure(fake(), FakeUnit(on_run=lambda _: seen.append(gc.isenabled())), replace(POLICY, warmup=0, repeat=2))
    assert (seen, gc.isenabled()) == ([True, True, True, False, False], True)


def test_garbage_collection_is_on_again_after_an_error() -> None:
    def fail(call: int) -> None:
        if call > 5:
            raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        measure(fake(), FakeUnit(on_run=fail), POLICY)
    assert gc.isenabled()


def test_a_sample_that_allocates_device_memory_is_void() -> None:
    first_sample = 3 + POLICY.warmup + 1  # type: ignore[operator]
    unit = FakeUnit(allocated=lambda runs: 7 if runs < first_sample else 8)
    measurement = measure(fake(), unit, POLICY)
    assert len(busy(measurement)) == 29
    assert "void: 1 of 30 samples allocated device memory" in measurement.warnings


def test_mostly_void_samples_fail_the_row() -> None:
    measurement = measure(fake(), FakeUnit(allocated=lambda runs: runs), POLICY)
    assert (measurement.status, measurement.samples) == ("failed", None)
    assert measurement.reason == "30 of 30 samples allocated device memory"


def test_a_call_that_launches_nothing_is_an_attribution_error() -> None:
    with pytest.raises(AttributionError, match="row: 30 of 30 calls left no device work"):
        measure(fake(NO_WORK), FakeUnit(), POLICY)


def test_a_view_that_launches_nothing_is_a_measured_zero() -> None:
    measurement = measure(fake(NO_WORK), FakeUnit(may_launch_nothing=True), POLICY)
    assert busy(measurement) == (0.0,) * 30


def test_a_copy_without_a_kernel_is_device_work() -> None:
    copy = Sample(busy_ns=50.0, host_ns=9.0, copy_ns=50.0, n_kernels=0)
    assert busy(measure(fake(copy), FakeUnit(), POLICY)) == (50.0,) * 30


def test_work_outside_the_label_is_an_off_thread_launch_that_names_it() -> None:
    with pytest.raises(OffThreadLaunchError, match="row: launched stray_kernel outside its label"):
        measure(fake(unattributed=("stray_kernel",)), FakeUnit(), POLICY)


def test_a_whole_run_counts_what_no_label_claims() -> None:
    timer = fake(100.0, unattributed=("backward_kernel",), unattributed_ns=40.0)
    measurement = measure(timer, FakeUnit(), POLICY, whole=True)
    assert busy(measurement) == (140.0,) * 30


def test_few_samples_are_called_coarse() -> None:
    assert measure(fake(), FakeUnit(), replace(POLICY, repeat=19)).warnings == ("coarse: 19 samples",)


def test_scattered_samples_are_called_unstable() -> None:
    timer = FakeTimer(lambda _, sample: 100.0 if sample % 3 else 300.0)
    assert measure(timer, FakeUnit(), POLICY).warnings == ("unstable",)


def test_enough_steady_samples_carry_no_warning() -> None:
    assert measure(fake(), FakeUnit(), POLICY).warnings == ()


def test_short_cpu_calls_are_amortised_and_reported_per_call() -> None:
    unit = FakeUnit()
    measurement = measure(WallClock(), unit, replace(POLICY, repeat=5))
    assert measurement.inner > 5
    assert all(0 < sample < 20_000 for sample in busy(measurement))


def test_cpu_calls_that_need_their_inputs_restored_are_never_amortised() -> None:
    unit = FakeUnit(needs_restore=True)
    assert measure(WallClock(), unit, POLICY).inner == 1
    assert unit.events == ["prepare", "run"] * unit.runs


def test_a_cpu_call_is_warmed_up_fifty_times_whatever_the_budget() -> None:
    policy = Policy(timer="wallclock", cache="warm", values="captured", warmup_ms=0, measure_ms=0.1)
    assert measure(WallClock(), FakeUnit(needs_restore=True), policy).warmup >= 50


def recording(rows: dict[str, dict[int, Sample]], **fields: object) -> Recording:
    return Recording(timer="fake", rows=rows, runs={}, **fields)  # type: ignore[arg-type]


def kernels(*names: str) -> tuple[DeviceKernel, ...]:
    return tuple(DeviceKernel(name=name) for name in names)


def device_sample(busy_ns: float, *names: str) -> Sample:
    return Sample(busy_ns=busy_ns, host_ns=5.0, kernel_ns=busy_ns, n_kernels=len(names), device_kernels=kernels(*names))


def read(found: Recording, row: str, n_samples: int) -> Measurement:
    return in_graph(found, [row], n_samples, timer="fake", cache="warm", values="captured")[row]


def test_a_row_costs_nothing_in_a_run_that_did_not_reach_it() -> None:
    found = read(recording({"a": {0: device_sample(10.0, "k"), 2: device_sample(12.0, "k")}}), "a", 3)
    assert found.status == "ok"
    assert busy(found) == (10.0, 0.0, 12.0)
    assert found.samples is not None
    assert (found.samples.n_kernels, found.samples.copy_ns) == ((1, 0, 1), None)


def test_a_row_that_no_run_reached_is_skipped_not_zero() -> None:
    found = read(recording({}), "a", 3)
    assert (found.status, found.samples, found.reason) == ("skipped", None, "not executed in any of 3 runs")


def test_kernel_names_come_from_all_runs() -> None:
    rows = {"a": {0: device_sample(1.0, "k1"), 1: device_sample(1.0, "k1", "k2")}}
    assert read(recording(rows), "a", 2).device_kernels == kernels("k1", "k2")


def test_samples_beyond_those_asked_for_are_left_out() -> None:
    rows = {"a": {0: device_sample(1.0, "k"), -1: device_sample(99.0, "warm"), 1: device_sample(2.0, "k")}}
    assert busy(read(recording(rows), "a", 2)) == (1.0, 2.0)


def test_run_totals_are_columns_over_the_runs() -> None:
    found = replace(
        recording({}, unattributed=("stray",), dropped=0),
        runs={
            0: RunSample(busy_ns=10.0, wall_ns=20.0, unattributed_ns=1.0, overlap_ns=2.0, n_kernels=3),
            1: RunSample(busy_ns=11.0, wall_ns=21.0, n_kernels=4),
        },
    )
    record = run_record(found, 2)
    assert (record.busy_ns, record.wall_ns) == ((10.0, 11.0), (20.0, 21.0))
    assert (record.unattributed_ns, record.overlap_ns, record.wrapper_ns) == ((1.0, 0.0), (2.0, 0.0), None)
    assert (record.n_kernels, record.unattributed, record.timer) == (4, ("stray",), "fake")


def test_a_missing_run_is_an_error_not_a_shorter_column() -> None:
    with pytest.raises(TimingError, match="2 runs expected, found samples none"):
        run_record(recording({}), 2)


def alternating(*costs: float) -> FakeTimer:
    """Every sample costs the next of `costs`, round and round."""
    return FakeTimer(lambda _row, sample: costs[sample % len(costs)])


def test_without_a_noise_rule_a_noisy_unit_is_sampled_once() -> None:
    measurement = measure(alternating(100.0, 140.0), FakeUnit(), replace(POLICY, repeat=4))
    assert len(busy(measurement)) == 4


def test_sampling_goes_on_until_the_median_is_known_well_enough() -> None:
    # 1.57 * IQR 40 / sqrt(n) is 10 % of the median 120 from n = 28 on: seven sessions of 4.
    measurement = measure(alternating(100.0, 140.0), FakeUnit(), replace(POLICY, repeat=4, noise=0.1, noise_ms=1e6))
    assert busy(measurement) == (100.0, 140.0, 100.0, 140.0) * 7
    assert not any(warning.startswith("noisy") for warning in measurement.warnings)


def test_when_the_time_is_up_the_noise_that_is_left_is_told() -> None:
    policy = replace(POLICY, repeat=4, noise=0.1, noise_ms=0.0)
    measurement = measure(alternating(100.0, 140.0), FakeUnit(), policy)
    assert len(busy(measurement)) == 4
    assert "noisy: median known to 26.2% after 0 ms, asked for 10.0%" in measurement.warnings


def test_a_quiet_unit_needs_no_second_session() -> None:
    assert len(busy(measure(fake(), FakeUnit(), replace(POLICY, noise=0.01)))) == 30


class Clocks:
    """Reads these SM clocks one after another."""

    def __init__(self, *sm_mhz: int) -> None:
        self._left = list(sm_mhz)

    def read(self) -> ClockState:
        return ClockState(sm_mhz=self._left.pop(0))


def test_clocks_are_read_before_the_warm_up_between_and_after_the_samples() -> None:
    measurement = measure(fake(), FakeUnit(), POLICY, clocks=Clocks(1980, 1965, 1980))
    assert [state.sm_mhz for state in measurement.clocks] == [1980, 1965, 1980]
    assert not any(warning.startswith("clock") for warning in measurement.warnings)


def test_a_clock_that_moved_is_told_in_the_row() -> None:
    measurement = measure(fake(), FakeUnit(), POLICY, clocks=Clocks(1980, 1980, 1755))
    assert "clock: SM 1980 -> 1755 MHz" in measurement.warnings


def test_work_of_another_thread_is_named_with_what_to_do() -> None:
    with pytest.raises(OffThreadLaunchError, match="row: launched stray outside its label") as caught:
        measure(fake(unattributed=("stray",)), FakeUnit(), POLICY)
    assert "graphbench.backward_of(out)" in (caught.value.hint or "")


def test_rows_of_a_replay_have_no_host_time_and_its_run_what_ran_beside() -> None:
    rows = {"a": {0: Sample(busy_ns=7.0, host_ns=None, n_kernels=1)}}
    runs = {0: RunSample(busy_ns=9.0, wall_ns=20.0, beside_ns=2.0, n_kernels=2)}
    found = replace(recording(rows), runs=runs)
    assert read(found, "a", 1).samples == Samples(busy_ns=(7.0,), host_ns=None, n_kernels=(1,))
    assert run_record(found, 1).beside_ns == (2.0,)


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        (100.0, 130.0, ("drift: 100.0 ns in the first half, 130.0 ns in the second",)),
        (130.0, 100.0, ("drift: 130.0 ns in the first half, 100.0 ns in the second",)),
        (100.0, 100.5, ()),
    ],
)
def test_a_row_that_drifts_while_it_is_sampled_says_so(first: float, second: float, told: tuple[str, ...]) -> None:
    timer = FakeTimer(lambda _row, sample: first if sample < 15 else second)
    measurement = measure(timer, FakeUnit(), POLICY)
    assert tuple(warning for warning in measurement.warnings if warning.startswith("drift")) == told


def test_few_samples_have_no_halves_to_drift_between() -> None:
    timer = FakeTimer(lambda _row, sample: 100.0 if sample < 5 else 130.0)
    assert measure(timer, FakeUnit(), replace(POLICY, repeat=10)).warnings == ("coarse: 10 samples", "unstable")


class ScriptedWall(FakeTimer):
    """A wall clock that reads what the script says."""

    @property
    def name(self) -> TimerName:
        return "wallclock"

    def record(self, body: Callable[[Session], None], *, repeats: int = 3) -> Recording:
        return replace(super().record(body, repeats=repeats), timer="wallclock")


def test_drift_is_told_per_call_where_a_sample_holds_several() -> None:
    timer = ScriptedWall(lambda _row, sample: 1e6 if sample < 15 else 3e6)
    measurement = measure(timer, FakeUnit(), replace(POLICY, timer="wallclock", warmup=0))
    assert measurement.inner > 1
    halves = [format_duration(total / measurement.inner) for total in (1e6, 3e6)]
    assert f"drift: {halves[0]} in the first half, {halves[1]} in the second" in measurement.warnings

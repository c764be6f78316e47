"""What the halves of a row say together: nothing of either is lost, and what was said of a half is said of both."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from graphbench.comparing.pooling import pooled, refuse_mixed
from graphbench.condition_records import Policy
from graphbench.device_records import ClockState, DeviceKernel
from graphbench.errors import TimingError
from graphbench.measurements import Measurement, Samples
from graphbench.timing import loop
from graphbench.timing.fake import FakeTimer

POLICY = Policy(timer="cupti", cache="warm", values="captured")
TIGHT = (100.0,) * 20


def half(*busy_ns: float, **fields: Any) -> Measurement:
    samples = Samples(busy_ns=busy_ns, host_ns=tuple(2 * busy for busy in busy_ns), n_kernels=(1,) * len(busy_ns))
    return Measurement(status="ok", timer="cupti", cache="warm", samples=samples, **fields)


def pool(*halves: Measurement, policy: Policy = POLICY, grain_ns: float | None = None) -> Measurement:
    return pooled("A", halves, policy, grain_ns=grain_ns)


def test_samples_follow_each_other_in_every_column() -> None:
    assert pool(half(1.0, 2.0), half(3.0)).samples == Samples(
        busy_ns=(1.0, 2.0, 3.0), host_ns=(2.0, 4.0, 6.0), n_kernels=(1, 1, 1)
    )


def test_a_column_that_one_half_lacks_is_unknown() -> None:
    second = half(3.0)
    assert second.samples is not None
    found = pool(half(1.0), replace(second, samples=replace(second.samples, n_kernels=None)))
    assert found.samples is not None
    assert (found.samples.n_kernels, found.samples.host_ns) == (None, (2.0, 6.0))


def test_kernels_of_both_halves_are_kept_once_each() -> None:
    a, b, c = (DeviceKernel(name=name) for name in "abc")
    found = pool(half(1.0, device_kernels=(a, b)), half(1.0, device_kernels=(b, c)))
    assert found.device_kernels == (a, b, c)


def test_clocks_of_both_halves_are_kept_in_order() -> None:
    first, second = ClockState(sm_mhz=1980), ClockState(sm_mhz=1975)
    assert pool(half(1.0, clocks=(first,)), half(1.0, clocks=(second,))).clocks == (first, second)


def test_warm_ups_add_up_and_the_fewest_calls_of_a_sample_are_told() -> None:
    found = pool(half(1.0, warmup=3, inner=8), half(1.0, warmup=2, inner=5))
    assert (found.warmup, found.inner) == (5, 5)


def test_what_either_half_says_of_itself_is_kept_once() -> None:
    found = pool(half(*TIGHT, warnings=("odd: one", "odd: both")), half(*TIGHT, warnings=("odd: both", "odd: two")))
    assert found.warnings == ("odd: one", "odd: both", "odd: two")


def test_few_and_scattered_samples_are_judged_together() -> None:
    said = ("coarse: 4 samples", "unstable")
    found = pool(half(*(100.0,) * 10, warnings=said), half(*(101.0,) * 10, warnings=said))
    assert found.warnings == ()
    assert pool(half(100.0, 100.0), half(150.0, 150.0)).warnings[:2] == ("coarse: 4 samples", "unstable")


def test_halves_that_lie_apart_have_drifted() -> None:
    found = pool(half(*(10_000.0,) * 10), half(*(10_300.0,) * 10))
    assert found.warnings == ("drift: 10.00 µs in the first half, 10.30 µs in the second",)


def test_halves_within_a_step_of_the_clock_have_not_drifted() -> None:
    halves = half(*(2000.0,) * 10), half(*(2032.0,) * 10)
    assert [len(pool(*halves, grain_ns=grain).warnings) for grain in (None, 32.0)] == [1, 0]


def test_a_clock_that_moved_between_the_halves_is_told() -> None:
    halves = [half(*TIGHT, clocks=(ClockState(sm_mhz=mhz),) * 2) for mhz in (1980, 1500)]
    assert pool(*halves).warnings == ("clock: SM 1980 -> 1500 MHz",)


def test_clocks_are_judged_together_and_told_once() -> None:
    states = ClockState(sm_mhz=1980, throttle=("power cap",)), ClockState(sm_mhz=1500)
    said = ("clock: SM 1980 -> 1500 MHz", "throttled: power cap")
    halves = half(*TIGHT, clocks=states, warnings=said), half(*TIGHT, clocks=states[:1], warnings=said[1:])
    assert pool(*halves).warnings == ("clock: SM 1980 -> 1500 -> 1980 MHz", "throttled: power cap")


def test_void_samples_of_both_halves_add_up() -> None:
    said = "void: {} of 22 samples allocated device memory"
    halves = half(*TIGHT, warnings=(said.format(2),)), half(*TIGHT[:19], warnings=(said.format(3),))
    assert pool(*halves).warnings == ("void: 5 of 44 samples allocated device memory",)


def test_a_half_without_void_samples_counts_with_all_of_its_own() -> None:
    halves = half(*TIGHT), half(*TIGHT, warnings=("void: 1 of 21 samples allocated device memory",))
    assert pool(*halves).warnings == ("void: 1 of 41 samples allocated device memory",)


class Allocating:
    """A unit whose first sample allocates device memory."""

    name, device, may_launch_nothing, needs_restore = "A", "cuda:0", False, False

    def __init__(self) -> None:
        self._asked = 0

    def prepare(self) -> None: ...

    def run(self) -> None: ...

    def allocations(self) -> int:
        self._asked += 1
        return min(self._asked, 2)


def test_void_samples_are_read_as_the_loop_tells_them() -> None:
    policy = replace(POLICY, repeat=30, warmup=0)
    halves = [loop.measure(FakeTimer({"A": 100.0}), Allocating(), policy) for _ in range(2)]
    assert pool(*halves).warnings == ("void: 2 of 60 samples allocated device memory",)


NOISE = replace(POLICY, noise=0.01, noise_ms=800.0)
SCATTERED = tuple(95.0 + entry for entry in range(11))


def test_noise_is_judged_of_all_samples_against_the_whole_budget() -> None:
    said = "noisy: median known to 9.9% after 400 ms, asked for 1.0%"
    found = pool(*[half(*SCATTERED, warnings=(said,))] * 2, policy=NOISE)
    assert found.warnings == ("noisy: median known to 1.8% after 800 ms, asked for 1.0%",)


def test_halves_that_are_quiet_together_are_not_noisy() -> None:
    said = "noisy: median known to 9.9% after 400 ms, asked for 2.0%"
    found = pool(*[half(*SCATTERED, warnings=(said,))] * 2, policy=replace(NOISE, noise=0.02))
    assert found.warnings == ()


def test_a_half_that_failed_is_what_the_row_says() -> None:
    failed = Measurement(status="failed", reason="it raised", timer="cupti", cache="warm")
    assert pool(half(1.0), failed) is failed


@pytest.mark.parametrize(("what", "value"), [("timer", "cuda-events"), ("cache", "cold-read")])
def test_rows_that_were_not_measured_alike_are_refused(what: str, value: Any) -> None:
    with pytest.raises(TimingError, match=rf"of different {what}s \(A: \S+, B: {value}\)"):
        refuse_mixed({"A": half(1.0), "B": replace(half(1.0), **{what: value})})

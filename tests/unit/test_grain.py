"""The step of time stamps, found from durations."""

from __future__ import annotations

from graphbench.analysis.grain import stamp_grain_ns

# As recorded on an H200 by CUPTI 13.0.
RECORDED = (5536, 5568, 5600, 5631, 5632, 5663, 5664, 5665, 5696, 5697, 5727, 5728)


def test_durations_of_a_gpu_advance_in_steps_of_32_ns() -> None:
    assert stamp_grain_ns(RECORDED) == 32


def test_one_duration_between_the_steps_ends_it() -> None:
    assert stamp_grain_ns((*RECORDED, 5583)) == 16
    assert stamp_grain_ns((*RECORDED, 5578)) == 1


def test_durations_without_steps_have_a_grain_of_1_ns() -> None:
    assert stamp_grain_ns(range(1000, 1100, 3)) == 1


def test_too_few_durations_tell_nothing() -> None:
    assert stamp_grain_ns([1024.0] * 100) is None

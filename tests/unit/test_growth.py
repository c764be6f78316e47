"""The exponent of a power law through medians, and what is known of it."""

from __future__ import annotations

import pytest

from graphbench.analysis.growth import growth


def test_exponent_of_a_power_law_is_found() -> None:
    found = growth((10, 20, 40), (7.0, 28.0, 112.0), (0.0, 0.0, 0.0))
    assert found is not None
    assert found.exponent == pytest.approx(2.0)
    assert found.error == pytest.approx(0.0)
    assert found.last == pytest.approx(2.0)


def test_two_sizes_have_no_error() -> None:
    found = growth((128, 512), (1.0, 4.0), (0.5, 0.5))
    assert found is not None
    assert found.exponent == pytest.approx(1.0)
    assert (found.error, found.last) == (None, None)


def test_a_bend_shows_in_error_and_last_step() -> None:
    found = growth((1, 2, 4), (1.0, 1.0, 4.0), (0.0, 0.0, 0.0))
    assert found is not None
    assert found.exponent == pytest.approx(1.0)
    assert found.last == pytest.approx(2.0)
    # Residuals in steps of ln 2 are 1/3, -2/3, 1/3; their squares add up to 2/3, the spread of sizes to 2.
    assert found.error == pytest.approx(2 * (2 / 3 / 1 / 2) ** 0.5)


def test_noise_of_the_medians_is_an_error() -> None:
    found = growth((1, 10, 100), (1.0, 10.0, 100.0), (0.1, 0.1, 0.1))
    assert found is not None
    # (0.1 x ln 10) twice, over a spread of 2 (ln 10)^2
    assert found.error == pytest.approx(0.1 / (2**0.5 * 2.302585), rel=1e-6)


def test_groups_have_lines_of_their_own_of_one_slope() -> None:
    found = growth((1, 2, 1, 2), (1.0, 2.0, 10.0, 20.0), (0.0,) * 4, (0, 0, 2, 2))
    assert found is not None
    assert found.exponent == pytest.approx(1.0)
    assert found.last is None


def test_a_median_of_one_sample_leaves_the_error_open() -> None:
    found = growth((1, 2, 4), (1.0, 2.0, 4.0), (0.0, 0.0, float("inf")))
    assert found is not None
    assert found.error is None


@pytest.mark.parametrize(("sizes", "times"), [((5, 5), (1.0, 2.0)), ((1, 2), (0.0, 1.0)), ((0, 2), (1.0, 1.0))])
def test_what_cannot_have_an_exponent_has_none(sizes: tuple[int, int], times: tuple[float, float]) -> None:
    assert growth(sizes, times, (0.0, 0.0)) is None

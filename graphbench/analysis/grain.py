"""The step in which an instrument's time stamps advance, found from durations that it recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

GRAINS_NS: Final = (1024, 512, 256, 128, 64, 32, 16, 8, 4)
ROUNDING_NS: Final = 1
"""Stamps are scaled from the device's clock to the host's after they were taken, which shifts a duration by so much."""
FEWEST: Final = 8


def stamp_grain_ns(durations_ns: Sequence[float]) -> int | None:
    """The largest power of two that all durations are multiples of, 1 for none, `None` when too few of them differ.

    Args:
        durations_ns: of kernels of different lengths.
    """
    distinct = sorted({round(duration) for duration in durations_ns})
    if len(distinct) < FEWEST:
        return None
    for grain in GRAINS_NS:
        if all(min(duration % grain, -duration % grain) <= ROUNDING_NS for duration in distinct):
            return grain
    return 1

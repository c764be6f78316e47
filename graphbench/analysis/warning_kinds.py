"""The kinds of warnings that a row can carry. A warning is its kind, or its kind, a colon and what is to be said."""

from __future__ import annotations

from typing import Final

COARSE: Final = "coarse"
"""Few samples."""
UNSTABLE: Final = "unstable"
"""Samples scatter."""
NOISY: Final = "noisy"
"""The noise asked for was not reached in time."""
DRIFT: Final = "drift"
"""The first half of the samples lies apart from the second."""
VOID: Final = "void"
"""Samples that allocated device memory are left out."""
CLOCK: Final = "clock"
"""A clock of the GPU moved."""
THROTTLED: Final = "throttled"
"""Something held the GPU's clocks down."""
EVENT_FLOOR: Final = "event floor"
"""Two events with nothing between them read about as much."""
NO_BATCH: Final = "no batch"
"""A batch was asked for and could not be timed."""
OWN_BENCH: Final = "timed as its __graphbench_bench__ says"
"""Not the call itself was repeated, but what the op offers in its place."""


def warning_kind(warning: str) -> str:
    """What a warning is about: its words before the first colon."""
    return warning.partition(":")[0]

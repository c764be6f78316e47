"""Pictures of a few characters, for terminals that have block elements: bars of parts, lines of samples.

Only what is printed on a terminal has them; see `cli.terminal.draws_blocks`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from graphbench.analysis.stats import SAME_WITHIN, quantile

BAR_WIDTH: Final = 8
SPARK_WIDTH: Final = 12
_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
_HEIGHTS: Final = "▁▂▃▄▅▆▇█"
BAR_ENDS: Final = _EIGHTHS[1:-1]
"""What only bars consist of: the largest is full, but one of them ends in between."""
SPARK_ENDS: Final = _HEIGHTS[:-1]


def bar(part: float, *, width: int = BAR_WIDTH) -> str:
    """A bar of at most `width` characters in eighths of one: `part` 0 is empty, 1 is full; no part above 0 is empty."""
    filled = min(max(part, 0.0), 1.0) * width * 8
    eighths = max(1, round(filled)) if part > 0 else 0
    return (_EIGHTHS[8] * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()


def spark(samples: Sequence[float], *, width: int = SPARK_WIDTH) -> str:
    """Samples in their order as a line of heights, each the median of as many of them as share its character.

    The lowest stands for the least median and the highest for the largest, where these are 1 % of the middle or more
    apart; closer ones are noise, and drawn around half the height by that scale.

    Raises:
        ValueError: no samples.
    """
    count = min(width, len(samples))
    if not count:
        raise ValueError("a line of no samples")
    edges = [len(samples) * index // count for index in range(count + 1)]
    medians = [quantile(samples[start:end], 0.5) for start, end in pairwise(edges)]
    least, most = min(medians), max(medians)
    middle = (least + most) / 2
    scale = max(most - least, SAME_WITHIN * abs(middle))
    if not scale:
        return _HEIGHTS[3] * count
    top = len(_HEIGHTS) - 1
    return "".join(_HEIGHTS[round(top * (0.5 + (value - middle) / scale))] for value in medians)

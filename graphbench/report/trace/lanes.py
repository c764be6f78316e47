"""Spreads events over as few tracks as it takes for each to lie inside, or beside, the others of its track. Pure."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field


def read_ns(ns: float) -> int:
    """The nanosecond that a viewer takes a stamp for: it rounds."""
    return math.floor(ns + 0.5)


def read_end_ns(start_ns: float, duration_ns: float) -> int:
    """Where a viewer takes a slice to end: it rounds start and length apart."""
    return read_ns(start_ns) + read_ns(duration_ns)


@dataclass(slots=True)
class Spread:
    """Finds the track of each event of a lane: 0, or a higher one where it would cross an event of that track.

    Events come sorted by start. `nested`: an event may lie inside another one; else it goes beside it.
    """

    nested: bool
    _open: dict[Hashable, list[list[int]]] = field(default_factory=dict)

    def track_of(self, lane: Hashable, start_ns: float, duration_ns: float) -> int:
        """The number of the track for the next event of a lane."""
        start, end = read_ns(start_ns), read_end_ns(start_ns, duration_ns)
        tracks = self._open.setdefault(lane, [])
        for number, ends in enumerate(tracks):
            while ends and ends[-1] <= start:
                ends.pop()
            if not ends or (self.nested and end <= ends[-1]):
                ends.append(end)
                return number
        tracks.append([end])
        return len(tracks) - 1


def in_order(starts_ns: Sequence[float], durations_ns: Sequence[float]) -> list[int]:
    """Positions by start; of events that start together the longer first, which has to enclose the other."""
    return sorted(range(len(starts_ns)), key=lambda at: (read_ns(starts_ns[at]), -durations_ns[at]))

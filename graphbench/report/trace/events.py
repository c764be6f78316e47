"""Events of a trace and the tracks that they are on, as the Trace Event Format has them.

Source: the Trace Event Format (complete events `X`, instants `i`, flows `s` and `f`, metadata `M`), and how Perfetto
reads it: `JsonTraceTokenizer`, `JsonTraceParser`, `SliceTracker`, `FlowTracker` (google/perfetto, August 2026).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from graphbench.plaintext import clean, clean_lines

Event = dict[str, Any]
Args = Mapping[str, Any]
_NO_NAME: Final = "(no name)"
# Perfetto misreads numbers with more than 18 digits behind the point (`StringToDouble` of json_parser.h).
_DECIMALS: Final = 9  # of a stamp
_DIGITS: Final = 15  # of any other number, in all
_MOST: Final = 2**63 - 1


def microseconds(ns: float) -> float:
    """Nanoseconds in the format's unit, exact to a millionth of a nanosecond."""
    return round(ns / 1e3, _DECIMALS)


def plain(value: object) -> Any:
    """A value as viewers read it: what is no number in their range is text in which every character shows."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) <= _MOST else str(value)
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {clean(str(key)): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    return clean_lines(str(value)) if "\n" in str(value) else clean(str(value))


@dataclass(frozen=True, slots=True)
class Lane:
    """One track of a process: its name, and its events in any order, but a slice before what it encloses."""

    name: str
    events: list[Event] = field(default_factory=list)

    def slice(self, name: str, category: str, start_ns: float, duration_ns: float, args: Args) -> None:
        """Something that took time."""
        self._add("X", name, category, start_ns, {"dur": microseconds(duration_ns), "args": plain(args)})

    def instant(self, name: str, category: str, at_ns: float, args: Args) -> None:
        """Something without a time."""
        self._add("i", name, category, at_ns, {"s": "t", "args": plain(args)})

    def arrow_from(self, what: str, flow: int, at_ns: float) -> None:
        """An arrow starts at the innermost slice that starts then."""
        self._add("s", what, "flow", at_ns, {"id": flow})

    def arrow_to(self, what: str, flow: int, at_ns: float) -> None:
        """The same arrow ends at the innermost slice that starts then; viewers drop one that leads back in time."""
        self._add("f", what, "flow", at_ns, {"id": flow, "bp": "e"})

    def _add(self, phase: str, name: str, category: str, at_ns: float, more: Mapping[str, Any]) -> None:
        head = {"ph": phase, "name": clean(name) or _NO_NAME, "cat": category, "ts": microseconds(at_ns)}
        self.events.append({**head, **more})


@dataclass(frozen=True, slots=True)
class Process:
    """A group of tracks."""

    name: str
    lanes: list[Lane] = field(default_factory=list)

    def lane(self, name: str) -> Lane:
        """A new track, below the others."""
        made = Lane(name)
        self.lanes.append(made)
        return made


def numbered(processes: Iterable[Process]) -> Iterator[Event]:
    """The events of all tracks that have any, first their names and order, then each track's by time.

    Numbers of tracks are unique, and none is a process's: Perfetto takes such a track for the main thread.
    """
    shown = [(process, [lane for lane in process.lanes if lane.events]) for process in processes]
    shown = [(process, lanes) for process, lanes in shown if lanes]
    tracks: list[tuple[int, int, Lane]] = []
    for pid, (_, lanes) in enumerate(shown, start=1):
        tracks += [(pid, len(shown) + len(tracks) + 1 + position, lane) for position, lane in enumerate(lanes)]
    for pid, (process, _) in enumerate(shown, start=1):
        yield _metadata("process_name", pid, 0, {"name": clean(process.name) or _NO_NAME})
        yield _metadata("process_sort_index", pid, 0, {"sort_index": pid})
    for pid, tid, lane in tracks:
        yield _metadata("thread_name", pid, tid, {"name": clean(lane.name) or _NO_NAME})
        yield _metadata("thread_sort_index", pid, tid, {"sort_index": tid})
    for pid, tid, lane in tracks:
        for event in sorted(lane.events, key=lambda event: float(event["ts"])):
            yield {**event, "pid": pid, "tid": tid}


def _metadata(name: str, pid: int, tid: int, args: Args) -> Event:
    return {"ph": "M", "name": name, "pid": pid, "tid": tid, "ts": 0, "args": args}

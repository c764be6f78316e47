"""One session of an event timer: labels and windows while it runs, sums when the device has drained."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from threading import get_ident
from time import perf_counter_ns
from types import TracebackType
from typing import Any, Final, Protocol

from graphbench.analysis.stats import quantile
from graphbench.analysis.warning_kinds import EVENT_FLOOR
from graphbench.errors import AttributionError, ClockError
from graphbench.measurements import TimerName
from graphbench.timing.base import Recording, RunSample, Sample, TimelineEvent
from graphbench.timing.timeline import in_order, label_events

FLOORS: Final = 2
TOLERANCE_NS: Final = 1000.0
TOLERANCE: Final = 1e-6
"""By how much intervals of one window may seem to overlap: events tell single-precision milliseconds."""
NS_PER_MS: Final = 1e6


class TimingEvent(Protocol):
    """A mark in a stream, as `torch.Event`."""

    def record(self, stream: Any, /) -> None:
        """Put the mark behind what the stream has been given so far."""

    def elapsed_time(self, later: Any, /) -> float:
        """Milliseconds from this mark to a later one, both reached."""


class EventDevice(Protocol):
    """What an event timer needs of its device."""

    def event(self) -> TimingEvent:
        """A new event that keeps time."""

    def stream(self) -> object:
        """The stream on which this thread launches."""

    def drain(self) -> None:
        """Wait until all work of the device is done."""


class EventPool:
    """Events to use again. The driver makes an event when it is first recorded, which must not happen in a bracket."""

    def __init__(self, device: EventDevice) -> None:
        self._device = device
        self._free: list[TimingEvent] = []

    def take(self, stream: object) -> TimingEvent:
        """An event that exists already, or a new one, recorded once on `stream`."""
        try:
            return self._free.pop()
        except IndexError:
            event = self._device.event()
            event.record(stream)
            return event

    def give_back(self, events: Sequence[TimingEvent]) -> None:
        """Keep events that nothing waits for any more."""
        self._free.extend(events)


class _Bracket:
    """Two events around what this thread launches; host stamps lie inside, so that recording events costs no host time.

    `row` is `None` for a preparation.
    """

    __slots__ = ("_session", "_stream", "end", "host_ns", "row", "sample", "start", "start_ns", "thread")

    def __init__(self, session: EventSession, row: str | None, sample: int) -> None:
        self._session = session
        self.row = row
        self.sample = sample

    def __enter__(self) -> None:
        self._stream = self._session.device.stream()
        self.start = self._session.pool.take(self._stream)
        self.end = self._session.pool.take(self._stream)
        self.start.record(self._stream)
        self.start_ns = perf_counter_ns()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.host_ns = perf_counter_ns() - self.start_ns
        self.end.record(self._stream)
        self.thread = get_ident()
        self._session.brackets.append(self)

    def elapsed_ns(self) -> float:
        elapsed_ns = self.start.elapsed_time(self.end) * NS_PER_MS
        if not elapsed_ns >= 0:
            raise ClockError(
                f"{self.row or 'preparation'}: {elapsed_ns:.0f} ns between its events, expected at least 0",
                hint="the device's events cannot be trusted; measure in a fresh process",
                subject=self.row,
            )
        return elapsed_ns


class _Window:
    """A whole run between two events, the device drained before and after; afterwards it knows its brackets."""

    __slots__ = ("_end_ns", "_first", "_session", "_start_ns", "_whole", "brackets", "sample", "wall_ns")

    def __init__(self, session: EventSession, sample: int) -> None:
        self._session = session
        self._whole = _Bracket(session, None, sample)
        self.sample = sample

    def __enter__(self) -> None:
        self._session.device.drain()
        self._session.in_window = True
        self._first = len(self._session.brackets)
        self._start_ns = perf_counter_ns()
        self._whole.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._whole.__exit__(kind, error, at)
        self._session.device.drain()
        self._session.in_window = False
        self.brackets = self._session.brackets[self._first : -1]
        prepared_ns = sum(bracket.host_ns for bracket in self.brackets if bracket.row is None)
        self._end_ns = perf_counter_ns()
        self.wall_ns = self._end_ns - self._start_ns - prepared_ns
        if error is None:
            self._session.windows.append(self)

    def run(self) -> RunSample:
        """What the run took less its preparation, and what of that no label claims."""
        self._check_apart()
        prepared_ns = sum(bracket.elapsed_ns() for bracket in self.brackets if bracket.row is None)
        busy_ns = self._whole.elapsed_ns() - prepared_ns
        labelled_ns = sum(bracket.elapsed_ns() for bracket in self.brackets if bracket.row is not None)
        wrapper_ns = max(busy_ns - labelled_ns, 0.0)  # below 0 by no more than what `_check_apart` lets pass
        return RunSample(busy_ns=busy_ns, wall_ns=self.wall_ns, wrapper_ns=wrapper_ns)

    def timeline(self) -> tuple[TimelineEvent, ...]:
        """Its labels on the host; when the device did their work, events do not tell."""
        labels = (
            (bracket.row, bracket.sample, bracket.start_ns, bracket.start_ns + bracket.host_ns, bracket.thread)
            for bracket in self.brackets
            if bracket.row is not None
        )
        return in_order(label_events(labels, self._start_ns, self._end_ns))

    def _check_apart(self) -> None:
        """No two brackets may share time, nor may one outlast the window: sums would then count time twice."""
        origin = self._whole.start

        def at_ns(event: TimingEvent) -> float:
            return origin.elapsed_time(event) * NS_PER_MS

        whole_ns = at_ns(self._whole.end)
        places = sorted((at_ns(b.start), at_ns(b.end), b.row or "preparation") for b in self.brackets)
        places.append((whole_ns, whole_ns, "what comes after the run"))
        for (_, end_ns, row), (start_ns, _, following) in pairwise(places):
            if end_ns - start_ns > max(TOLERANCE_NS, TOLERANCE * whole_ns):
                raise AttributionError(
                    f"sample {self.sample}: {row} ends {end_ns - start_ns:.0f} ns after {following} has started",
                    hint="labels nest, or run on several streams at once: time them with timer='cupti'",
                    subject=row,
                )


class EventSession:
    """The brackets and windows of one session. Threads only append.

    Args:
        device: the device that is timed.
        pool: its events.
    """

    def __init__(self, device: EventDevice, pool: EventPool) -> None:
        self.device = device
        self.pool = pool
        self.brackets: list[_Bracket] = []
        self.windows: list[_Window] = []
        self.in_window = False

    def label(self, row: str, sample: int) -> _Bracket:
        """As in `base.Session`."""
        return _Bracket(self, row, sample)

    def preparation(self) -> AbstractContextManager[None]:
        """As in `base.Session`. Outside of windows nothing needs to be known of it."""
        return _Bracket(self, None, 0) if self.in_window else nullcontext()

    def window(self, sample: int) -> _Window:
        """As in `base.Session`."""
        return _Window(self, sample)

    def finish(self, timer: TimerName, floor_ns: float, *, timeline: bool = False) -> Recording:
        """The recording of a drained session; its events go back to the pool.

        Args:
            timer: the instrument's name.
            floor_ns: what an empty pair of events reads; rows no longer than that and the host's time are noted.
            timeline: whether to add when the host issued the labels of the last window.

        Raises:
            AttributionError: labels of one window overlap.
            ClockError: an event is stamped earlier than the one before it.
        """
        pairs: dict[str, dict[int, list[_Bracket]]] = defaultdict(lambda: defaultdict(list))
        for bracket in self.brackets:
            if bracket.row is not None:
                pairs[bracket.row][bracket.sample].append(bracket)
        rows = {row: {i: _sample(found) for i, found in samples.items()} for row, samples in pairs.items()}
        runs: dict[int, RunSample] = {}
        for window in self.windows:
            runs[window.sample] = _sum(runs.get(window.sample), window.run())
        self.pool.give_back([event for bracket in self.brackets for event in (bracket.start, bracket.end)])
        events = self.windows[-1].timeline() if timeline and self.windows else ()
        return Recording(timer=timer, rows=rows, runs=runs, notes=_floor_notes(pairs, floor_ns), timeline=events)


def _sample(brackets: Sequence[_Bracket]) -> Sample:
    busy_ns = sum(bracket.elapsed_ns() for bracket in brackets)
    host_ns = sum(bracket.host_ns for bracket in brackets)
    return Sample(busy_ns=busy_ns, host_ns=host_ns, span_ns=busy_ns, calls=len(brackets))


def _sum(a: RunSample | None, b: RunSample) -> RunSample:
    if a is None:
        return b
    wrapper_ns = (a.wrapper_ns or 0.0) + (b.wrapper_ns or 0.0)
    return RunSample(busy_ns=a.busy_ns + b.busy_ns, wall_ns=a.wall_ns + b.wall_ns, wrapper_ns=wrapper_ns)


def _floor_notes(pairs: Mapping[str, Mapping[int, Sequence[_Bracket]]], floor_ns: float) -> tuple[str, ...]:
    """Name the rows that ended with the host's last launch: their events tell the host's time, not the device's."""
    beyond_host_ns = {
        row: [bracket.elapsed_ns() - bracket.host_ns for brackets in samples.values() for bracket in brackets]
        for row, samples in pairs.items()
    }
    low = [row for row, column in beyond_host_ns.items() if quantile(column, 0.5) < FLOORS * floor_ns]
    if not low:
        return ()
    rows = "" if len(pairs) == 1 else f"{', '.join(low)}: "
    told = "the device ended with the host's last launch; it may have done less, or nothing"
    return (f"{EVENT_FLOOR}: {rows}{told}",)

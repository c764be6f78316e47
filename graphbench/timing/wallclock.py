"""The CPU's instrument: wall time inside labelled calls. What it cannot see (kernels, copies, spans) stays `None`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from threading import get_ident
from time import perf_counter_ns
from types import TracebackType

from graphbench.errors import AttributionError
from graphbench.measurements import CacheState, TimerName
from graphbench.timing.base import Opened, Recording, RunSample, Sample, Session, TimelineEvent
from graphbench.timing.timeline import Stamp, in_order, label_events

Interval = tuple[int, int]


class WallClock:
    """Times with `time.perf_counter_ns`. Labels may be entered from any thread, backward's autograd thread included.

    A label's `busy_ns` and `host_ns` are its wall time. A window's `wall_ns` is its wall time less the preparation
    inside it; `wrapper_ns` is what no label claims of it. Threads whose labels are open at once share wall time, which
    `overlap_ns` tells: rows + wrapper - overlap = wall.
    """

    @property
    def name(self) -> TimerName:
        """`wallclock`."""
        return "wallclock"

    @property
    def cache(self) -> CacheState:
        """`warm`: nothing clears a CPU's caches."""
        return "warm"

    @property
    def slows_launches(self) -> bool:
        """`False`: two readings of a clock."""
        return False

    def record(self, body: Callable[[Session], None], *, repeats: int = 3) -> Recording:
        """Run `body` in a new session and return what its labels and windows took.

        Raises:
            AttributionError: labels of one thread nested.
        """
        with self.open() as opened:
            body(opened.session)
        return opened.recording()

    @contextmanager
    def open(self, *, timeline: bool = False) -> Iterator[Opened]:
        """As in `base.Timer`; the timeline holds labels only. `recording()` raises what `record` raises."""
        session = _WallSession()
        opened = Opened(session)
        yield opened
        opened.close(partial(session.recording, timeline=timeline))

    def synchronize(self) -> None:
        """Nothing: a CPU call is over when it returns."""

    def clear_cache(self) -> None:
        """Nothing: the only cache state is `warm`."""


class _WallSession:
    """Stamps of one session. Appends and single reads only, so that threads need no lock in the timed path."""

    def __init__(self) -> None:
        self.stamps: list[Stamp] = []
        self.preparations: list[Interval] = []
        self.windows: list[tuple[int, int, int]] = []

    def label(self, row: str, sample: int) -> _Label:
        return _Label(self.stamps, row, sample)

    def preparation(self) -> _Preparation:
        return _Preparation(self.preparations)

    def window(self, sample: int) -> _Window:
        return _Window(self.windows, sample)

    def recording(self, *, timeline: bool) -> Recording:
        _refuse_nesting(self.stamps)
        costs: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        for row, sample, start_ns, end_ns, _ in self.stamps:
            costs[row][sample].append(end_ns - start_ns)
        rows = {
            row: {
                sample: Sample(busy_ns=sum(durations), host_ns=sum(durations), calls=len(durations))
                for sample, durations in samples.items()
            }
            for row, samples in costs.items()
        }
        events = self._timeline() if timeline else ()
        return Recording(timer="wallclock", rows=rows, runs=self._runs(), timeline=events)

    def _runs(self) -> dict[int, RunSample]:
        labels: dict[int, list[Interval]] = defaultdict(list)
        for _, sample, start_ns, end_ns, _ in self.stamps:
            labels[sample].append((start_ns, end_ns))
        walls: dict[int, int] = defaultdict(int)
        claimed: dict[int, int] = defaultdict(int)
        for sample, start_ns, end_ns in self.windows:
            prepared = [(s, e) for s, e in self.preparations if start_ns <= s and e <= end_ns]
            prepared_ns = _union_ns(prepared, start_ns, end_ns)
            walls[sample] += end_ns - start_ns - prepared_ns
            claimed[sample] += _union_ns([*labels[sample], *prepared], start_ns, end_ns) - prepared_ns
        runs = {}
        for sample, wall_ns in walls.items():
            labelled_ns = sum(end - start for start, end in labels[sample])
            runs[sample] = RunSample(
                busy_ns=wall_ns,
                wall_ns=wall_ns,
                overlap_ns=labelled_ns - claimed[sample],
                wrapper_ns=wall_ns - claimed[sample],
            )
        return runs

    def _timeline(self) -> tuple[TimelineEvent, ...]:
        if not self.windows:
            return ()
        _, start_ns, end_ns = self.windows[-1]
        return in_order(label_events(self.stamps, start_ns, end_ns))


def _refuse_nesting(stamps: Iterable[Stamp]) -> None:
    """What an inner label takes would count twice.

    Raises:
        AttributionError: a label starts before the one before it, of its thread, has ended.
    """
    ordered = sorted((thread, start, end, row) for row, _, start, end, thread in stamps)
    for (thread, _, end, row), (next_thread, start, inner_end, inner) in pairwise(ordered):
        if next_thread == thread and start < end:
            raise AttributionError(
                f"label {inner} was open inside label {row} of the same thread for {min(end, inner_end) - start} ns",
                hint="labels must not nest: end one before the next",
                subject=inner,
            )


def _union_ns(intervals: Iterable[Interval], from_ns: int, to_ns: int) -> int:
    """Length of the union of intervals, cut to what lies between two stamps."""
    total, covered_until = 0, from_ns
    for start, end in sorted(intervals):
        reached = min(end, to_ns)
        if reached > covered_until:
            total += reached - max(start, covered_until)
            covered_until = reached
    return total


class _Label:
    """One labelled call. A class, not a generator: half the cost, and it is paid inside the wrapper's time."""

    __slots__ = ("_row", "_sample", "_stamps", "_start_ns")

    def __init__(self, stamps: list[Stamp], row: str, sample: int) -> None:
        self._stamps = stamps
        self._row = row
        self._sample = sample

    def __enter__(self) -> None:
        self._start_ns = perf_counter_ns()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        end_ns = perf_counter_ns()
        self._stamps.append((self._row, self._sample, self._start_ns, end_ns, get_ident()))


class _Preparation:
    __slots__ = ("_stamps", "_start_ns")

    def __init__(self, stamps: list[Interval]) -> None:
        self._stamps = stamps

    def __enter__(self) -> None:
        self._start_ns = perf_counter_ns()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stamps.append((self._start_ns, perf_counter_ns()))


class _Window:
    __slots__ = ("_sample", "_stamps", "_start_ns")

    def __init__(self, stamps: list[tuple[int, int, int]], sample: int) -> None:
        self._stamps = stamps
        self._sample = sample

    def __enter__(self) -> None:
        self._start_ns = perf_counter_ns()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is None:
            self._stamps.append((self._sample, self._start_ns, perf_counter_ns()))

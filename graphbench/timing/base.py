"""What every timer promises. A timer knows nothing of graphs, regions or torch.compile: it labels, runs and counts.

A session records labelled work. Labels are pushed in the thread that launches, do not nest, and may repeat: what one
(row, sample) pair ran is summed. Device work under no label is unattributed; what is done to prepare a sample (flush,
restore) runs under `preparation()` and counts nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from graphbench.device_records import DeviceKernel
from graphbench.errors import TimingError
from graphbench.measurements import CacheState, TimerName
from graphbench.provenance.graph_replay import LaunchedWork
from graphbench.step_records import TimelineKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What one label cost in one sample, in nanoseconds; fields as in `records.Samples`."""

    busy_ns: float
    host_ns: float | None
    span_ns: float | None = None
    kernel_ns: float | None = None
    copy_ns: float | None = None
    memset_ns: float | None = None
    n_kernels: int | None = None
    device_kernels: tuple[DeviceKernel, ...] = ()
    calls: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSample:
    """Totals of one sample over all its labels; fields as in `records.RunRecord`.

    Of a wall clock, `overlap_ns` is labelled time that the run's wall time does not hold: of labels that several
    threads had open at once, or that were open outside of the window.
    """

    busy_ns: float
    wall_ns: float
    unattributed_ns: float = 0.0
    overlap_ns: float = 0.0
    wrapper_ns: float | None = None
    beside_ns: float | None = None
    n_kernels: int | None = None


class TimelineEvent(NamedTuple):
    """One entry of a session's timeline; columns as in `step_records.Timeline`.

    `row` is the label's, `None` for what no label claims. `start_ns` counts from the start of the window; a device's
    clock may run some microseconds ahead of the host's, so that work at the very start can read below 0. `lane` is the
    stream, and for the host (`device` -1) its threads, numbered in the order in which they appear.
    """

    kind: TimelineKind
    row: str | None
    name: str
    start_ns: float
    duration_ns: float
    lane: int
    device: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """Everything a finished session knows. `rows[row][sample]`, `runs[sample]`; `unattributed` names device work.

    `order` holds the device work of the last window in the order of its launches, where the instrument sees it;
    `timeline` what happened in that window, sorted by start, when it was asked for.
    """

    timer: TimerName
    rows: Mapping[str, Mapping[int, Sample]]
    runs: Mapping[int, RunSample]
    unattributed: tuple[str, ...] = ()
    dropped: int = 0
    order: tuple[LaunchedWork, ...] = ()
    notes: tuple[str, ...] = ()
    timeline: tuple[TimelineEvent, ...] = ()


@runtime_checkable
class Session(Protocol):
    """An open recording."""

    def label(self, row: str, sample: int) -> AbstractContextManager[None]:
        """Attribute what this thread launches inside to `(row, sample)`, and stamp the host time it takes."""

    def preparation(self) -> AbstractContextManager[None]:
        """Attribute what this thread launches inside to nobody."""

    def window(self, sample: int) -> AbstractContextManager[None]:
        """Mark a whole run: its wall time, and the sample that unlabelled work inside belongs to. Drains the device."""


@runtime_checkable
class SplitsReplays(Protocol):
    """A session that can tell the nodes of CUDA-graph replays apart."""

    def replay(self, sample: int, order: tuple[LaunchedWork, ...]) -> AbstractContextManager[None]:
        """Attribute the graph nodes replayed inside to the rows of `order`; enter it inside the sample's window."""


class Opened:
    """A recording that a `with` block makes: its `session` inside the block, `recording()` behind it."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._finish: Callable[[], Recording] | None = None
        self._recording: Recording | None = None

    def close(self, finish: Callable[[], Recording]) -> None:
        """For the timer: the block has ended without an error, and `finish` makes the recording."""
        self._finish = finish

    def recording(self) -> Recording:
        """What the block recorded; made once.

        Raises:
            RecordsLostError: records were lost; the work ran once and is not run again.
            TimingError: the block has not ended, or an error ended it; or as in `Timer.record`.
        """
        if self._recording is None:
            if self._finish is None:
                raise TimingError(
                    "the recording is not finished: its `with` block has not ended, or an error ended it",
                    hint="ask for it behind the block",
                )
            self._recording = self._finish()
            self._finish = None  # it holds all records
        return self._recording


@runtime_checkable
class Timer(Protocol):
    """One instrument. `name` is stamped into every row; rows of different timers are never compared."""

    @property
    def name(self) -> TimerName:
        """Which instrument."""

    @property
    def cache(self) -> CacheState:
        """What is in the cache when an isolated sample starts."""

    @property
    def slows_launches(self) -> bool:
        """Whether recording makes launches slower for the host, so that host times are taken apart."""

    def record(self, body: Callable[[Session], None], *, repeats: int = 3) -> Recording:
        """Open a session, run `body(session)` in it, close it and return what it recorded.

        When records were lost, `body` is run again in a session with larger buffers, `repeats` times at most (0 for a
        body that must not run twice).

        Raises:
            RecordsLostError: records were lost every time.
            ClockError: stamps are not nanoseconds and could not be repaired.
            TimingError: any other state in which a number would be wrong.
        """

    def open(self, *, timeline: bool = False) -> AbstractContextManager[Opened]:
        """The with-block form of `record`, for work that must run exactly once.

        An error inside the block passes through and leaves the instrument off.

        Args:
            timeline: also say when everything of the last window happened (`Recording.timeline`).

        Raises:
            TimingError: the instrument could not be switched on, or something ended its recording meanwhile.
        """

    def synchronize(self) -> None:
        """Wait until the device is idle. Nothing on the CPU."""

    def clear_cache(self) -> None:
        """Bring the cache into the state that `cache` names. Nothing for `warm`."""

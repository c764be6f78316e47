"""What every timer promises. A timer knows nothing of graphs, regions or torch.compile: it labels, runs and counts.

A session records labelled work. Labels are pushed in the thread that launches, do not nest, and may repeat: what one
(row, sample) pair ran is summed. Device work under no label is unattributed; what is done to prepare a sample (flush,
restore) runs under `preparation()` and counts nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from graphbench.device_records import DeviceKernel
from graphbench.measurements import CacheState, TimerName
from graphbench.provenance.graph_replay import LaunchedWork


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
    """Totals of one sample over all its labels; fields as in `records.RunRecord`."""

    busy_ns: float
    wall_ns: float
    unattributed_ns: float = 0.0
    overlap_ns: float = 0.0
    wrapper_ns: float | None = None
    beside_ns: float | None = None
    n_kernels: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """Everything a finished session knows. `rows[row][sample]`, `runs[sample]`; `unattributed` names device work.

    `order` holds the device work of the last window in the order of its launches, where the instrument sees it.
    """

    timer: TimerName
    rows: Mapping[str, Mapping[int, Sample]]
    runs: Mapping[int, RunSample]
    unattributed: tuple[str, ...] = ()
    dropped: int = 0
    order: tuple[LaunchedWork, ...] = ()
    notes: tuple[str, ...] = ()


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

    def synchronize(self) -> None:
        """Wait until the device is idle. Nothing on the CPU."""

    def clear_cache(self) -> None:
        """Bring the cache into the state that `cache` names. Nothing for `warm`."""

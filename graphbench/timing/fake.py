"""A scripted timer for tests and documentation: it calls the real code and reports the durations that it was told."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from graphbench.device_records import DeviceKernel
from graphbench.errors import AttributionError
from graphbench.measurements import CacheState, TimerName
from graphbench.timing.base import Opened, Recording, RunSample, Sample, Session, TimelineEvent
from graphbench.timing.timeline import HOST, in_order

Script = Mapping[str, float | Sample] | Callable[[str, int], float | Sample]


class FakeTimer:
    """Deterministic: a label costs what the script says, however long its body really took. It behaves like a device.

    Args:
        script: row -> cost of one call, or a callable of (row, sample). A cost is a number of nanoseconds (then one
            kernel named like the row, with host time equal to busy time) or a whole `Sample`.
        cache: the cache state to report.
        gap_ns: idle wall time of every window, besides the host time of its labels.
        unattributed: names of device kernels that no label claims; found by every session.
        unattributed_ns: what those kernels add to every window.
    """

    def __init__(
        self,
        script: Script,
        *,
        cache: CacheState = "warm",
        gap_ns: float = 0.0,
        unattributed: Sequence[str] = (),
        unattributed_ns: float = 0.0,
    ) -> None:
        self._script = script
        self._cache = cache
        self._gap_ns = gap_ns
        self._unattributed = tuple(unattributed)
        self._unattributed_ns = unattributed_ns
        self.cleared = 0
        self.synchronized = 0

    @property
    def name(self) -> TimerName:
        """`fake`."""
        return "fake"

    @property
    def cache(self) -> CacheState:
        """The cache state given."""
        return self._cache

    @property
    def slows_launches(self) -> bool:
        """`False`: nothing is recorded."""
        return False

    def cost(self, row: str, sample: int) -> Sample:
        """What the script says one call of `row` costs in `sample`.

        Raises:
            AttributionError: the script has no such row.
        """
        if callable(self._script):
            cost = self._script(row, sample)
        elif row in self._script:
            cost = self._script[row]
        else:
            raise AttributionError(
                f"{row}: not in the script of the fake timer, which has {', '.join(self._script) or 'no rows'}",
                hint="add the row, or give a callable",
                subject=row,
            )
        if isinstance(cost, Sample):
            return cost
        return Sample(
            busy_ns=cost,
            host_ns=cost,
            span_ns=cost,
            kernel_ns=cost,
            copy_ns=0.0,
            memset_ns=0.0,
            n_kernels=1,
            device_kernels=(DeviceKernel(name=row),),
        )

    def record(self, body: Callable[[Session], None], *, repeats: int = 3) -> Recording:
        """Run `body` and return the scripted cost of every label it entered.

        Raises:
            AttributionError: a label that the script does not know.
        """
        with self.open() as opened:
            body(opened.session)
        return opened.recording()

    @contextmanager
    def open(self, *, timeline: bool = False) -> Iterator[Opened]:
        """As in `base.Timer`.

        In the timeline each label's host time follows the one before it, and its device work runs as one event of
        stream 0 of device 0 as soon as it has been issued and the work before it is done.
        """
        session = _FakeSession(self.cost)
        opened = Opened(session)
        yield opened
        opened.close(partial(self._recording, session, timeline=timeline))

    def synchronize(self) -> None:
        """Count the call in `synchronized`."""
        self.synchronized += 1

    def clear_cache(self) -> None:
        """Count the call in `cleared`."""
        self.cleared += 1

    def _recording(self, session: _FakeSession, *, timeline: bool) -> Recording:
        return Recording(
            timer="fake",
            rows={row: dict(samples) for row, samples in session.rows.items()},
            runs={sample: self._run(session, sample) for sample in session.windows},
            unattributed=self._unattributed,
            timeline=_timeline(session.windowed) if timeline else (),
        )

    def _run(self, session: _FakeSession, sample: int) -> RunSample:
        labelled = [samples[sample] for samples in session.rows.values() if sample in samples]
        return RunSample(
            busy_ns=sum(cost.busy_ns for cost in labelled) + self._unattributed_ns,
            wall_ns=sum(cost.host_ns or 0.0 for cost in labelled) + self._gap_ns,
            unattributed_ns=self._unattributed_ns,
            n_kernels=sum(cost.n_kernels or 0 for cost in labelled) + len(self._unattributed),
        )


class _Call(NamedTuple):
    row: str
    cost: Sample
    thread: int


class _FakeSession:
    def __init__(self, cost: Callable[[str, int], Sample]) -> None:
        self._cost = cost
        self._lock = threading.Lock()
        self.rows: dict[str, dict[int, Sample]] = defaultdict(dict)
        self.windows: list[int] = []
        self.windowed: list[_Call] = []
        self._in_window = False

    @contextmanager
    def label(self, row: str, sample: int) -> Iterator[None]:
        yield
        with self._lock:
            cost = self._cost(row, sample)
            earlier = self.rows[row].get(sample)
            self.rows[row][sample] = cost if earlier is None else _sum(earlier, cost)
            if self._in_window:
                self.windowed.append(_Call(row, cost, threading.get_ident()))

    @contextmanager
    def preparation(self) -> Iterator[None]:
        yield

    @contextmanager
    def window(self, sample: int) -> Iterator[None]:
        self.windowed, self._in_window = [], True
        try:
            yield
        finally:
            self._in_window = False
        self.windows.append(sample)


def _timeline(calls: Sequence[_Call]) -> tuple[TimelineEvent, ...]:
    """The calls of one window, laid out on a host and a device that idle for nothing but each other."""
    events = []
    host_ns = device_ns = 0.0
    for row, cost, thread in calls:
        events.append(TimelineEvent("host", row, row, host_ns, cost.host_ns or 0.0, thread, HOST))
        host_ns += cost.host_ns or 0.0
        if cost.device_kernels:
            work = cost.device_kernels[0]
            start_ns = max(host_ns, device_ns)
            device_ns = start_ns + cost.busy_ns
            events.append(TimelineEvent(work.kind, row, work.name, start_ns, cost.busy_ns, 0, 0))
    return in_order(events)


def _sum(a: Sample, b: Sample) -> Sample:
    return replace(
        a,
        busy_ns=a.busy_ns + b.busy_ns,
        host_ns=_add(a.host_ns, b.host_ns),
        span_ns=_add(a.span_ns, b.span_ns),
        kernel_ns=_add(a.kernel_ns, b.kernel_ns),
        copy_ns=_add(a.copy_ns, b.copy_ns),
        memset_ns=_add(a.memset_ns, b.memset_ns),
        n_kernels=None if a.n_kernels is None or b.n_kernels is None else a.n_kernels + b.n_kernels,
        device_kernels=tuple(dict.fromkeys(a.device_kernels + b.device_kernels)),
        calls=a.calls + b.calls,
    )


def _add(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a + b

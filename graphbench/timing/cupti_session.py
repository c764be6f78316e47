"""One CUPTI session: labels and windows while it runs, checks and attribution when it is over."""

from __future__ import annotations

import itertools
import secrets
import time
from collections import defaultdict
from collections.abc import Sequence
from threading import get_ident
from time import perf_counter_ns
from types import TracebackType
from typing import Final

from graphbench.errors import ClockError, TimingError
from graphbench.provenance.correlation import (
    IDLE,
    NOTHING,
    PREPARATION,
    Attribution,
    DeviceCost,
    Owner,
    WindowStamp,
    attribute,
)
from graphbench.provenance.graph_replay import LaunchedWork, Replay, launch_order
from graphbench.timing.base import Recording, RunSample, Sample, TimelineEvent
from graphbench.timing.cupti_library import ClockReading, Instrument
from graphbench.timing.cupti_records import LABEL_KIND, Decoded
from graphbench.timing.cupti_timeline import HostWindow, session_timeline
from graphbench.timing.gpu import Device
from graphbench.timing.timeline import Stamp

RATE_SPAN_NS: Final = 5_000_000
"""Time over which the rate of CUPTI's clock is judged, at least."""
RATE_SLACK_NS: Final = 1_000_000
RATE_TOLERANCE: Final = 0.001
"""Twice the rate at which a network's time may push the host's clock (500 millionths)."""
STAMP_TOLERANCE_NS: Final = 50_000_000
"""How far a record may lie outside the session. A foreign clock is off by years; the host's own may be stepped."""


class Attempt:
    """One session, and the making of its recording. Threads only append and take new ids.

    Args:
        instrument: CUPTI, already recording when `open` is called.
        devices: the devices that the session drains.
        timeline: whether the recording tells when everything happened.
    """

    def __init__(self, instrument: Instrument, devices: Device, *, timeline: bool = False) -> None:
        self._instrument = instrument
        self._devices = devices
        self.timeline = timeline
        self.dropped = 0
        # Ids that nobody else would push by chance: what the timed code labels of its own is then noticed.
        self._ids = itertools.count(secrets.randbits(40) << 20)
        self._opened: ClockReading | None = None
        self._closed: ClockReading | None = None
        self._decoded = Decoded()
        self._notes: tuple[str, ...] = ()
        self._preparation, self._opening, self._closing = next(self._ids), next(self._ids), next(self._ids)
        self.owners: dict[int, Owner] = dict.fromkeys((self._preparation, self._opening, self._closing), PREPARATION)
        self.mislaid: list[tuple[int, int | None]] = []
        self.stamps: list[Stamp] = []
        self.windows: list[WindowStamp] = []
        self.last_window: HostWindow | None = None
        self.replays: list[Replay] = []
        self.walls: dict[int, int] = defaultdict(int)

    def label(self, row: str, sample: int) -> _Label:
        """As in `base.Session`."""
        return _Label(self._instrument, self, row, sample)

    def preparation(self) -> _Pushed:
        """As in `base.Session`."""
        return _Pushed(self._instrument, self, self._preparation)

    def window(self, sample: int) -> _Window:
        """As in `base.Session`. The device is drained before the wall time starts and before it ends."""
        return _Window(self._devices, self, sample)

    def replay(self, sample: int, order: tuple[LaunchedWork, ...]) -> _Pushed:
        """As in `base.SplitsReplays`."""
        identifier = self.next_id()
        self.owners[identifier] = replay = Replay(sample, order)
        self.replays.append(replay)
        return _Pushed(self._instrument, self, identifier)

    def next_id(self) -> int:
        """An external id that no label of this session has."""
        return next(self._ids)

    def end_label(self, identifier: int) -> None:
        """Pop this thread's label, and whatever the timed code has left on top of it."""
        popped = self._instrument.pop(LABEL_KIND)
        if popped == identifier:
            return
        self.mislaid.append((identifier, popped))
        while popped not in (identifier, None):
            popped = self._instrument.pop(LABEL_KIND)

    def open(self) -> None:
        """Read the clock and launch the opening probe."""
        self._opened = self._instrument.read_clock()
        self._probe(self._opening)

    def close(self) -> None:
        """Launch the closing probe and drain."""
        self._probe(self._closing)
        self._devices.drain()

    def keep(self, dropped: int) -> None:
        """Take what the stopped instrument recorded, before another session makes it forget.

        Raises:
            ClockError: CUPTI's clock is not the host's.
            TimingError: records are damaged.
        """
        self.dropped = dropped
        if not dropped:
            self._decoded = self._instrument.decoded()
            self._closed = self._clock_after_a_while()
            self._notes = self._instrument.notes

    def recording(self) -> Recording:
        """Check the finished session and attribute its records.

        Raises:
            ClockError: time stamps are not nanoseconds of the host's clock.
            TimingError: known launches left no record, or records are damaged.
        """
        decoded = self._decoded
        self._check_labels()
        self._check_clock(decoded)
        self._check_probes(decoded)
        attribution = attribute(decoded.activities, decoded.external_ids, self.owners, self.windows)
        return Recording(
            timer="cupti",
            rows=self._rows(attribution),
            runs={sample: self._run(attribution, sample) for sample in self.walls},
            unattributed=attribution.unattributed,
            order=self._order(decoded),
            notes=self._notes,
            timeline=self._timeline(decoded) if self.timeline else (),
        )

    def _timeline(self, decoded: Decoded) -> tuple[TimelineEvent, ...]:
        if self.last_window is None:
            return ()
        return session_timeline(decoded, self.owners, self.stamps, self.windows, self.last_window)

    def _clock_after_a_while(self) -> ClockReading:
        """Read the clock no sooner than its rate can be judged."""
        closed = self._instrument.read_clock()
        if self._opened is not None and closed.steady_ns - self._opened.steady_ns < RATE_SPAN_NS:
            time.sleep(RATE_SPAN_NS / 1e9)
            closed = self._instrument.read_clock()
        return closed

    def _probe(self, identifier: int) -> None:
        with _Pushed(self._instrument, self, identifier):
            self._devices.probe()

    def _check_labels(self) -> None:
        """Every label must have been on top when it ended: else the timed code pushed or popped ids of our kind."""
        if self.mislaid:
            expected, found = self.mislaid[0]
            raise TimingError(
                f"{len(self.mislaid)} labels were not on top of their thread's stack when they ended: expected id "
                f"{expected}, found {'none' if found is None else found}",
                hint="the timed code uses CUPTI correlation ids of kind CUSTOM2 itself; let it use CUSTOM0 or CUSTOM1",
            )

    def _check_clock(self, decoded: Decoded) -> None:
        """CUPTI's clock follows the host's: it must have run like one that nobody sets. Stamps lie in the session."""
        opened, closed = self._opened, self._closed
        if opened is None or closed is None:
            raise ClockError("CUPTI's clock was not read at both ends of the session", hint="open and close it first")
        passed_ns, counted_ns = closed.steady_ns - opened.steady_ns, closed.cupti_ns - opened.cupti_ns
        if abs(counted_ns - passed_ns) > RATE_SLACK_NS + RATE_TOLERANCE * passed_ns:
            raise ClockError(
                f"CUPTI's clock counted {counted_ns / 1e6:.1f} ms while {passed_ns / 1e6:.1f} ms passed",
                hint="the host's clock was set while measuring: measure again; or torch.profiler replaced CUPTI's: "
                "measure in a fresh process",
            )
        earliest, latest = opened.host_ns - STAMP_TOLERANCE_NS, closed.host_ns + STAMP_TOLERANCE_NS
        for activity in decoded.activities:
            # A start of 0 means "no stamp", which attribution reports as what it is.
            if activity.start_ns and not (earliest <= activity.start_ns and activity.end_ns <= latest):
                raise ClockError(
                    f"{activity.name}: stamped {activity.start_ns} to {activity.end_ns} ns, outside the session "
                    f"({opened.host_ns} to {closed.host_ns} ns)",
                    hint="CUPTI's stamps are not nanoseconds of the host's clock; measure in a fresh process",
                    subject=activity.name,
                )

    def _check_probes(self, decoded: Decoded) -> None:
        """A known launch at either end must have left a labelled record; it tells a dead recording from idle work."""
        reached = {decoded.external_ids.get(activity.correlation_id) for activity in decoded.activities}
        probes = {"opening": self._opening, "closing": self._closing}
        missing = [when for when, probe in probes.items() if probe not in reached]
        if missing:
            client = self._instrument.other_client() or "another CUPTI client or a torch.profiler in the measured code"
            raise TimingError(
                f"CUPTI did not record the {' and the '.join(missing)} test launch of the session; found "
                f"{len(decoded.activities)} pieces of device work and {len(decoded.external_ids)} labels",
                hint=f"{client} takes the records; measure without it",
            )

    def _order(self, decoded: Decoded) -> tuple[LaunchedWork, ...]:
        if not self.windows:
            return ()
        last = self.windows[-1].sample
        labelled = []
        for activity in decoded.activities:
            owner = self.owners.get(decoded.external_ids.get(activity.correlation_id, 0))
            if isinstance(owner, tuple) and owner[1] == last:
                labelled.append((owner[0], activity))
        return launch_order(labelled)

    def _rows(self, attribution: Attribution) -> dict[str, dict[int, Sample]]:
        hosts: dict[tuple[str, int], list[int]] = defaultdict(list)
        for row, sample, start_ns, end_ns, _ in self.stamps:
            hosts[row, sample].append(end_ns - start_ns)
        rows: dict[str, dict[int, Sample]] = defaultdict(dict)
        for (row, sample), durations in hosts.items():
            cost = attribution.rows.get(row, {}).get(sample, NOTHING)
            rows[row][sample] = _sample(cost, durations)
        for replay in self.replays:
            for row in dict.fromkeys(step.row for step in replay.order):
                rows[row][replay.sample] = _sample(attribution.rows[row][replay.sample], None)
        return dict(rows)

    def _run(self, attribution: Attribution, sample: int) -> RunSample:
        cost = attribution.runs.get(sample, IDLE)
        replayed = any(replay.sample == sample for replay in self.replays)
        return RunSample(
            busy_ns=cost.busy_ns,
            wall_ns=self.walls[sample],
            unattributed_ns=cost.unattributed_ns,
            overlap_ns=cost.overlap_ns,
            beside_ns=cost.beside_ns if replayed else None,
            n_kernels=cost.n_kernels,
        )


def _sample(cost: DeviceCost, durations: Sequence[int] | None) -> Sample:
    return Sample(
        busy_ns=cost.busy_ns,
        host_ns=None if durations is None else sum(durations),
        span_ns=cost.span_ns,
        kernel_ns=cost.kernel_ns,
        copy_ns=cost.copy_ns,
        memset_ns=cost.memset_ns,
        n_kernels=cost.n_kernels,
        device_kernels=cost.work,
        calls=1 if durations is None else len(durations),
    )


class _Pushed:
    """Launches of this thread carry `identifier`."""

    __slots__ = ("_attempt", "_identifier", "_instrument")

    def __init__(self, instrument: Instrument, attempt: Attempt, identifier: int) -> None:
        self._instrument = instrument
        self._attempt = attempt
        self._identifier = identifier

    def __enter__(self) -> None:
        self._instrument.push(LABEL_KIND, self._identifier)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._attempt.end_label(self._identifier)


class _Label:
    """One labelled call, with an id of its own: repeats of a (row, sample) meet again in `owners`."""

    __slots__ = ("_attempt", "_identifier", "_instrument", "_row", "_sample", "_start_ns")

    def __init__(self, instrument: Instrument, attempt: Attempt, row: str, sample: int) -> None:
        self._instrument = instrument
        self._attempt = attempt
        self._row = row
        self._sample = sample

    def __enter__(self) -> None:
        self._identifier = identifier = self._attempt.next_id()
        self._attempt.owners[identifier] = (self._row, self._sample)
        self._instrument.push(LABEL_KIND, identifier)
        self._start_ns = perf_counter_ns()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        end_ns = perf_counter_ns()
        self._attempt.end_label(self._identifier)
        self._attempt.stamps.append((self._row, self._sample, self._start_ns, end_ns, get_ident()))


class _Window:
    """One whole run between two drains. `time.time_ns` is the clock of the records, `perf_counter_ns` never steps."""

    __slots__ = ("_attempt", "_devices", "_epoch_ns", "_sample", "_start_ns")

    def __init__(self, devices: Device, attempt: Attempt, sample: int) -> None:
        self._devices = devices
        self._attempt = attempt
        self._sample = sample

    def __enter__(self) -> None:
        self._devices.drain()
        self._epoch_ns = time.time_ns()
        self._start_ns = perf_counter_ns()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is not None:
            return
        left_ns = time.time_ns()
        self._devices.drain()
        end_ns = perf_counter_ns()
        wall_ns = end_ns - self._start_ns
        self._attempt.last_window = HostWindow(self._start_ns, end_ns, left_ns)
        self._attempt.windows.append(WindowStamp(self._sample, self._epoch_ns, self._epoch_ns + wall_ns))
        self._attempt.walls[self._sample] += wall_ns

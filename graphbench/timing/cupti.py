"""The CUDA instrument: device time of labelled work, from CUPTI's activity records.

A session fails closed: lost records, a foreign clock, another profiler, or a known launch that left no record make an
error, never a number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

from graphbench.errors import RecordsLostError, TimingError
from graphbench.measurements import CacheState, TimerName
from graphbench.put_back import put_back
from graphbench.timing import cupti_setup
from graphbench.timing.base import Opened, Recording, Session
from graphbench.timing.cache import L2
from graphbench.timing.cupti_library import Instrument
from graphbench.timing.cupti_session import Attempt
from graphbench.timing.gpu import CudaDevices, Device

BUFFER_BYTES: Final = 8 << 20
BUFFER_GROWTH: Final = 4


class CuptiTimer:
    """Times CUDA work with CUPTI. Labels are per thread: enter them in the thread that launches.

    Args:
        device: CUDA device with its index whose cache is cleared, as `cuda:0`.
        cache: what is in its L2 when an isolated sample starts.
        also: further devices that the measured work runs on; they are drained too.
        instrument: CUPTI; only tests give their own.
        devices: the devices; only tests give their own.

    Raises:
        SetupError: no CUDA device, or CUPTI is missing or of another CUDA major than torch.
        UsageError: an unknown cache state.
    """

    def __init__(
        self,
        device: str,
        cache: CacheState = "cold-read",
        *,
        also: Sequence[str] = (),
        instrument: Instrument | None = None,
        devices: Device | None = None,
    ) -> None:
        if devices is None:
            devices = CudaDevices((device, *also))
            devices.refuse_slices()
        self._devices = devices
        self._instrument = cupti_setup.load() if instrument is None else instrument
        self._l2 = L2(device, cache)

    @property
    def name(self) -> TimerName:
        """`cupti`."""
        return "cupti"

    @property
    def cache(self) -> CacheState:
        """The cache state given."""
        return self._l2.state

    @property
    def slows_launches(self) -> bool:
        """`True`: every traced launch costs the host some µs."""
        return True

    def synchronize(self) -> None:
        """Wait until all devices are idle."""
        self._devices.drain()

    def clear_cache(self) -> None:
        """Bring the L2 into the state given, on the current stream. Call it under `Session.preparation()`."""
        self._l2.clear()

    def record(self, body: Callable[[Session], None], *, repeats: int = 3) -> Recording:
        """Run `body` in a session and attribute what the device did. Runs it again while records are lost.

        Args:
            body: the work, which enters labels and windows.
            repeats: how often `body` may run again, each time with buffers four times as large.

        Raises:
            RecordsLostError: records were lost every time.
            ClockError: time stamps are not nanoseconds of the host's clock.
            TimingError: a profiler is running, CUPTI refuses, or known launches left no record.
        """
        lost: list[int] = []
        for repeat in range(1 + repeats):
            attempt = self._attempt(timeline=False)
            buffer_bytes = BUFFER_BYTES * BUFFER_GROWTH**repeat
            with self._recorded(attempt, buffer_bytes):
                body(attempt)
            if not attempt.dropped:
                return attempt.recording()
            lost.append(attempt.dropped)
        raise _lost(lost, buffer_bytes)

    @contextmanager
    def open(self, *, timeline: bool = False) -> Iterator[Opened]:
        """As in `base.Timer`; with a timeline, calls that wait for a device are traced too.

        Raises:
            ClockError: CUPTI's clock is not the host's.
            TimingError: a profiler is running, CUPTI refuses, or records are damaged. `recording()` raises the rest of
                what `record` raises.
        """
        attempt = self._attempt(timeline=timeline)
        opened = Opened(attempt)
        with self._recorded(attempt, BUFFER_BYTES):
            yield opened
        opened.close(partial(_complete, attempt))

    def _attempt(self, *, timeline: bool) -> Attempt:
        self._refuse_profiler("before the session")
        self._instrument.verify(self._devices)
        return Attempt(self._instrument, self._devices, timeline=timeline)

    @contextmanager
    def _recorded(self, attempt: Attempt, buffer_bytes: int) -> Iterator[None]:
        """Record what happens inside. Recording is off afterwards, whatever happens."""
        self._instrument.start(buffer_bytes, waits=attempt.timeline)
        try:
            with put_back(self._instrument.abort):
                attempt.open()
                yield
                attempt.close()
                self._refuse_profiler("inside the session")
                attempt.keep(self._instrument.stop())
        finally:
            self._instrument.abort()

    def _refuse_profiler(self, when: str) -> None:
        if self._devices.profiler_running():
            raise TimingError(
                f"torch.profiler is running {when}: it takes CUPTI's buffers and clock, nothing could be recorded",
                hint="leave the profiler's `with` block before measuring",
            )


def _complete(attempt: Attempt) -> Recording:
    if attempt.dropped:
        raise _lost([attempt.dropped], BUFFER_BYTES)
    return attempt.recording()


def _lost(dropped: Sequence[int], buffer_bytes: int) -> RecordsLostError:
    """The error of sessions that all lost records, the last with buffers of `buffer_bytes`."""
    return RecordsLostError(
        f"CUPTI lost {', '.join(map(str, dropped))} records in {len(dropped)} session(s), the last with buffers of "
        f"{buffer_bytes} bytes",
        hint="measure fewer samples or a smaller part of the model at once",
    )

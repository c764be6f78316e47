"""Timing events: the instrument of accelerators that are not CUDA, and on request a second opinion on CUDA.

Two events on a stream bracket what a label launches. They tell how long the device took from one to the other, not what
it did meanwhile: launch gaps count, kernels are neither named nor counted, and work on other streams is missed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from graphbench.analysis.stats import quantile
from graphbench.errors import SetupError, first_line
from graphbench.measurements import CacheState, TimerName
from graphbench.timing.base import Opened, Recording, Session
from graphbench.timing.cache import L2
from graphbench.timing.event_session import EventDevice, EventPool, EventSession, TimingEvent

FLOOR_PAIRS: Final = 20


class TorchEvents:
    """The events of one accelerator.

    Args:
        device: torch device with its index, as `xpu:0`.

    Raises:
        SetupError: it is not this process's accelerator, or its events keep no time.

    Source: `torch.Event(device, enable_timing=True)`, whose `record` without a stream takes the current *device*'s, so
        that one is always given; `torch.accelerator.current_stream`, `synchronize` (torch 2.11 to 2.14).
    """

    def __init__(self, device: str) -> None:
        import torch

        self._torch = torch
        self._device = torch.device(device)
        accelerator = torch.accelerator.current_accelerator(check_available=True)
        if accelerator is None or accelerator.type != self._device.type or self._device.index is None:
            raise SetupError(
                f"{device}: expected an index and the accelerator of this process, which is {accelerator or 'none'}",
                hint="pass the device that the tensors are on",
                subject=device,
            )
        try:
            self._try()
        except RuntimeError as error:
            raise SetupError(
                f"{device}: its events keep no time: {first_line(error)}",
                hint="graphbench times accelerators whose torch backend has timing events",
                subject=device,
            ) from error

    def event(self) -> TimingEvent:
        """A new `torch.Event`."""
        return self._torch.Event(self._device, enable_timing=True)

    def stream(self) -> object:
        """This thread's current stream of the device."""
        return self._torch.accelerator.current_stream(self._device)

    def drain(self) -> None:
        """Wait until the device is idle."""
        self._torch.accelerator.synchronize(self._device)

    def _try(self) -> None:
        first, second = self.event(), self.event()
        first.record(self.stream())
        second.record(self.stream())
        self.drain()
        first.elapsed_time(second)


class EventTimer:
    """Times a device with pairs of events. Labels may be entered from any thread.

    A label's `busy_ns` and `span_ns` are the same: the time between its events. What a window's labels do not claim is
    `wrapper_ns`: idle time or unlabelled work, which events cannot tell apart.

    Args:
        device: torch device with its index, as `cuda:0` or `xpu:0`.
        cache: what is in the device's L2 when an isolated sample starts; other devices than CUDA know only `warm`.
        events: the device's events; only tests give their own.

    Raises:
        SetupError: the device has no timing events.
        UsageError: a cache state that the device cannot be brought into.
    """

    def __init__(self, device: str, cache: CacheState, *, events: EventDevice | None = None) -> None:
        self._name: TimerName = "cuda-events" if device.startswith("cuda") else "device-events"
        self._l2 = L2(device, cache)
        self._events = TorchEvents(device) if events is None else events
        self._pool = EventPool(self._events)
        self._floor_ns: float | None = None

    @property
    def name(self) -> TimerName:
        """`cuda-events` on CUDA, `device-events` elsewhere."""
        return self._name

    @property
    def cache(self) -> CacheState:
        """The cache state given."""
        return self._l2.state

    @property
    def slows_launches(self) -> bool:
        """`True`: every label records two events."""
        return True

    @property
    def floor_ns(self) -> float:
        """What a pair of events around nothing reads on the idle device, median; taken once."""
        if self._floor_ns is None:
            session = EventSession(self._events, self._pool)
            for sample in range(FLOOR_PAIRS):
                self.synchronize()
                with session.label("", sample):
                    pass
            self.synchronize()
            pairs = session.finish(self._name, 0.0).rows[""]
            self._floor_ns = quantile([pair.busy_ns for pair in pairs.values()], 0.5)
        return self._floor_ns

    def synchronize(self) -> None:
        """Wait until the device is idle."""
        self._events.drain()

    def clear_cache(self) -> None:
        """Bring the L2 into the state given, on the current stream. Call it under `Session.preparation()`."""
        self._l2.clear()

    def record(self, body: Callable[[Session], None], *, repeats: int = 3) -> Recording:
        """Run `body` in a new session and return the times between its events. Events are never lost: it runs once.

        Raises:
            AttributionError: labels of one window overlap: they nested, or ran on several streams at once.
            ClockError: an event is stamped earlier than the one before it.
        """
        with self.open() as opened:
            body(opened.session)
        return opened.recording()

    @contextmanager
    def open(self, *, timeline: bool = False) -> Iterator[Opened]:
        """As in `base.Timer`; the timeline holds what the host did only. `recording()` raises what `record` raises."""
        floor_ns = self.floor_ns
        session = EventSession(self._events, self._pool)
        opened = Opened(session)
        yield opened
        self.synchronize()
        opened.close(partial(session.finish, self._name, floor_ns, timeline=timeline))

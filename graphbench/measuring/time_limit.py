"""A limit on how long a piece of work may take."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

from graphbench.errors import UnitTimeoutError
from graphbench.put_back import put_back

_SOON_S = 1e-3  # a timer of 0 would be none
_PARTS = 8


class _Expired(BaseException):
    """Raised where the work is; no `except Exception` of the user's code may swallow it."""


@contextlib.contextmanager
def time_limit(limit_s: float | None) -> Iterator[None]:
    """Interrupt what runs inside once it has taken `limit_s` seconds.

    Python code and calls that a signal interrupts are stopped at once; a call into C that goes on is stopped when it
    returns. Only the main thread hears signals: in another one, work is stopped by nobody and only found to have taken
    too long. A timer of the user's own that ends earlier is left alone, and one that ends later is set again. While
    the process is suspended, as by Ctrl-Z, work takes no time, but in another thread or beside an earlier timer.

    Raises:
        UnitTimeoutError: it took longer.

    Source: `signal.setitimer`, `signal.ITIMER_REAL`.
    """
    if limit_s is None:
        yield
        return
    start_s = time.monotonic()
    alarm = _Alarm(limit_s) if _hears_alarms(limit_s) else None
    try:
        with alarm.on() if alarm is not None else contextlib.nullcontext():
            yield
    except _Expired:
        raise _expired(limit_s) from None
    if alarm.left_s <= 0 if alarm is not None else time.monotonic() - start_s > limit_s:
        raise _expired(limit_s)


def _hears_alarms(limit_s: float) -> bool:
    """Whether this is the main thread, without a timer of the user's that ends earlier."""
    if threading.current_thread() is not threading.main_thread():
        return False
    return not 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= limit_s


class _Alarm:
    """Interrupts work after a time, counted in parts.

    A process that is suspended misses all rings but one, and so does a call that hears no signals. Beyond a part, only
    what was computed is counted.
    """

    def __init__(self, limit_s: float) -> None:
        self.left_s = limit_s
        self._part_s = limit_s / _PARTS
        self._set_s = self._computed_s = 0.0

    @contextlib.contextmanager
    def on(self) -> Iterator[None]:
        """While inside, the time runs; the user's own timer and handler are put back."""
        users_s, interval_s = signal.getitimer(signal.ITIMER_REAL)
        start_s = time.monotonic()
        before = signal.getsignal(signal.SIGALRM)

        def users_own() -> None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before if before is not None else signal.SIG_DFL)
            if users_s > 0:
                left_s = users_s - (time.monotonic() - start_s)
                signal.setitimer(signal.ITIMER_REAL, max(left_s, _SOON_S), interval_s)

        with put_back(users_own):
            signal.signal(signal.SIGALRM, self._ring)
            self._set()
            yield

    def _set(self) -> None:
        self._set_s, self._computed_s = time.monotonic(), time.thread_time()
        signal.setitimer(signal.ITIMER_REAL, max(min(self._part_s, self.left_s), _SOON_S))

    def _ring(self, number: int, frame: FrameType | None) -> None:
        taken_s, computed_s = time.monotonic() - self._set_s, time.thread_time() - self._computed_s
        self.left_s -= min(taken_s, max(self._part_s, computed_s))
        if self.left_s <= 0:
            raise _Expired
        self._set()


def _expired(limit_s: float) -> UnitTimeoutError:
    return UnitTimeoutError(
        f"timeout: not done after {limit_s:g} s", hint="raise unit_timeout_s, or measure fewer samples"
    )

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


class _Expired(BaseException):
    """Raised where the work is; no `except Exception` of the user's code may swallow it."""


@contextlib.contextmanager
def time_limit(limit_s: float | None) -> Iterator[None]:
    """Interrupt what runs inside once `limit_s` seconds have passed.

    Python code and calls that a signal interrupts are stopped at once; a call into C that goes on is stopped when it
    returns. Only the main thread hears signals: in another one, work is stopped by nobody and only found to have taken
    too long. A timer of the user's own that ends earlier is left alone, and one that ends later is set again.

    Raises:
        UnitTimeoutError: it took longer.

    Source: `signal.setitimer`, `signal.ITIMER_REAL`.
    """
    start_s = time.monotonic()
    if limit_s is None or threading.current_thread() is not threading.main_thread():
        yield
    else:
        try:
            with _alarm(limit_s):
                yield
        except _Expired:
            raise _expired(limit_s) from None
    if limit_s is not None and time.monotonic() - start_s > limit_s:
        raise _expired(limit_s)


@contextlib.contextmanager
def _alarm(limit_s: float) -> Iterator[None]:
    users_s, interval_s = signal.getitimer(signal.ITIMER_REAL)
    if 0 < users_s <= limit_s:
        yield
        return
    start_s = time.monotonic()
    before = signal.getsignal(signal.SIGALRM)

    def users_own() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before if before is not None else signal.SIG_DFL)
        if users_s > 0:
            left_s = users_s - (time.monotonic() - start_s)
            signal.setitimer(signal.ITIMER_REAL, max(left_s, _SOON_S), interval_s)

    with put_back(users_own):
        signal.signal(signal.SIGALRM, _on_alarm)
        signal.setitimer(signal.ITIMER_REAL, limit_s)
        yield


def _on_alarm(number: int, frame: FrameType | None) -> None:
    raise _Expired


def _expired(limit_s: float) -> UnitTimeoutError:
    return UnitTimeoutError(
        f"timeout: not done after {limit_s:g} s", hint="raise unit_timeout_s, or measure fewer samples"
    )

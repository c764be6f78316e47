"""Parts of a step that the user names: `with graphbench.phase("decode"):`. Costs next to nothing while none records."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter_ns
from types import TracebackType
from typing import NamedTuple

from graphbench.put_back import put_back
from graphbench.step_records import UserPhase


class PhaseClock:
    """What phases took while it listens. A thread without a phase of its own is in its maker's.

    Of a phase that began before, or goes on after, only the time in between counts.
    """

    def __init__(self) -> None:
        self._owner = threading.get_ident()
        self._owners_path = _Thread.path()
        self._began_ns = perf_counter_ns()
        self._spent: dict[str, tuple[int, float]] = {}
        self._going_on: dict[int, tuple[_Entered, ...]] = {self._owner: tuple(_Thread.entered)}

    def path(self) -> str:
        """The phase that the calling thread is in, `outer/inner`; empty when in none."""
        if not _Thread.entered:
            return self._owners_path
        self._going_on.setdefault(threading.get_ident(), tuple(_Thread.entered))
        return _Thread.path()

    def moved(self) -> None:
        """The calling thread entered or left a phase."""
        thread = threading.get_ident()
        self._going_on[thread] = tuple(_Thread.entered)
        if thread == self._owner:
            self._owners_path = _Thread.path()

    def add(self, phase: _Entered, end_ns: int) -> None:
        """One more call of a phase is over."""
        calls, before_ns = self._spent.get(phase.path, (0, 0.0))
        self._spent[phase.path] = (calls + 1, before_ns + end_ns - max(phase.start_ns, self._began_ns))

    def stop(self) -> None:
        """Stop listening; phases that go on end here, inner ones first."""
        now_ns = perf_counter_ns()
        for entered in tuple(self._going_on.values()):
            for phase in reversed(entered):
                self.add(phase, now_ns)

    def phases(self) -> tuple[UserPhase, ...]:
        """Every phase, in the order of first exit."""
        return tuple(UserPhase(name=path, calls=calls, host_ns=ns) for path, (calls, ns) in self._spent.items())


class NamedPhase:
    """A part of a step that the user names; see `graphbench.phase`. It may be entered again, also within itself."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        outer = _Thread.path()
        _Thread.entered.append(_Entered(f"{outer}/{self.name}" if outer else self.name, perf_counter_ns()))
        for clock in tuple(_CLOCKS):
            clock.moved()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        end_ns = perf_counter_ns()
        left = _Thread.entered.pop()
        for clock in tuple(_CLOCKS):
            clock.moved()
            clock.add(left, end_ns)


class _Entered(NamedTuple):
    """A phase that a thread is in."""

    path: str
    start_ns: int


class _Phases(threading.local):
    """The phases that the calling thread is in, the outermost first."""

    def __init__(self) -> None:
        self.entered: list[_Entered] = []

    def path(self) -> str:
        """The innermost; empty when in none."""
        return self.entered[-1].path if self.entered else ""


_Thread = _Phases()
_CLOCKS: list[PhaseClock] = []  # empty but while a step is recorded


@contextmanager
def phases_heard() -> Iterator[PhaseClock]:
    """While inside, the clock returned hears of every phase of every thread."""
    clock = PhaseClock()
    before = list(_CLOCKS)

    def unheard() -> None:
        _CLOCKS[:] = before

    with put_back(unheard):
        _CLOCKS.append(clock)
        yield clock
    clock.stop()

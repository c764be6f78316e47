"""Parts of a step that the user names: `with graphbench.phase("decode"):`. Costs next to nothing while none records."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter_ns
from types import TracebackType

from graphbench.step_records import UserPhase


class PhaseClock:
    """What the phases entered while it listens took. A thread without a phase of its own is in its maker's."""

    def __init__(self) -> None:
        self._owner = threading.get_ident()
        self._owners_path = _Thread.path
        self._spent: dict[str, tuple[int, float]] = {}

    def path(self) -> str:
        """The phase that the calling thread is in, `outer/inner`; empty when in none."""
        return _Thread.path or self._owners_path

    def moved(self, path: str) -> None:
        """The calling thread entered or left a phase and is in `path` now."""
        if threading.get_ident() == self._owner:
            self._owners_path = path

    def add(self, path: str, host_ns: float) -> None:
        """One more call of a phase is over."""
        calls, before_ns = self._spent.get(path, (0, 0.0))
        self._spent[path] = (calls + 1, before_ns + host_ns)

    def phases(self) -> tuple[UserPhase, ...]:
        """Every phase that was left, in the order of first exit."""
        return tuple(UserPhase(name=path, calls=calls, host_ns=ns) for path, (calls, ns) in self._spent.items())


class NamedPhase:
    """A part of a step that the user names; see `graphbench.phase`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        self._outer = _Thread.path
        self._path = f"{self._outer}/{self.name}" if self._outer else self.name
        _enter(self._path)
        self._start_ns = perf_counter_ns()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        host_ns = float(perf_counter_ns() - self._start_ns)
        _enter(self._outer)
        for clock in tuple(_CLOCKS):
            clock.add(self._path, host_ns)


class _Path(threading.local):
    path = ""


_Thread = _Path()
_CLOCKS: list[PhaseClock] = []  # empty but while a step is recorded


def _enter(path: str) -> None:
    _Thread.path = path
    for clock in tuple(_CLOCKS):
        clock.moved(path)


@contextmanager
def phases_heard() -> Iterator[PhaseClock]:
    """While inside, the clock returned hears of every phase of every thread."""
    clock = PhaseClock()
    _CLOCKS.append(clock)
    try:
        yield clock
    finally:
        _CLOCKS.remove(clock)

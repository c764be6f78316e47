"""Where in a step the host is: inside a compiled graph, or in the gap behind the one that ran last."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from time import perf_counter_ns

from graphbench.step_records import END, START, Place


@dataclass(slots=True)
class _Stay:
    """The stays in one place so far."""

    is_graph: bool
    calls: int = 0
    host_ns: float = 0.0
    followed_by: dict[str, None] = field(default_factory=dict)


@dataclass(slots=True)
class _Walk:
    """Where one thread is, since when, and how many graphs deep."""

    place: str
    since_ns: int
    inside: int = 0


class Places:
    """Follows a step from place to place, each of the user's threads by itself.

    Autograd's threads walk with the thread that recording began in, which waits for them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stays: dict[str, _Stay] = {}
        self._walks: dict[int, _Walk] = {}
        self._main = _Walk(START, 0)

    @property
    def current(self) -> str:
        """The place that the calling thread is in."""
        return self._walk().place

    @contextlib.contextmanager
    def thread(self) -> Iterator[None]:
        """A thread of the user's: the one that recording begins in, or one that works for it."""
        walk = _Walk(START, perf_counter_ns())
        with self._lock:
            self._main = self._main if self._walks else walk
            self._walks[threading.get_ident()] = walk
            self._stay(START, is_graph=False).calls += 1
        try:
            yield
        finally:
            with self._lock:
                self._leave(walk, END)
                if walk is not self._main:
                    del self._walks[threading.get_ident()]

    @contextlib.contextmanager
    def graph(self, key: str) -> Iterator[None]:
        """The calling thread is inside a compiled graph."""
        walk = self._walk()
        with self._lock:
            self._stay(key, is_graph=True).calls += 1  # first: whoever is interrupted here still leaves a known place
            walk.inside += 1
            if walk.inside == 1:
                self._leave(walk, key)
                walk.place = key
        start_ns = perf_counter_ns()
        try:
            yield
        finally:
            with self._lock:
                now_ns = perf_counter_ns()
                self._stays[key].host_ns += now_ns - start_ns
                walk.inside -= 1
                if not walk.inside:
                    following = f"after {key}"
                    self._stay(following, is_graph=False).calls += 1
                    walk.place, walk.since_ns = following, now_ns

    def _walk(self) -> _Walk:
        return self._walks.get(threading.get_ident(), self._main)

    def _leave(self, walk: _Walk, following: str) -> None:
        stay = self._stays[walk.place]
        if not stay.is_graph:
            stay.host_ns += perf_counter_ns() - walk.since_ns
            stay.followed_by[following] = None

    def _stay(self, key: str, *, is_graph: bool) -> _Stay:
        return self._stays.setdefault(key, _Stay(is_graph))

    def records(self) -> tuple[Place, ...]:
        """All places, in the order in which they were first reached."""
        return tuple(
            Place(
                key=key,
                kind="graph" if stay.is_graph else "gap",
                followed_by=tuple(stay.followed_by),
                calls=stay.calls,
                host_ns=stay.host_ns,
            )
            for key, stay in self._stays.items()
        )

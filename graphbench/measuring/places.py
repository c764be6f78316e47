"""Where in a step the host is: inside a compiled graph, or in the gap behind the one that ran last."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from time import perf_counter_ns

from graphbench.step_records import START, Place

END = "end"


@dataclass(slots=True)
class _Stay:
    """The stays in one place so far."""

    is_graph: bool
    calls: int = 0
    host_ns: float = 0.0
    followed_by: dict[str, None] = field(default_factory=dict)


class Places:
    """Follows a step from place to place. Graphs that run at once, in several threads, are one place after another."""

    def __init__(self) -> None:
        self.current = START
        self._lock = threading.Lock()
        self._inside = 0
        self._stays: dict[str, _Stay] = {}
        self._since_ns = 0

    def begin(self) -> None:
        """The step starts."""
        self._since_ns = perf_counter_ns()
        self._stay(START, is_graph=False).calls += 1

    def end(self) -> None:
        """The step is over."""
        self._leave(END)

    @contextlib.contextmanager
    def graph(self, key: str) -> Iterator[None]:
        """The host is inside a compiled graph."""
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._leave(key)
                self.current = key
            self._stay(key, is_graph=True).calls += 1
        start_ns = perf_counter_ns()
        try:
            yield
        finally:
            with self._lock:
                now_ns = perf_counter_ns()
                self._stays[key].host_ns += now_ns - start_ns
                self._inside -= 1
                if not self._inside:
                    self.current = f"after {key}"
                    self._since_ns = now_ns
                    self._stay(self.current, is_graph=False).calls += 1

    def _leave(self, following: str) -> None:
        gap = self._stays[self.current]
        gap.host_ns += perf_counter_ns() - self._since_ns
        gap.followed_by[following] = None

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

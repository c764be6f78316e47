"""The CPU's instrument: wall time inside labelled calls. What it cannot see (kernels, copies, spans) stays `None`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from time import perf_counter_ns
from types import TracebackType

from graphbench.errors import AttributionError
from graphbench.measurements import CacheState, TimerName
from graphbench.timing.base import Recording, RunSample, Sample, Session


class WallClock:
    """Times with `time.perf_counter_ns`. Labels may be entered from any thread, backward's autograd thread included.

    A label's `busy_ns` and `host_ns` are its wall time. A window's `wall_ns` is its wall time less the preparation
    inside it; `wrapper_ns` is what no label claims of it.
    """

    @property
    def name(self) -> TimerName:
        """`wallclock`."""
        return "wallclock"

    @property
    def cache(self) -> CacheState:
        """`warm`: nothing clears a CPU's caches."""
        return "warm"

    @property
    def slows_launches(self) -> bool:
        """`False`: two readings of a clock."""
        return False

    def record(self, body: Callable[[Session], None], *, repeats: int = 3) -> Recording:
        """Run `body` in a new session and return what its labels and windows took.

        Raises:
            AttributionError: labels of a window sum to more than its wall time: they nested, or ran at once.
        """
        session = _WallSession()
        body(session)
        return session.recording()

    def synchronize(self) -> None:
        """Nothing: a CPU call is over when it returns."""

    def clear_cache(self) -> None:
        """Nothing: the only cache state is `warm`."""


class _WallSession:
    """Stamps of one session. Appends and single reads only, so that threads need no lock in the timed path."""

    def __init__(self) -> None:
        self.stamps: list[tuple[str, int, int]] = []
        self.preparations: list[tuple[int, int]] = []
        self.windows: list[tuple[int, int, int]] = []

    def label(self, row: str, sample: int) -> _Label:
        return _Label(self.stamps, row, sample)

    def preparation(self) -> _Preparation:
        return _Preparation(self.preparations)

    def window(self, sample: int) -> _Window:
        return _Window(self.windows, sample)

    def recording(self) -> Recording:
        costs: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        labelled: dict[int, int] = defaultdict(int)
        for row, sample, duration_ns in self.stamps:
            costs[row][sample].append(duration_ns)
            labelled[sample] += duration_ns
        rows = {
            row: {
                sample: Sample(busy_ns=sum(durations), host_ns=sum(durations), calls=len(durations))
                for sample, durations in samples.items()
            }
            for row, samples in costs.items()
        }
        return Recording(timer="wallclock", rows=rows, runs=self._runs(labelled))

    def _runs(self, labelled: Mapping[int, int]) -> dict[int, RunSample]:
        walls: dict[int, int] = defaultdict(int)
        for sample, start_ns, end_ns in self.windows:
            prepared = sum(end - start for start, end in self.preparations if start_ns <= start and end <= end_ns)
            walls[sample] += end_ns - start_ns - prepared
        runs = {}
        for sample, wall_ns in walls.items():
            wrapper_ns = wall_ns - labelled.get(sample, 0)
            if wrapper_ns < 0:
                raise AttributionError(
                    f"sample {sample}: its labels sum to {labelled[sample]} ns, more than the run's {wall_ns} ns",
                    hint="labels must not nest, nor be open in two threads at once",
                )
            runs[sample] = RunSample(busy_ns=wall_ns, wall_ns=wall_ns, wrapper_ns=wrapper_ns)
        return runs


class _Label:
    """One labelled call. A class, not a generator: half the cost, and it is paid inside the wrapper's time."""

    __slots__ = ("_row", "_sample", "_stamps", "_start_ns")

    def __init__(self, stamps: list[tuple[str, int, int]], row: str, sample: int) -> None:
        self._stamps = stamps
        self._row = row
        self._sample = sample

    def __enter__(self) -> None:
        self._start_ns = perf_counter_ns()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        end_ns = perf_counter_ns()
        self._stamps.append((self._row, self._sample, end_ns - self._start_ns))


class _Preparation:
    __slots__ = ("_stamps", "_start_ns")

    def __init__(self, stamps: list[tuple[int, int]]) -> None:
        self._stamps = stamps

    def __enter__(self) -> None:
        self._start_ns = perf_counter_ns()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stamps.append((self._start_ns, perf_counter_ns()))


class _Window:
    __slots__ = ("_sample", "_stamps", "_start_ns")

    def __init__(self, stamps: list[tuple[int, int, int]], sample: int) -> None:
        self._stamps = stamps
        self._sample = sample

    def __enter__(self) -> None:
        self._start_ns = perf_counter_ns()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is None:
            self._stamps.append((self._sample, self._start_ns, perf_counter_ns()))

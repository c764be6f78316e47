"""One session through `CuptiTimer`, kept as it is before attribution, beside the counts of what was launched in it."""

from __future__ import annotations

import contextlib
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import torch

from graphbench.errors import TimingError
from graphbench.measurements import CacheState
from graphbench.measuring.environment import environment
from graphbench.measuring.options import Timers
from graphbench.timing.cupti import CuptiTimer
from graphbench.timing.cupti_library import ClockReading, Library
from graphbench.timing.cupti_records import Decoded
from graphbench.timing.cupti_session import Attempt
from graphbench.timing.gpu import CudaDevices
from graphbench.timing.wallclock import WallClock
from tests.recorded import RecordedSession

DEVICE: Final = "cuda:0"


class Tap:
    """CUPTI as graphbench uses it; keeps what passes through. The clock is read without a check of its value."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.forget()

    def forget(self) -> None:
        """Start over."""
        self.pushed: list[int] = []
        self.clock: list[ClockReading] = []
        self.dropped = 0
        self._decoded: Decoded | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.library, name)

    def push(self, kind: int, identifier: int, /) -> object:
        self.pushed.append(identifier)
        return self.library.push(kind, identifier)

    def stop(self) -> int:
        self.dropped = self.library.stop()
        return self.dropped

    def decoded(self) -> Decoded:
        if self._decoded is None:
            self._decoded = self.library.decoded()
        return self._decoded

    def read_clock(self) -> ClockReading:
        stamp = int(self.library._binding.get_timestamp())
        self.clock.append(ClockReading(stamp, time.time_ns(), time.perf_counter_ns()))
        return self.clock[-1]


class Scene:
    """Enters labels, and notes beside each what is launched there. `sample` None: outside of all windows."""

    def __init__(self, timer: CuptiTimer, tap: Tap) -> None:
        self.timer = timer
        self.tap = tap
        self.attempt: Attempt
        self._labelled: dict[tuple[str, int], Counter[str]] = defaultdict(Counter)
        self._unlabelled: dict[int | None, Counter[str]] = defaultdict(Counter)

    @contextlib.contextmanager
    def label(self, row: str, sample: int, **launched: int) -> Iterator[None]:
        """Label what is launched inside: `kernel`, `copy` and `memset` count it."""
        self._labelled[row, sample].update(launched)
        with self.attempt.label(row, sample):
            yield

    def unlabelled(self, sample: int | None, **launched: int) -> None:
        """Note what is launched under no label."""
        self._unlabelled[sample].update(launched)

    def expected(self) -> dict[str, Any]:
        """Counts by label and by sample."""
        return {
            "labelled": [[row, sample, dict(counts)] for (row, sample), counts in self._labelled.items()],
            "unlabelled": [[sample, dict(counts)] for sample, counts in self._unlabelled.items()],
        }


def record(
    tap: Tap,
    scenario: str,
    body: Callable[[Scene], None],
    *,
    devices: Sequence[str] = (DEVICE,),
    cache: CacheState = "warm",
    refused: str = "",
    **facts: object,
) -> RecordedSession:
    """Run `body` in one session. `refused` names the error that graphbench must answer it with.

    Raises:
        RuntimeError: it answered otherwise.
    """
    timer = CuptiTimer(devices[0], cache, also=devices[1:], instrument=tap, devices=CudaDevices(devices))
    scene = Scene(timer, tap)

    def run(session: Any) -> None:
        scene.attempt = session
        body(scene)

    tap.forget()
    answer: TimingError | None = None
    try:
        timer.record(run, repeats=0)
    except TimingError as error:
        answer = error
    if refused != (type(answer).__name__ if answer else ""):
        raise RuntimeError(f"{scenario}: expected {refused or 'no error'}, got {answer!r}") from answer
    decoded = tap.decoded()
    return RecordedSession(
        scenario=scenario,
        made_with=made_with(tap.library),
        activities=tuple(decoded.activities),
        external_ids=decoded.external_ids,
        owners=scene.attempt.owners,
        probes=(tap.pushed[0], tap.pushed[-1]),
        windows=tuple(scene.attempt.windows),
        clock=tuple(tap.clock),
        dropped=tap.dropped,
        expected=scene.expected() | {"refused": refused} | facts,
    )


def made_with(library: Library) -> dict[str, str]:
    """The versions that a reader of a recording needs."""
    found = environment(torch.device(DEVICE), (), Timers(WallClock(), WallClock()))
    return {
        "torch": found.torch,
        "cuda": str(found.cuda),
        "gpu": str(found.gpu),
        "driver": str(found.driver),
        "libcupti": library.version,
    }

"""The CUPTI timer under pressure: buffers too small, 200,000 kernels in one session, eight threads launching at once.

Bars (issue: timing): nothing lost, or said so; counts exact; decoding within 2 µs per record.
Run from the repository root: `python tests/benchmarks/pressure.py --output results.json`.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

import torch
from harness import DEVICE, Report, described, parser, spin
from judging import decoded_in_time, nothing_lost

from graphbench.errors import RecordsLostError
from graphbench.timing import cupti as cupti_timer
from graphbench.timing.base import Recording, Session
from graphbench.timing.cupti import CuptiTimer
from graphbench.timing.cupti_library import Library

LABELS, LAUNCHES = 1000, 200
THREADS, THREAD_LABELS, THREAD_LAUNCHES = 8, 50, 100
SMALL_LABELS = 50


def tiny_add() -> Callable[[], object]:
    """One short kernel on a tensor of its own."""
    x = torch.zeros(8, device=DEVICE)
    return lambda: x.add_(1)


def counts(recording: Recording) -> list[int | None]:
    """Kernels of every row."""
    return [samples[0].n_kernels for samples in recording.rows.values()]


def small_buffers(timer: CuptiTimer, buffer_bytes: int, growth: int) -> dict[str, Any]:
    """Record with buffers of `buffer_bytes`: how many sessions it took, and what came of it."""
    add = tiny_add()
    sessions = 0

    def body(session: Session) -> None:
        nonlocal sessions
        sessions += 1
        for row in range(SMALL_LABELS):
            with session.label(f"row {row}", 0):
                add()

    with (
        mock.patch.object(cupti_timer, "BUFFER_BYTES", buffer_bytes),
        mock.patch.object(cupti_timer, "BUFFER_GROWTH", growth),
    ):
        try:
            recording = timer.record(body)
        except RecordsLostError as error:
            return {"outcome": "refused", "sessions": sessions, "error": described(error), "met": True}
    found = _counted(recording, [1] * SMALL_LABELS)
    outcome = "exact" if found["exact"] else "wrong"
    return {"outcome": outcome, "sessions": sessions, **found, "met": nothing_lost(found)}


def _counted(recording: Recording, expected: list[int]) -> dict[str, Any]:
    """Whether every row has the kernels expected, and what no row has."""
    return {
        "exact": counts(recording) == expected,
        "unattributed": list(recording.unattributed),
        "dropped": recording.dropped,
    }


def many_kernels(timer: CuptiTimer) -> dict[str, Any]:
    """200,000 labelled kernels in one session: counts, host time per launch, decoding time per record."""
    add = tiny_add()
    launching_s: list[float] = []
    decoding: list[tuple[float, int]] = []

    def body(session: Session) -> None:
        start = time.perf_counter()
        for row in range(LABELS):
            with session.label(f"row {row}", 0):
                for _ in range(LAUNCHES):
                    add()
        torch.cuda.synchronize()
        launching_s.append(time.perf_counter() - start)

    decoded = Library.decoded

    def timed(library: Library) -> Any:
        start = time.perf_counter()
        found = decoded(library)
        decoding.append((time.perf_counter() - start, found.records))
        return found

    start = time.perf_counter()
    with mock.patch.object(Library, "decoded", timed):
        recording = timer.record(body)
    whole_s = time.perf_counter() - start
    seconds, records = decoding[-1]
    found = {
        "kernels": sum(count or 0 for count in counts(recording)),
        **_counted(recording, [LAUNCHES] * LABELS),
        "sessions": len(launching_s),
        "us_per_launch": launching_s[-1] / (LABELS * LAUNCHES) * 1e6,
        "us_per_launch_unrecorded": _unrecorded_us(add),
        "records": records,
        "decode_us_per_record": seconds / records * 1e6,
        "after_launching_s": whole_s - sum(launching_s),
        "notes": list(recording.notes),
    }
    return {**found, "met": nothing_lost(found) and decoded_in_time(found)}


def _unrecorded_us(add: Callable[[], object]) -> float:
    """Host time per launch with no session open."""
    start = time.perf_counter()
    for _ in range(LABELS * LAUNCHES // 4):
        add()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / (LABELS * LAUNCHES // 4) * 1e6


def many_threads(timer: CuptiTimer) -> dict[str, Any]:
    """Eight threads, each on a stream of its own, launch labelled kernels at once."""
    barrier = threading.Barrier(THREADS)
    adds = [tiny_add() for _ in range(THREADS)]
    streams = [torch.cuda.Stream(DEVICE) for _ in range(THREADS)]
    torch.cuda.synchronize()
    launching_s: list[float] = []

    def work(session: Session, thread: int) -> None:
        barrier.wait(timeout=30)
        with torch.cuda.stream(streams[thread]):
            for row in range(THREAD_LABELS):
                with session.label(f"thread {thread} row {row}", 0):
                    for _ in range(THREAD_LAUNCHES):
                        adds[thread]()

    def body(session: Session) -> None:
        start = time.perf_counter()
        with session.window(0), ThreadPoolExecutor(THREADS) as pool:
            for future in [pool.submit(work, session, thread) for thread in range(THREADS)]:
                future.result()
        launching_s.append(time.perf_counter() - start)

    recording = timer.record(body)
    found = {
        "rows": len(recording.rows),
        "kernels": sum(count or 0 for count in counts(recording)),
        **_counted(recording, [THREAD_LAUNCHES] * (THREADS * THREAD_LABELS)),
        "unattributed_ns": recording.runs[0].unattributed_ns,
        "overlap_ns": recording.runs[0].overlap_ns,
        "sessions": len(launching_s),
        "us_per_launch": launching_s[-1] / (THREADS * THREAD_LABELS * THREAD_LAUNCHES) * 1e6,
    }
    return {**found, "met": nothing_lost(found)}


def main() -> None:
    """Run every part and write one JSON file."""
    chosen = parser(__doc__).parse_args()
    torch.set_grad_enabled(False)
    report = Report(chosen.output)
    timer = CuptiTimer(DEVICE, "warm")
    spin(0.5)
    parts = [
        report.part("buffers_of_8_bytes", small_buffers, timer, 8, 1),
        report.part("buffers_of_64_bytes_growing", small_buffers, timer, 64, 4),
        report.part("200000_kernels", many_kernels, timer),
        report.part("eight_threads", many_threads, timer),
    ]
    report.found["met"] = all(found is not None and found["met"] for found in parts)
    report.write()
    print(json.dumps({key: value for key, value in report.found.items() if key != "environment"}, indent=1))


if __name__ == "__main__":
    main()

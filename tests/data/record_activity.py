"""Records sessions of a real GPU for `tests/unit/test_recorded_activity.py`: `python -m tests.data.record_activity`.

Run it from the repository root, with nothing else on the GPU. Every scenario launches a known number of kernels, copies
and fills under each label through `CuptiTimer`; what is written is what CUPTI recorded, before attribution.
"""
# ruff: noqa: T201

from __future__ import annotations

import argparse
import ctypes
import functools
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final
from unittest import mock

import torch

from graphbench.timing import cupti as cupti_timer
from graphbench.timing import cupti_setup
from graphbench.timing.cupti_records import LABEL_KIND
from tests.data.tapping import DEVICE, Scene, Tap, record
from tests.recorded import DATA, RecordedSession, dump

ELEMENTS: Final = 1 << 18
SAMPLES: Final = 3
SPIN_CYCLES: Final = 2_000_000  # about a millisecond: long against the time between two launches
SETTLE_S: Final = 0.002  # beyond the slack around a window
KERNEL_LOSING_BUFFER_BYTES: Final = 128  # copies, fills and labels fit, a kernel's record (216 bytes) does not
FOREIGN_ID: Final = 20_000_000_003


def tensor(device: str = DEVICE) -> torch.Tensor:
    """Small, and drained: its own fill is no part of what follows."""
    made = torch.ones(ELEMENTS, device=device)
    torch.cuda.synchronize(device)
    return made


def spin(cycles: int = SPIN_CYCLES) -> None:
    """One kernel of known length on the current stream. Source: `torch.cuda._sleep` (torch 2.11)."""
    torch.cuda._sleep(cycles)


def fill(target: torch.Tensor) -> None:
    """Fill by the driver, since torch fills with kernels. Source: `cuMemsetD8_v2` (libcuda), as in `timing.gpu`."""
    driver = ctypes.CDLL("libcuda.so.1").cuMemsetD8_v2
    driver.argtypes = [ctypes.c_uint64, ctypes.c_ubyte, ctypes.c_size_t]
    status = driver(target.data_ptr(), 0, target.nbytes)
    if status != 0:
        raise RuntimeError(f"cuMemsetD8 returned {status}, expected 0")


def labels(tap: Tap) -> RecordedSession:
    """Rows as they are timed alone: the L2 is flushed under preparation, and the device drained, before each."""
    x, y = tensor(), tensor()

    def one_of_each() -> None:
        x.add_(1)
        y.copy_(x)
        fill(y)

    def body(scene: Scene) -> None:
        for sample in range(SAMPLES):
            for row, call, launched in (
                ("add", lambda: x.add_(1), {"kernel": 1}),
                ("chain", lambda: x.mul_(2).add_(1).sin_(), {"kernel": 3}),
                ("copy", lambda: y.copy_(x), {"copy": 1}),
                ("fill", lambda: fill(y), {"memset": 1}),
                ("all", one_of_each, {"kernel": 1, "copy": 1, "memset": 1}),
                ("view", lambda: x.view(2, -1), {}),
            ):
                with scene.attempt.preparation():
                    scene.timer.clear_cache()
                scene.timer.synchronize()
                with scene.label(row, sample, **launched):
                    call()
                scene.timer.synchronize()

    return record(tap, "labels", body, cache="cold-read")


def windows(tap: Tap) -> RecordedSession:
    """Whole runs: two streams at once, unlabelled work in every window, and some between windows."""
    x = tensor()
    streams = [torch.cuda.Stream(DEVICE) for _ in range(2)]
    spin(1)  # loads the kernel

    def body(scene: Scene) -> None:
        for sample in range(SAMPLES):
            with scene.attempt.window(sample):
                for i, stream in enumerate(streams):
                    with torch.cuda.stream(stream), scene.label(f"stream {i}", sample, kernel=1):
                        spin()
                with scene.label("add", sample, kernel=1):
                    x.add_(1)
                scene.unlabelled(sample, kernel=2)
                x.mul_(2).sin_()
            time.sleep(SETTLE_S)
            scene.unlabelled(None, kernel=1)
            x.add_(1)
            scene.timer.synchronize()
            time.sleep(SETTLE_S)

    return record(tap, "windows", body, overlapping=["stream 0", "stream 1"])


def off_thread(tap: Tap) -> RecordedSession:
    """Forward and `backward()` under one label: autograd launches the backward from a thread of its own."""
    x, gradient = tensor().requires_grad_(), tensor()

    def step() -> None:
        x.exp().sin().backward(gradient)
        x.grad = None

    def body(scene: Scene) -> None:
        for sample in range(SAMPLES):
            with scene.attempt.window(sample), scene.label("step", sample, kernel=2):
                scene.unlabelled(sample, kernel=3)  # grad * cos(x) are two, grad * exp(x) is one
                step()

    step()
    return record(tap, "off_thread", body)


def two_threads(tap: Tap) -> RecordedSession:
    """Two threads that label and launch at once, each on its own stream; labels repeat within a sample."""
    repeats, names = 10, ("thread 0", "thread 1")
    tensors, streams = [tensor() for _ in names], [torch.cuda.Stream(DEVICE) for _ in names]
    together = threading.Barrier(len(names))

    def launch(scene: Scene, sample: int, i: int) -> None:
        together.wait()
        with torch.cuda.stream(streams[i]):
            for _ in range(repeats):
                with scene.label(names[i], sample, kernel=1 + i):
                    for _ in range(1 + i):
                        tensors[i].add_(1)

    def body(scene: Scene) -> None:
        with ThreadPoolExecutor(len(names)) as pool:
            for sample in range(SAMPLES):
                with scene.attempt.window(sample):
                    list(pool.map(functools.partial(launch, scene, sample), range(len(names))))

    return record(tap, "two_threads", body)


def graph_replay(tap: Tap) -> RecordedSession:
    """Two CUDA graphs replayed in every sample; then the same calls without graphs, each under its own row."""
    x, y = tensor(), tensor()
    first: dict[str, Callable[[], object]] = {name: getattr(x, f"{name}_") for name in ("sin", "cos", "exp", "neg")}
    first["add"] = functools.partial(x.add_, 1)
    second: dict[str, Callable[[], object]] = {"mul": functools.partial(x.mul_, 2), "copy": lambda: y.copy_(x)}
    captured = [capture(first), capture(second)]

    def body(scene: Scene) -> None:
        for sample in range(SAMPLES):
            with scene.attempt.window(sample):
                with scene.label("graph 0", sample, kernel=5):
                    captured[0].replay()
                with scene.label("graph 1", sample, kernel=1, copy=1):
                    captured[1].replay()
        with scene.attempt.window(SAMPLES):
            for name, call in (first | second).items():
                with scene.label(name, SAMPLES, **{"copy" if name == "copy" else "kernel": 1}):
                    call()

    return record(tap, "graph_replay", body, graphs={"graph 0": [*first], "graph 1": [*second]}, eager_sample=SAMPLES)


def capture(calls: dict[str, Callable[[], object]]) -> torch.cuda.CUDAGraph:
    """Capture the calls in order, after a first run that loads their kernels."""
    for call in calls.values():
        call()
    torch.cuda.synchronize(DEVICE)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls.values():
            call()
    return graph


def two_devices(tap: Tap) -> RecordedSession:
    """One label, two GPUs at work at the same time."""
    devices = ("cuda:0", "cuda:1")
    for device in devices:
        with torch.cuda.device(device):
            spin(1)  # loads the kernel there

    def body(scene: Scene) -> None:
        for sample in range(SAMPLES):
            with scene.attempt.window(sample), scene.label("both", sample, kernel=2):
                for device in devices:
                    with torch.cuda.device(device):
                        spin()

    return record(tap, "two_devices", body, devices=devices)


def lost(tap: Tap) -> RecordedSession:
    """Buffers that no kernel's record fits into: only copies, fills and labels arrive."""
    x, y = tensor(), tensor()

    def body(scene: Scene) -> None:
        for sample in range(SAMPLES):
            with scene.label("mixed", sample, kernel=1, copy=1, memset=1):
                x.add_(1)
                y.copy_(x)
                fill(y)
            scene.timer.synchronize()

    with mock.patch.object(cupti_timer, "BUFFER_BYTES", KERNEL_LOSING_BUFFER_BYTES):
        return record(tap, "lost", body, refused="RecordsLostError")


def other_ids(tap: Tap) -> RecordedSession:
    """The timed code pushes an external id of graphbench's kind, and pops it again."""
    x = tensor()

    def body(scene: Scene) -> None:
        with scene.label("add", 0, kernel=1):
            x.add_(1)
            tap.push(LABEL_KIND, FOREIGN_ID)
            x.sin_()
            tap.pop(LABEL_KIND)
        scene.timer.synchronize()

    return record(tap, "other_ids", body, refused="TimingError", foreign_id=FOREIGN_ID)


def bent_clock(tap: Tap) -> RecordedSession:
    """After a torch.profiler session, which sets CUPTI's clock to TSC ticks, without setting it back. Run it last."""
    x = tensor()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]):
        x.add_(1)
        torch.cuda.synchronize(DEVICE)

    def body(scene: Scene) -> None:
        for sample in range(SAMPLES):
            with scene.label("add", sample, kernel=1):
                x.add_(1)
            scene.timer.synchronize()
        time.sleep(SETTLE_S)

    repair = "activity_register_timestamp_callback"
    with mock.patch.object(tap.library._binding, repair, return_value=None):
        return record(tap, "bent_clock", body, refused="ClockError")


SCENARIOS: Final = (
    labels, windows, off_thread, two_threads, graph_replay, two_devices, lost, other_ids, bent_clock
)  # fmt: skip


def main() -> int:
    """Record all scenarios, or those named. Returns 1 when one failed; the others are written all the same."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("scenario", nargs="*", help="default: all, two_devices only where there are two GPUs")
    parser.add_argument("--output", type=Path, default=DATA, help="folder to write to (default: tests/data)")
    options = parser.parse_args()
    tap = Tap(cupti_setup.load())
    failed = 0
    for scenario in SCENARIOS:
        name = scenario.__name__
        if options.scenario and name not in options.scenario:
            continue
        if scenario is two_devices and torch.cuda.device_count() < 2:
            print(f"{name}: left out, it needs two GPUs")
            continue
        try:
            recorded = scenario(tap)
        except Exception:  # noqa: BLE001 - one scenario that fails must not cost the GPU time of the others
            failed += 1
            traceback.print_exc()
            continue
        file = dump(recorded, options.output)
        found = dict(Counter(activity.kind for activity in recorded.activities))
        print(f"{name}: {file.stat().st_size} bytes, recorded {found}, dropped {recorded.dropped}")
        print(f"  expected {recorded.expected}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())

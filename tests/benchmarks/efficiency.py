"""How much of `graphbench.measure()` is measuring: its wall time by the time spent in samples, flushes and warm-ups.

Bar (DESIGN section 8): at most 1.5, on ResNet-50 and Llama of reference_models.py, on the CPU on a small transformer.
Sampling is wall time, of which the host takes a part in launching and draining; `device_s` is the device's part alone:
the union of everything that was recorded, warm-ups, flushes and restored inputs included. Where the rest goes is shown
by function, each without what the others inside it took.
Run from the repository root: `python tests/benchmarks/efficiency.py --output results.json [--only llama]`.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import torch
from harness import Report, parser, table
from reference_models import llama, resnet50

import graphbench
from graphbench.models.demo import SmallTransformer
from graphbench.timing.base import Recording, Session
from graphbench.timing.cupti import CuptiTimer
from graphbench.timing.cupti_library import Library
from graphbench.timing.wallclock import WallClock

BAR = 1.5
TOP = 8
SAMPLING = "samples, flushes, warm-ups"
RUNS_MODULE = "graphbench.measuring.runs"
TIMED = {
    "graphbench.timing.loop:_Sampler.__call__": SAMPLING,
    "graphbench.timing.loop:_warm_up": SAMPLING,
    "graphbench.timing.host:host_times": "host times",
    "graphbench.timing.loop:_calibrate": "calibration",
    "graphbench.timing.loop:_amortised": "calibration",
    "graphbench.timing.cupti_library:Library.verify": "proving CUPTI",
    "graphbench.timing.cupti_library:Library.start": "opening sessions",
    "graphbench.timing.cupti_library:Library.stop": "flushing and closing sessions",
    "graphbench.timing.cupti_library:Library.decoded": "decoding",
    "graphbench.timing.cupti_session:Attempt.recording": "checks of the recording",
    "graphbench.provenance.correlation:attribute": "attribution",
    "graphbench.isolate.bench_unit:BenchUnit.__init__": "copies and trials",
    "graphbench.isolate.bench_unit:BenchUnit.compare": "comparing results",
    "graphbench.isolate.specs:unit_key": "keys of equal units",
    "graphbench.measuring.environment:environment": "environment",
    "graphbench.document:check": "checking the profile",
    "graphbench.measuring.region:RegionMeasuring.measure": "replays and the rest of a region",
}
"""What is timed, as `module:name`, and what it is called. A name that no longer exists is reported, not an error."""


class Stopwatch:
    """Seconds by name, nested ones subtracted from what they are nested in. Only of the thread that made it."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._nested_s: list[float] = []
        self._thread = threading.get_ident()

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, timed."""

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != self._thread:
                return function(*args, **kwargs)
            self._nested_s.append(0.0)
            start = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                whole_s = time.perf_counter() - start
                self.seconds[name] += whole_s - self._nested_s.pop()
                if self._nested_s:
                    self._nested_s[-1] += whole_s

        return call


@contextlib.contextmanager
def watched(watch: Stopwatch) -> Iterator[list[str]]:
    """Time everything in `TIMED`, and the whole runs of `measuring.runs`; yields the names that do not exist."""
    missing: list[str] = []
    importlib.import_module("graphbench.measuring.whole")  # and with it every module that is replaced in
    with contextlib.ExitStack() as stack:
        for target, name in TIMED.items():
            module_name, _, path = target.partition(":")
            owner: Any = importlib.import_module(module_name)
            *classes, attribute = path.split(".")
            for part in classes:
                owner = getattr(owner, part, None)
            function = getattr(owner, attribute, None)
            if function is None and name == SAMPLING:
                raise LookupError(f"{target} does not exist: without it the time spent sampling is unknown")
            if function is None:
                missing.append(target)
                continue
            replacement = watch.timed(name, function)
            if classes:
                _replace(stack, owner, attribute, replacement)
            for module in _importers(function) if not classes else ():
                _replace(stack, module, attribute, replacement)
        for timer in (CuptiTimer, WallClock):
            _replace(stack, timer, "record", _with_timed_runs(watch, timer))
        yield missing


def _importers(function: Any) -> list[Any]:
    """Modules of graphbench that have the function under its own name."""
    name = function.__name__
    ours = [module for key, module in sys.modules.items() if key.startswith("graphbench.")]
    return [module for module in ours if vars(module).get(name) is function]


def _replace(stack: contextlib.ExitStack, owner: Any, attribute: str, value: Any) -> None:
    stack.callback(setattr, owner, attribute, getattr(owner, attribute))
    setattr(owner, attribute, value)


def _with_timed_runs(watch: Stopwatch, kind: Any) -> Callable[..., Recording]:
    """`record` of a timer's class, with the labelled whole runs of `measuring.runs` timed as sampling."""
    record = kind.record

    def timed(timer: Any, body: Callable[[Session], None], **options: Any) -> Recording:
        if getattr(body, "__module__", "") == RUNS_MODULE:
            body = watch.timed(SAMPLING, body)
        found: Recording = record(timer, body, **options)
        return found

    return timed


@contextlib.contextmanager
def device_time() -> Iterator[list[int]]:
    """Per recorded session, the nanoseconds in which the device did anything; summing them up is part of no session."""
    sessions: list[int] = []
    decoded = Library.decoded

    def counted(library: Library) -> Any:
        found = decoded(library)
        end_ns = covered_ns = 0
        for start, end in sorted((activity.start_ns, activity.end_ns) for activity in found.activities):
            covered_ns += max(end - max(start, end_ns), 0)
            end_ns = max(end_ns, end)
        sessions.append(covered_ns)
        return found

    with contextlib.ExitStack() as stack:
        _replace(stack, Library, "decoded", counted)
        yield sessions


def small_transformer() -> Callable[[], Any]:
    """Two blocks, width 128, 8 x 64 tokens, on the CPU."""
    model = torch.compile(SmallTransformer().eval(), backend="graphbench")
    tokens = torch.randint(1000, (8, 64))

    def step() -> Any:
        with torch.no_grad():
            return model(tokens)

    return step


def efficiency(build: Callable[[], Callable[[], Any]]) -> dict[str, Any]:
    """Measure one model: wall time, the part spent sampling, and where the rest went."""
    graphbench.reset()
    torch.manual_seed(0)
    step = build()
    for _ in range(2):
        step()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    watch = Stopwatch()
    with watched(watch) as missing:
        start = time.perf_counter()
        profile = graphbench.measure(progress=False)
        wall_s = time.perf_counter() - start
    with device_time() as sessions:  # apart: it costs time of its own
        graphbench.measure(progress=False)
    sampling_s = watch.seconds.pop(SAMPLING, 0.0)
    rest = dict(sorted(watch.seconds.items(), key=lambda entry: -entry[1]))
    regions = profile.record.regions
    return {
        "wall_s": wall_s,
        "sampling_s": sampling_s,
        "device_s": sum(sessions) / 1e9 if sessions else None,
        "ratio": wall_s / sampling_s,
        "met": wall_s / sampling_s <= BAR,
        "rest_s": rest,
        "elsewhere_s": wall_s - sampling_s - sum(rest.values()),
        "rows": sum(len(region.nodes) + len(region.kernels) for region in regions),
        "not_found": missing,
    }


def main() -> None:
    """Measure the models asked for and write one JSON file."""
    models = {"resnet50": resnet50, "llama": llama, "transformer": small_transformer}
    options = parser(__doc__)
    options.add_argument("--only", action="append", choices=sorted(models))
    options.add_argument("--device", choices=["cpu", "cuda"], default="cuda", help="which models, without --only")
    chosen = options.parse_args()
    defaults = ["transformer"] if chosen.device == "cpu" else ["resnet50", "llama"]
    report = Report(chosen.output)
    for name in chosen.only or defaults:
        found = report.part(name, efficiency, models[name])
        if not found:
            continue
        print(f"\n{name}: {found['wall_s']:.2f} s, sampling {found['sampling_s']:.2f} s, ratio {found['ratio']:.2f}")
        rest = {**found["rest_s"], "elsewhere": found["elsewhere_s"]}
        top = sorted(rest.items(), key=lambda entry: -entry[1])[:TOP]
        print(table([{"part": part, "s": s, "% of wall": 100 * s / found["wall_s"]} for part, s in top]))
        print("not found:", found["not_found"])


if __name__ == "__main__":
    main()

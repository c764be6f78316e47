"""How much of `graphbench.measure()` is measuring: its wall time by the time spent in samples, flushes and warm-ups.

Bar (DESIGN section 8): at most 1.5, on ResNet-50 and Llama of reference_models.py. Where the rest goes is shown by
function, each without what the others inside it took.
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
from graphbench.timing.base import Recording, Session
from graphbench.timing.cupti import CuptiTimer

BAR = 1.5
TOP = 8
SAMPLING = "samples, flushes, warm-ups"
RUNS_MODULE = "graphbench.measuring.runs"
TIMED = {
    "graphbench.timing.loop:_Sampler.__call__": SAMPLING,
    "graphbench.timing.host:host_times": "host times",
    "graphbench.timing.loop:_calibrate": "calibration",
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
    "graphbench.measuring.region:measure_region": "replays and the rest of a region",
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
        _replace(stack, CuptiTimer, "record", _with_timed_runs(watch))
        yield missing


def _importers(function: Any) -> list[Any]:
    """Modules of graphbench that have the function under its own name."""
    name = function.__name__
    ours = [module for key, module in sys.modules.items() if key.startswith("graphbench.")]
    return [module for module in ours if vars(module).get(name) is function]


def _replace(stack: contextlib.ExitStack, owner: Any, attribute: str, value: Any) -> None:
    stack.callback(setattr, owner, attribute, getattr(owner, attribute))
    setattr(owner, attribute, value)


def _with_timed_runs(watch: Stopwatch) -> Callable[..., Recording]:
    """`CuptiTimer.record`, with the labelled whole runs of `measuring.runs` timed as sampling."""
    record = CuptiTimer.record

    def timed(timer: CuptiTimer, body: Callable[[Session], None], **options: Any) -> Recording:
        if getattr(body, "__module__", "") == RUNS_MODULE:
            body = watch.timed(SAMPLING, body)
        return record(timer, body, **options)

    return timed


def efficiency(build: Callable[[], Callable[[], Any]]) -> dict[str, Any]:
    """Measure one model: wall time, the part spent sampling, and where the rest went."""
    graphbench.reset()
    torch.manual_seed(0)
    step = build()
    for _ in range(2):
        step()
    torch.cuda.synchronize()
    watch = Stopwatch()
    with watched(watch) as missing:
        start = time.perf_counter()
        profile = graphbench.measure(progress=False)
        wall_s = time.perf_counter() - start
    sampling_s = watch.seconds.pop(SAMPLING, 0.0)
    rest = dict(sorted(watch.seconds.items(), key=lambda entry: -entry[1]))
    regions = profile.record.regions
    return {
        "wall_s": wall_s,
        "sampling_s": sampling_s,
        "ratio": wall_s / sampling_s,
        "met": wall_s / sampling_s <= BAR,
        "rest_s": rest,
        "elsewhere_s": wall_s - sampling_s - sum(rest.values()),
        "rows": sum(len(region.nodes) + len(region.kernels) for region in regions),
        "not_found": missing,
    }


def main() -> None:
    """Measure the models asked for and write one JSON file."""
    models = {"resnet50": resnet50, "llama": llama}
    options = parser(__doc__)
    options.add_argument("--only", action="append", choices=sorted(models))
    chosen = options.parse_args()
    report = Report(chosen.output)
    for name in chosen.only or list(models):
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

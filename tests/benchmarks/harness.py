"""What the benchmarks of the timing engine share: one call's time, parts that may fail, children with a time limit."""

from __future__ import annotations

import argparse
import functools
import json
import os
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from machine import environment
from tabulate import tabulate

from graphbench.analysis.stats import quantile
from graphbench.condition_records import Policy
from graphbench.errors import TimingError
from graphbench.measurements import Measurement
from graphbench.timing.base import Timer
from graphbench.timing.clocks import ClockSource, clock_source
from graphbench.timing.loop import measure

T = TypeVar("T")
DEVICE = "cuda:0"
POLICY = Policy(timer="cupti", cache="warm", values="captured", warmup=10, repeat=50)


@dataclass(slots=True)
class Call:
    """A `timing.loop.Unit` over a function that can be called again as it is."""

    name: str
    function: Callable[[], object]
    device: str = DEVICE
    may_launch_nothing: bool = False
    needs_restore: bool = False

    def prepare(self) -> None:
        """Nothing: the function overwrites its outputs."""

    def run(self) -> object:
        """Call it once."""
        return self.function()

    def allocations(self) -> int | None:
        """Device allocations so far."""
        return int(torch.cuda.memory_stats_as_nested_dict(self.device)["num_device_alloc"])


def measured(timer: Timer, name: str, function: Callable[[], object], policy: Policy = POLICY) -> Measurement:
    """One call's measurement, with samples.

    Raises:
        TimingError: whatever the engine raises, or the reason of a failed row.
    """
    found = measure(timer, Call(name, function), policy, clocks=_clocks())
    if found.samples is None:
        raise TimingError(f"{name}: {found.reason}")
    return found


@functools.cache
def _clocks() -> ClockSource:
    return clock_source(DEVICE)


def busy_p50_ns(found: Measurement) -> float:
    """Median busy time in nanoseconds."""
    assert found.samples is not None
    return quantile(found.samples.busy_ns, 0.5)


def spin(seconds: float) -> None:
    """Keep the GPU busy, so that what follows does not start at an idle clock."""
    a = torch.randn(2048, 2048, device=DEVICE, dtype=torch.bfloat16)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for _ in range(50):
            a @ a
        torch.cuda.synchronize()


def each(
    functions: Mapping[str, Callable[[], object]], figure: Callable[[str, Callable[[], object]], T]
) -> tuple[dict[str, T], dict[str, str]]:
    """One figure per function, and by name the errors of those that have none."""
    found: dict[str, T] = {}
    errors: dict[str, str] = {}
    for name, function in functions.items():
        try:
            found[name] = figure(name, function)
        except Exception as error:  # noqa: BLE001 - one kernel that fails does not lose the others
            errors[name] = described(error)
    return found, errors


def described(error: BaseException) -> str:
    """An error for the results file."""
    return f"{type(error).__name__}: {error}"


class Report:
    """The results of one script, written after every part, so that a later failure loses nothing."""

    def __init__(self, output: Path) -> None:
        self._output = output
        self._seconds: dict[str, float] = {}
        self.found: dict[str, Any] = {"environment": environment(), "seconds": self._seconds}

    def part(self, name: str, function: Callable[..., Any], *arguments: object) -> Any:
        """Run one part and keep what it returns; its error, if it fails.

        Returns:
            What the part returned, `None` when it failed.
        """
        start = time.perf_counter()
        try:
            found = self.found[name] = function(*arguments)
        except Exception as error:  # noqa: BLE001 - a part that fails is a result, and the others still run
            traceback.print_exc()
            found = None
            self.found[name] = {"error": described(error)}
        self._seconds[name] = round(time.perf_counter() - start, 2)
        self.write()
        return found

    def write(self) -> None:
        """Write everything found so far."""
        self._output.write_text(json.dumps(self.found, indent=1) + "\n")


def table(rows: list[dict[str, Any]]) -> str:
    """Rows of equal keys as text; `-` for what is missing."""
    return tabulate([list(row.values()) for row in rows], headers=list(rows[0]), floatfmt=".2f", missingval="-")


def parser(doc: str | None) -> argparse.ArgumentParser:
    """A parser with the option that all scripts have."""
    made = argparse.ArgumentParser(description=doc)
    made.add_argument("--output", type=Path, default=Path(os.devnull), help="results as JSON")
    return made

"""Runs benchmarks, each in a process of its own with a time limit, and keeps what each found. Imports no torch."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from tests.benchmarks.catalogue import SCRIPTS, Benchmark
from tests.benchmarks.children import ChildError, TooLongError, child
from tests.benchmarks.results_file import Part, Results, write

PROBE_LIMIT_S = 120.0
Child = Callable[..., str]


def probe(run: Child = child) -> tuple[dict[str, Any], list[str]]:
    """The environment of this machine and what it has.

    Raises:
        ChildError: torch cannot be imported.
    """
    said = json.loads(run(sys.executable, str(SCRIPTS / "machine.py"), limit_s=PROBE_LIMIT_S).splitlines()[-1])
    return said["environment"], said["has"]


def machine_name(environment: dict[str, Any]) -> str:
    """`h200_torch2.11`, or `cpu2_torch2.13` for two cores without GPU: what this machine's results are called."""
    torch = ".".join(str(environment["torch"]).split(".")[:2])
    if "gpu" not in environment:
        return f"cpu{environment['cores']}_torch{torch}"
    gpu = re.sub(r"[^a-z0-9]+", "-", str(environment["gpu"]).lower().removeprefix("nvidia ")).strip("-")
    return f"{gpu}_torch{torch}"


class Budget:
    """Seconds that one call may take; `None` without limit."""

    def __init__(self, seconds: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._end = None if seconds is None else clock() + seconds

    def left(self) -> float:
        """Seconds left."""
        return float("inf") if self._end is None else self._end - self._clock()


def plan(
    results: Results, chosen: Sequence[Benchmark], *, again: bool, has: Collection[str]
) -> tuple[list[Benchmark], list[str]]:
    """What to run, in the order given, and why the rest is not."""
    todo, left = [], []
    for benchmark in chosen:
        lacking = benchmark.lacks(has)
        if not Path(benchmark.command[0]).is_file():
            left.append(f"{benchmark.name}: {benchmark.command[0]} is not there; run this from the repository root")
        elif lacking:
            left.append(f"{benchmark.name}: {lacking}")
        elif results.finished(benchmark.name) and not again:
            left.append(f"{benchmark.name}: finished before")
        else:
            todo.append(benchmark)
    return todo, left


def run_all(
    results: Results,
    todo: Sequence[Benchmark],
    budget: Budget,
    output: Path,
    say: Callable[[str], None],
    run: Child = child,
) -> None:
    """Run one after the other while the budget lasts; results are written after each."""
    for benchmark in todo:
        left_s = budget.left()
        if benchmark.seconds > left_s:
            say(f"{benchmark.name}: for a later call: about {benchmark.seconds:.0f} s of {left_s:.0f} s left")
            continue
        say(f"{benchmark.name}: about {benchmark.seconds:.0f} s")
        part = run_one(benchmark, results.has, min(benchmark.limit_s, left_s), run)
        say(f"{benchmark.name}: {part.seconds:.0f} s{f', {part.error}' if part.error else ''}")
        results.parts[benchmark.name] = part
        write(results, output)


def run_one(benchmark: Benchmark, has: Collection[str], limit_s: float, run: Child = child) -> Part:
    """One script's result, or what it wrote before it failed, and why it did."""
    start, load = time.monotonic(), round(os.getloadavg()[0], 2)
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "found.json"
        device = "cuda" if "gpu" in has else "cpu"
        command = [part.format(device=device, output=written) for part in benchmark.command]
        error = ""
        try:
            run(sys.executable, *command, limit_s=limit_s)
        except TooLongError:
            error = f"did not end within {limit_s:.0f} s"
        except ChildError as failure:
            error = str(failure)[-1500:]
        found, unreadable = _read(written)
    seconds = round(time.monotonic() - start, 1)
    finished = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return Part(found, seconds, finished, error or unreadable, load)


def _read(written: Path) -> tuple[dict[str, Any], str]:
    try:
        return json.loads(written.read_text(encoding="utf-8")), ""
    except FileNotFoundError:
        return {}, "wrote no results"
    except ValueError as error:
        return {}, f"wrote results that are no JSON: {error}"

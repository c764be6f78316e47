"""What the supervisor and the journal of `graphbench run` cost: the same run with and without them.

Interleaved pairs of the whole command on a small model, kernels compiled before; the median of the ratios of wall
times. Every run has a journal, so its part of the wall time is taken from a run of its own, in which each entry that it
is given is timed. Bar (issue: survive everything): both together below 2 %. CPU times tell whether the machine was
shared.
Run from the repository root: `python tests/benchmarks/supervision.py --output results.json [--device cuda]`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from children import child

from graphbench.cli import main as graphbench_main
from graphbench.runs.journal import Journal

PAIRS = 5
LIMIT_S = 240.0
ARMS = {"supervised": (), "alone": ("--no-supervise",)}
MODEL = ("--custom-model-file", "examples/small_transformer.py", "--model-class", "SmallTransformer")


def command(device: str, output: Path, *flags: str) -> tuple[str, ...]:
    """What follows `graphbench`."""
    return ("run", *MODEL, "--device", device, "--output-dir", str(output), *flags)


def timed(arm: str, device: str, folder: Path) -> dict[str, float]:
    """Wall and CPU seconds of one whole command."""
    before, start = os.times(), time.perf_counter()
    output = folder / f"{arm}_{time.monotonic_ns()}"
    child(sys.executable, "-m", "graphbench", *command(device, output, *ARMS[arm]), limit_s=LIMIT_S)
    wall_s, after = time.perf_counter() - start, os.times()
    cpu_s = sum(getattr(after, part) - getattr(before, part) for part in ("children_user", "children_system"))
    return {f"{arm}_s": wall_s, f"{arm}_cpu_s": cpu_s}


def watch_journal(device: str, output: Path, found: Path) -> None:
    """The child's part: a run in this process, with every entry of its journal timed."""
    append, spent_ns, n_bytes = Journal.append, [], [0]

    def watched(journal: Journal, entry: Any) -> None:
        start_ns = time.perf_counter_ns()
        append(journal, entry)
        spent_ns.append(time.perf_counter_ns() - start_ns)
        n_bytes[0] = journal.size

    Journal.append = watched  # type: ignore[method-assign]
    start = time.perf_counter()
    code = graphbench_main(list(command(device, output, *ARMS["alone"])))
    wall_s = time.perf_counter() - start
    figures = {"entries": len(spent_ns), "bytes": n_bytes[0], "journal_s": sum(spent_ns) / 1e9, "wall_s": wall_s}
    found.write_text(json.dumps(figures))
    sys.exit(code)


def journal(device: str, folder: Path) -> dict[str, float]:
    """Entries, bytes and seconds of the journal of one run, and that run's wall time."""
    found = folder / "journal.json"
    options = ("--device", device, "--watch", str(folder / "watched"), "--output", str(found))
    child(sys.executable, str(Path(__file__)), *options, limit_s=LIMIT_S)
    figures: dict[str, float] = json.loads(found.read_text())
    return figures


def main() -> None:
    """Run the pairs and the watched run; write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path(os.devnull), help="results as JSON")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--watch", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.watch:
        watch_journal(options.device, options.watch, options.output)
    results: dict[str, Any] = {"device": options.device, "pairs": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "cache")
        timed("alone", options.device, folder)  # compiles the kernels that all others load
        results["journal"] = journal(options.device, folder)
        for pair in range(options.pairs):
            one: dict[str, float] = {}
            for arm in ARMS if pair % 2 else reversed(ARMS):
                one |= timed(arm, options.device, folder)
            results["pairs"].append(one)
            ratios = [found["supervised_s"] / found["alone_s"] for found in results["pairs"]]
            results["wall_ratio"] = statistics.median(ratios)
            options.output.write_text(json.dumps(results, indent=1) + "\n")
            print(json.dumps(one), flush=True)
    print(json.dumps({key: results[key] for key in ("journal", "wall_ratio")}, indent=1))


if __name__ == "__main__":
    main()

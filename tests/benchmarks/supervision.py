"""What the supervisor and the journal of `graphbench run` cost: the same run with and without them.

Interleaved pairs of the whole command on a small model, kernels compiled before; the median of the ratios of wall
times. Bar (issue: survive everything): below 2 %. CPU times beside them tell whether the machine was shared.
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

PAIRS = 7
LIMIT_S = 240.0
ARMS = {"supervised": (), "alone": ("--no-supervise",)}
MODEL = ("--custom-model-file", "examples/small_transformer.py", "--model-class", "SmallTransformer")


def timed(arm: str, device: str, folder: Path) -> dict[str, float]:
    """Wall and CPU seconds of one whole command."""
    output = folder / f"{arm}_{time.monotonic_ns()}"
    command = ("run", *MODEL, "--device", device, "--output-dir", str(output), *ARMS[arm])
    before, start = os.times(), time.perf_counter()
    child(sys.executable, "-m", "graphbench", *command, limit_s=LIMIT_S)
    wall_s, after = time.perf_counter() - start, os.times()
    cpu_s = sum(getattr(after, part) - getattr(before, part) for part in ("children_user", "children_system"))
    journal = output / "journal.jsonl"
    return {"wall_s": wall_s, "cpu_s": cpu_s, "journal_bytes": journal.stat().st_size if journal.exists() else 0}


def pairs(device: str, n: int, write: Any) -> None:
    """`n` pairs, the order turned round from pair to pair; `write` is given all so far."""
    found: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path(folder) / "cache")
        timed("alone", device, Path(folder))  # compiles the kernels that all others load
        for pair in range(n):
            one: dict[str, float] = {}
            for arm in ARMS if pair % 2 else reversed(ARMS):
                times = timed(arm, device, Path(folder))
                one |= {f"{arm}_s": times["wall_s"], f"{arm}_cpu_s": times["cpu_s"]}
                one[f"{arm}_journal_bytes"] = times["journal_bytes"]
            found.append(one)
            write(found)


def main() -> None:
    """Run the pairs and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path(os.devnull), help="results as JSON")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    options = parser.parse_args()

    def write(found: list[dict[str, float]]) -> None:
        ratios = [pair["supervised_s"] / pair["alone_s"] for pair in found]
        results = {"device": options.device, "wall_ratio": statistics.median(ratios), "pairs": found}
        options.output.write_text(json.dumps(results, indent=1) + "\n")
        print(json.dumps(found[-1]), f"ratio so far {results['wall_ratio']:.3f}")

    pairs(options.device, options.pairs, write)


if __name__ == "__main__":
    main()

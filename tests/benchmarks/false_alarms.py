"""Two runs of one model, again and again: how often `diff` calls a row of unchanged code faster or slower.

Each process compiles the demo's transformer, and measures it seven times; neighbouring profiles are compared, within a
process and across two. Stated rate, on a quiet machine: at most 1 % of comparisons have any such row.
Run from the repository root: `python tests/benchmarks/false_alarms.py --output results.json [--trials 20]`.
"""

from __future__ import annotations

import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

from children import child
from harness import Report, parser, table

import graphbench

TRIALS = 20
PER_PROCESS = 7
MEASURE_MS = 30.0
CHILD_LIMIT_S = 240.0
JUDGED = ("faster", "slower")


def measure_and_save(paths: list[Path]) -> None:
    """The child's part: compile once, measure once per path."""
    import torch

    from graphbench.models.demo import SmallTransformer

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    model = torch.compile(SmallTransformer().to(device).eval(), backend="graphbench")
    with torch.no_grad():
        for _ in range(2):
            model(torch.randint(0, 1000, (8, 64), device=device))
    for path in paths:
        found = graphbench.measure(subject="demo", progress=False, ceilings="off", warmup_ms=5.0, measure_ms=MEASURE_MS)
        found.save(path)


def compared(paths: list[Path]) -> dict[str, Any]:
    """Every pair of neighbours, and the rows of each that were judged although nothing changed."""
    alarms: list[dict[str, Any]] = []
    rows = trials = 0
    for before, after in pairwise(paths):
        found = graphbench.diff(before, after)
        judged = [*found.nodes, *found.fusions, *found.totals]
        rows, trials = rows + len(judged), trials + 1
        alarms += [
            {"pair": f"{before.stem}-{after.stem}", "row": _name(row), "verdict": row.verdict, "ratio": row.ratio}
            for row in judged
            if row.verdict in JUDGED
        ]
    return {
        "trials": trials,
        "rows": rows,
        "trials_with_an_alarm": len({alarm["pair"] for alarm in alarms}),
        "alarms": alarms,
    }


def _name(row: Any) -> str:
    return str(getattr(row, "name", None) or row)[:80]


def main() -> None:
    """Measure twice in each of enough processes, and compare neighbours."""
    options = parser(__doc__)
    options.add_argument("--trials", type=int, default=TRIALS)
    options.add_argument("--child", nargs="+", type=Path, help="measure, and save a profile at each path")
    chosen = options.parse_args()
    if chosen.child:
        measure_and_save(chosen.child)
        return
    report = Report(chosen.output)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{index:03}.json" for index in range(chosen.trials + 1)]

        def measured() -> dict[str, int]:
            for first in range(0, len(paths), PER_PROCESS):
                own = map(str, paths[first : first + PER_PROCESS])
                child(sys.executable, str(Path(__file__)), "--child", *own, limit_s=CHILD_LIMIT_S)
            return {"profiles": len(paths)}

        report.part("measured", measured)
        found = report.part("compared", compared, paths)
        if found:
            print(table([{key: found[key] for key in found if key != "alarms"}]))
            if found["alarms"]:
                print(table(found["alarms"]))


if __name__ == "__main__":
    main()

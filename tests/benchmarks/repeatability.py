"""The same profile twice: isolated medians of ResNet-50's nodes and kernels, in two processes and within one.

Bar (DESIGN section 8): 95 % of rows of 5 µs and more within 2 % between two processes.
Run from the repository root: `python tests/benchmarks/repeatability.py --output results.json`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from children import child
from harness import Report, busy_p50_ns, parser, table

import graphbench
from graphbench.measurements import Measurement
from graphbench.records import ProfileRecord

LEAST_NS = 5_000.0
WITHIN_PERCENT, SHARE_BAR_PERCENT = 2.0, 95.0
CHILD_LIMIT_S = 240.0
WORST = 15


def measure_and_save(paths: list[Path]) -> None:
    """The child's part: compile once, measure once per path."""
    import torch
    from reference_models import resnet50

    torch.manual_seed(0)
    step = resnet50()
    for _ in range(2):
        step()
    for path in paths:
        graphbench.measure(subject="resnet50", progress=False).save(path)


def isolated(record: ProfileRecord) -> dict[str, Measurement]:
    """Isolated measurements with samples, by region, kind of row and name."""
    rows: dict[str, Measurement] = {}
    for region in record.regions:
        named = [(f"{region.key} node {node.name}", node.isolated) for node in region.nodes]
        named += [(f"{region.key} kernel {kernel.key}", kernel.isolated) for kernel in region.kernels]
        rows |= {name: found for name, found in named if found.samples}
    return rows


def compared(first: Path, second: Path) -> dict[str, Any]:
    """How far the medians of two profiles lie apart: of rows that both have and that take 5 µs in the first.

    `own` leaves out rows measured in the place of an equal one, so that no number counts more than once.
    """
    one, other = (isolated(graphbench.load(path).record) for path in (first, second))
    rows = [_row(name, one[name], other[name]) for name in one if name in other]
    rows = [row for row in rows if row["first us"] * 1e3 >= LEAST_NS]
    own = [row for row in rows if one[row["row"]].shared_with is None]
    rows.sort(key=lambda row: -abs(row["difference %"]))
    return {
        "rows": len(rows),
        "within_2_percent": _share_percent(rows),
        "own_rows": len(own),
        "own_within_2_percent": _share_percent(own),
        "met": _share_percent(rows) >= SHARE_BAR_PERCENT,
        "only_in_one": sorted(one.keys() ^ other.keys()),
        "worst": rows[:WORST],
    }


def _row(name: str, one: Measurement, other: Measurement) -> dict[str, Any]:
    a, b = busy_p50_ns(one), busy_p50_ns(other)
    return {
        "row": name,
        "first us": a / 1e3,
        "second us": b / 1e3,
        "difference %": 100 * (b / a - 1) if a else 0.0,  # views: a measured nothing, left out as too short
        "warnings": ", ".join(sorted({*one.warnings, *other.warnings})),
    }


def _share_percent(rows: list[dict[str, Any]]) -> float:
    near = [row for row in rows if abs(row["difference %"]) <= WITHIN_PERCENT]
    return 100 * len(near) / len(rows)


def main() -> None:
    """Measure twice in one process and once in another, then compare."""
    options = parser(__doc__)
    options.add_argument("--child", nargs="+", type=Path, help="measure, and save a profile at each path")
    chosen = options.parse_args()
    if chosen.child:
        measure_and_save(chosen.child)
        return
    report = Report(chosen.output)
    with tempfile.TemporaryDirectory() as folder:
        first, again, second = (Path(folder) / f"{name}.json" for name in ("first", "again", "second"))

        def process(*paths: Path) -> dict[str, float]:
            child(sys.executable, str(Path(__file__)), "--child", *map(str, paths), limit_s=CHILD_LIMIT_S)
            return {path.name: path.stat().st_size for path in paths}

        report.part("first_process_bytes", process, first, again)
        report.part("second_process_bytes", process, second)
        for name, other in (("two_processes", second), ("one_process", again)):
            found = report.part(name, compared, first, other)
            if found:
                print(f"\n{name}: {json.dumps({key: found[key] for key in found if key != 'worst'}, indent=1)}")
                print(table(found["worst"]))


if __name__ == "__main__":
    main()

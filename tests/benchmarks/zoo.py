"""Runs `graphbench run` on models of torchvision, timm and transformers, unattended: a complete report, or why not.

Run from the repository root, as often as it takes:

    python tests/benchmarks/zoo.py --resume --max-seconds-per-model 40 --output tests/benchmarks/results/zoo_NAME.json

A model is stopped after that time; what was measured of it until then is its row, which says so. Imports no torch.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from tabulate import tabulate

sys.path.insert(0, str(Path(__file__).parents[2]))  # run as a script

from graphbench.analysis.summary import ProfileSummary, summary
from graphbench.cli.show import read_profile
from graphbench.errors import GraphbenchError
from graphbench.records import ProfileRecord
from tests.benchmarks.children import ChildError, TooLongError, child
from tests.benchmarks.zoo_models import MODELS, ZooEntry

MEASURING_PART = 0.3  # of a model's time; the rest is for building, compiling and recording it
SPARE_S = 8.0  # for the step's isolated ops, ceilings and reports, after measuring
REASONS_SHOWN = 6


def measured(entry: ZooEntry, device: str, limit_s: float, measuring_s: float) -> dict[str, Any]:
    """The row of one model: figures of its report, or why there is none.

    Args:
        entry: the model.
        device: where it runs.
        limit_s: when it is stopped.
        measuring_s: how long measuring may take of that.
    """
    with tempfile.TemporaryDirectory(prefix="graphbench-zoo-") as folder:
        out = Path(folder) / "out"
        words = ["run", *entry.words(device), "--max-seconds", f"{measuring_s:g}", "--no-progress"]
        started = time.monotonic()
        told: dict[str, Any] = {"command": " ".join(["graphbench", *words])}
        try:
            child(sys.executable, "-m", "graphbench", *words, "--output-dir", str(out), limit_s=limit_s + SPARE_S)
            told["outcome"] = "report"
        except TooLongError:
            told["outcome"] = f"stopped after {limit_s + SPARE_S:.0f} s"
            told["no_report"] = "it was still being built, compiled or called"
        except ChildError as error:
            told |= {"outcome": "failed", "error": str(error)[-1500:]}
        told["seconds"] = round(time.monotonic() - started, 1)
        try:
            record = read_profile(out)
        except GraphbenchError as error:
            return {"no_report": error.message.replace(str(folder), ""), **told}
        told.pop("no_report", None)
        return told | figures(record)


def figures(record: ProfileRecord) -> dict[str, Any]:
    """What a report says in a few numbers."""
    found = summary(record)
    step, total = record.step, found.total
    return {
        "torch": record.environment.torch,
        "regions": sum(region.status == "ok" for region in record.regions),
        "breaks": len(record.breaks),
        "nodes": found.nodes.captured,
        "nodes_timed": found.nodes.timed,
        "nodes_failed": found.nodes.failed,
        "kernels": found.kernels.total,
        "kernels_timed": found.kernels.timed,
        "kernels_failed": found.kernels.failed,
        "gap_ops": 0 if step is None else sum(row.kernel is None for row in step.rows),
        "attributed": _attributed(found),
        "unattributed": list(found.coverage.unattributed)[:REASONS_SHOWN],
        "dropped": found.coverage.dropped,
        "owned": _owned(found),
        "unknown_fates": list(found.unknown_fate)[:REASONS_SHOWN],
        "unfaithful": [name for name, _ in found.mismatches.unfaithful][:REASONS_SHOWN],
        "eager_ns": _sum(total.eager_in_graph_ns, total.eager_backward_in_graph_ns),
        "compiled_ns": _sum(total.forward_in_graph_ns, total.backward_in_graph_ns),
        "missing": reasons(found),
        "notes": [note for note in record.notes if not note.startswith("captured inputs hold")][:REASONS_SHOWN],
    }


def _attributed(found: ProfileSummary) -> float | None:
    """The smaller of the two coverages: of regions run alone, and of the recorded step."""
    parts = [found.coverage.attributed, found.step_coverage.attributed if found.step_coverage else None]
    known = [part for part in parts if part is not None]
    return min(known) if known else None


def _sum(forward_ns: float | None, backward_ns: float | None) -> float | None:
    return forward_ns if forward_ns is None or backward_ns is None else forward_ns + backward_ns


def _owned(found: ProfileSummary) -> float | None:
    time_ns = sum(entry.time_ns for entry in found.owners)
    return sum(entry.owned_ns for entry in found.owners) / time_ns if time_ns else None


def reasons(found: ProfileSummary) -> dict[str, int]:
    """Why rows have no time, with how many each."""
    counted = Counter(f"{entry.status} {entry.what}: {entry.reason}" for entry in found.not_measured)
    return dict(counted.most_common(REASONS_SHOWN))


def table(rows: dict[str, dict[str, Any]]) -> str:
    """All models that have a row, as Markdown."""
    headers = ["model", "outcome", "s", "regions", "nodes", "failed", "kernels", "failed", "gap ops", "attributed"]
    headers += ["owned", "eager µs", "compiled µs"]
    lines = []
    for name, row in rows.items():
        line: list[object] = [name, row["outcome"], row["seconds"]]
        if "nodes" not in row:
            lines.append([*line, row.get("no_report", "")])
            continue
        line += [row["regions"], f"{row['nodes_timed']}/{row['nodes']}", row["nodes_failed"]]
        line += [f"{row['kernels_timed']}/{row['kernels']}", row["kernels_failed"], row["gap_ops"]]
        line += [_percent(row["attributed"]), _percent(row["owned"])]
        alone = row.get("jobs", 1) == 1  # else others were at work on the device meanwhile
        lines.append([*line, *(_micro(row[key] if alone else None) for key in ("eager_ns", "compiled_ns"))])
    return tabulate(lines, headers=headers, tablefmt="github", disable_numparse=True)


def _percent(part: float | None) -> str:
    return "–" if part is None else f"{int(part * 10_000 + 1e-6) / 100:.2f} %"


def _micro(time_ns: float | None) -> str:
    return "–" if time_ns is None else f"{time_ns / 1000:.1f}"


def run(
    entries: Sequence[ZooEntry], options: argparse.Namespace, measure: Callable[..., dict[str, Any]] = measured
) -> dict[str, dict[str, Any]]:
    """Measure what has no row yet, as far as the time reaches; the file is written after every model."""
    output: Path = options.output
    rows: dict[str, dict[str, Any]] = {}
    if output.is_file() and options.resume:
        rows = json.loads(output.read_text(encoding="utf-8"))
    ends = time.monotonic() + options.budget_seconds
    wanted = [entry for entry in entries if options.again or entry.name not in rows]

    def one(entry: ZooEntry) -> dict[str, Any] | None:
        if time.monotonic() + options.max_seconds_per_model > ends:
            return None
        limit_s = options.max_seconds_per_model
        measuring_s = options.max_measuring_seconds or MEASURING_PART * limit_s
        return {**measure(entry, options.device, limit_s, measuring_s), "jobs": options.jobs}

    with ThreadPoolExecutor(options.jobs) as pool:
        started = {pool.submit(one, entry): entry for entry in wanted}
        for done in as_completed(started):
            row = done.result()
            if row is None:
                continue
            rows[started[done].name] = row
            print(json.dumps({started[done].name: row}, ensure_ascii=False), flush=True)
            output.parent.mkdir(parents=True, exist_ok=True)
            output.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    left = [entry.name for entry in wanted if entry.name not in rows]
    if left:
        print(f"out of time for {len(left)}: call it again with --resume", file=sys.stderr)
    return {entry.name: rows[entry.name] for entry in entries if entry.name in rows}


def main() -> None:
    """Run models, or print the table of those that ran."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--resume", action="store_true", help="keep the rows that are in the file")
    parser.add_argument("--again", action="store_true", help="measure chosen models anew, though they have a row")
    parser.add_argument("--max-seconds-per-model", type=float, default=40.0)
    parser.add_argument("--max-measuring-seconds", type=float, help="of these; default: 0.3 of them")
    parser.add_argument("--budget-seconds", type=float, default=float("inf"), help="start no model after that")
    parser.add_argument(
        "--jobs", type=int, default=1, help="models at once: for coverage, their times disturb each other"
    )
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--only", default="*", help="models whose name matches, comma-separated")
    parser.add_argument("--table", action="store_true", help="print the table of the file, and run nothing")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    if options.table:
        print(table(json.loads(options.output.read_text(encoding="utf-8"))))
        return
    patterns = options.only.split(",")
    chosen = [entry for entry in MODELS if any(fnmatch.fnmatchcase(entry.name, want) for want in patterns)]
    print(table(run(chosen, options)))


if __name__ == "__main__":
    main()

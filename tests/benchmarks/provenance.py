"""Owners and fates of the model suite beside what upstream's own provenance tells, from recorded graphs.

Run from the repository root: `python tests/benchmarks/provenance.py [--recorded tests/data/provenance] [--output F]`.
Record first with `tests/data/record_provenance.py`; nothing is compiled or timed here.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.recorded_provenance import read, regions  # noqa: E402
from tests.suite.owners import executed_times, not_once, unowned  # noqa: E402


def main() -> None:
    """Print one line a model and mode, and write them as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recorded", type=Path, default=ROOT / "tests" / "data" / "provenance")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    found = {path.name.removesuffix(".json.gz"): figures(read(path)) for path in sorted(options.recorded.glob("*.gz"))}
    columns = list(next(iter(found.values())))
    lines = ["  ".join([f"{'model':30s}", *columns])]
    lines += [
        "  ".join([f"{name:30s}", *(f"{row[column]:>{len(column)}}" for column in columns)])
        for name, row in found.items()
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    if options.output:
        options.output.write_text(json.dumps(found, indent=1) + "\n")


def figures(recorded: Mapping[str, Any]) -> dict[str, int]:
    """Counts of one recorded model.

    `up_` columns are upstream's: kernels for which `create_kernel_information_json` names no node of the user's graph,
    kernels of other graphs that it lists beside a graph's own, and computing nodes that it names for no kernel.
    """
    found = dict.fromkeys(
        ("kernels", "unowned", "nodes", "unknown", "not_once", "recomputed", "up_unowned", "up_foreign", "up_unknown"),
        0,
    )
    told = iter(recorded["upstream"])
    for region in regions(recorded):
        compute = {node.name for node in region.nodes if node.kind == "compute"}
        post_grad = [node for graph in region.graphs for node in graph.post_grad]
        named: set[str] = set()
        for graph in region.graphs:
            kernels = next(told)["kernels"]
            own = {kernel.key for kernel in graph.kernels}
            found["up_foreign"] += len(set(kernels) - own)
            pre_grad = {key: set(kernels.get(key, {}).get("pre_grad_nodes", ())) for key in own}
            named |= set().union(*pre_grad.values())
            found["up_unowned"] += sum(not names for names in pre_grad.values())
            found["up_unowned"] += sum(site.handle is None for site in graph.sites)
        found["kernels"] += len(region.kernels)
        found["unowned"] += len(unowned(region.kernels))
        found["nodes"] += len(compute)
        found["unknown"] += sum(region.fates[name].kind == "unknown" for name in compute)
        found["not_once"] += len(not_once(executed_times(post_grad, region.kernels)))
        found["recomputed"] += sum(len(kernel.recomputes) for kernel in region.kernels)
        found["up_unknown"] += len(compute - named)
    return found


if __name__ == "__main__":
    main()

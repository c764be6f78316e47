"""What CUDA graphs change: kernels, host, wall and idle time of ResNet-50 and of a decode step of Llama.

Bar: under replay the sum of the kernels is within 3 % of that of the same run without graphs. Run from the repository
root: `python tests/benchmarks/cuda_graphs.py --out results.json [--only decode]`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from machine import environment
from tabulate import tabulate

import graphbench
from graphbench.analysis.stats import quantile
from graphbench.measurements import Measurement
from graphbench.records import RegionRecord

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.decode_step import decode_step

BAR_PERCENT = 3.0
MODES = ("default", "reduce-overhead")
QUICK: dict[str, Any] = {"repeat": 50, "warmup": 5, "progress": False}
Step = Callable[[], object]


def resnet50(mode: str) -> Step:
    """ResNet-50 of torchvision, batch 16, fp32 with tf32 matmuls, no_grad."""
    import torchvision

    torch.set_float32_matmul_precision("high")
    model = torch.compile(torchvision.models.resnet50().cuda().eval(), backend="graphbench", mode=mode)
    image = torch.randn(16, 3, 224, 224, device="cuda")

    def step() -> object:
        with torch.no_grad():
            return model(image)

    return step


def decode(mode: str) -> Step:
    """One token of a four-layer Llama, static cache, batch 1, bf16."""
    return decode_step(device="cuda", dtype=torch.bfloat16, mode=mode)


MODELS: dict[str, Callable[[str], Step]] = {"resnet50": resnet50, "decode": decode}


def figures(region: RegionRecord) -> dict[str, Any]:
    """Medians in microseconds; `None` where there is no such run."""
    side = region.forward
    rows = [_median(row.in_graph, "busy_ns") for row in region.kernels if row.phase == "forward"]
    kernels_us = sum(row for row in rows if row is not None)
    found: dict[str, Any] = {
        "kernels": len(rows),
        "graph_nodes": side.graph_nodes,
        "kernels_us": kernels_us,
        **_run(side.plain, side.host_ns, side.wall_ns),
        "beside_us": quantile(side.run.beside_ns, 0.5) / 1e3 if side.run and side.run.beside_ns else None,
        "notes": list(region.notes),
        "reason": side.reason,
    }
    if side.uncaptured is not None:
        bare = _run(side.uncaptured.plain, side.uncaptured.host_ns, side.uncaptured.wall_ns)
        found |= {f"uncaptured_{name}": value for name, value in bare.items()}
        busy_us = bare["busy_us"]
        found["difference_percent"] = 100 * (kernels_us / busy_us - 1) if busy_us else None
    return found


def _run(plain: Measurement, host_ns: tuple[float, ...], wall_ns: tuple[float, ...]) -> dict[str, float | None]:
    busy_us, span_us = _median(plain, "busy_ns"), _median(plain, "span_ns")
    return {
        "busy_us": busy_us,
        "idle_us": None if busy_us is None or span_us is None else span_us - busy_us,
        "host_us": quantile(host_ns, 0.5) / 1e3 if host_ns else None,
        "wall_us": quantile(wall_ns, 0.5) / 1e3 if wall_ns else None,
    }


def _median(measurement: Measurement, column: str) -> float | None:
    samples = getattr(measurement.samples, column, None)
    return quantile(samples, 0.5) / 1e3 if samples else None


def run(name: str, mode: str) -> dict[str, Any]:
    """Measure one model in one mode; a fault is its `error`."""
    graphbench.reset()
    step = MODELS[name](mode)
    for _ in range(4):
        step()
    profile = graphbench.measure(**QUICK)
    found = [figures(region) for region in profile.record.regions if region.status == "ok"]
    failed = [region.reason for region in profile.record.regions if region.status != "ok"]
    return {"model": name, "mode": mode, "regions": found, "failed": failed, "report": str(profile).splitlines()[:30]}


def main() -> int:
    """Measure, print a table, store the figures; 1 where a sum of kernels is off by more than the bar."""
    parsed = argparse.ArgumentParser(description=__doc__)
    parsed.add_argument("--out", type=Path)
    parsed.add_argument("--only", choices=sorted(MODELS))
    given = parsed.parse_args()
    results = [run(name, mode) for name in MODELS if given.only in (None, name) for mode in MODES]
    columns = (
        *("kernels", "graph_nodes", "kernels_us", "uncaptured_busy_us", "difference_percent", "host_us"),
        *("uncaptured_host_us", "idle_us", "uncaptured_idle_us", "wall_us", "uncaptured_wall_us", "beside_us"),
    )
    lines = [
        [result["model"], result["mode"], *(region.get(column) for column in columns)]
        for result in results
        for region in result["regions"]
    ]
    print(tabulate(lines, headers=["model", "mode", *columns], floatfmt=".1f"))
    for result in results:
        print(f"\n{result['model']}, {result['mode']}:", *result["report"], *result["failed"], sep="\n  ")
    if given.out is not None:
        given.out.write_text(json.dumps({"environment": environment(), "results": results}, indent=1) + "\n")
    return int(not _reached(results))


def _reached(results: list[dict[str, Any]]) -> bool:
    """Whether every run in graphs was one, and its kernels took what they take without."""
    replayed = [region for result in results if result["mode"] != "default" for region in result["regions"]]
    off = [region.get("difference_percent") for region in replayed]
    return bool(off) and all(value is not None and abs(value) <= BAR_PERCENT for value in off)


if __name__ == "__main__":
    sys.exit(main())

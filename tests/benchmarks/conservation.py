"""Do rows add up to their runs, has all kernel time an owner, is every equal unit measured once? From whole profiles.

Two small models trained for a step, or the twelve of tests/suite in one mode (`--suite training`), of which also every
fault of the map is listed (`tests/suite/checks.py`).
Run from the repository root: `python tests/benchmarks/conservation.py --output results.json [--device cuda]`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from harness import Report, parser, table
from torch import nn

import graphbench
from graphbench.models.demo import SmallTransformer
from graphbench.records import ProfileRecord

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.benchmarks.figures import figures  # noqa: E402
from tests.suite.checks import MODES, faults, measured  # noqa: E402
from tests.suite.models import MODELS as SUITE  # noqa: E402

FEW = {"repeat": 5, "warmup": 2}
SHOWN = (
    *("run", "rows", "wall_ms", "plain_wall_ms", "busy_ms"),
    *("rows_against_total_percent", "kernels_percent", "attributed_percent"),
)
WIDTH, BATCH, TOKENS = 1024, 256, (16, 64)


def mlp(device: str) -> ProfileRecord:
    """Four linear layers with GELU between, long enough for its wrapper to matter little."""
    layers = [layer for _ in range(4) for layer in (nn.Linear(WIDTH, WIDTH), nn.GELU())]
    return _trained(nn.Sequential(*layers), torch.randn(BATCH, WIDTH, device=device), device)


def transformer(device: str) -> ProfileRecord:
    """Three equal blocks: what is measured for one is shown for the others."""
    return _trained(SmallTransformer(layers=3), torch.randint(1000, TOKENS, device=device), device)


def _trained(model: nn.Module, batch: torch.Tensor, device: str) -> ProfileRecord:
    graphbench.reset()
    torch.manual_seed(0)
    compiled = torch.compile(model.to(device).train(), backend="graphbench")
    for _ in range(2):
        compiled(batch).float().square().mean().backward()
    return graphbench.measure(progress=False, **FEW).record


def of_suite(name: str, mode: str, device: str) -> dict[str, Any]:
    """One model of the suite in one mode: its figures, and every fault of its map."""
    record = measured(name, mode, device, **FEW)
    return figures(record) | {"faults": faults(record, mode)}


def of_model(build: Callable[[str], ProfileRecord], device: str) -> dict[str, Any]:
    """One small model's figures."""
    return figures(build(device))


def main() -> None:
    """Measure what is asked for; write one JSON file and print a table."""
    options = parser(__doc__)
    options.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    options.add_argument("--suite", choices=MODES, help="the twelve models of tests/suite, in this mode")
    options.add_argument("--only", action="append", help="this model; repeatable")
    chosen = options.parse_args()
    report = Report(chosen.output)
    rows = []
    names = list(SUITE) if chosen.suite else ["mlp", "transformer"]
    for name in chosen.only or names:
        if chosen.suite:
            found = report.part(name, of_suite, name, chosen.suite, chosen.device)
        else:
            found = report.part(name, of_model, {"mlp": mlp, "transformer": transformer}[name], chosen.device)
        rows += [{"model": name, **{key: run[key] for key in SHOWN}} for run in (found["runs"] if found else ())]
    if rows:
        print(table(rows))


if __name__ == "__main__":
    main()

"""Peak memory of `graphbench.measure()` against the step's own, and a model at the edge of a GPU's memory.

Bar (DESIGN section 8): the peak of `measure()` is at most 1.25 times the step's peak, twice the L2 and the arguments of
the largest unit together. At the edge: about 100 GiB of weights and activations, measured to the end; rows that did not
fit are named. Run from the repository root: `python tests/benchmarks/memory.py --output results.json [--only edge]`.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import reference_models
import steps
import torch
from harness import DEVICE, Report, parser, table
from torch import nn
from torch.nn import functional

import graphbench
from graphbench.measurements import Measurement
from graphbench.measuring import unit_sizes
from graphbench.records import ProfileRecord

BAR = 1.25
GIB = 1 << 30
WARM_UPS = 2
QUICK: dict[str, Any] = {"repeat": 3, "warmup": 1, "progress": False}
EDGE: dict[str, Any] = {"repeat": 1, "warmup": 1, "progress": False}
LAYERS = 34
WIDTH = 32768  # a weight of 2 GiB in bf16
ROWS = 16384  # an activation of 1 GiB
BATCH = 64  # rows of it that are multiplied
Step = Callable[[], object]


class HugeLayer(nn.Module):
    """A frozen weight of 2 GiB on the first rows of an activation of 1 GiB, which the product then shifts.

    Such a layer takes milliseconds, where one that multiplied the whole activation would take a hundred. Backward needs
    the activation; the product keeps the layers from being fused into one.
    """

    def __init__(self) -> None:
        super().__init__()
        weight = torch.empty(WIDTH, WIDTH, device=DEVICE, dtype=torch.bfloat16).normal_(std=WIDTH**-0.5)
        self.weight = nn.Parameter(weight, requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The next activation, `[ROWS, WIDTH]`."""
        shift = functional.gelu(functional.linear(x[:BATCH], self.weight))
        return functional.silu(x + shift[:1])


class AtTheEdge(nn.Module):
    """Equal layers: 68 GiB of weights, 34 GiB of activations that eager keeps for backward."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(HugeLayer() for _ in range(LAYERS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The last activation."""
        for layer in self.layers:
            x = layer(x)
        return x


def at_the_edge() -> Step:
    """Forward, and backward to the input."""
    model = AtTheEdge()
    compiled = torch.compile(model, backend="graphbench")
    x = torch.randn(ROWS, WIDTH, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)

    def step() -> None:
        compiled(x).sum().backward()
        x.grad = None

    return step


def training(made: tuple[nn.Module, Callable[[], torch.Tensor]]) -> Step:
    """Forward and backward of a model with its loss, gradients let go of at the end."""
    model, loss = made

    def step() -> None:
        loss().backward()
        model.zero_grad(set_to_none=True)

    return step


MODELS: dict[str, Callable[[], Step]] = {
    "resnet50_train": lambda: training(steps.resnet50()),
    "gpt2_train": lambda: training(steps.gpt2()),
    "llama": reference_models.llama,
    "vit_small": reference_models.vit_small,
}


@dataclass(slots=True)
class Watch:
    """The most bytes allocated while measuring, and the arguments of the largest unit."""

    peak_bytes: int = 0
    largest_unit_bytes: int = 0

    def look(self) -> None:
        """Take the counter's peak in, before it is started again."""
        self.peak_bytes = max(self.peak_bytes, torch.cuda.max_memory_allocated(DEVICE))


@contextmanager
def watched() -> Iterator[Watch]:
    """Watch what happens inside, where measuring itself starts the peak counter again and again."""
    watch, restart, count = Watch(), torch.cuda.reset_peak_memory_stats, unit_sizes.copies_bytes

    def looking(*arguments: Any) -> None:
        watch.look()
        restart(*arguments)

    def counting(*arguments: Any) -> int:
        found = count(*arguments)
        watch.largest_unit_bytes = max(watch.largest_unit_bytes, found)
        return found

    restart(DEVICE)
    with (
        mock.patch.object(torch.cuda, "reset_peak_memory_stats", looking),
        mock.patch.object(unit_sizes, "copies_bytes", counting),
    ):
        yield watch
    watch.look()


def step_peak(step: Step) -> int:
    """The most bytes allocated during a warm step, everything that was there before included."""
    for _ in range(WARM_UPS):
        step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats(DEVICE)
    step()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated(DEVICE)


def measured(make: Callable[[], Step], options: dict[str, Any]) -> tuple[dict[str, Any], ProfileRecord]:
    """A model's step and its measurement."""
    graphbench.reset()
    gc.collect()
    torch.cuda.empty_cache()
    torch.manual_seed(0)
    start = time.perf_counter()
    step = make()
    step_bytes = step_peak(step)
    step_s = time.perf_counter() - start
    start = time.perf_counter()
    held_bytes = torch.cuda.memory_allocated(DEVICE)
    with watched() as watch:
        record = graphbench.measure(**options).record
    l2_bytes = int(torch.cuda.get_device_properties(DEVICE).L2_cache_size)
    bound = BAR * step_bytes + 2 * l2_bytes + watch.largest_unit_bytes
    found = {
        "held_before_bytes": held_bytes,
        "step_peak_bytes": step_bytes,
        "peak_bytes": watch.peak_bytes,
        "largest_unit_bytes": watch.largest_unit_bytes,
        "l2_bytes": l2_bytes,
        "bound_bytes": int(bound),
        "measure_by_step": watch.peak_bytes / step_bytes,
        "met": watch.peak_bytes <= bound,
        "compile_and_step_s": round(step_s, 1),
        "measure_s": round(time.perf_counter() - start, 1),
        "not_measured": not_measured(record),
    }
    return found, record


def rows(record: ProfileRecord) -> Iterator[tuple[str, Measurement]]:
    """Everything that was to be isolated, by name."""
    for region in record.regions:
        yield from ((f"{region.key} {node.name}", node.isolated) for node in region.nodes if node.kind == "compute")
        yield from ((f"{region.key} {kernel.key}", kernel.isolated) for kernel in region.kernels)


def not_measured(record: ProfileRecord) -> dict[str, int]:
    """How many rows have no time, by reason; regions and whole runs among them."""
    found: dict[str, int] = {}
    reasons = [row.reason for _, row in rows(record) if row.status != "ok"]
    for region in record.regions:
        sides = (region.eager, region.eager_backward, region.forward, region.backward)
        reasons += [reason for reason in (region.reason, *(side.reason for side in sides)) if reason]
    for reason in reasons:
        found[reason] = found.get(reason, 0) + 1
    return found


def bounded(make: Callable[[], Step]) -> dict[str, Any]:
    """The bound of one model, and what its runs take by themselves: eager ones may take more than the compiled step."""
    found, record = measured(make, QUICK)
    peaks = {
        f"{region.key} {name}": side.peak_bytes
        for region in record.regions
        for name, side in (
            ("eager", region.eager),
            ("eager_backward", region.eager_backward),
            ("forward", region.forward),
            ("backward", region.backward),
        )
    }
    return found | {"peaks_bytes": peaks}


def edge() -> dict[str, Any]:
    """The model at the edge: how much it takes, and that it was measured to the end."""
    found, record = measured(at_the_edge, EDGE)
    (region,) = record.regions
    runs = [region.eager, region.eager_backward, region.forward, region.backward]
    total_bytes = int(torch.cuda.get_device_properties(DEVICE).total_memory)
    weights_bytes = LAYERS * WIDTH * WIDTH * 2
    whole = [row for _, row in rows(record)]
    return found | {
        "gpu_bytes": total_bytes,
        "weights_bytes": weights_bytes,
        "eager_results_bytes": region.peak_bytes,
        "peaks_bytes": [side.peak_bytes for side in runs],
        "rows": len(whole),
        "timed": sum(row.status == "ok" for row in whole),
        "does_not_fit": [f"{name}: {row.reason}" for name, row in rows(record) if "does not fit" in row.reason],
        "notes": [*record.notes, *region.notes],
        "met": found["met"] and region.status == "ok" and all(side.run is not None for side in runs),
        "weights_and_activations_gib": (weights_bytes + (region.peak_bytes or 0)) / GIB,
    }


def main() -> None:
    """Run the models asked for and write one JSON file."""
    arguments = parser(__doc__)
    arguments.add_argument("--only", action="append", choices=[*MODELS, "edge"])
    options = arguments.parse_args()
    torch.set_float32_matmul_precision("high")
    report = Report(options.output)
    shown = []
    models = report.found["models"] = {}
    for name in options.only or [*MODELS, "edge"]:
        found = report.part(name, edge) if name == "edge" else report.part(name, bounded, MODELS[name])
        models[name] = report.found.pop(name)
        report.write()
        if found is not None:
            sizes = {key: found[f"{key}_bytes"] / GIB for key in ("step_peak", "peak", "bound", "largest_unit")}
            shown.append({"model": name} | {f"{key} GiB": size for key, size in sizes.items()} | {"met": found["met"]})
    if shown:
        print(table(shown))


if __name__ == "__main__":
    main()

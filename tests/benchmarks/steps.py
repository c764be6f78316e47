"""Whole AdamW training steps on a GPU: is every kernel explained, how idle is the device, and what does recording cost.

Bars (issue: what ran outside the graphs): 100.00 % attributed; the rows' sum within 0.5 % of device_busy; a recorded
step takes at most 15 % longer than a plain one where the device is busy for nearly all of it.
Run from the repository root: `python tests/benchmarks/steps.py --output results.json [--only gpt2]`.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from harness import DEVICE, Report, parser, table
from judging import explained, recorded_in_time
from torch import nn
from torch.nn import functional

import graphbench
from graphbench import session
from graphbench.analysis.stats import quantile
from graphbench.measuring.step import recorded_step
from graphbench.options import MeasureOptions
from graphbench.step_records import TIMELINE_KINDS, StepRecord, StepRow

Loss = Callable[[], torch.Tensor]
OPTIMIZERS = ("fused", "foreach")
WARM_UPS, RECORDED, PLAIN_EACH = 4, 3, 4
"""Steps before anything is timed; recorded steps; plain steps timed before each of these."""


def resnet50() -> tuple[nn.Module, Loss]:
    """ResNet-50 of torchvision, batch 32, fp32 with tf32 matmuls."""
    import torchvision

    model = torchvision.models.resnet50()
    return _classifier(model, torch.randn(32, 3, 224, 224, device=DEVICE))


def vit_small() -> tuple[nn.Module, Loss]:
    """The vit_small_patch16_224 of timm, batch 32, bf16 autocast."""
    import timm

    model, loss = _classifier(timm.create_model("vit_small_patch16_224"), torch.randn(32, 3, 224, 224, device=DEVICE))

    def in_autocast() -> torch.Tensor:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return loss()

    return model, in_autocast


def gpt2() -> tuple[nn.Module, Loss]:
    """Four GPT-2 layers with dropout, hidden 768, batch 8 x 512 tokens, fp32 with tf32 matmuls."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_layer=4, n_embd=768, n_head=12, use_cache=False)
    return _language_model(GPT2LMHeadModel(config), config.vocab_size, 8)


def llama() -> tuple[nn.Module, Loss]:
    """Four Llama layers, hidden 1024, batch 4 x 512 tokens, bf16."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=1024,
        intermediate_size=2816,
        num_hidden_layers=4,
        num_attention_heads=16,
        num_key_value_heads=4,
        vocab_size=32000,
        use_cache=False,
    )
    return _language_model(LlamaForCausalLM(config).bfloat16(), config.vocab_size, 4)


class Interrupted(nn.Module):
    """Four layers; between them a value that the host reads, a disabled function and a print: three graph breaks."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width)) for _ in range(4)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of any batch."""
        x = self.layers[0](x)
        x = x / x.detach().abs().mean().item()
        x = _halved(self.layers[1](x))
        x = self.layers[2](x)
        print("", end="")
        found: torch.Tensor = self.layers[3](x)
        return found


@torch.compiler.disable
def _halved(x: torch.Tensor) -> torch.Tensor:
    return x * 0.5


def three_breaks() -> tuple[nn.Module, Loss]:
    """The interrupted model, width 1024, batch 8192, fp32 with tf32 matmuls."""
    model, x = Interrupted(1024).to(DEVICE), torch.randn(8192, 1024, device=DEVICE)
    compiled = torch.compile(model, backend="graphbench")
    return model, lambda: compiled(x).square().mean()


def _classifier(model: nn.Module, image: torch.Tensor) -> tuple[nn.Module, Loss]:
    model = model.to(DEVICE).train()
    target = torch.randint(0, 1000, (len(image),), device=DEVICE)
    compiled = torch.compile(model, backend="graphbench")
    return model, lambda: functional.cross_entropy(compiled(image), target)


def _language_model(model: nn.Module, vocabulary: int, batch: int) -> tuple[nn.Module, Loss]:
    model = model.to(DEVICE).train()
    tokens = torch.randint(0, vocabulary, (batch, 512), device=DEVICE)
    compiled = torch.compile(model, backend="graphbench")
    return model, lambda: compiled(tokens, labels=tokens).loss


MODELS: dict[str, Callable[[], tuple[nn.Module, Loss]]] = {
    "resnet50": resnet50,
    "gpt2": gpt2,
    "llama": llama,
    "vit_small": vit_small,
    "three_breaks": three_breaks,
}


def run(name: str) -> dict[str, Any]:
    """Compile one model, and record its training step with each optimizer."""
    graphbench.reset()
    gc.collect()
    torch.cuda.empty_cache()
    torch.manual_seed(0)
    start = time.perf_counter()
    model, loss = MODELS[name]()
    loss().backward()
    torch.cuda.synchronize()
    found: dict[str, Any] = {"compile_s": round(time.perf_counter() - start, 1)}
    for optimizer in OPTIMIZERS:
        found[optimizer] = _with_optimizer(model, loss, optimizer)
    current = session.current()
    found |= {"regions": len(current.regions), "breaks": [entry.reason for entry in current.breaks()]}
    return found


def _with_optimizer(model: nn.Module, loss: Loss, kind: str) -> dict[str, Any]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, **{kind: True})

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    for _ in range(WARM_UPS):
        step()
    plain_ns: list[float] = []
    steps: list[StepRecord] = []
    start = time.perf_counter()
    for _ in range(RECORDED):
        # As graphbench.profile does it: plain steps, a rehearsal, the recorded one; but nothing is measured alone.
        recorded = recorded_step(session.current(), step, (), PLAIN_EACH + 1, MeasureOptions())
        plain_ns += recorded.walls_ns
        steps.append(recorded.step())
    seconds = time.perf_counter() - start
    found = figures(steps, plain_ns) | {"seconds": round(seconds, 2)}
    return found | {"explained": explained(found), "recorded_in_time": recorded_in_time(found)}


def figures(steps: Sequence[StepRecord], plain_ns: Sequence[float]) -> dict[str, Any]:
    """What several recordings of one step say together: medians of times, and the worst of what must hold for each."""
    busy_ns = quantile([step.run.busy_ns[0] for step in steps], 0.5)
    wall_ns, plain_wall_ns = quantile([step.run.wall_ns[0] for step in steps], 0.5), quantile(plain_ns, 0.5)
    last, launches = steps[-1], steps[-1].run.n_kernels or 0
    return {
        "attributed_percent": min(100 * (1 - s.run.unattributed_ns[0] / s.run.busy_ns[0]) for s in steps),
        "rows_against_busy_percent": max((_rows_percent(step) for step in steps), key=abs),
        "overlap_us": max(step.run.overlap_ns[0] for step in steps) / 1e3,
        "unattributed": sorted({name for step in steps for name in step.run.unattributed}),
        "dropped": sum(step.run.dropped for step in steps),
        "launches": launches,
        "busy_us": busy_ns / 1e3,
        "plain_us": plain_wall_ns / 1e3,
        "recorded_us": wall_ns / 1e3,
        "recording_ratio": wall_ns / plain_wall_ns,
        "recording_us_per_launch": (wall_ns - plain_wall_ns) / 1e3 / launches if launches else None,
        "idle_plain_percent": 100 * (1 - busy_ns / plain_wall_ns),
        "idle_recorded_percent": 100 * (1 - busy_ns / wall_ns),
        "phases_us": _phases_us(last),
        "gap_ops_us": sum(_busy_ns(row) for row in last.rows if row.kernel is None) / 1e3,
        "gap_ops": sum(row.calls for row in last.rows if row.kernel is None),
        "rows": len(last.rows),
        "waits": sum(TIMELINE_KINDS[kind] == "sync" for kind in last.timeline.kinds),
        "notes": sorted({note for step in steps for note in step.notes}),
        "all_plain_us": [round(ns / 1e3, 1) for ns in plain_ns],
        "all_recorded_us": [round(step.run.wall_ns[0] / 1e3, 1) for step in steps],
    }


def _busy_ns(row: StepRow) -> float:
    """Device time of a row; 0 for one without samples, which `figures` then shows as a sum that is too small."""
    return float(row.in_graph.samples.busy_ns[0]) if row.in_graph.samples else 0.0


def _rows_percent(step: StepRecord) -> float:
    return 100 * (sum(map(_busy_ns, step.rows)) / step.run.busy_ns[0] - 1)


def _phases_us(step: StepRecord) -> dict[str, float]:
    found: dict[str, float] = {}
    for row in step.rows:
        found[row.phase] = found.get(row.phase, 0.0) + _busy_ns(row) / 1e3
    return found


SHOWN = {
    "attributed_percent": "attributed %",
    "rows_against_busy_percent": "rows/busy %",
    "launches": "launches",
    "busy_us": "busy us",
    "plain_us": "plain us",
    "recorded_us": "recorded us",
    "recording_ratio": "ratio",
    "recording_us_per_launch": "us/launch",
    "idle_plain_percent": "idle %",
    "idle_recorded_percent": "idle % rec.",
    "explained": "explained",
    "recorded_in_time": "in time",
}


def main() -> None:
    """Record the steps asked for; write one JSON file and print a table."""
    options_parser = parser(__doc__)
    options_parser.add_argument("--only", action="append", choices=sorted(MODELS))
    options = options_parser.parse_args()
    torch.set_float32_matmul_precision("high")
    report = Report(Path(options.output))
    rows = []
    for name in options.only or list(MODELS):
        found = report.part(name, run, name) or {}
        for optimizer in OPTIMIZERS:
            if optimizer in found:
                shown = {title: found[optimizer][key] for key, title in SHOWN.items()}
                rows.append({"model": name, "AdamW": optimizer, **shown})
    if rows:
        print(table(rows))


if __name__ == "__main__":
    main()

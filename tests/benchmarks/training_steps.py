"""Whole AdamW training steps on a GPU: every kernel of the live step labelled, and the regions measured afterwards.

Run from the repository root: `python tests/benchmarks/training_steps.py --output results.json [--only gpt2]`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from reference_models import figures

import graphbench


def gpt2() -> Callable[[], Any]:
    """Two GPT-2 layers with dropout, hidden 256, batch 4 x 256 tokens, fp32."""
    from transformers import GPT2Config, GPT2LMHeadModel

    model = (
        GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=256, n_head=4, vocab_size=2000, use_cache=False)).cuda().train()
    )
    tokens = torch.randint(0, 2000, (4, 256), device="cuda")
    compiled = torch.compile(model, backend="graphbench")
    return _step(model, lambda: compiled(tokens, labels=tokens).loss)


def resnet18() -> Callable[[], Any]:
    """ResNet-18 of torchvision, batch 16, fp32 with tf32 matmuls."""
    import torchvision

    torch.set_float32_matmul_precision("high")
    model = torchvision.models.resnet18().cuda().train()
    image = torch.randn(16, 3, 224, 224, device="cuda")
    target = torch.randint(0, 1000, (16,), device="cuda")
    compiled = torch.compile(model, backend="graphbench")
    return _step(model, lambda: torch.nn.functional.cross_entropy(compiled(image), target))


def _step(model: torch.nn.Module, loss_of: Callable[[], torch.Tensor]) -> Callable[[], Any]:
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        loss_of().backward()
        optimizer.step()

    return step


def run(name: str) -> dict[str, Any]:
    """Profile one training step."""
    graphbench.reset()
    torch.manual_seed(0)
    step = {"gpt2": gpt2, "resnet18": resnet18}[name]()
    start = time.perf_counter()
    profile = graphbench.profile(step, warmup_steps=3, subject=f"{name} AdamW step")
    seconds = time.perf_counter() - start
    print(profile.table(top=12))
    record = profile.record
    assert record.step is not None
    total = record.step.run
    rows_ns = sum(row.in_graph.samples.busy_ns[0] for row in record.step.rows if row.in_graph.samples)
    found = figures(record)
    return found | {
        "seconds": seconds,
        "step_busy_us": total.busy_ns[0] / 1e3,
        "step_rows_us": rows_ns / 1e3,
        "step_unattributed_us": total.unattributed_ns[0] / 1e3,
        "step_overlap_us": total.overlap_ns[0] / 1e3,
        "step_attributed_percent": 100 * (1 - total.unattributed_ns[0] / total.busy_ns[0]),
        "step_unattributed": list(total.unattributed),
        "step_kernels": total.n_kernels,
        "step_wall_us": total.wall_ns[0] / 1e3,
        "step_plain_wall_us": [wall / 1e3 for wall in record.step.plain_wall_ns],
        "environment": asdict(record.environment),
    }


def main() -> None:
    """Profile the steps asked for and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--only", action="append", choices=["gpt2", "resnet18"])
    options = parser.parse_args()
    results = {}
    for name in options.only or ["gpt2", "resnet18"]:
        results[name] = run(name)
        options.output.write_text(json.dumps(results, indent=1))
        print(json.dumps({k: v for k, v in results[name].items() if k != "environment"}, indent=1), file=sys.stderr)


if __name__ == "__main__":
    main()

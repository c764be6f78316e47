"""One region of BERT under dynamic=True on two lengths and three batch sizes: six groups, and exponents that fit.

Attention grows as the square of the length and as the batch, linear layers as either. One process, one compilation.
Run from the repository root: `python tests/benchmarks/shapes.py --output results.json [--device cpu]`.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import graphbench
from graphbench.analysis.scaling import Scaling

ATTENTION, LINEAR = "scaled_dot_product_attention", "linear"
VOCABULARY = 1000


@dataclass(frozen=True, slots=True)
class Case:
    """A model and what it is called with: each batch size at each length."""

    hidden: int
    layers: int
    lengths: tuple[int, ...]
    batches: tuple[int, ...]
    dtype: torch.dtype


CASES = {
    "cuda": Case(768, 2, (1024, 2048), (4, 8, 16), torch.bfloat16),
    "cpu": Case(256, 1, (128, 256), (2, 4, 8), torch.float32),
}
"""On a device large enough that no time is that of starting a kernel, or of filling a part of it."""


def bert(case: Case, device: str) -> torch.nn.Module:
    """Of random weights, with an attention that stays one op."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        hidden_size=case.hidden,
        intermediate_size=4 * case.hidden,
        num_attention_heads=case.hidden // 64,
        num_hidden_layers=case.layers,
        max_position_embeddings=max(case.lengths),
        vocab_size=VOCABULARY,
        attn_implementation="sdpa",
    )
    return BertModel(config, add_pooling_layer=False).eval().to(device, case.dtype)


def profile_of(case: Case, device: str, **options: Any) -> graphbench.Profile:
    """Call the compiled model with every set once, then measure what that captured."""
    graphbench.reset()
    torch.manual_seed(0)
    model = torch.compile(bert(case, device), backend="graphbench", dynamic=True)
    with torch.no_grad():
        for batch in case.batches:
            for length in case.lengths:
                model(input_ids=torch.randint(0, VOCABULARY, (batch, length), device=device))
    return graphbench.measure(progress=False, **options)


def figures(profile: graphbench.Profile) -> dict[str, Any]:
    """How many regions and groups there are, and of every region how attention and linears grow with its sizes."""
    regions = profile.record.regions
    return {
        "regions": len({region.shapes_of or region.key for region in regions}),
        "groups": len(regions),
        "measured_groups": sum(region.status == "ok" for region in regions),
        "timer": profile.record.policy.timer,
        "by_size": [_of_region(entry.result) for entry in profile.by_size()],
    }


def _of_region(found: Scaling) -> dict[str, Any]:
    sizes = [axis.name for axis in found.axes]
    ops = {group.group: group for group in found.ops}
    return {
        "region": found.region,
        "sizes": sizes,
        "groups": [list(values) for values in zip(*(axis.values for axis in found.axes), strict=True)],
        "untimed_rows": [row.name for row in found.rows if None in row.times_ns],
        "doubts": {name: ops[name].doubt for name in (ATTENTION, LINEAR) if ops[name].doubt},
        "times_us": {name: [_us(time_ns) for time_ns in ops[name].times_ns] for name in (ATTENTION, LINEAR)},
        "exponents": {
            name: dict(zip(sizes, (round(entry.exponent, 3) for entry in ops[name].growths), strict=False))
            for name in (ATTENTION, LINEAR)
        },
    }


def _us(time_ns: float | None) -> float | None:
    return None if time_ns is None else round(time_ns / 1000, 2)


def main(words: Sequence[str] | None = None) -> None:
    """Measure, write one JSON file, print the table by size."""
    from machine import environment

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path(os.devnull), help="results as JSON")
    parser.add_argument("--device", choices=sorted(CASES), default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args(words)
    start = time.perf_counter()
    profile = profile_of(CASES[options.device], options.device, measure_ms=20.0, warmup_ms=5.0)
    found = {"environment": environment(), "seconds": {"shapes": round(time.perf_counter() - start, 1)}}
    found |= figures(profile)
    options.output.write_text(json.dumps(found, indent=1) + "\n")
    for entry in profile.by_size():
        print(entry)
    print(json.dumps({key: value for key, value in found.items() if key != "environment"}, indent=1))


if __name__ == "__main__":
    main()

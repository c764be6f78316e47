"""The three models of DESIGN fact 15, measured on a GPU: in-graph and isolated sums, coverage, cost of measuring.

Run from the repository root: `python tests/benchmarks/reference_models.py --output results.json [--only resnet50]`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from harness import described

import graphbench
from graphbench.analysis.stats import quantile
from graphbench.measurements import Measurement
from graphbench.records import ProfileRecord

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.benchmarks.figures import run_figures, runs  # noqa: E402

# Microseconds, H200, torch 2.11, CUDA 13.0: eager in-graph, eager isolated sum, fused in-graph, fused isolated sum.
FACTS = {
    "resnet50": (2702.0, 2777.0, 1457.0, 1452.0),
    "llama": (1356.0, 1466.0, 790.0, 791.0),
    "vit_small": (947.0, 977.0, 823.0, 847.0),
}
COLUMNS = ("eager_in_graph_us", "eager_isolated_us", "fused_in_graph_us", "fused_isolated_us")


def resnet50() -> Callable[[], Any]:
    """ResNet-50 of torchvision, batch 16, fp32 with tf32 matmuls, no_grad."""
    import torchvision

    torch.set_float32_matmul_precision("high")
    model = torchvision.models.resnet50().cuda().eval()
    image = torch.randn(16, 3, 224, 224, device="cuda")
    return _inference(model, image)


def llama() -> Callable[[], Any]:
    """Four Llama layers, hidden 1024, batch 4 x 512 tokens, bf16, no_grad."""
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
    model = LlamaForCausalLM(config).cuda().bfloat16().eval()
    tokens = torch.randint(0, 32000, (4, 512), device="cuda")
    return _inference(model, tokens)


def vit_small() -> Callable[[], Any]:
    """The vit_small_patch16_224 of timm, batch 16, bf16, no_grad."""
    import timm

    model = timm.create_model("vit_small_patch16_224").cuda().bfloat16().eval()
    return _inference(model, torch.randn(16, 3, 224, 224, device="cuda", dtype=torch.bfloat16))


def _inference(model: torch.nn.Module, inputs: torch.Tensor) -> Callable[[], Any]:
    compiled = torch.compile(model, backend="graphbench")

    def step() -> Any:
        with torch.no_grad():
            return compiled(inputs)

    return step


def p50_us(measurement: Measurement) -> float:
    """Median busy time in microseconds; 0 for what has no samples, which is counted apart."""
    return quantile(measurement.samples.busy_ns, 0.5) / 1e3 if measurement.samples else 0.0


def figures(record: ProfileRecord) -> dict[str, Any]:
    """The sums of fact 15 and the coverage of the compiled runs."""
    regions = [region for region in record.regions if region.status == "ok"]
    labelled = [region.forward.run for region in regions if region.forward.run]
    eager = [region.eager.run for region in regions if region.eager.run]
    nodes = [node for region in regions for node in region.nodes]
    kernels = [kernel for region in regions for kernel in region.kernels]
    busy_ns = sum(sum(run.busy_ns) for run in labelled)
    sums = [run_figures(*entry)["rows_against_total_percent"] for region in regions for entry in runs(region)]
    return {
        "eager_in_graph_us": sum(quantile(run.busy_ns, 0.5) for run in eager) / 1e3,
        "eager_isolated_us": sum(p50_us(node.isolated) for node in nodes),
        "fused_in_graph_us": sum(quantile(run.busy_ns, 0.5) for run in labelled) / 1e3,
        "fused_isolated_us": sum(p50_us(kernel.isolated) for kernel in kernels),
        "attributed_percent": 100 * (1 - sum(sum(run.unattributed_ns) for run in labelled) / busy_ns),
        "rows_against_busy_percent": max(sums, key=abs),
        "unattributed_kernels": [name for run in (*labelled, *eager) for name in run.unattributed],
        "dropped": sum(run.dropped for run in (*labelled, *eager)),
        "nodes": len(nodes),
        "nodes_not_ok": [
            f"{n.name}: {n.isolated.reason}" for n in nodes if n.isolated.status != "ok" and n.kind != "state"
        ],
        "kernels": len(kernels),
        "kernels_not_ok": [f"{k.key}: {k.isolated.reason}" for k in kernels if k.isolated.status != "ok"],
        "kernels_without_owner": [k.key for k in kernels if not k.roles],
        "unfaithful": [
            f"{row}: {m.fidelity}"
            for row, m in [(n.name, n.isolated) for n in nodes] + [(k.key, k.isolated) for k in kernels]
            if m.fidelity and m.fidelity.equal is False
        ],
        "unknown_fates": [node.name for node in nodes if node.kind == "compute" and node.fate.kind == "unknown"],
        "outputs": [asdict(region.outputs) for region in regions if region.outputs],
    }


def run(name: str) -> dict[str, Any]:
    """Measure one model and set its figures beside the facts."""
    graphbench.reset()
    torch.manual_seed(0)
    step = {"resnet50": resnet50, "llama": llama, "vit_small": vit_small}[name]()
    start = time.perf_counter()
    step()
    torch.cuda.synchronize()
    compile_s = time.perf_counter() - start
    step()
    start = time.perf_counter()
    profile = graphbench.measure(subject=name)
    measure_s = time.perf_counter() - start
    found = figures(profile.record)
    for column, fact in zip(COLUMNS, FACTS[name], strict=True):
        found[f"{column}_vs_fact_percent"] = 100 * (found[column] / fact - 1)
    print(profile.table(top=14))
    found |= {"compile_s": compile_s, "measure_s": measure_s, "environment": asdict(profile.record.environment)}
    found["_profile"] = profile
    return found


def main() -> None:
    """Measure the models asked for and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--only", action="append", choices=sorted(FACTS))
    parser.add_argument("--profiles", type=Path, help="folder to save the profiles in")
    options = parser.parse_args()
    results = {}
    for name in options.only or list(FACTS):
        try:
            results[name] = run(name)
        except Exception as error:  # noqa: BLE001 - a model that fails is a result, and the others still run
            traceback.print_exc()
            results[name] = {"error": described(error)}
        profile = results[name].pop("_profile", None)
        if options.profiles and profile:
            profile.save(options.profiles / f"{name}.json", overwrite=True)
        options.output.write_text(json.dumps(results, indent=1))
        print(json.dumps({k: v for k, v in results[name].items() if k != "environment"}, indent=1), file=sys.stderr)


if __name__ == "__main__":
    main()

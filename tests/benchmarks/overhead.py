"""Idle cost and compile cost of `backend="graphbench"` against `backend="inductor"` (bars of DESIGN section 8).

Idle: interleaved pairs of timed batches of steps, the median of their ratios. Compile: CPU time of the first call in
fresh processes with fresh caches, five interleaved pairs, the median of the ratios; then a second process on the same
cache.
Run from the repository root: `python tests/benchmarks/overhead.py --output results.json [--device cuda] [--part idle]`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

BACKENDS = ("inductor", "graphbench")
IDLE_ARMS = {"graphbench": "graphbench", "inductor": "inductor", "control": "inductor"}
"""Inductor in the middle: both others are its neighbours."""
COMPILE_PAIRS = 5
IDLE_PAIRS = 30
STEPS_PER_BATCH = 200


def model_and_input(device: str) -> tuple[Any, Any]:
    """Ten linear layers of width 64 with GELU between, and a batch: host-bound, so that any overhead shows."""
    import torch

    torch.manual_seed(0)
    layers = [layer for _ in range(10) for layer in (torch.nn.Linear(64, 64), torch.nn.GELU())]
    return torch.nn.Sequential(*layers).to(device).eval(), torch.randn(8, 64, device=device)


def idle(device: str) -> dict[str, Any]:
    """Time per step in microseconds by arm, and ratios to Inductor's: the medians of those of neighbouring batches.

    Neighbours in time share whatever else the machine does, so that their ratio tells more than that of the medians.
    The control is Inductor once more: how far its ratio is from 1 is what this machine cannot tell.
    """
    import torch

    steps = {}
    for arm, backend in IDLE_ARMS.items():
        model, x = model_and_input(device)
        steps[arm] = (torch.compile(model, backend=backend), x)
    batches: dict[str, list[float]] = {arm: [] for arm in IDLE_ARMS}
    with torch.no_grad():
        for compiled, x in steps.values():
            for _ in range(STEPS_PER_BATCH):
                compiled(x)
        for pair in range(IDLE_PAIRS):
            for arm in IDLE_ARMS if pair % 2 else reversed(IDLE_ARMS):
                compiled, x = steps[arm]
                start = time.perf_counter()
                for _ in range(STEPS_PER_BATCH):
                    compiled(x)
                if device == "cuda":
                    torch.cuda.synchronize()
                batches[arm].append((time.perf_counter() - start) / STEPS_PER_BATCH * 1e6)
    found: dict[str, Any] = {f"{arm}_us": statistics.median(times) for arm, times in batches.items()}
    for name, arm in (("ratio", "graphbench"), ("control_ratio", "control")):
        ratios = [own / theirs for own, theirs in zip(batches[arm], batches["inductor"], strict=True)]
        found[name] = statistics.median(ratios)
    return found | {"pairs": IDLE_PAIRS}


def first_call(backend: str, device: str) -> None:
    """Compile one GPT-2 layer and print CPU seconds (children included), wall seconds and kernels built."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    model = (
        GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=64, n_head=4, vocab_size=500, use_cache=False)).to(device).eval()
    )
    tokens = torch.randint(0, 500, (1, 32), device=device)
    compiled = torch.compile(model, backend=backend)
    before, start = os.times(), time.perf_counter()
    with torch.no_grad():
        compiled(tokens)
    wall_s, after = time.perf_counter() - start, os.times()
    cpu_s = sum(
        getattr(after, part) - getattr(before, part) for part in ("user", "system", "children_user", "children_system")
    )
    print(json.dumps({"cpu_s": cpu_s, "wall_s": wall_s}))


def in_fresh_process(backend: str, device: str, cache: str) -> dict[str, float]:
    """`first_call` in a process of its own; how many compiled kernels the cache folder gained is added."""
    environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": cache, "TRITON_CACHE_DIR": f"{cache}/triton"}
    before = built(cache)
    command = [sys.executable, __file__, "--first-call", backend, "--device", device]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found | {"kernels_built": len(built(cache) - before)}


def built(cache: str) -> set[Path]:
    """Compiled kernels in a cache folder."""
    return {path for pattern in ("*.so", "*.cubin") for path in Path(cache).rglob(pattern)}


def compiling(device: str) -> dict[str, Any]:
    """Cold compile cost of both backends, and of a second graphbench process on a warm cache."""
    pairs = []
    second: dict[str, float] = {}
    for pair in range(COMPILE_PAIRS):
        found = {}
        for backend in BACKENDS if pair % 2 else reversed(BACKENDS):
            with tempfile.TemporaryDirectory() as cache:
                found[backend] = in_fresh_process(backend, device, cache)
                if backend == "graphbench" and pair == 0:
                    second = in_fresh_process(backend, device, cache)
        pairs.append(found)
        print(json.dumps(found), file=sys.stderr)
    ratios = [pair["graphbench"]["cpu_s"] / pair["inductor"]["cpu_s"] for pair in pairs]
    return {"pairs": pairs, "cpu_ratio": statistics.median(ratios), "second_process": second}


def main() -> None:
    """Run what is asked for and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--first-call", choices=BACKENDS)
    parser.add_argument("--part", action="append", choices=("idle", "compile"), help="only this one; repeatable")
    options = parser.parse_args()
    if options.first_call:
        first_call(options.first_call, options.device)
        return
    import torch

    results: dict[str, Any] = {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "device": torch.cuda.get_device_name() if options.device == "cuda" else platform.processor() or "cpu",
        "threads": torch.get_num_threads(),
    }
    for name, part in {"idle": idle, "compile": compiling}.items():
        if name in (options.part or [name]):
            results[name] = part(options.device)
            if options.output:
                options.output.write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()

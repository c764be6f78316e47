"""Compile caches shared with plain Inductor: we are never served from them, rebuild nothing, and leave nothing in them.

Source: DESIGN fact 17. Every process here is a fresh Python; the folder is `TORCHINDUCTOR_CACHE_DIR`.
"""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from graphbench.inductor.sites import HOOK_NAME


def step(backend: str) -> dict[str, Any]:
    """Compile and train one step; the source of this function is also what the other processes run."""
    import torch

    import graphbench

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Softmax(-1))
    result = torch.compile(net, backend=backend)(torch.ones(4, 16))
    result.pow(2).sum().backward()
    rows: list[tuple[object, ...]] = []
    if backend == "graphbench":
        (region,) = graphbench.measure(repeat=3, warmup=1).record.regions
        rows += [(row.name, row.isolated.status, row.in_graph.status, row.fate.kind) for row in region.nodes]
        # without Inductor's handles, which count on from whatever the process compiled before
        rows += [
            (f"{row.phase}/{row.name}", row.isolated.status, row.in_graph.status, row.executes)
            for row in region.kernels
        ]
    return {
        "values": [result.tolist(), net[0].weight.grad.tolist()],
        "rows": rows,
        "counters": dict(torch._dynamo.utils.counters["inductor"]),
    }


SCRIPT = f"""
from __future__ import annotations
import json, sys
{inspect.getsource(step)}
print(json.dumps(step(sys.argv[1])))
"""


@dataclass(frozen=True)
class Run:
    """What a process found, and the compiled kernels in its cache afterwards, with their times of writing."""

    found: dict[str, Any]
    kernels: dict[str, int]


@dataclass(frozen=True)
class Runs:
    """Two processes, one after the other, that share a folder."""

    first: Run
    second: Run
    folder: Path


def run(folder: Path, script: Path, backend: str) -> Run:
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": os.fspath(folder)}
    done = subprocess.run(
        [sys.executable, os.fspath(script), backend], env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    kernels = {path.relative_to(folder).as_posix(): path.stat().st_mtime_ns for path in folder.rglob("*.so")}
    return Run(json.loads(done.stdout.splitlines()[-1]), kernels)


def both(folder: Path, first: str, second: str) -> Runs:
    script = folder / "step.py"
    script.write_text(SCRIPT)
    caches = folder / "caches"
    return Runs(run(caches, script, first), run(caches, script, second), caches)


@pytest.fixture(scope="module")
def plain_first(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return both(tmp_path_factory.mktemp("plain_first"), "inductor", "graphbench")


@pytest.fixture(scope="module")
def graphbench_first(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return both(tmp_path_factory.mktemp("graphbench_first"), "graphbench", "inductor")


def test_after_plain_inductor_graphbench_captures_the_same_rows_as_without_it(plain_first: Runs) -> None:
    alone = json.loads(json.dumps(step("graphbench")))["rows"]
    assert plain_first.second.found["rows"] == alone
    assert {(row[1], row[2]) for row in alone} == {("ok", "ok")}
    assert len({row[0].split("/")[0] for row in alone} & {"forward", "backward"}) == 2


def test_after_plain_inductor_no_kernel_is_compiled_again(plain_first: Runs) -> None:
    assert len(plain_first.first.kernels) >= 2
    assert plain_first.second.kernels == plain_first.first.kernels


def test_after_plain_inductor_results_and_gradients_are_equal(plain_first: Runs) -> None:
    assert plain_first.second.found["values"] == plain_first.first.found["values"]


def instrumented_files(folder: Path) -> list[str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    return [path.name for path in files if HOOK_NAME.encode() in path.read_bytes()]


def test_nothing_in_a_shared_cache_is_instrumented(plain_first: Runs) -> None:
    assert instrumented_files(plain_first.folder) == []


@pytest.mark.slow
def test_after_graphbench_nothing_in_the_cache_is_instrumented(graphbench_first: Runs) -> None:
    assert instrumented_files(graphbench_first.folder) == []


@pytest.mark.slow
def test_after_graphbench_plain_inductor_is_not_served_an_artifact_of_ours(graphbench_first: Runs) -> None:
    counters = graphbench_first.second.found["counters"]
    assert counters.get("fxgraph_cache_hit", 0) == 0
    assert counters["fxgraph_cache_miss"] == 2


@pytest.mark.slow
def test_after_graphbench_plain_inductor_compiles_no_kernel_again(graphbench_first: Runs) -> None:
    assert graphbench_first.second.kernels == graphbench_first.first.kernels


@pytest.mark.slow
def test_after_graphbench_plain_inductor_gives_the_same_results_and_gradients(graphbench_first: Runs) -> None:
    assert graphbench_first.second.found["values"] == graphbench_first.first.found["values"]

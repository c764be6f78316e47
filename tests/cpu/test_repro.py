"""Exported scripts run in a process of their own, build the recorded tensors and take about as long as the profile."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

import graphbench
from graphbench.api import Profile
from tests.cpu.stories import clean, compiled

# On a shared machine a median moves by a factor of two; a call on other tensors or of another op moves by more.
WITHIN = 6.0


class Mixed(nn.Module):
    """One node of many kinds, each large enough to take tens of microseconds."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(2000, 256)
        self.norm = nn.LayerNorm(256)
        self.project = nn.Linear(256, 512)
        self.conv = nn.Conv2d(8, 16, 3, padding=1, groups=2)

    def forward(self, ids: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.embedding(ids))
        q = x.view(4, 128, 4, 64).transpose(1, 2)
        x = functional.scaled_dot_product_attention(q, q, q).transpose(1, 2).reshape(4, 128, 256)
        wide = functional.gelu(self.project(x))
        wide = torch.cat([wide, wide.sigmoid()], dim=-1)
        wide = wide * 2
        wide.add_(1.0)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            product = torch.matmul(wide, wide.transpose(1, 2))
        return product.float().mean() + self.conv(image).relu().mean()


@pytest.fixture(scope="module")
def trained() -> Profile:
    threads = torch.get_num_threads()
    with clean():
        torch.manual_seed(0)
        torch.set_num_threads(1)  # several wait for one another, for milliseconds where a core is busy
        try:
            model = compiled(Mixed())
            model(torch.randint(0, 2000, (4, 128)), torch.randn(4, 8, 64, 64)).backward()
            return graphbench.measure(repeat=15, warmup=10, progress=False)
        finally:
            torch.set_num_threads(threads)


def run(script: str, folder: Path, *words: str) -> dict[str, list[str]]:
    """What a script prints, by the first word of each line; it sees no graphbench."""
    file = folder / "repro.py"
    file.write_text(script, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(file), *words], capture_output=True, text=True, cwd=folder, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        word, _, rest = line.partition(" ")
        found.setdefault(word, []).append(rest.strip())
    return found


@pytest.mark.parametrize(
    ("row", "backward"),
    [
        ("conv2d", False),
        ("linear", False),
        ("x_1", False),
        ("scaled_dot_product_attention", False),
        ("x", False),
        ("wide_1", False),
        ("add_", False),
        ("product", False),
        ("linear", True),
        ("conv2d", True),
    ],
)
def test_a_node_repeats_its_spec_and_its_time(trained: Profile, tmp_path: Path, row: str, backward: bool) -> None:
    found = run(trained.repro(row, backward=backward), tmp_path)
    assert 1 / WITHIN < float(found["ratio"][0]) < WITHIN
    assert backward or [line.endswith("as in the profile") for line in found["output"]] == [True]


def test_the_times_of_a_profile_and_its_script_are_printed_side_by_side(trained: Profile, tmp_path: Path) -> None:
    node = next(node for node in trained.record.regions[0].nodes if node.name == "linear")
    assert node.isolated.samples is not None
    median_us = sorted(node.isolated.samples.busy_ns)[7] / 1e3
    found = run(trained.repro("r0/linear"), tmp_path)
    assert found["row"] == ["r0/linear"]
    assert found["profile"][0].startswith(f"{median_us:.2f} us, median of 15 samples, wallclock, warm, torch 2")


def test_autocast_that_the_graph_entered_is_in_force_in_the_script(trained: Profile, tmp_path: Path) -> None:
    assert "'bfloat16', (4, 128, 128)" in run(trained.repro("product"), tmp_path)["output"][0]


def test_what_a_call_writes_in_place_is_put_back_before_each_call(trained: Profile, tmp_path: Path) -> None:
    script = trained.repro("add_").replace(
        "        report(work, times, kernels)", "        work.prepare(); print('largest', work.tensors[0].max().item())"
    )
    assert float(run(script, tmp_path)["largest"][0]) <= 1.0  # hundreds of calls have each added 1


def test_a_post_grad_node_is_a_call_of_aten(trained: Profile, tmp_path: Path) -> None:
    name = next(op.name for op in trained.record.regions[0].post_grad if op.target == "addmm")
    script = trained.repro(f"forward:{name}")
    assert "torch.ops.aten.addmm.default(" in script
    assert run(script, tmp_path)["output"][0].endswith("as in the profile")


def test_a_library_kernel_is_called_without_compiling(trained: Profile, tmp_path: Path) -> None:
    kernel = next(kernel for kernel in trained.record.regions[0].kernels if kernel.name.endswith("addmm"))
    script = trained.repro(kernel.key)
    assert "COMPILED = False" in script
    assert 1 / WITHIN < float(run(script, tmp_path)["ratio"][0]) < WITHIN


def test_a_generated_kernel_is_compiled_from_the_nodes_that_it_executes(trained: Profile, tmp_path: Path) -> None:
    (region,) = trained.record.regions
    kernel = next(kernel for kernel in region.kernels if kernel.kind == "cpp" and "gelu" in kernel.name)
    found = run(trained.repro(kernel.key), tmp_path)
    expected = {
        op.outputs[0].shape
        for op in region.post_grad
        if op.phase == "forward" and op.name in kernel.executes and op.returned and not op.is_view
    }
    shown = [re.search(r"', \(([\d, ]*)\)", line) for line in found["output"]]
    shapes = {tuple(map(int, re.findall(r"\d+", match[1]))) for match in shown if match}
    assert expected <= shapes
    assert float(found["ratio"][0]) < WITHIN


def test_every_row_that_is_exported_compiles_as_python(trained: Profile) -> None:
    (region,) = trained.record.regions
    rows = [node.name for node in region.nodes if node.kind == "compute"]
    rows += [f"{op.phase}:{op.name}" for op in region.post_grad if op.isolated.status == "ok"]
    rows += [kernel.key for kernel in region.kernels]
    for row in rows:
        compile(trained.repro(row), row, "exec")
    assert len(rows) > 50

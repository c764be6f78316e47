"""Exported scripts repeat on a GPU what the profile says, and ncu finds the kernel that the command names."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

import graphbench
from graphbench.analysis.stats import quantile
from graphbench.api import Profile
from graphbench.measurements import Measurement
from graphbench.report.repro import ncu_command

pytestmark = pytest.mark.gpu
SHAPE = (4096, 4096)


@pytest.fixture(scope="module")
def profile() -> Iterator[Profile]:
    graphbench.reset()
    torch.manual_seed(0)
    model = torch.compile(lambda x, w: F.gelu(x @ w) * 2.0, backend="graphbench")
    with torch.no_grad():
        # Products of ordinary size: the script's values are made up, and how long erf takes depends on them.
        x, w = (torch.randn(SHAPE, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        model(x, w / SHAPE[0] ** 0.5)
    yield graphbench.measure(ceilings="off", progress=False)
    graphbench.reset()


def generated(profile: Profile) -> tuple[str, Measurement]:
    (kernel,) = [kernel for kernel in profile.record.regions[0].kernels if kernel.kind == "triton"]
    return kernel.key, kernel.isolated


def of_node(profile: Profile, name: str) -> tuple[str, Measurement]:
    return name, next(node.isolated for node in profile.record.regions[0].nodes if node.name == name)


@pytest.mark.parametrize("which", ["matmul", "gelu", "kernel"])
def test_a_script_finds_the_profile_s_time_again(which: str, profile: Profile, tmp_path: Path) -> None:
    row, measured = generated(profile) if which == "kernel" else of_node(profile, which)
    script = tmp_path / "repro.py"
    script.write_text(profile.repro(row))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    found = re.search(r"^this run\s+([\d.]+) us", done.stdout, re.MULTILINE)
    assert found is not None, done.stdout
    assert measured.samples is not None
    # A generated kernel is compiled anew, and Inductor may choose another configuration: 26 µs for 35 were seen.
    within = 0.15 if which != "kernel" else 0.5
    assert float(found[1]) * 1e3 == pytest.approx(quantile(measured.samples.busy_ns, 0.5), rel=within)


@pytest.mark.parametrize("which", ["matmul", "kernel"])
def test_ncu_profiles_the_kernel_of_the_row(which: str, profile: Profile, tmp_path: Path) -> None:
    if shutil.which("ncu") is None:
        pytest.xfail("no ncu on this machine")
    row, measured = generated(profile) if which == "kernel" else of_node(profile, which)
    script = tmp_path / "repro.py"
    script.write_text(profile.repro(row))
    command = ncu_command(profile.record, row, str(script))
    words = shlex.split(command.replace("--set full", "--metrics gpu__time_duration.sum"))
    words[words.index("python")] = sys.executable
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    found = re.search(r"gpu__time_duration\.sum\s+(\S+)\s+([\d.,]+)", done.stdout)
    assert found is not None, f"{command}\n{done.stdout}\n{done.stderr}"
    unit_ns = {"ns": 1.0, "nsecond": 1.0, "us": 1e3, "usecond": 1e3}[found[1]]
    assert measured.samples is not None
    within = 0.2 if which != "kernel" else 0.5
    assert float(found[2].replace(",", "")) * unit_ns == pytest.approx(
        quantile(measured.samples.busy_ns, 0.5), rel=within
    )

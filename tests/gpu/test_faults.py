"""Real faults of a device: an index out of range inside one op kills the CUDA context in the middle of a run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from graphbench import document
from graphbench.records import ProfileRecord

pytestmark = pytest.mark.gpu

MODEL = Path(__file__).with_name("faulty_model.py")
MEASURE = """
import sys
import torch
sys.path.insert(0, {folder!r})
import faulty_model
import graphbench
net = faulty_model.Faulty().cuda().eval()
inputs = [tensor.cuda() for tensor in faulty_model.example_inputs()]
with torch.no_grad():
    torch.compile(net, backend="graphbench")(*inputs)
profile = graphbench.measure(repeat=10, warmup=2)
profile.save({path!r})
"""


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "GRAPHBENCH_TEST_FAULT_MARK": str(folder / "happened")}


def isolated(record: ProfileRecord) -> dict[str, tuple[str, str]]:
    """Status and reason of every row that is measured alone."""
    (region,) = record.regions
    rows = {node.name: node.isolated for node in region.nodes if node.kind == "compute"}
    rows |= {kernel.key: kernel.isolated for kernel in region.kernels}
    rows |= {f"forward:{op.name}": op.isolated for op in region.post_grad if not op.is_view}
    return {name: (found.status, found.reason) for name, found in rows.items()}


def test_a_device_assert_costs_one_row_of_a_run(tmp_path: Path) -> None:
    words = ["run", "--custom-model-file", str(MODEL), "--model-class", "Faulty", "--repeat", "10", "--warmup", "2"]
    command = [sys.executable, "-m", "graphbench", *words, "--output-dir", str(tmp_path / "out")]
    done = subprocess.run(command, env=environment(tmp_path), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "happened").exists()
    record = document.read(tmp_path / "out" / "profile.json")
    rows = isolated(record)
    failed = {name: reason for name, (status, reason) in rows.items() if status != "ok"}
    assert list(failed) == ["takes_default"], rows
    assert failed["takes_default"].startswith("device assert: ")
    (region,) = record.regions
    assert {node.in_graph.status for node in region.nodes if node.kind == "compute"} == {"ok"}
    assert {kernel.in_graph.status for kernel in region.kernels} == {"ok"}
    assert any("continued" in note for note in record.notes)
    assert "starting again without the unit" in done.stderr


def test_a_device_assert_in_the_api_fails_its_row_and_skips_the_rest(tmp_path: Path) -> None:
    code = MEASURE.format(folder=str(MODEL.parent), path=str(tmp_path / "profile.json"))
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment(tmp_path), capture_output=True, text=True, check=False)
    assert (tmp_path / "profile.json").exists(), done.stderr
    record = document.read(tmp_path / "profile.json")
    rows = isolated(record)
    (failed,) = (reason for status, reason in rows.values() if status == "failed")
    assert failed.startswith("device assert: ")
    measured = [name for name, (status, _) in rows.items() if status == "ok"]
    skipped = [reason for status, reason in rows.values() if status == "skipped"]
    assert measured
    assert skipped
    assert all("context lost: device assert" in reason for reason in skipped), skipped
    (region,) = record.regions
    assert {node.in_graph.status for node in region.nodes if node.kind == "compute"} == {"ok"}

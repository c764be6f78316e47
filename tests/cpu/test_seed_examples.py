"""What people did with a tool of this kind, done here: a model file, saved inputs, two lengths, a culprit."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import graphbench
from graphbench.cli import main
from graphbench.document import read

EXAMPLES = Path(__file__).parents[2] / "examples"
BUDGET = ["--warmup", "2", "--repeat", "10", "--no-progress", "--device", "cpu", "--ceilings", "off"]
MODEL = """
import torch
from torch import nn

class Encoder(nn.Module):
    '''One layer of an encoder, attention written out.'''

    def __init__(self, width=16):
        super().__init__()
        self.embed = nn.Embedding(1000, width)
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, input_ids):
        x = self.embed(input_ids)
        query, key, value = self.project(x).chunk(3, -1)
        weights = torch.softmax(query @ key.transpose(-2, -1), -1)
        return x + self.out(weights @ value)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x, scale):
        return torch.relu(self.layer(x)) * scale
"""


@pytest.fixture(autouse=True)
def _alone() -> Iterator[None]:
    """One thread: a neighbour on another core would be waited for in every op."""
    graphbench.reset()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
    graphbench.reset()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "my_model.py"
    path.write_text(MODEL)
    return path


def test_a_custom_model_file_with_saved_inputs(model: Path, tmp_path: Path) -> None:
    torch.save({"x": torch.randn(3, 8), "scale": torch.tensor(2.0)}, tmp_path / "input.pt")
    words = ["--custom-model-file", str(model), "--model-class", "Net", "--example-inputs", str(tmp_path / "input.pt")]
    assert main(["run", *words, *BUDGET, "--output-dir", str(tmp_path / "reports")]) == 0
    assert {path.suffix for path in (tmp_path / "reports").iterdir()} == {".txt", ".csv", ".json", ".html"}
    (region,) = read(tmp_path / "reports" / "profile.json").regions
    assert [node.op_type for node in region.nodes] == ["linear", "relu", "mul"]
    assert region.nodes[0].outputs[0].shape == (3, 4)


def test_two_sequence_lengths_show_that_attention_grows_faster(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--custom-model-file", str(model), "--model-class", "Encoder", "--output-dir", str(tmp_path / "out")]
    sets = [word for n in (128, 1024) for word in ("--example-inputs", f"input_ids=i64[1,{n}]<1000")]
    assert main(["run", *words, *sets, *BUDGET]) == 0
    assert "over 2 sets of inputs" in capsys.readouterr().out
    found = graphbench.scaling(tmp_path / "out")
    grows = {row.op_type: row.growth.exponent for row in found.nodes if row.growth is not None}
    assert grows["softmax"] > grows["linear"] + 0.3
    assert grows["softmax"] > 1.5
    shapes = [read(tmp_path / "out" / f"input_ids=1x{n}" / "profile.json").regions[0] for n in (128, 1024)]
    assert [region.nodes[0].outputs[0].shape[1] for region in shapes] == [128, 1024]


def test_the_culprit_is_found_behind_ops_that_could_be_fused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    found = importlib.import_module("find_the_culprit").main(measure_ms=5.0, folder=tmp_path)
    sys.modules.pop("find_the_culprit")
    assert [node.op_type for node in found.culprits] == ["masked_fill", "masked_fill"]
    assert min(found.shares) > 0.4
    changes = {(row.op_type, row.change) for row in found.difference.nodes}
    assert {("masked_fill", "both"), ("matmul", "gone"), ("einsum", "added")} <= changes
    assert "fused: masked_fill takes" in capsys.readouterr().out

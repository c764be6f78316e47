"""`graphbench run --replace`: below the report, the profile as it was, and a candidate that fails tells why."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import pytest

import graphbench
from graphbench.cli import main
from graphbench.cli.replacements import parse_replacements, tolerance
from graphbench.document import read
from graphbench.errors import CaptureError, GraphbenchError, UsageError
from graphbench.models.functions import FunctionSource

NET = """
import torch
from torch import nn

class Net(nn.Module):
    def forward(self, x):
        return torch.softmax(x + 1, -1)

def exponentials(x, dim):
    return torch.exp(torch.log_softmax(x, dim))

def zeros(x, dim):
    return torch.zeros_like(x)
"""


def run(folder: Path, *words: str) -> int:
    (folder / "net.py").write_text(NET)
    model = ["--custom-model-file", str(folder / "net.py"), "--model-class", "Net", "--input", "f32[8,16]"]
    graphbench.reset()
    return main(["run", *model, "--device", "cpu", "--repeat", "4", "--warmup", "1", "--no-progress", *words])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a candidate that fits, and one that does not."""
    folder = tmp_path_factory.mktemp("replace")
    file = folder / "net.py"
    words = ["--replace", f"softmax={file}:zeros", "--replace", f"r0/softmax={file}:exponentials"]
    assert run(folder, *words, "--output-dir", str(folder / "out")) == 2
    return folder


def test_every_candidate_is_told_below_the_report(folder: Path) -> None:
    report = (folder / "out" / "report.txt").read_text()
    assert report.index("coverage: attributed") < report.index("r0/softmax: the candidate's result is not the node's")
    table = report[report.index("graphbench replacement of r0/softmax by exponentials") :]
    assert "in graph: predicted to " in table
    assert "predicted: its part of its kernels' time" in table


def test_the_profile_is_that_of_the_model_alone(folder: Path) -> None:
    (region,) = read(folder / "out" / "profile.json").regions
    assert [node.name for node in region.nodes] == ["add", "softmax"]


def test_a_candidate_that_is_not_there_is_told_before_measuring(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "--replace", f"softmax={tmp_path / 'net.py'}:nothing") == 2
    told = capsys.readouterr()
    assert "nothing: no such function" in told.err
    assert "coverage" not in told.out


@pytest.mark.parametrize(("text", "expected"), [("0", 0.0), ("10", 10.0), ("inf", math.inf)])
def test_a_tolerance_is_a_factor(text: str, expected: float) -> None:
    assert tolerance(text) == expected


@pytest.mark.parametrize("text", ["-1", "nan", "much"])
def test_what_is_no_factor_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="at least 0, or inf"):
        tolerance(text)


@pytest.mark.parametrize("text", ["softmax", "=net:f", "softmax=net", "softmax=net:", "softmax=:f", "softmax=net:a b"])
def test_what_names_no_node_or_function_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"expected .*MODULE:FUNCTION"):
        parse_replacements([text])


def test_a_function_of_a_module_is_loaded() -> None:
    assert FunctionSource.parse("--replace", "os.path:join").load() is __import__("os").path.join


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("no_such_module_here:f", UsageError, "no such module"),
        ("os.path:sep", UsageError, "found str, expected a function"),
        ("missing.py:f", UsageError, "candidate file missing.py: no such file"),
        ("raises.py:f", CaptureError, "importing it raised ZeroDivisionError"),
        ("raises:f", CaptureError, "importing it raised ZeroDivisionError"),
    ],
)
def test_a_function_that_cannot_be_loaded_is_told(
    text: str, kind: type[GraphbenchError], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "raises.py").write_text("1 / 0")
    with pytest.raises(kind, match=message):
        FunctionSource.parse("--replace", text).load()


def test_a_tolerance_without_end_lets_any_values_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--replace", f"softmax={tmp_path / 'net.py'}:zeros", "--replace-tolerance", "inf"]
    assert run(tmp_path, *words, "--ceilings", "off") == 0
    assert "softmax by zeros" in capsys.readouterr().out

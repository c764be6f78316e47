"""`graphbench run` with every flag that says which model and how it runs, as a user types them, on the CPU."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import graphbench
from graphbench.cli import main
from graphbench.document import read
from graphbench.records import ProfileRecord

BUDGET = ["--warmup-ms", "1", "--measure-ms", "2", "--no-progress", "--device", "cpu", "--ceilings", "off"]
NETS = """
import torch
from torch import nn

class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
    def forward(self, x, *, scale=2.0):
        return self.conv(x) * scale

class Breaks(nn.Module):
    def forward(self, x):
        x = x + 1
        torch._dynamo.graph_break()
        return x * 2

class Elsewhere(nn.Module):
    def forward(self, x):
        return x.flatten() @ torch.ones(108, device="meta")

conv = Conv()
def example_inputs(): return {"x": torch.ones(1, 3, 6, 6)}
"""
LOSSES = "def squares(result, inputs): return result.pow(2).sum() + 0 * inputs['x'].sum()\n"


@pytest.fixture(autouse=True)
def _fresh_session() -> Iterator[None]:
    graphbench.reset()
    yield
    graphbench.reset()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder with a module of models and one of losses."""
    (tmp_path / "nets_of_a_user.py").write_text(NETS)
    (tmp_path / "losses_of_a_user.py").write_text(LOSSES)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in ("nets_of_a_user", "losses_of_a_user"):
        sys.modules.pop(name, None)


def run(*words: str) -> int:
    return main(["run", *BUDGET, "--no-supervise", *words])


def measured(*words: str) -> ProfileRecord:
    assert run(*words, "--output-dir", "out") == 0
    return read(Path("out", "profile.json"))


def test_a_class_of_a_module_in_the_current_folder_runs_on_what_its_module_gives(folder: Path) -> None:
    record = measured(
        "--model", "nets_of_a_user:Conv", "--channels-last", "--fullgraph", "--inductor", "max-fusion-size=8"
    )
    assert record.subject == "nets_of_a_user:Conv"
    assert dict(record.environment.options)["max_fusion_size"] == "8"
    (entry,) = record.inputs
    assert entry.spec is not None
    assert (entry.name, entry.kind, entry.spec.shape, entry.spec.stride) == (
        "x",
        "tensor",
        (1, 3, 6, 6),
        (108, 1, 18, 3),
    )
    weight = next(entry.spec for entry in record.regions[0].inputs if "weight" in entry.source)
    assert weight is not None
    assert weight.stride == (27, 1, 9, 3)


def test_a_named_loss_is_what_a_step_trains_on(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save({"model": {"conv.weight": torch.ones(4, 3, 3, 3), "conv.bias": torch.ones(4)}}, "best.pt")
    words = ["--train", "--loss", "losses_of_a_user:squares", "--checkpoint", "best.pt"]
    record = measured("--model", "nets_of_a_user:conv", *words)
    assert record.step is not None
    assert "pow" in {row.op_type for row in record.step.rows}
    assert record.subject == "nets_of_a_user:conv with best.pt"
    assert "checkpoint best.pt: read from its 'model'" in capsys.readouterr().err


def test_a_graph_break_is_an_error_where_one_graph_is_asked_for(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--model", "nets_of_a_user:Breaks", "--fullgraph") == 1
    printed = capsys.readouterr().err
    assert "or leave out --fullgraph" in printed
    assert "nets_of_a_user.py:15" in printed


def test_a_tensor_that_is_made_on_another_device_is_an_error_that_names_the_op(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--model", "nets_of_a_user:Elsewhere") == 1
    printed = capsys.readouterr().err
    assert " in matmul: " in printed
    assert "(nets_of_a_user.py:20, in forward)" in printed
    assert "hint: let the model make it with device=x.device" in printed


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--inductor", "max_autotun=true"], 2, "--inductor max_autotun=True: unknown Inductor option 'max_autotun'"),
        (["--inductor", "max_autotun=true"], 2, "known options of a similar name: max_autotune"),
        (["--inductor", "max_autotune=often"], 2, "found 'often', expected a value of type bool"),
        (["--inductor", "cpp_wrapper=true"], 2, "Inductor option 'cpp_wrapper' cannot be measured"),
        (["--train", "--loss", "nowhere_at_all:f"], 2, "nowhere_at_all: no such module"),
    ],
)
def test_what_cannot_work_is_refused_before_the_model_is_built(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, told: str
) -> None:
    assert run("--model", "nets_of_a_user:Missing", *words) == code
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--model", "nets_of_a_user:Missing"], 2, "module nets_of_a_user: Missing: no such class"),
        (["--model", "nets_of_a_user:torch.nn"], 2, "torch.nn: found module, expected a class or function"),
        (
            ["--model", "nets_of_a_user:conv", "--model-arg", "a=1"],
            2,
            "it is a module already, which takes no --model-arg",
        ),
        (["--model", "nets_of_a_user.py:Conv"], 2, "--custom-model-file nets_of_a_user.py --model-class Conv"),
        (["--model", "nowhere_at_all:Net"], 2, "unknown zoo 'nowhere_at_all', and no module of that name"),
        (["--model", "torchvison:resnet18"], 2, "did you mean torchvision:resnet18?"),
        (["--model", "a/b:Net"], 2, "unknown zoo 'a/b'"),
        (["--model", "resnet18"], 2, "expected ZOO:NAME or MODULE:FACTORY"),
        (["--model", "nets_of_a_user:Conv", "--checkpoint", "gone.pt"], 2, "checkpoint gone.pt: no such file"),
        (
            ["--model", "nets_of_a_user:Conv", "--train", "--loss", "own"],
            1,
            "--loss own: the model's result, a Tensor, has",
        ),
    ],
)
def test_what_goes_wrong_is_one_message(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, told: str
) -> None:
    assert run(*words) == code
    printed = capsys.readouterr().err
    assert told in printed
    assert "Traceback" not in printed


def test_a_comparison_trains_on_the_same_loss(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--train", "--loss", "own", "--compare", "eager,default"]
    assert run("--model", "nets_of_a_user:Conv", *words) == 1
    assert "--loss own: the model's result, a Tensor, has no loss" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["--inductor", "max_autotune=true"], ["--compile-mode", "default"]])
def test_options_of_one_configuration_are_refused_beside_several(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert run("--model", "nets_of_a_user:Conv", "--compare", "eager,default", *words) == 2
    assert f"{words[0]} with --compare" in capsys.readouterr().err


def test_a_supervised_run_finds_the_module_too(folder: Path) -> None:
    words = ["--model", "nets_of_a_user:Conv", "--output-dir", os.fspath(folder / "out")]
    assert main(["run", *BUDGET, *words]) == 0
    assert read(folder / "out" / "profile.json").inputs[0].name == "x"

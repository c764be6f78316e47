"""`graphbench run`, `show`, `diff` and `demo` as a user types them, on the CPU, with tiny budgets."""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import graphbench
from graphbench.cli import main
from graphbench.cli.execute import pick_device
from graphbench.document import read
from graphbench.errors import GraphbenchError, SetupError, UsageError

ROOT = Path(__file__).parents[2]
BUDGET = ["--warmup-ms", "1", "--measure-ms", "2", "--no-progress", "--device", "cpu"]
NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.linear = nn.Linear(width, width)
    def forward(self, x, *, scale=None):
        x = torch.softmax(self.linear(x), -1)
        return x if scale is None else x * scale

class Raises(Net):
    def forward(self, x):
        raise ValueError("the weather is bad")

class Mismatch(Net):
    def forward(self, x):
        return x @ torch.ones(3, 5)

class Eager(Net):
    @torch.compiler.disable
    def forward(self, x):
        return x + 1

class Nothing(Net):
    def forward(self, x):
        return x

class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
    def forward(self, x):
        return self.conv(x)

class Detached(Net):
    def forward(self, x):
        return super().forward(x).detach()
"""


@pytest.fixture(autouse=True)
def _fresh_session() -> Iterator[None]:
    graphbench.reset()
    yield
    graphbench.reset()


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "net.py"
    path.write_text(NET)
    return path


def run(net: Path, target: str, *words: str) -> int:
    return main(["run", "--custom-model-file", os.fspath(net), "--model-class", target, *BUDGET, *words])


# results


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder `out` of one run, beside the model's file."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "net.py").write_text(NET)
    graphbench.reset()
    words = ["--input", "f32[8,16]", "--input", "scale=f32[]", "--output-dir", os.fspath(folder / "out"), "--strict"]
    assert run(folder / "net.py", "Net", *words) == 0
    return folder / "out"


def test_run_leaves_every_file(profiles: Path) -> None:
    tables, reports = {"nodes.csv", "fusions.csv"}, {"report.txt", "report.html", "trace.json"}
    assert {path.name for path in profiles.iterdir()} == {"profile.json", *tables, *reports}


def test_nodes_csv_has_a_row_for_every_op_of_the_model(profiles: Path) -> None:
    with (profiles / "nodes.csv").open(newline="") as file:
        text = " ".join(value for row in csv.DictReader(file) for value in row.values())
    assert all(op in text for op in ("linear", "softmax", "mul"))


def test_saved_profile_says_what_was_measured(profiles: Path) -> None:
    record = read(profiles / "profile.json")
    assert record.subject == "net.py:Net"
    assert record.policy.timer == "wallclock"
    (region,) = record.regions
    assert [node.isolated.status for node in region.nodes if node.kind == "compute"] == ["ok"] * 3


def test_what_a_session_holds_is_no_news_where_it_ends_with_the_command(profiles: Path) -> None:
    assert not [note for note in read(profiles / "profile.json").notes if "graphbench.reset()" in note]


def test_inference_of_one_region_has_one_coverage_line(profiles: Path) -> None:
    report = (profiles / "report.txt").read_text()
    assert report.count("attributed 100.00 %") == 1


def test_report_is_what_show_prints(profiles: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", os.fspath(profiles / "profile.json")]) == 0
    assert capsys.readouterr().out == (profiles / "report.txt").read_text()


@pytest.mark.parametrize("command", [["show", "{}"], ["show", "{}", "--format", "csv"], ["diff", "{}", "{}"]])
def test_saved_profiles_are_read_without_torch(profiles: Path, command: list[str]) -> None:
    words = [word.format(profiles / "profile.json") for word in command]
    heavy = "{'torch', 'networkx', 'numpy', 'tqdm'} & set(sys.modules)"
    code = f"import sys; from graphbench.cli import main; code = main({words!r}); sys.exit(code or str({heavy} or ''))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.strip()) in {(0, ""), (1, "")}
    assert done.stdout


def test_profile_does_not_regress_against_itself(profiles: Path) -> None:
    path = os.fspath(profiles / "profile.json")
    assert main(["diff", path, path, "--fail-on-regression", "1%"]) == 0


def test_training_run_measures_backward(net: Path, tmp_path: Path) -> None:
    assert run(net, "Net", "--input", "f32[8,16]", "--train", "--output-dir", os.fspath(tmp_path / "out")) == 0
    record = read(tmp_path / "out" / "profile.json")
    assert [kernel for region in record.regions for kernel in region.kernels if kernel.phase == "backward"]


def test_transformers_model_runs_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["n_layer=1", "n_embd=32", "n_head=2", "vocab_size=50", "n_positions=16"]
    words = [word for size in sizes for word in ("--model-arg", size)]
    assert main(["run", "--model", "hf:gpt2", *words, *BUDGET]) == 0
    printed = capsys.readouterr()
    assert "attributed 100.00 %" in printed.out
    assert "input_ids=i64[1,16]<50" in printed.err


@pytest.mark.slow
def test_demo_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", *BUDGET]) == 0
    assert "softmax" in capsys.readouterr().out


# what goes wrong: one message, an exit code, no traceback


@pytest.mark.parametrize(
    ("target", "words", "code", "message"),
    [
        ("Mismatch", ["--input", "f32[8,16]"], 1, "(net.py:19, in forward)"),
        ("Nothing", ["--input", "f32[8,16]"], 1, "net.py:Nothing: its forward runs no tensor op"),
        ("Conv", ["--input", "x=f32[8,4,9,9]"], 1, "expected input[8, 4, 9, 9] to have 3 channels, but got 4"),
        ("Net", ["--input", "f32[8,16]", "--dtype", "bf16"], 1, "an input of --input is f32; give it as bf16"),
        ("Detached", ["--input", "f32[8,16]", "--train"], 1, "outputs have no gradient"),
        ("Net", [], 2, "its inputs are not known"),
        ("Net", ["--input", "y=f32[8,16]"], 2, "inputs from --input do not fit forward"),
        ("Net", ["--input", "f32[8,16]", "--l2", "warm"], 2, "--l2 warm: only a GPU's cache can be set"),
        ("Missing", ["--input", "f32[8,16]"], 2, "Missing: no such class"),
        ("Net", ["--input", "f32[8,16]", "--model-arg", "depth=1"], 2, "unexpected keyword argument 'depth'"),
    ],
)
def test_what_goes_wrong_is_one_message(
    net: Path, capsys: pytest.CaptureFixture[str], target: str, words: list[str], code: int, message: str
) -> None:
    assert run(net, target, *words) == code
    printed = capsys.readouterr()
    assert message in printed.err
    assert "Traceback" not in printed.err
    assert printed.out == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--timer", "cupti"], "graphbench: error: --timer cupti: it times CUDA devices, but --device is cpu\n"),
        (["--compile-mode", "foo"], "graphbench: error: --compile-mode foo: no such mode\n  hint: modes of this torch"),
        (["--l2", "warm"], "graphbench: error: --l2 warm: only a GPU's cache can be set"),
    ],
)
def test_option_that_cannot_work_is_refused_before_the_model_is_built(
    net: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert run(net, "Missing", "--input", "f32[8,16]", *words) == 2
    assert message in capsys.readouterr().err


def test_error_hints_fit_a_command_line(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(net, "Nothing", "--input", "f32[8,16]")
    assert "torch.compile(model" not in capsys.readouterr().err


def test_a_model_that_cannot_be_compiled_is_measured_as_it_runs_eagerly(
    net: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(net, "Eager", "--input", "f32[8,16]") == 0
    printed = capsys.readouterr().out
    assert "nothing was compiled" in printed
    assert re.search(r"^add .*net\.py:\d+", printed, re.MULTILINE)


def test_code_that_inductor_generated_is_not_the_users_place(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(net, "Net", "--input", "f32[8,16]", "--dtype", "bf16")
    assert re.search(r"\(net\.py:\d+, in forward\)", capsys.readouterr().err)


def test_exception_of_the_model_is_told_once_with_its_place(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(net, "Raises", "--input", "f32[8,16]")
    told = "net.py:Raises: running it raised ValueError: the weather is bad (net.py:15, in forward)"
    assert f"graphbench: error: {told}\n" in capsys.readouterr().err


def test_missing_model_file_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path / "missing.py", "Net") == 2
    assert "missing.py: no such file" in capsys.readouterr().err


@pytest.mark.parametrize("device", ["abacus", "mps", "cpu:x", "cpu:3", "meta"])
def test_unknown_device_is_a_usage_error(device: str) -> None:
    with pytest.raises(UsageError, match="--device"):
        pick_device(device)


def test_missing_gpu_is_a_setup_error() -> None:
    with pytest.raises(SetupError, match="CUDA devices"):
        pick_device("cuda:99")


def test_unreadable_profile_is_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.json").write_text("{")
    assert main(["show", os.fspath(tmp_path / "p.json")]) == GraphbenchError.exit_code
    assert "p.json" in capsys.readouterr().err

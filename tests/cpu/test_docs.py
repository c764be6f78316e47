"""Every code block of README.md and of the pages is run, in order, as a reader would: with small budgets, on the CPU.

A block that cannot run here says why in a comment above it. Zoo models are replaced by a tiny one of a file, since they
are packages and minutes; all other flags of the line are taken as they stand.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._inductor.config
from torch import nn

import graphbench
from graphbench import cli, session
from graphbench.cli import demo
from graphbench.doctor import examine
from graphbench.doctor.finding import Finding
from graphbench.doctor.machine import Machine
from graphbench.options import MeasureOptions
from tests.cpu.stories import clean
from tests.pages import PAGES, ROOT, Block, CommandLine, blocks_of, command_lines, graphbench_call

CHEAP = {"repeat": 3, "warmup": 1, "progress": False, "ceilings": "off"}
CHEAP_FLAGS = ("--repeat=3", "--warmup=1", "--no-progress", "--ceilings=off", "--device=cpu")
STAND_IN = ("--custom-model-file=net.py", "--model-class=Net")
OF_A_ZOO = ("--model", "--model-arg", "--input", "--example-inputs", "--batch-size")
WIDTH = 256
MAY_FAIL = {"--fail-on-regression": 5, "--strict": 4, "doctor": 3}
NET = """import torch
from torch import nn


class Mlp(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = nn.Linear(8, width)
        self.act = nn.GELU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.up(x))


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.mlp = Mlp(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.mlp(x)


class Net(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Block(width)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers[0](x)


def example_inputs(batch_size: int = 2) -> torch.Tensor:
    return torch.randn(batch_size, 3, 8, 8)


def my_gelu(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    return 0.5 * x * (1 + torch.erf(x * 2**-0.5))
"""
"""What stands for any model: modules as `layers.0.mlp.act`, nodes `linear` and `gelu`, one C++ kernel."""


EXAMINE = examine.examine


@functools.cache
def found_by_doctor() -> tuple[Finding, ...]:
    """What `doctor` finds, looked for once."""
    return tuple(EXAMINE(Machine()))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a run, which pages take for granted."""
    folder = tmp_path_factory.mktemp("report")
    file = folder / "net.py"
    file.write_text(NET, encoding="utf-8")
    words = ["run", "--custom-model-file", os.fspath(file), "--model-class", "Net", *CHEAP_FLAGS, "--no-supervise"]
    with clean():
        assert cli.main([*words, "--output-dir", os.fspath(folder / "report")]) == 0
    export = ["export", os.fspath(folder / "report"), "--format", "op-list", "-o", os.fspath(folder / "ops.yaml")]
    assert cli.main(export) == 0
    return folder / "report"


@pytest.fixture
def scratch(report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what a reader is supposed to have, as the working directory and as home."""
    shutil.copytree(report, tmp_path / "report")
    for name in ("net.py", "model.py", "kernels.py"):
        (tmp_path / name).write_text(NET, encoding="utf-8")
    for name in ("before.json", "after.json"):
        shutil.copy(report / "profile.json", tmp_path / name)
    shutil.copy(report.parent / "ops.yaml", tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(os.fspath(tmp_path))
    monkeypatch.setenv("HOME", os.fspath(tmp_path))
    return tmp_path


@pytest.fixture(autouse=True)
def _cheap(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Budgets that readers do not see: other defaults of the measuring options, a smaller demo."""
    defaults: dict[str, Any] = MeasureOptions.__init__.__kwdefaults__
    for name, value in CHEAP.items():
        monkeypatch.setitem(defaults, name, value)
    size = demo.DemoSize(width=32, heads=2, layers=1, vocabulary=64, batch=2, length=8, dtype="f32")
    monkeypatch.setattr(demo, "CPU_SIZE", size)
    monkeypatch.setattr(examine, "examine", lambda _: found_by_doctor())
    # Nothing to tune, and so nothing to build for it.
    with torch._inductor.config.patch(max_autotune_gemm_backends="ATEN"):
        yield
    graphbench.reset()


def names_of_a_reader(report: Path) -> dict[str, Any]:
    """What a reader's own code has: a page may use these without defining them."""

    def my_gelu(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
        return 0.5 * x * (1 + torch.erf(x * 2**-0.5))

    def norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return x * x.square().mean(-1, keepdim=True).rsqrt() * weight

    return {
        "__name__": "__main__",
        "torch": torch,
        "nn": nn,
        "graphbench": graphbench,
        "net": nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()).eval(),
        "x": torch.randn(64, WIDTH),
        "prompt": torch.randn(64, WIDTH),
        "weight": torch.randn(WIDTH),
        "my_gelu": my_gelu,
        "norm": norm,
        "norm_": lambda x, weight: x.copy_(norm(x, weight)),
        "fused_norm": lambda x, weight: nn.functional.rms_norm(x, (WIDTH,), weight),
        "profile": graphbench.load(report / "profile.json"),
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_runs(page: Path, scratch: Path, report: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = [block for block in blocks_of(page) if block.not_run is None]
    for name in ("before.json", "after.json"):
        if any(f'.save("{name}"' in block.code for block in blocks):
            (scratch / name).unlink()  # the page makes it itself
    lists = [block.code for block in blocks_of(page) if block.language == "yaml"]
    if lists:
        (scratch / "ops.yaml").write_text(lists[0], encoding="utf-8")
    names = names_of_a_reader(report)
    for block in blocks:
        if block.file is not None:
            (scratch / block.file).write_text(block.code, encoding="utf-8")
        elif block.language == "python":
            # As many lines above it as on the page: a traceback, and Dynamo, then show the page's own.
            exec(compile("\n" * block.line + block.code, os.fspath(page), "exec"), names)
        elif block.language == "sh":
            run_lines(block, capsys)


def run_lines(block: Block, capsys: pytest.CaptureFixture[str]) -> None:
    """Run the command lines of a block in this process."""
    for line in command_lines(block.code):
        call = graphbench_call(line)
        assert call is not None, f"{block}: {line}: not a call of graphbench: mark the block, and say why it is not run"
        capsys.readouterr()
        with another_process():
            code = cli.main(runnable(call))
        printed = capsys.readouterr()
        allowed = {0, *(code for flag, code in MAY_FAIL.items() if flag in call.words)}
        assert code in allowed, f"{block}: {line}: exit code {code}: {printed.err}"
        if call.output is not None:
            Path(call.output).expanduser().write_text(printed.out, encoding="utf-8")


@contextlib.contextmanager
def another_process() -> Iterator[None]:
    """While inside, nothing is captured yet; afterwards, what the page's Python captured is there again."""
    held = session._Current.session
    session._Current.session = None
    yield
    torch._dynamo.reset()
    session._Current.session = held


def runnable(call: CommandLine) -> list[str]:
    """The words of a call as they are run here."""
    words = ["--no-config", *call.words]
    at = next(index for index, word in enumerate(words) if word[0] != "-")
    given = {word.partition("=")[0] for word in words}
    if words[at] == "export" and given & {"-o", "--output"}:
        return [*words, "--force"]  # ops.yaml is there
    if words[at] not in ("run", "demo") or "--resume" in given:
        return words
    cheap = [flag for flag in CHEAP_FLAGS if flag.partition("=")[0] not in given]
    if "--output-dir" in given and "--force" not in given:
        cheap.append("--force")
    rest = words[at + 1 :]
    if "..." in rest or ("--model" in given and not any(word.startswith("net:") for word in rest)):
        rest = [*STAND_IN, *without(rest, OF_A_ZOO)]
    return [*words[: at + 1], *cheap, *rest]


def without(words: list[str], flags: tuple[str, ...]) -> list[str]:
    """Words without these flags and their values, and without the dots that stand for a model."""
    kept, skip = [], False
    for word in words:
        name, equals, _ = word.partition("=")
        if skip or word == "..." or name in flags:
            skip = not skip and name in flags and not equals
            continue
        kept.append(word)
    return kept


def test_a_zoo_model_is_replaced_and_every_other_flag_kept() -> None:
    call = CommandLine(("run", "--model", "hf:gpt2", "--model-arg=n_layer=2", "--top", "3", "--repeat", "9"))
    words = runnable(call)
    assert words[:2] == ["--no-config", "run"]
    assert words[-6:] == [*STAND_IN, "--top", "3", "--repeat", "9"]
    assert "--repeat=3" not in words


def test_dots_stand_for_a_model() -> None:
    assert runnable(CommandLine(("run", "...", "--wide")))[-3:] == [*STAND_IN, "--wide"]


def test_what_measures_nothing_is_run_as_it_stands() -> None:
    assert runnable(CommandLine(("show", "report"))) == ["--no-config", "show", "report"]


def test_budgets_are_small_here() -> None:
    assert MeasureOptions().repeat == CHEAP["repeat"]

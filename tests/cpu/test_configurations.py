"""Several configurations of one model: who fails is a row, results are eager's, and the model is left as it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import graphbench
from graphbench import session
from graphbench.cli import main
from graphbench.configurations.sides import sides_named
from graphbench.document import read
from graphbench.errors import UsageError
from graphbench.trials import ConfigurationTable
from tests.cpu.stories import WIDTH, Regularised, Scores, batch, changes, clean, compiled, world

QUICK: dict[str, Any] = {"repeat": 4, "warmup": 1, "progress": False}
NET = """
import torch
from torch import nn

class Net(nn.Module):
    def forward(self, x):
        return torch.softmax(x + 1, -1)
"""


def broken(gm: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    raise ValueError("no such chip")


def wrong(gm: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    return lambda *args: tuple(result + 1 for result in gm.forward(*args))


@pytest.fixture(scope="module", autouse=True)
def _backends() -> None:
    for name, backend in (("broken_backend", broken), ("wrong_backend", wrong)):
        if name not in torch._dynamo.list_backends(exclude_tags=()):
            torch._dynamo.register_backend(backend, name=name)


@pytest.fixture(scope="module")
def inference() -> ConfigurationTable:
    """Two modes of Inductor, other backends, and one that fails; nothing is profiled twice."""
    with clean():
        torch.manual_seed(0)
        names = ["eager", "default", "broken_backend", "wrong_backend", "max-autotune-no-cudagraphs"]
        return graphbench.compare_configurations(Scores().eval(), (batch(),), names, **QUICK)


def test_every_configuration_has_a_row_in_the_order_asked_for(inference: ConfigurationTable) -> None:
    found = [(row.name, row.kind) for row in inference.result.rows]
    assert found == [
        ("eager", "eager"),
        ("default", "inductor"),
        ("broken_backend", "backend"),
        ("wrong_backend", "backend"),
        ("max-autotune-no-cudagraphs", "inductor"),
    ]


def test_steps_are_timed_in_two_halves(inference: ConfigurationTable) -> None:
    halves = {row.name: len(row.row.halves) for row in inference.result.rows if row.row is not None}
    assert halves == dict.fromkeys(("eager", "default", "wrong_backend", "max-autotune-no-cudagraphs"), 2)


def test_one_that_fails_is_a_row_with_its_reason(inference: ConfigurationTable) -> None:
    row = inference.result.rows[2]
    assert (row.row, row.reason) == (None, "it raised ValueError: no such chip")
    assert "– broken_backend: it raised ValueError: no such chip" in str(inference)


def test_results_are_compared_with_eagers(inference: ConfigurationTable) -> None:
    equal = {row.name: row.difference.equal for row in inference.result.rows if row.difference is not None}
    assert equal == {"default": True, "wrong_backend": False, "max-autotune-no-cudagraphs": True}
    assert "! wrong_backend: its result is not eager's (max diff 1.0e+00)" in str(inference)


def test_only_inductors_modes_have_profiles(inference: ConfigurationTable) -> None:
    assert list(inference.profiles) == ["default", "max-autotune-no-cudagraphs"]
    options = dict(inference.profiles["max-autotune-no-cudagraphs"].record.environment.options)
    assert options["max_autotune"] == "True"
    assert "timed as a whole only: eager, wrong_backend" in str(inference)


def test_a_profile_of_one_configuration_knows_nothing_of_the_others(inference: ConfigurationTable) -> None:
    record = inference.profiles["max-autotune-no-cudagraphs"].record
    assert (record.recompiles, record.breaks, [region.key for region in record.regions]) == ((), (), ["r0"])
    assert record.subject == "a model, max-autotune-no-cudagraphs"


def test_nodes_are_joined_over_modes(inference: ConfigurationTable) -> None:
    text = str(inference).partition("Nodes:")[2]
    rows = [line.split() for line in text.splitlines() if line.startswith(("linear", "softmax"))]
    assert {cells[0]: len(cells) for cells in rows} == {"linear": 5, "softmax": 5}


@pytest.fixture
def trained() -> tuple[ConfigurationTable, list[str]]:
    """A training step of a model with buffers and random ops, and what it changed of the model."""
    torch.manual_seed(0)
    net, x = Regularised(), batch()
    for parameter in net.parameters():
        parameter.grad = torch.full_like(parameter, 0.25)
    before = world(net, x)
    found = graphbench.compare_configurations(net, (x,), ["aot_eager", "default"], train=True, **QUICK)
    return found, changes(before, world(net, x))


def test_a_training_step_is_compared_and_leaves_the_model_as_it_was(
    trained: tuple[ConfigurationTable, list[str]],
) -> None:
    found, changed = trained
    assert [change for change in changed if not change.startswith("version of")] == []
    assert [row.reason for row in found.result.rows] == ["", ""]
    (region,) = found.profiles["default"].record.regions
    assert {kernel.phase for kernel in region.kernels} == {"forward", "backward"}
    assert [row.difference.note for row in found.result.rows if row.difference is not None] == [
        "random ops draw other numbers when compiled"
    ] * 2


def test_a_buffer_that_a_step_replaces_is_the_models_own_again() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count = self.count + 1
            return x + self.count

    net = Counting()
    buffer = net.count
    found = graphbench.compare_configurations(net, (batch(),), ["eager", "aot_eager"], **QUICK)
    assert net.count is buffer
    assert buffer.item() == 0
    assert [row.difference.equal for row in found.result.rows if row.difference is not None] == [True]


def test_the_first_that_runs_is_the_baseline() -> None:
    model = nn.Linear(WIDTH, WIDTH)
    found = graphbench.compare_configurations(model, (batch(),), ["broken_backend", "eager", "aot_eager"], **QUICK)
    assert [row.ratio is None for row in found.result.rows] == [True, False, False]
    assert found.result.rows[1].ratio == 1.0
    assert "broken_backend failed: times are compared with eager" in str(found)


def test_where_all_fail_nothing_is_timed() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        raise ValueError("the weather is bad")

    found = graphbench.compare_configurations(model, (batch(),), ["eager", "broken_backend"], **QUICK)
    assert (found.result.table, [row.row for row in found.result.rows]) == (None, [None, None])
    assert "every configuration failed" in str(found)


def test_the_session_keeps_its_regions_and_hears_of_no_others() -> None:
    with torch.no_grad():
        compiled(lambda x: x + 1)(batch())
    graphbench.compare_configurations(nn.Linear(WIDTH, WIDTH), (batch(),), ["eager", "aot_eager"], **QUICK)
    assert [region.key for region in session.current().regions] == ["r0"]
    record = graphbench.measure(**QUICK).record
    assert [record.breaks, record.recompiles] == [(), ()]


@pytest.mark.parametrize(
    ("names", "message", "hint"),
    [
        (["eager"], "expected two or more names", "eager, default"),
        (["eager", ""], "expected two or more names", "eager, default"),
        (["eager", "eager"], "'eager' is named twice", None),
        (["eager", "defalt"], "no configuration 'defalt'", "did you mean default?"),
        (["eager", "graphbench"], "graphbench compiles as Inductor does", "name the mode: default"),
    ],
)
def test_names_that_nothing_goes_by_are_refused(names: list[str], message: str, hint: str | None) -> None:
    with pytest.raises(UsageError, match=message) as error:
        sides_named(names)
    assert hint is None or hint in str(error.value.hint)


def test_a_compiled_model_is_refused() -> None:
    with pytest.raises(UsageError, match="compiled already"):
        graphbench.compare_configurations(torch.compile(nn.Linear(2, 2)), (batch(),), ["eager", "default"])


# the command


def run(folder: Path, *words: str) -> int:
    (folder / "net.py").write_text(NET)
    model = ["--custom-model-file", str(folder / "net.py"), "--model-class", "Net", "--input", "f32[8,16]"]
    return main(["run", *model, "--device", "cpu", "--repeat", "4", "--warmup", "1", "--no-progress", *words])


def test_run_compare_saves_a_report_and_a_profile_of_each_mode(tmp_path: Path) -> None:
    assert run(tmp_path, "--compare", "eager,default,broken_backend", "--output-dir", str(tmp_path / "out")) == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"report.txt", "profile-default.json"}
    assert read(tmp_path / "out" / "profile-default.json").subject == "net.py:Net, default"
    assert (
        "graphbench configurations of net.py:Net: eager, default, broken_backend"
        in (tmp_path / "out" / "report.txt").read_text()
    )


def test_run_compare_strict_tells_that_one_failed(tmp_path: Path) -> None:
    assert run(tmp_path, "--compare", "eager,broken_backend", "--strict") == 4


@pytest.mark.parametrize("words", [["--top", "3"], ["--replace", "softmax=net:f"], ["--compile-mode", "default"]])
def test_run_compare_refuses_what_is_for_one_configuration(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "--compare", "eager,default", *words) == 2
    assert f"{words[0]} with --compare: it is for a run of one configuration" in capsys.readouterr().err


def test_run_compare_never_overwrites(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "profile-default.json").touch()
    assert run(tmp_path, "--compare", "eager,default", "--output-dir", str(tmp_path)) == 2
    assert "will not overwrite" in capsys.readouterr().err


def test_an_unknown_configuration_is_told_before_anything_is_built(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "--compare", "eager,nothing") == 2
    assert "no configuration 'nothing'" in capsys.readouterr().err

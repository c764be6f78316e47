"""Which flags of a run lead to somebody's code, and that a run which goes on has to name it again."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from graphbench.cli.code_flags import check_named_again, code_of, resume_command
from graphbench.errors import UsageError

RUN = Path("/runs/one")


def given(**arguments: object) -> argparse.Namespace:
    nothing = {"custom_model_file": None, "model": None, "checkpoint": None, "unsafe_load": False, "loss": None}
    return argparse.Namespace(**nothing | {"inductor": []} | arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        {"model": "hf:gpt2"},
        {"model": "torchvision:resnet18", "loss": "sum"},
        {"model": "hf:gpt2", "checkpoint": Path("w.pt")},
    ],
)
def test_zoos_words_and_plain_weights_run_no_code_of_anybodys(arguments: dict[str, object]) -> None:
    assert code_of(given(**arguments), Path("/home/me")) == ()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"custom_model_file": Path("net.py")}, ("--custom-model-file", "/home/me/net.py")),
        ({"model": "pack.nets:Net"}, ("--model", "pack.nets:Net")),
        (
            {"model": "hf:gpt2", "checkpoint": Path("w.pt"), "unsafe_load": True},
            ("--checkpoint", "/home/me/w.pt", "--unsafe-load"),
        ),
        ({"model": "hf:gpt2", "loss": "pack.losses:mine"}, ("--loss", "pack.losses:mine")),
        ({"model": "hf:gpt2", "loss": "losses.py:mine"}, ("--loss", "/home/me/losses.py:mine")),
        ({"model": "hf:gpt2", "inductor": ["cpp.cxx=/tmp/cc"]}, ("--inductor", "cpp.cxx=/tmp/cc")),
    ],
)
def test_code_is_named_again_as_it_was_named_before(arguments: dict[str, object], words: tuple[str, ...]) -> None:
    (code,) = code_of(given(**arguments), Path("/home/me"))
    assert code.words == words
    with pytest.raises(UsageError, match="name it again to allow it") as caught:
        check_named_again(given(), [code], RUN)
    assert f"graphbench run --resume {RUN} {' '.join(words)}" in str(caught.value.hint)


def test_code_that_is_named_again_is_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    started = given(custom_model_file=Path("net.py"), loss="pack:mine")
    wanted = code_of(started, tmp_path)
    check_named_again(given(custom_model_file=tmp_path / "net.py", loss="pack:mine"), wanted, RUN)


def test_a_module_is_another_one_in_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wanted = code_of(given(model="pack:Net"), Path("/elsewhere"))
    with pytest.raises(UsageError, match="runs the code of pack:Net") as caught:
        check_named_again(given(model="pack:Net"), wanted, RUN)
    assert str(caught.value.hint).startswith("cd /elsewhere && graphbench run --resume")


def test_a_checkpoint_that_is_named_without_the_word_that_lets_it_run_code_is_not_allowed(tmp_path: Path) -> None:
    wanted = code_of(given(model="hf:gpt2", checkpoint=tmp_path / "w.pt", unsafe_load=True), tmp_path)
    with pytest.raises(UsageError, match="name it again"):
        check_named_again(given(checkpoint=tmp_path / "w.pt"), wanted, RUN)


@pytest.mark.parametrize(
    ("arguments", "flag"),
    [
        ({"model": "hf:gpt2"}, "--model"),
        ({"custom_model_file": Path("other.py")}, "--custom-model-file"),
        ({"checkpoint": Path("w.pt")}, "--checkpoint"),
        ({"loss": "sum"}, "--loss"),
        ({"inductor": ["cpp.cxx=/tmp/cc"]}, "--inductor"),
    ],
)
def test_a_flag_that_the_run_did_not_have_is_refused_beside_resume(arguments: dict[str, object], flag: str) -> None:
    with pytest.raises(UsageError, match=f"{flag} with --resume"):
        check_named_again(given(**arguments), (), RUN)


def test_an_option_of_inductor_beside_those_that_the_run_had_is_refused() -> None:
    wanted = code_of(given(inductor=["max_autotune=true"]), Path.cwd())
    with pytest.raises(UsageError, match="--inductor epilogue_fusion=false with --resume"):
        check_named_again(given(inductor=["max_autotune=true", "epilogue_fusion=false"]), wanted, RUN)


def test_a_run_without_code_goes_on_without_more_words() -> None:
    assert resume_command(RUN, ()) == "graphbench run --resume /runs/one"

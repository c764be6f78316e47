"""Zoos of other distributions, as entry points bring them: found by name, and blamed by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from graphbench.errors import CaptureError, GraphbenchError, SetupError
from graphbench.models.plugins import load_zoo, plugin_zoos
from graphbench.models.zoo import ZooModel, find_zoo, passed_over, zoo_names

Install = Callable[..., None]
ZOO = """
from graphbench.models.inputs import parse_inputs
from graphbench.models.zoo import ZooModel

def build(name, arguments, batch_size, train):
    specs = parse_inputs([f"x=f32[{batch_size},{arguments.get('width', 4)}]"])
    return ZooModel(module=(name, train), specs=specs)

def wrong(name, arguments, batch_size, train): return name
def raises(name, arguments, batch_size, train): raise KeyError("no weights here")
NUMBER = 3
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a distribution with one zoo, as pip leaves it on disk."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def installed(distribution: str, zoo: str, value: str, text: str = ZOO) -> None:
        folder = tmp_path / f"{distribution}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text(f"[graphbench.zoos]\n{zoo} = {value}\n")
        (tmp_path / f"{value.partition(':')[0]}.py").write_text(text)

    return installed


def build(zoo: str, **arguments: object) -> ZooModel:
    builder = find_zoo(zoo)
    assert builder is not None
    return builder("small", arguments, 2, True)


def test_a_plug_in_builds_models_and_says_what_they_are_called_with(install: Install) -> None:
    install("their-zoo", "theirs", "plug_a:build")
    built = build("theirs", width=8)
    assert built.module == ("small", True)
    assert [str(spec) for spec in built.specs] == ["x=f32[2,8]"]


def test_plug_ins_are_listed_after_our_own_without_being_imported(install: Install) -> None:
    install("their-zoo", "theirs", "plug_b:build", "raise SystemExit('imported')")
    assert zoo_names() == ("torchvision", "timm", "hf", "theirs")
    assert plugin_zoos() == ("theirs",)


def test_a_name_that_nobody_brings_is_no_zoo() -> None:
    assert find_zoo("nobodys") is None


@pytest.mark.parametrize(
    ("value", "text", "error", "message"),
    [
        (
            "plug_c:build",
            "import nothing_of_that_name",
            SetupError,
            "importing plug_c:build raised ModuleNotFoundError",
        ),
        ("plug_d:missing", ZOO, SetupError, "importing plug_d:missing raised AttributeError"),
        ("plug_e:NUMBER", ZOO, SetupError, "plug_e:NUMBER is a int, expected a function"),
        ("plug_f:wrong", ZOO, CaptureError, "returned a str, expected a graphbench.models.zoo.ZooModel"),
        ("plug_g:raises", ZOO, CaptureError, "raised KeyError: 'no weights here'"),
    ],
)
def test_a_plug_in_that_does_not_work_is_one_error_that_names_its_distribution(
    install: Install, value: str, text: str, error: type[GraphbenchError], message: str
) -> None:
    install("their-zoo", "theirs", value, text)
    with pytest.raises(error) as caught:
        build("theirs")
    assert message in caught.value.message
    assert "zoo 'theirs' of their-zoo" in caught.value.message


def test_our_own_zoos_are_not_taken_over_and_that_is_told(install: Install) -> None:
    ours = find_zoo("hf")
    install("their-zoo", "hf", "plug_h:build")
    assert find_zoo("hf") is ours
    assert passed_over("hf") == "hf: is graphbench's own zoo; the one of their-zoo is not used"
    assert passed_over("timm") == ""


def test_two_plug_ins_of_one_name_are_refused(install: Install) -> None:
    install("their-zoo", "theirs", "plug_i:build")
    install("other-zoo", "theirs", "plug_j:build")
    with pytest.raises(SetupError) as caught:
        load_zoo("theirs")
    assert "their-zoo" in caught.value.message
    assert "other-zoo" in caught.value.message

"""`--what-if`: what is predicted is printed, what cannot be meant is refused, and nothing that was measured is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphbench import cli, document
from graphbench.api import Profile
from graphbench.cli.output import OutputOptions, deliver
from graphbench.cli.view import ViewOptions
from graphbench.errors import UsageError
from graphbench.records import ProfileRecord, Side
from tests.factories import cpu_run, executes, kernel, node, profile, region, steady


def record() -> ProfileRecord:
    rows = [steady(30_000.0), steady(10_000.0)]
    kernels = [
        kernel("mm", rows[0], kind="extern", roles=(executes("linear"),), in_graph=rows[0]),
        kernel("cpp_gelu", rows[1], roles=(executes("gelu"),), in_graph=rows[1]),
    ]
    forward = Side(run=cpu_run(rows, wrapper_ns=0.0), plain=steady(40_000.0))
    return profile(region([node("linear"), node("gelu", module="layers.0.act")], kernels, forward=forward))


@pytest.fixture
def saved(tmp_path: Path) -> str:
    path = tmp_path / "p.json"
    document.write(record(), path)
    return str(path)


def test_show_prints_the_predictions_in_the_place_of_the_tables(saved: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["show", saved, "--what-if", "layers.*.act=5", "--what-if", "linear"]) == 0
    printed = capsys.readouterr().out
    assert "what if: 1 node of 'layers.*.act' take 1/5 of their time\n" in printed
    assert "40.00 µs -> 32.00 µs (-20.0 %, 1.25x)" in printed
    assert "what if: 1 node of 'linear' take 1/2 of their time\n" in printed
    assert "Nodes, isolated" not in printed


def test_an_unmatched_pattern_is_a_usage_error_with_close_names(saved: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["show", saved, "--what-if", "lineer=2"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "hint: close to it: linear" in printed.err


@pytest.mark.parametrize("text", ["gelu=0", "gelu=-1", "gelu=fast", "=2", "gelu=nan"])
def test_a_factor_that_cannot_be_meant_is_refused(saved: str, capsys: pytest.CaptureFixture[str], text: str) -> None:
    assert cli.main(["show", saved, "--what-if", text]) == 2
    assert "expected a pattern and a factor above 0" in capsys.readouterr().err


def test_a_prediction_is_text_only(saved: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["show", saved, "--what-if", "gelu", "--format", "csv"]) == 2
    assert "--what-if with --format csv" in capsys.readouterr().err


def view(*what_if: tuple[str, float]) -> ViewOptions:
    return ViewOptions(top=None, sort=None, wide=False, group_by=None, depth=None, what_if=what_if)


def test_a_run_prints_its_predictions_below_the_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = OutputOptions(output_dir=tmp_path, force=False, strict=False)
    assert deliver(Profile(record()), output, view(("gelu", 2.0))) == 0
    printed = capsys.readouterr().out
    assert printed.index("Nodes, isolated") < printed.index("what if: 1 node of 'gelu'")
    assert "what if" in (tmp_path / "report.txt").read_text(encoding="utf-8")


def test_a_run_with_an_unmatched_pattern_delivers_all_else_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = OutputOptions(output_dir=tmp_path, force=False, strict=False)
    with pytest.raises(UsageError, match="matches 'nothing'"):
        deliver(Profile(record()), output, view(("nothing", 2.0)))
    assert "Nodes, isolated" in capsys.readouterr().out
    assert (tmp_path / "profile.json").is_file()


def test_a_profile_predicts_too() -> None:
    assert Profile(record()).what_if("gelu", factor=2).after_ns == 35_000.0
    with pytest.raises(UsageError, match="factor"):
        Profile(record()).what_if("gelu", factor="2")  # type: ignore[arg-type]

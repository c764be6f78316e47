"""`graphbench export` and `show`: every format of a whole profile can be had, each flag belongs to some of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import networkx
import pytest

from graphbench import cli, document
from graphbench.report import FORMATS, REPORTERS
from tests import factories


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    file = tmp_path / "profile.json"
    node = factories.node("relu", 5000.0)
    document.write(factories.profile(factories.region([node], [factories.kernel("cpp_fused_relu_0", 3000.0)])), file)
    return file


def exported(saved: Path, *words: str) -> str:
    file = saved.parent / "exported"
    assert cli.main(["export", str(saved), *words, "-o", str(file), "--force"]) == 0
    return file.read_text("utf-8")


@pytest.mark.parametrize("name", FORMATS)
def test_export_writes_what_the_reporter_renders(saved: Path, name: str) -> None:
    assert exported(saved, "--format", name).rstrip("\n") == REPORTERS[name].render(document.read(saved)).rstrip("\n")


@pytest.mark.parametrize("name", FORMATS)
def test_show_prints_what_export_writes(saved: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["show", str(saved), "--format", name]) == 0
    assert capsys.readouterr().out == exported(saved, "--format", name)


def test_the_metric_of_an_overlay_can_be_chosen(saved: Path) -> None:
    told: dict[str, Any] = json.loads(exported(saved, "--format", "model-explorer", "--metric", "in_graph"))
    assert {graph["name"] for graph in told.values()} == {"in-graph p50 (µs)"}


def test_the_table_of_a_csv_can_be_chosen(saved: Path) -> None:
    assert exported(saved, "--format", "csv", "--table", "fusions").startswith("region,phase,kernel,")


def test_graphml_is_a_graph_that_networkx_reads(saved: Path) -> None:
    graph = networkx.parse_graphml(exported(saved, "--format", "graphml"))
    assert any("relu" in str(vertex) for vertex in graph)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--format", "dot", "--metric", "fate"], "--metric with --format dot: it is for --format model-explorer"),
        (["--format", "html", "--row", "relu"], "--row with --format html: it is for --format repro or ncu"),
        (["--format", "json", "--table", "nodes"], "--table with --format json: it is for --format csv"),
        (["--format", "model-explorer", "--metric", "speed"], "unknown metric 'speed'"),
    ],
)
def test_a_flag_of_another_format_is_refused(
    saved: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["export", str(saved), *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "instead"),
    [
        (["show", "{0}", "--format", "html"], "graphbench export {0} --format html -o report.html"),
        (["export", "{0}", "--format", "html"], "graphbench export {0} --format html -o report.html"),
        (["diff", "{0}", "{0}", "--format", "html"], "graphbench diff {0} {0} --format html > diff.html"),
    ],
)
def test_a_page_is_not_printed_on_a_terminal(
    saved: Path,
    words: list[str],
    instead: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert cli.main([word.format(saved) for word in words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert instead.format(saved) in err


def test_a_diff_can_be_a_page(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["diff", str(saved), str(saved), "--format", "html"]) == 0
    assert capsys.readouterr().out.startswith("<!doctype html>")


def test_several_profiles_are_no_trace(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["show", str(saved), str(saved), "--format", "trace"]) == 2
    assert "--format trace with several profiles: it is of one" in capsys.readouterr().err

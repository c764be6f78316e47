"""Defaults from pyproject.toml: what they become, what wins, what no file may set, and how errors name the file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from graphbench import cli
from graphbench.cli.config import REFUSED, flags_of, refusal
from graphbench.errors import UsageError

MODEL = ["--model", "torchvision:resnet18"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder two levels below the one that has the file."""
    below = tmp_path / "package" / "tests"
    below.mkdir(parents=True)
    return below


def write(folder: Path, *lines: str) -> Path:
    file = folder.parents[1] / "pyproject.toml"
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


def parsed(folder: Path, *words: str) -> argparse.Namespace:
    return cli.parse(words, folder)


def refused(folder: Path, *words: str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        cli.parse(words or ("run", *MODEL), folder)
    return caught.value


def test_a_key_is_the_default_of_its_flag(folder: Path) -> None:
    write(folder, "[tool.graphbench]", "measure-ms = 50", "timer = 'wallclock'", "noise = '2%'")
    arguments = parsed(folder, "run", *MODEL)
    assert (arguments.measure_ms, arguments.timer, arguments.noise) == (50.0, "wallclock", 0.02)


def test_a_flag_that_is_given_wins(folder: Path) -> None:
    write(folder, "[tool.graphbench]", "measure-ms = 50")
    assert parsed(folder, "run", *MODEL, "--measure-ms", "7").measure_ms == 7.0
    assert parsed(folder, "run", *MODEL, "--measure-m=8").measure_ms == 8.0  # argparse takes abbreviations


def test_a_list_repeats_its_flag_and_a_given_one_replaces_it(folder: Path) -> None:
    write(folder, "[tool.graphbench]", "what-if = ['gelu*=3', 'relu']")
    assert parsed(folder, "show", "p").what_if == [("gelu*", 3.0), ("relu", 2.0)]
    assert parsed(folder, "show", "p", "--what-if", "add").what_if == [("add", 2.0)]


def test_booleans_choose_between_a_flag_and_its_no(folder: Path) -> None:
    write(folder, "[tool.graphbench]", "wide = true", "strict = false", "progress = false", "dynamic = true")
    arguments = parsed(folder, "run", *MODEL)
    assert (arguments.wide, arguments.strict, arguments.progress, arguments.dynamic) == (True, False, False, True)
    assert parsed(folder, "run", *MODEL, "--progress").progress is True


def test_the_table_of_a_command_is_for_that_command_and_goes_first(folder: Path) -> None:
    write(folder, "[tool.graphbench]", "top = 20", "[tool.graphbench.diff]", "top = 5")
    assert parsed(folder, "show", "p").top == 20
    assert parsed(folder, "diff", "a", "b").top == 5


def test_a_key_of_another_command_is_left_out(folder: Path) -> None:
    write(folder, "[tool.graphbench]", "measure-ms = 50")
    assert parsed(folder, "show", "p").words == ("show", "p")


def test_the_nearest_file_counts_alone(folder: Path) -> None:
    write(folder, "[tool.graphbench]", "top = 20")
    (folder.parent / "pyproject.toml").write_text("[project]\nname = 'graphbench'\n", encoding="utf-8")
    assert parsed(folder, "show", "p").top is None


@pytest.mark.parametrize("words", [["--no-config", "show", "p"], ["show", "p", "--no-config"], ["show", "p", "--no-c"]])
def test_no_config_ignores_the_file(folder: Path, words: list[str]) -> None:
    write(folder, "[tool.graphbench]", "top = 'broken'")
    assert parsed(folder, *words).top is None


@pytest.mark.parametrize("beside", ["--resume", "--worker"])
def test_a_run_that_goes_on_has_the_options_it_was_started_with(folder: Path, beside: str) -> None:
    write(folder, "[tool.graphbench]", "measure-ms = 50")
    assert parsed(folder, "run", beside, "there").measure_ms == 100.0


def test_the_words_of_a_run_hold_its_defaults(folder: Path) -> None:
    write(folder, "[tool.graphbench.run]", "measure-ms = 50", "supervise = false")
    arguments = parsed(folder, "--debug", "run", *MODEL)
    assert arguments.command.read_options(arguments).words == ("--measure-ms=50", "--no-supervise", *MODEL)


def test_the_journal_of_a_run_holds_its_defaults(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from graphbench.cli.running import RunDirectory
    from graphbench.runs.journal import read_journal

    write(folder, "[tool.graphbench]", "measure-ms = 50")
    words = parsed(folder, "run", *MODEL).words[1:]
    run = RunDirectory.begin(tmp_path / "out", [*words, "--no-config"], [], force=False)
    started = read_journal(run.folder).started
    run.journal.close()
    assert started is not None
    assert started.command == ("--measure-ms=50", *MODEL)


def test_a_worker_does_not_read_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from graphbench.cli import running

    asked: list[tuple[str, ...]] = []

    class Noted:
        def __init__(self, journal: object, words: tuple[str, ...], *_: object) -> None:
            asked.append(words)

        def run(self) -> int:
            return 0

    monkeypatch.setattr(running, "Supervisor", Noted)
    run = running.RunDirectory.begin(tmp_path / "out", ["--top=1"], [], force=False)
    running.supervise(run, ("--top=1",), str(tmp_path), None, debug=False)
    run.journal.close()
    assert asked[0][:3] == ("--no-config", "run", "--top=1")


# errors


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("measure-ms = 'soon'", "tool.graphbench.measure-ms: found 'soon', expected a number above 0"),
        ("timer = 'sundial'", "tool.graphbench.timer: found 'sundial', expected one of auto, cupti"),
        ("sort = 'colour'", "tool.graphbench.sort: "),
        ("top = [1, 2]", "tool.graphbench.top: found a list, expected one value"),
        ("top = true", "tool.graphbench.top: found True, expected a text or a number"),
        ("wide = 'yes'", "tool.graphbench.wide: found 'yes', expected true or false"),
        ("run = 3", "tool.graphbench.run: no such flag"),
        ("fly = {top = 3}", "tool.graphbench.fly: no such command"),
        ("run = {topp = 3}", "tool.graphbench.run.topp: no such flag"),
        ("run = {table = 'nodes'}", "tool.graphbench.run.table: no such flag"),
    ],
)
def test_an_error_names_file_and_key(folder: Path, line: str, told: str) -> None:
    file = write(folder, "[tool.graphbench]", line)
    assert refused(folder).message.startswith(f"{file}: {told}")


def test_a_misspelt_key_is_recognised(folder: Path) -> None:
    write(folder, "[tool.graphbench]", "measure_ms = 50")
    assert refused(folder).hint == "did you mean measure-ms?"


@pytest.mark.parametrize("text", ["[tool.graphbench", "[tool]\ngraphbench = 3", "graphbench = '\udcff'"])
def test_a_file_that_is_no_config_is_an_error(folder: Path, text: str) -> None:
    file = folder / "pyproject.toml"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    error = refused(folder)
    assert str(file) in error.message
    assert error.hint == "mend the file, or pass --no-config"


def test_a_command_without_flags_reads_no_file(folder: Path) -> None:
    write(folder, "[tool.graphbench]", "fly = 3")
    assert parsed(folder, "docs").page is None


@pytest.mark.parametrize("name", sorted(REFUSED))
@pytest.mark.parametrize("table", ["[tool.graphbench]", "[tool.graphbench.run]"])
def test_what_runs_code_or_says_where_files_go_is_refused(folder: Path, name: str, table: str) -> None:
    write(folder, table, f"{name} = 'x'")
    error = refused(folder)
    assert f"{name}: a file may not set it: " in error.message
    assert error.hint == f"give --{name} on the command line"


def test_the_flags_that_the_file_must_never_set_are_refused() -> None:
    named = {"model", "custom-model-file", "model-class", "checkpoint", "unsafe-load", "replace", "import", "resume"}
    assert named | {"worker", "output-dir", "force", "output"} <= REFUSED.keys()


@pytest.mark.parametrize("command", cli.commands(), ids=lambda command: command.name)
def test_no_flag_that_names_a_file_or_code_may_be_set(command: Any) -> None:
    """A flag that is added later fails here until somebody has decided."""
    parser = argparse.ArgumentParser()
    command.prepare_parser(parser)
    for name, action in flags_of(parser).items():
        metavar = str(action.metavar or "")
        if action.type is Path or any(word in metavar for word in ("FILE", "DIR", "MODULE", "FUNCTION", "PATH")):
            assert refusal(name, action), f"--{name} {metavar}"


def test_an_error_about_a_default_says_where_it_comes_from(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(folder, "[tool.graphbench]", "noise-ms = 500", "top = 3")
    monkeypatch.chdir(folder)
    assert cli.main(["run", *MODEL]) == 2
    assert f"; {file} sets --noise-ms=500, which --no-config leaves out" in capsys.readouterr().err


def test_an_error_about_something_else_does_not(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder, "[tool.graphbench]", "top = 3")
    monkeypatch.chdir(folder)
    assert cli.main(["run"]) == 2
    assert "pyproject" not in capsys.readouterr().err


def test_a_removed_working_folder_has_no_file_above_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert cli.main(["show", "/no/such/profile.json"]) == 1

"""`--help` and `--version`: examples that parse, lines that fit, versions without torch."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from graphbench import cli
from graphbench.cli.help import HelpFormatter, version_text, with_examples


def help_of(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit):
        cli.main([command, "--help"])
    return capsys.readouterr().out


@pytest.mark.parametrize("command", cli.commands(), ids=lambda command: command.name)
def test_every_command_has_examples_and_shows_them(command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert any(example[0] != "#" for example in command.examples)
    assert all(f"\n  {example}\n" in help_of(command.name, capsys) for example in command.examples)


@pytest.mark.parametrize("command", cli.commands(), ids=lambda command: command.name)
def test_help_fits_into_80_columns(
    command: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert [line for line in help_of(command.name, capsys).splitlines() if len(line) > 80] == []


def test_help_says_where_defaults_may_stand(capsys: pytest.CaptureFixture[str]) -> None:
    assert "[tool.graphbench]" in help_of("run", capsys)


def test_a_line_is_wrapped_and_a_block_is_kept() -> None:
    formatter = HelpFormatter("x", width=20)
    formatter.add_text("one two three four five\n\na  b\n  c")
    assert formatter.format_help() == "one two three four\nfive\n\na  b\n  c\n"


def test_a_command_without_examples_shows_none() -> None:
    assert with_examples("what it says", ()) == "what it says"
    assert with_examples(None, ()) == ""


def test_usage_names_what_must_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    assert help_of("export", capsys).startswith("usage: graphbench export [options] PROFILE\n")
    assert help_of("diff", capsys).startswith("usage: graphbench diff [options] A B\n")


def test_version_names_graphbench_torch_and_python() -> None:
    assert version_text().startswith("graphbench ")
    assert f", Python {sys.version_info.major}.{sys.version_info.minor}." in version_text()
    assert ", torch " in version_text()


def test_version_does_not_import_torch() -> None:
    code = (
        "import sys; from graphbench import cli\n"
        "try: cli.main(['--version'])\n"
        "except SystemExit: print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1] == "False"

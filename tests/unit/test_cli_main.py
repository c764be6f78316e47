"""The one place that prints errors: exit codes, the style of messages, what every command has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from graphbench import cli
from graphbench.cli.common import Command
from graphbench.errors import GraphbenchError, SetupError, UsageError


@pytest.fixture
def raising(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Make the only command raise."""

    def make(error: BaseException) -> None:
        class Raise(Command[None]):
            """Raise."""

            name = "raise"

            def prepare_parser(self, parser: Any) -> None: ...

            def read_options(self, arguments: object) -> None: ...

            def run(self, options: None) -> int:
                raise error

        monkeypatch.setattr(cli, "COMMANDS", {"raise": "Raise"})
        monkeypatch.setattr(cli, "load_command", lambda _name: Raise())

    return make


@pytest.mark.parametrize(
    ("error", "code"),
    [(GraphbenchError("no"), 1), (UsageError("no"), 2), (SetupError("no"), 3), (KeyboardInterrupt(), 130)],
)
def test_error_decides_the_exit_code(raising: Callable[[BaseException], None], error: BaseException, code: int) -> None:
    raising(error)
    assert cli.main(["raise"]) == code


def test_error_is_one_line_and_a_hint_on_stderr(
    raising: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]
) -> None:
    raising(GraphbenchError("node relu: it broke", hint="mend it"))
    cli.main(["raise"])
    assert capsys.readouterr() == ("", "graphbench: error: node relu: it broke\n  hint: mend it\n")


@pytest.mark.parametrize("words", [["--debug", "raise"], ["raise", "--debug"]])
def test_debug_shows_the_traceback(
    raising: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    raising(GraphbenchError("it broke"))
    assert cli.main(words) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_error_made_for_torch_does_not_name_the_program_twice(
    raising: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]
) -> None:
    raising(GraphbenchError("graphbench: unknown option 'x'"))
    cli.main(["raise"])
    assert capsys.readouterr().err == "graphbench: error: unknown option 'x'\n"


def test_interrupt_is_one_line(raising: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]) -> None:
    raising(KeyboardInterrupt())
    cli.main(["raise"])
    assert capsys.readouterr().err == "graphbench: interrupted\n"


def test_closed_pipe_is_quiet(raising: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]) -> None:
    raising(BrokenPipeError())
    assert cli.main(["raise"]) == 141
    assert capsys.readouterr().err == ""


def test_unexpected_error_is_not_hidden(raising: Callable[[BaseException], None]) -> None:
    raising(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        cli.main(["raise"])


def test_version_names_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith("graphbench ")


@pytest.mark.parametrize("words", [[], ["no-such-command"], ["show"], ["show", "p.json", "--format", "pdf"]])
def test_wrong_command_line_is_a_usage_error(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words) == 2
    assert "--help" in capsys.readouterr().err


@pytest.mark.parametrize("command", cli.commands(), ids=lambda command: command.name)
def test_every_command_explains_itself(command: Command[Any], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main([command.name, "--help"])
    assert command.help() in " ".join(capsys.readouterr().out.split())

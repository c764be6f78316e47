"""The command line: the list of commands, and the one place that prints errors and turns them into exit codes.

0 ok; 1 error; 2 usage; 3 setup; 4 some rows failed with --strict; 5 regression; 130 interrupted; 141 the reader of
the output went away.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from graphbench.cli.common import EXIT_INTERRUPTED, EXIT_PIPE_CLOSED, Command, Parser, silence_stdout
from graphbench.cli.config import IGNORE_FLAG, blamed, current_folder, defaults_for
from graphbench.cli.help import HelpFormatter, VersionAction, short_usage, with_examples
from graphbench.errors import GraphbenchError

_CONFIG_HELP: Final = "ignore the defaults of [tool.graphbench] in the nearest pyproject.toml"
_HELP: Final = ("-h", "--help")

COMMANDS: Final[Mapping[str, str]] = {
    "run": "RunCommand",
    "show": "ShowCommand",
    "diff": "DiffCommand",
    "export": "ExportCommand",
    "doctor": "DoctorCommand",
    "demo": "DemoCommand",
    "docs": "DocsCommand",
    "completion": "CompletionCommand",
}
"""The classes of all commands, each in the module of its name, which is imported only when it is needed."""


@cache
def load_command(name: str) -> Command[Any]:
    """The command of that name."""
    found: Command[Any] = getattr(importlib.import_module(f"{__name__}.{name}"), COMMANDS[name])()
    return found


def commands() -> tuple[Command[Any], ...]:
    """All commands, in the order of the help."""
    return tuple(map(load_command, COMMANDS))


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands; parsed arguments carry the chosen one as `command`."""
    parser, children = _parsers()
    dict(children)
    return parser


def _parsers() -> tuple[argparse.ArgumentParser, _Children]:
    """The parser of all commands, and that of each by its name."""
    parser = Parser(
        prog="graphbench",
        description="What every op of a model costs, which Inductor kernel it became part of, and whether that paid.",
        epilog="Pages to read: graphbench docs. Examples of a command: graphbench COMMAND --help.",
    )
    parser.add_argument("--version", action=VersionAction)
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    parser.add_argument(IGNORE_FLAG, action="store_true", help=_CONFIG_HELP)
    return parser, _Children(parser.add_subparsers(title="commands", metavar="COMMAND", required=True))


class _Children(Mapping[str, argparse.ArgumentParser]):
    """The parser of each command by its name. Each is made when it is asked for: the words of one need no other."""

    def __init__(self, group: argparse._SubParsersAction[Any]) -> None:
        self._group = group
        self._made: dict[str, argparse.ArgumentParser] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)

    def __contains__(self, name: object) -> bool:
        return name in COMMANDS

    def __getitem__(self, name: str) -> argparse.ArgumentParser:
        if name not in self._made:
            self._made[name] = self._make(load_command(name))
        return self._made[name]

    def _make(self, command: Command[Any]) -> argparse.ArgumentParser:
        child: argparse.ArgumentParser = self._group.add_parser(
            command.name, help=command.help(), description=command.help(), formatter_class=HelpFormatter
        )
        # SUPPRESS: a flag that is absent here must not undo the one given before the command.
        child.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
        child.add_argument(IGNORE_FLAG, action="store_true", default=argparse.SUPPRESS, help=_CONFIG_HELP)
        command.prepare_parser(child)
        child.usage = short_usage(child)
        child.epilog = with_examples(child.epilog, command.examples)
        child.set_defaults(command=command)
        return child


def parse(words: Sequence[str], folder: Path | None = None) -> argparse.Namespace:
    """Parsed arguments, with the chosen `command` and the `words` themselves, by which a run can be started again.

    Args:
        words: the command line after the program's name.
        folder: where to look for a pyproject.toml with defaults, which are then among the words; `None` for nowhere.

    Raises:
        UsageError: what is wrong with them; where defaults are in force, the hint says which.
    """
    parser, children = _parsers()
    defaults = None
    at = next((index for index, word in enumerate(words) if word in children), None)
    if at is None or any(word in _HELP or not word.startswith("-") for word in words[:at]):
        dict(children)  # what is wrong, or asked for, is about all commands
    else:
        children[words[at]]
    if folder is not None and at is not None:
        defaults = defaults_for(words[at], children, words, folder)
        if defaults is not None:
            words = [*words[: at + 1], *defaults.flat(), *words[at + 1 :]]
    with blamed(defaults):
        arguments = parser.parse_args(words)
    arguments.words = tuple(words)
    arguments.defaults = defaults
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: arguments without the program's name; by default those of the process.

    Returns:
        The exit code, as the module docstring lists them.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        arguments = parse(words, current_folder())
        command: Command[Any] = arguments.command
        with blamed(arguments.defaults):
            code = command.execute(arguments)
    except GraphbenchError as error:
        if "--debug" in words:
            sys.excepthook(type(error), error, error.__traceback__)
        _print_error(error)
        return error.exit_code
    except KeyboardInterrupt:
        print("graphbench: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        silence_stdout()
        return EXIT_PIPE_CLOSED
    return code


def _print_error(error: GraphbenchError) -> None:
    # Messages that reach users inside torch's own errors say themselves whose they are.
    print(f"graphbench: error: {error.message.removeprefix('graphbench: ')}", file=sys.stderr)
    if error.hint:
        print(f"  hint: {error.hint}", file=sys.stderr)

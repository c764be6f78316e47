"""The command line: the list of commands, and the one place that prints errors and turns them into exit codes.

0 ok; 1 error; 2 usage; 3 setup; 4 some rows failed with --strict; 5 regression; 130 interrupted; 141 the reader of
the output went away.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from graphbench.cli.common import EXIT_INTERRUPTED, EXIT_PIPE_CLOSED, Command, Parser, silence_stdout, version
from graphbench.cli.demo import DemoCommand
from graphbench.cli.diff import DiffCommand
from graphbench.cli.doctor import DoctorCommand
from graphbench.cli.export import ExportCommand
from graphbench.cli.run import RunCommand
from graphbench.cli.show import ShowCommand
from graphbench.errors import GraphbenchError

COMMANDS: tuple[Command[Any], ...] = (
    RunCommand(),
    ShowCommand(),
    DiffCommand(),
    ExportCommand(),
    DoctorCommand(),
    DemoCommand(),
)


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands; parsed arguments carry the chosen one as `command`."""
    parser = Parser(
        prog="graphbench",
        description="What every op of a model costs, which Inductor kernel it became part of, and whether that paid.",
    )
    parser.add_argument("--version", action="version", version=f"graphbench {version()}")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        child = commands.add_parser(command.name, help=command.help(), description=command.help())
        # SUPPRESS: a flag that is absent here must not undo the one given before the command.
        child.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
        command.prepare_parser(child)
        child.set_defaults(command=command)
    return parser


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parsed arguments, with the chosen `command` and the `words` themselves, by which a run can be started again."""
    arguments = build_parser().parse_args(words)
    arguments.words = tuple(words)
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
        arguments = parse(words)
        command: Command[Any] = arguments.command
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

"""`graphbench completion`: a script that lets a shell complete commands, flags, choices and files. No torch import."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

from graphbench.cli.common import EXIT_OK, PATH_READERS, Command, emit, pick
from graphbench.errors import SetupError

SHELLS: Final = ("bash", "zsh", "tcsh")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionOptions:
    """Options of `completion`."""

    shell: str


class CompletionCommand(Command[CompletionOptions]):
    """Print a script that completes graphbench's commands, flags and files in a shell; needs the extra `completion`."""

    name: ClassVar[str] = "completion"
    examples: ClassVar[tuple[str, ...]] = (
        "# in this shell, or in ~/.bashrc for all",
        'eval "$(graphbench completion bash)"',
        "graphbench completion zsh > ~/.zfunc/_graphbench",
        "graphbench completion tcsh > ~/.graphbench.tcsh",
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments of `completion`."""
        parser.add_argument("shell", choices=SHELLS, help="the shell that reads the script")

    def read_options(self, arguments: argparse.Namespace) -> CompletionOptions:
        """Collect the options."""
        return pick(CompletionOptions, arguments)

    def run(self, options: CompletionOptions) -> int:
        """Print the script."""
        from graphbench.cli import build_parser  # its commands include this one

        emit(script(build_parser(), options.shell))
        return EXIT_OK


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """The script for a shell.

    Source: `shtab.complete`, and the attribute `complete` of an action that it reads (shtab 1.7 to 1.13).

    Raises:
        SetupError: shtab is not installed.
    """
    try:
        import shtab
    except ImportError as error:
        raise SetupError(
            "completion scripts are made by shtab, which is not installed",
            hint="pip install shtab, or install graphbench with the extra `completion`",
            subject="shtab",
        ) from error
    for action in every_action(parser):
        if action.type in PATH_READERS:
            action.complete = shtab.DIRECTORY if action.metavar == "DIR" else shtab.FILE  # type: ignore[attr-defined]
    text: str = shtab.complete(parser, shell=shell)
    return text


def every_action(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The arguments of a parser and of its commands.

    Source: `argparse._SubParsersAction.choices` (Python 3.10 to 3.13).
    """
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                yield from every_action(child)
        else:
            yield action

"""`%%graphbench`: the cell is the step that `graphbench.profile` runs. `%load_ext graphbench` registers it.

Nothing of IPython is imported: whoever calls this has it.
"""

from __future__ import annotations

import argparse
import dataclasses
import shlex
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from graphbench.cli.common import Parser, emit, pick, positive_int
from graphbench.cli.measure_flags import add_measure_flags, measure_options
from graphbench.cli.output import report_text
from graphbench.cli.view import ViewOptions, add_view_flags
from graphbench.errors import UsageError

if TYPE_CHECKING:
    from graphbench.api import Profile

NAME: Final = "graphbench"
_DESCRIPTION: Final = (
    "Profile the cell as a step: it runs several times in your namespace, side effects included, and the last run is "
    "recorded. Models are those that it calls: compile them with backend='graphbench' in an earlier cell."
)


class Shell(Protocol):
    """What is needed of IPython's `InteractiveShell` (IPython 8 and 9)."""

    user_ns: dict[str, Any]

    @property
    def compile(self) -> Any:
        """Its `CachingCompiler`: what it compiles has source lines."""

    def transform_cell(self, raw_cell: str) -> str:
        """Python code of a cell, in which magics are calls."""

    def register_magic_function(
        self, func: Callable[[str, str], None], magic_kind: str = "line", magic_name: str | None = None
    ) -> None:
        """Make a function a magic."""


def register(shell: Shell) -> None:
    """Add `%%graphbench` to a shell."""

    def magic(line: str, cell: str) -> None:
        try:
            run_cell(shell, line, cell)
        except UsageError as error:
            raise _without_traceback(error) from None

    magic.__doc__ = parser().format_help()  # what `%%graphbench?` shows
    shell.register_magic_function(magic, magic_kind="cell", magic_name=NAME)


def _without_traceback(error: UsageError) -> Exception:
    """The error as IPython's own of that name, of which it shows the message alone.

    Source: `IPython.core.error.UsageError`, IPython 8 and 9.
    """
    theirs = sys.modules.get("IPython.core.error")
    return error if theirs is None else theirs.UsageError(str(error))


def parser() -> Parser:
    """The flags: those of the command line that say how to measure and how tables look, and a few of its own."""
    made = Parser(prog=f"%%{NAME}", description=_DESCRIPTION, add_help=False)
    made.add_argument("--help", "-h", action="store_true", help="print this")
    made.add_argument("-o", dest="name", metavar="NAME", help="keep the profile under this name")
    made.add_argument(
        "--warmup-steps",
        type=positive_int,
        default=3,
        metavar="N",
        help="how often the cell runs before it is recorded; default: %(default)s",
    )
    add_measure_flags(made)
    add_view_flags(made)
    return made


def run_cell(shell: Shell, line: str, cell: str) -> None:
    """Profile a cell, print the tables, and keep the profile if the line names a place for it.

    Args:
        shell: whose namespace the cell runs in: names that it assigns exist afterwards.
        line: flags.
        cell: code, magics and all.

    Raises:
        UsageError: a wrong flag, or nothing to run.
        CaptureError: the cell raised, or ran no tensor op.
    """
    flags = parser()
    arguments = flags.parse_args(_words(line))
    if arguments.help:
        emit(flags.format_help())
        return
    if arguments.name is not None and not arguments.name.isidentifier():
        raise UsageError(f"-o {arguments.name}: expected a name, such as before", subject="-o")
    if not cell.strip():
        raise UsageError(f"%%{NAME}: the cell is empty", hint="put the step to profile below the line", subject=NAME)
    found = _profile(shell, cell, arguments)
    if arguments.name is not None:
        shell.user_ns[arguments.name] = found
    view = pick(ViewOptions, arguments)
    text, refused = report_text(found.record, view, view.on_screen())
    emit(text, view.color)
    if refused is not None:
        raise refused


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise UsageError(f"%%{NAME} {line}: {error}", hint="close the quotes", subject=NAME) from error


def _profile(shell: Shell, cell: str, arguments: argparse.Namespace) -> Profile:
    from graphbench import api

    code = shell.transform_cell(cell)
    program = compile(code, shell.compile.cache(code), "exec", shell.compile.flags)

    def step() -> None:
        exec(program, shell.user_ns)

    options = measure_options(arguments)
    keywords = {entry.name: getattr(options, entry.name) for entry in dataclasses.fields(options)}
    keywords["subject"] = keywords["subject"] or f"a cell of %%{NAME}"
    return api.profile(step, warmup_steps=arguments.warmup_steps, **keywords)

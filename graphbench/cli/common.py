"""What commands share: the command's shape, types of arguments, printing, the rule for files that are written."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import difflib
import inspect
import os
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Generic, NoReturn, TypeVar

from graphbench.cli.terminal import ColorChoice, encodable, painted
from graphbench.errors import GraphbenchError, UsageError
from graphbench.files import write_whole
from graphbench.options import MOST_CALLS

if TYPE_CHECKING:
    from graphbench.measurements import Measurement
    from graphbench.records import ProfileRecord

EXIT_OK = 0
EXIT_ROWS_FAILED = 4
EXIT_REGRESSION = 5
EXIT_INTERRUPTED = 130
EXIT_PIPE_CLOSED = 141  # what a shell reports of a program that SIGPIPE ended

DISTRIBUTION = "torch-graphbench"
OptionsT = TypeVar("OptionsT")
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%")


class Parser(argparse.ArgumentParser):
    """An argument parser that raises `UsageError` instead of printing and exiting."""

    def error(self, message: str) -> NoReturn:
        """Report a wrong command line."""
        raise UsageError(message, hint=f"see {self.prog} --help")

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse as argparse does, but let the command whose words they are refuse those that it does not know.

        Source: `argparse._SubParsersAction.__call__` (Python 3.10 to 3.13), which hands a command's words to this
        method and what it returns to the parser above, whose help lists none of the command's flags.

        Raises:
            UsageError: there are such words; the hint names flags like them.
        """
        known, unknown = super().parse_known_args(args, namespace)
        if unknown:
            raise UsageError(f"unknown arguments: {' '.join(unknown)}", hint=self._meant(unknown))
        return known, unknown

    def _meant(self, unknown: Sequence[str]) -> str:
        near = [
            match
            for word in unknown
            if word.startswith("--")
            for match in difflib.get_close_matches(word.partition("=")[0], list(self._option_string_actions), n=2)
        ]
        meant = f"did you mean {' or '.join(dict.fromkeys(near))}? " if near else ""
        return f"{meant}see {self.prog} --help"


class Command(ABC, Generic[OptionsT]):
    """One command. Its class docstring is its help; its options are one frozen dataclass, `OptionsT`."""

    name: ClassVar[str]
    examples: ClassVar[tuple[str, ...]] = ()
    """Command lines as a shell takes them, shown below the help; a line that begins with `#` says what for."""

    @abstractmethod
    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's arguments."""

    @abstractmethod
    def read_options(self, arguments: argparse.Namespace) -> OptionsT:
        """Turn parsed arguments into options.

        Raises:
            UsageError: they contradict each other.
        """

    @abstractmethod
    def run(self, options: OptionsT) -> int:
        """Do the work, print the result and return the exit code."""

    def execute(self, arguments: argparse.Namespace) -> int:
        """Run with parsed arguments."""
        return self.run(self.read_options(arguments))

    @classmethod
    def help(cls) -> str:
        """The first paragraph of the class docstring, in one line."""
        return " ".join(inspect.cleandoc(cls.__doc__ or "").partition("\n\n")[0].split())


def pick(options_class: type[OptionsT], arguments: argparse.Namespace) -> OptionsT:
    """Build an options dataclass from the arguments of the same names."""
    if not dataclasses.is_dataclass(options_class):
        raise TypeError(f"{options_class.__name__} is no dataclass")
    names = [field.name for field in dataclasses.fields(options_class)]
    return options_class(**{name: getattr(arguments, name) for name in names})


def positive_int(text: str, expected: str = "a whole number above 0") -> int:
    """An argument that is a whole number above 0 and not beyond any use; `expected` is for messages."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected {expected}")
    if value > MOST_CALLS:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected {expected}, at most 1e9")
    return value


def folder(text: str) -> Path:
    """An argument that names a folder; an empty one, of a shell's variable that is not set, is none."""
    if not text.strip():
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a folder, . for the current one")
    return Path(text)


PATH_READERS: Final = (Path, folder)
"""Types of arguments that name a file or a folder: shells complete them, and no pyproject.toml may set them."""


def version() -> str:
    """The installed version, or that there is none: a checkout can run without being installed."""
    import importlib.metadata  # takes as long as all the rest of a small command

    try:
        return importlib.metadata.version(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        return f"({DISTRIBUTION} is not installed)"


def refuse_overwrite(files: Mapping[str, Path], *, force: bool) -> None:
    """Check, before any work, that no file that will be written exists.

    Raises:
        UsageError: one does, and `force` is not set; or it is a folder, which nothing overwrites.
    """
    for path in files.values():
        if path.is_dir() and not path.is_symlink():
            raise UsageError(
                f"cannot write {path}: found a folder, expected a file",
                hint=f"name a file in it, as {path / 'FILE'}, or another one",
                subject=str(path),
            )
    existing = [str(path) for path in files.values() if os.path.lexists(path)]
    if existing and not force:
        raise UsageError(
            f"will not overwrite {', '.join(existing)}",
            hint=f"choose another {'folder' if len(files) > 1 else 'name'}, or pass --force",
            subject=existing[0],
        )


def write_text(path: Path, text: str) -> None:
    """Write a report, over whatever has its name; a symbolic link is replaced, not followed.

    Raises:
        UsageError: the path cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", subject=str(path)) from error
    write_whole(path, text if text.endswith("\n") else f"{text}\n", overwrite=True)


def emit(text: str, color: ColorChoice = "never") -> None:
    """Print a result on stdout, whole; reports with colours, where these are wanted.

    Raises:
        GraphbenchError: it cannot be written, on a full disk for instance.
        BrokenPipeError: its reader went away.
    """
    text = encodable(painted(text, color))
    try:
        print(text, end="" if text.endswith("\n") else "\n", flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        silence_stdout()
        raise GraphbenchError(f"cannot write to standard output: {error.strerror}", subject="stdout") from error


def refuse_page_on_screen(instead: str) -> None:
    """Refuse to print a page of some MiB where nobody could read it.

    Raises:
        UsageError: standard output is a terminal; the hint is the command line to use instead.
    """
    if sys.stdout is not None and sys.stdout.isatty():
        raise UsageError(
            "--format html on a terminal: a page is for a browser",
            hint=f"write it into a file: {instead}",
            subject="--format",
        )


def silence_stdout() -> None:
    """Let what is still buffered go nowhere, or the interpreter would complain of it on exit."""
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def say(text: str) -> None:
    """Tell the user what is going on, apart from the result: on stderr."""
    print(f"graphbench: {text}", file=sys.stderr)


def failed_rows(record: ProfileRecord) -> tuple[str, ...]:
    """Name every row of a profile that failed, with its reason."""
    return tuple(f"{name}: {reason}" for name, reason in _failures(record))


def _failures(record: ProfileRecord) -> Iterator[tuple[str, str]]:
    from graphbench.analysis.missing import sides
    from graphbench.conservation import post_grad_row

    for region in record.regions:
        if region.status == "failed":
            yield region.key, region.reason
        for name, side in sides(region):
            yield from _failed(f"{region.key} {name}", side.plain)
        for row in region.nodes:
            yield from _failed(f"{region.key} {row.name}", row.isolated, row.in_graph)
            yield from _failed(f"{region.key} backward of {row.name}", row.backward_isolated, row.backward_in_graph)
        for post_grad in region.post_grad:
            yield from _failed(f"{region.key} {post_grad_row(post_grad.phase, post_grad.name)}", post_grad.isolated)
        for kernel in region.kernels:
            yield from _failed(f"{region.key} {kernel.key}", kernel.isolated, kernel.in_graph)
    if record.step is not None:
        for step_row in record.step.rows:
            yield from _failed(f"step {step_row.name}", step_row.isolated, step_row.in_graph)


def _failed(name: str, *measurements: Measurement) -> Iterator[tuple[str, str]]:
    """At most one failure of a row: one that fails alone and in the graph has failed once."""
    for measurement in measurements:
        if measurement.status == "failed":
            yield name, measurement.reason
            return


def percent(text: str) -> float:
    """An argument such as `5%`, as a fraction. The sign is required: 0.05 could mean either."""
    match = _PERCENT.fullmatch(text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a percentage such as 5%")
    return float(match.group(1)) / 100

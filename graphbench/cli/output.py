"""The files that a measuring command leaves, and what it prints in the end."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from graphbench.cli.common import (
    EXIT_OK,
    EXIT_ROWS_FAILED,
    emit,
    failed_rows,
    folder,
    refuse_overwrite,
    say,
    write_text,
)
from graphbench.cli.terminal import ColorChoice
from graphbench.cli.view import ViewOptions, predictions
from graphbench.errors import GraphbenchError, SetupError, UsageError
from graphbench.report.base import DEFAULT_WIDTH
from graphbench.runs.series import PROFILE as PROFILE

if TYPE_CHECKING:
    from graphbench.api import Profile
    from graphbench.records import ProfileRecord
    from graphbench.report.base import RenderOptions

PAGE = "report.html"
_SHOWN_FAILURES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputOptions:
    """Where results go. Without `output_dir` they are printed only."""

    output_dir: Path | None
    force: bool
    strict: bool

    def files(self) -> Mapping[str, Path]:
        """What will be written, by kind."""
        if self.output_dir is None:
            return {}
        names = {"report": "report.txt", "nodes": "nodes.csv", "fusions": "fusions.csv", "profile": PROFILE}
        names |= {"page": PAGE, "trace": "trace.json"}
        return {kind: self.output_dir / name for kind, name in names.items()}

    def check(self, files: Mapping[str, Path] | None = None) -> None:
        """Make the folder, and refuse now what could not be written after minutes of measuring.

        Args:
            files: what will be written, where that is not what `files()` says.

        Raises:
            UsageError: there is nowhere to write to, a file exists and `force` is not set, or the folder is a file,
                cannot be made or written to.
        """
        if self.output_dir is None:
            if sys.stdout is None:
                raise UsageError("standard output is closed, and there is no --output-dir: nobody would see the result")
            return
        if self.output_dir.exists() and not self.output_dir.is_dir():
            raise UsageError(
                f"--output-dir {self.output_dir}: found a file, expected a folder",
                hint="name a folder, which is made if there is none",
                subject="--output-dir",
            )
        refuse_overwrite(self.files() if files is None else files, force=self.force)
        try:
            self.output_dir.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.output_dir):
                pass  # permissions and read-only file systems show only when something is written
        except OSError as error:
            raise UsageError(
                f"--output-dir {self.output_dir}: cannot be written to: {error.strerror}",
                hint="choose a folder in which you may create files",
                subject="--output-dir",
            ) from error


def add_output_flags(parser: argparse.ArgumentParser) -> None:
    """Declare the fields of `OutputOptions`."""
    group = parser.add_argument_group("output")
    group.add_argument(
        "--output-dir",
        type=folder,
        metavar="DIR",
        help="write report.txt, report.html, nodes.csv, fusions.csv, trace.json and profile.json there",
    )
    group.add_argument("--force", action="store_true", help="overwrite those files")
    group.add_argument("--strict", action="store_true", help="exit with 4 if a row failed")


def deliver(profile: Profile, output: OutputOptions, view: ViewOptions) -> int:
    """Write the files, print the table and return the exit code.

    The profile is saved first: should a report fail, what was measured is not lost. Should saving fail, the table is
    still printed.

    Raises:
        GraphbenchError: a file could not be written.
        UsageError: `--what-if` matches nothing; all else is delivered.
    """
    record = profile.record
    files = output.files()
    unwritten = _attempt(lambda: profile.save(files["profile"], overwrite=output.force)) if files else None
    printed, refused = report_text(record, view, view.on_screen())
    if files and unwritten is None:
        in_file = printed if view.on_screen() == view.keywords() else report_text(record, view, view.keywords())[0]
        unwritten = _attempt(lambda: _write_reports(files, in_file, record))
    emit(printed, view.color)
    if unwritten is not None:
        raise GraphbenchError(
            f"measured, but {unwritten.message}", hint="the table above is whole", subject=unwritten.subject
        ) from unwritten
    if files:
        written = [path.name for path in files.values() if path.exists()]
        say(f"wrote {', '.join(written)} to {output.output_dir}")
    if refused is not None:
        raise refused
    failures = failed_rows(record)
    if not output.strict or not failures:
        return EXIT_OK
    rows = "row" if len(failures) == 1 else "rows"
    say(f"{len(failures)} {rows} failed: {'; '.join(failures[:_SHOWN_FAILURES])}")
    return EXIT_ROWS_FAILED


def report_text(record: ProfileRecord, view: ViewOptions, keywords: RenderOptions) -> tuple[str, UsageError | None]:
    """The table and what `--what-if` asks for, or the error to raise once what was measured is delivered."""
    from graphbench.report import REPORTERS

    text = REPORTERS["table"].render(record, **keywords)
    try:
        predicted = predictions(record, view, keywords.get("width", DEFAULT_WIDTH))
    except UsageError as error:
        return text, error
    return f"{text}\n{predicted}" if predicted else text, None


def add_to_report(text: str, output: OutputOptions, color: ColorChoice) -> None:
    """Print a text below the table, and add it to the report's file.

    Raises:
        UsageError: that cannot be written; the text has been printed.
    """
    emit(f"\n{text}", color)
    files = output.files()
    if files:
        write_text(files["report"], f"{files['report'].read_text(encoding='utf-8')}\n{text}")


def _write_reports(files: Mapping[str, Path], text: str, record: ProfileRecord) -> None:
    from graphbench.report import REPORTERS

    write_text(files["report"], text)
    for table in ("nodes", "fusions"):
        write_text(files[table], REPORTERS["csv"].render(record, table=table))
    write_text(files["trace"], REPORTERS["trace"].render(record))
    write_page(files["page"], lambda: REPORTERS["html"].render(record))


def write_page(path: Path, render: Callable[[], str]) -> None:
    """Write an HTML page, or say why there is none: what it needs is an extra that not everybody installs."""
    try:
        write_text(path, render())
    except SetupError as error:
        say(f"no {path.name}: {error}")


def _attempt(write: Callable[[], None]) -> UsageError | None:
    """Write, and return the error instead of raising it: there is a table to print first."""
    try:
        write()
    except UsageError as error:
        return error
    return None

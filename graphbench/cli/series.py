"""`graphbench run` on several sets of inputs: a run of its own for each, then a comparison of all over their sizes."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from graphbench.cli.common import EXIT_INTERRUPTED, EXIT_OK, EXIT_PIPE_CLOSED, EXIT_ROWS_FAILED, emit, say, write_text
from graphbench.cli.output import PAGE, PROFILE, OutputOptions, write_page
from graphbench.cli.running import RunDirectory, ended_in_order
from graphbench.cli.view import ViewOptions
from graphbench.errors import GraphbenchError, UsageError
from graphbench.report.base import DEFAULT_WIDTH
from graphbench.runs.journal import JOURNAL
from graphbench.runs.series import SERIES, write_series
from graphbench.units import count_text

if TYPE_CHECKING:
    from graphbench.report.profile_scaling import ProfileScaling

REPORT: Final = "report.txt"
SCALING: Final = "scaling.csv"
_ENDING: Final = (EXIT_INTERRUPTED, EXIT_PIPE_CLOSED)
"""Exit codes of a run after which the next one is not started."""

Start = Callable[[int, RunDirectory], int]
"""Measures one set, by its number, into a directory of its own; returns the exit code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Runs of one model on several sets of inputs. `run` is the directory they are in; its journal holds no results.

    `words` and `files` are those of a new run, `again` is the command that goes on with the series.
    """

    run: RunDirectory
    labels: Sequence[str]
    words: Sequence[str]
    files: Sequence[Path]
    again: str

    def folder(self, index: int) -> Path:
        """Where one set is measured."""
        return self.run.folder / self.labels[index]

    def words_of(self, index: int) -> tuple[str, ...]:
        """The command line of the run of one set, after `graphbench run`."""
        return (*self.words, "--output-dir", str(self.folder(index)), "--input-set", str(index))

    def is_done(self, index: int) -> bool:
        """Whether a set was measured and delivered."""
        return (self.folder(index) / PROFILE).is_file() and not (self.folder(index) / JOURNAL).exists()

    @property
    def measured(self) -> list[str]:
        """The sets that were, by label."""
        return [label for index, label in enumerate(self.labels) if self.is_done(index)]

    def directory(self, index: int) -> RunDirectory:
        """The directory of one set, locked: a new one, or that of a run that was cut short there.

        Raises:
            GraphbenchError: it cannot be written to, or what is there cannot be gone on with.
        """
        if self.folder(index).is_symlink():  # it would lead what is written out of the directory
            raise UsageError(f"{self.folder(index)} is a symbolic link, expected a folder", subject=self.labels[index])
        if (self.folder(index) / JOURNAL).exists():
            return RunDirectory.again(self.folder(index))[0]
        return RunDirectory.begin(self.folder(index), self.words_of(index), self.files, force=True)


def files_of(labels: Sequence[str], output: OutputOptions) -> Mapping[str, Path]:
    """What a series will write, by kind.

    Raises:
        UsageError: its directory is that of a single run.
    """
    folder = output.output_dir
    if folder is None:
        return {}
    if (folder / PROFILE).exists() or ((folder / JOURNAL).exists() and not (folder / SERIES).exists()):
        raise UsageError(
            f"{folder} holds a run of one set of inputs",
            hint="choose another --output-dir for a series of several",
            subject=str(folder),
        )
    files = {"report": folder / REPORT, "page": folder / PAGE, "scaling": folder / SCALING, "sets": folder / SERIES}
    return files | {f"{label}/{PROFILE}": folder / label / PROFILE for label in labels}


def begin(series: Series) -> None:
    """Note which sets a series has, and forget profiles that `--force` allows to replace.

    Raises:
        UsageError: the directory cannot be written to.
    """
    write_series(series.run.folder, series.labels)
    for index in range(len(series.labels)):
        if series.folder(index).is_symlink():
            continue  # refused when it is measured
        old = series.folder(index) / PROFILE
        try:
            with contextlib.suppress(NotADirectoryError):  # refused when it is measured
                old.unlink(missing_ok=True)
        except OSError as error:  # it would be taken for what this series measured
            raise UsageError(f"cannot remove {old}: {error.strerror}", subject=str(old)) from error


def measure_series(series: Series, start: Start, view: ViewOptions) -> int:
    """Measure every set that is not done yet, then compare all that are. One that fails does not stop the others.

    Args:
        series: the sets and where they are measured.
        start: measures one.
        view: how the comparison is printed.

    Returns:
        The exit code: 0, or that of the first set that failed; failed rows alone come last.

    Raises:
        GraphbenchError: the comparison cannot be made or written.
    """
    codes: dict[str, int] = {}
    try:
        with ended_in_order():
            for index, label in enumerate(series.labels):
                say(f"set {index + 1} of {len(series.labels)}: {label}")
                if series.is_done(index):
                    say(f"{label} was measured before")
                    continue
                try:
                    codes[label] = _measure(series, index, start)
                except KeyboardInterrupt:
                    codes[label] = EXIT_INTERRUPTED
                if codes[label] in _ENDING:
                    break
        _deliver(series, view)
        _say_failed(series, codes)
        if len(series.measured) == len(series.labels):
            series.run.finish()
    finally:
        _let_go(series)
    return _exit_code(list(codes.values()))


def _measure(series: Series, index: int, start: Start) -> int:
    """The exit code of one set's run; what went wrong is said here, since the others go on."""
    folder = series.folder(index)
    try:
        run = series.directory(index)
        try:
            return start(index, run)
        finally:
            run.let_go(series.again)
            with contextlib.suppress(OSError):  # it is not empty once anything was measured
                folder.rmdir()
    except GraphbenchError as error:
        say(f"{series.labels[index]}: {error}")
        return error.exit_code


def _deliver(series: Series, view: ViewOptions) -> None:
    """Print how times grow over the sets that were measured, and write it."""
    measured = series.measured
    if len(measured) < 2:
        return
    from graphbench.report.profile_scaling import scaling_of_files

    left_out = [label for label in series.labels if label not in measured]
    found = scaling_of_files([series.run.folder / label / PROFILE for label in measured], measured, left_out)
    emit(f"\n{scaling_text(found, view)}", view.color)
    if not series.run.temporary:
        write_text(series.run.folder / REPORT, str(found))
        write_text(series.run.folder / SCALING, found.csv())
        write_page(series.run.folder / PAGE, found.html)
        written = [name for name in (REPORT, PAGE, SCALING) if (series.run.folder / name).exists()]
        say(f"wrote {', '.join(written)} and a directory for each set to {series.run.folder}")


def scaling_text(found: ProfileScaling, view: ViewOptions) -> str:
    """The comparison as it is printed."""
    from graphbench.report.scaling_table import SHOWN_ROWS

    chosen = view.on_screen()
    return found.table(top=chosen.get("top", SHOWN_ROWS), wide=view.wide, width=chosen.get("width", DEFAULT_WIDTH))


def _say_failed(series: Series, codes: Mapping[str, int]) -> None:
    failed = [f"{label} (exit code {code})" for label, code in codes.items() if code not in (EXIT_OK, EXIT_ROWS_FAILED)]
    if failed:
        count = f"{len(failed)} of {count_text(len(series.labels), 'set')} of inputs"
        say(f"{count} failed: {', '.join(failed)}")


def _let_go(series: Series) -> None:
    """Say how to go on with a series that is not done; remove what was only for now, or has measured nothing."""
    run = series.run
    complete = not run.journal.path.exists()
    held = [
        label for label in series.labels if any((run.folder / label / name).exists() for name in (PROFILE, JOURNAL))
    ]
    if not complete and held:
        count = f"{len(series.measured)} of {count_text(len(series.labels), 'set')}"
        say(f"{count} of inputs measured, in {run.folder}: {series.again} continues")
    elif not complete:
        run.finish()
        (run.folder / SERIES).unlink(missing_ok=True)
    if run.temporary and (complete or not held):
        shutil.rmtree(run.folder, ignore_errors=True)
    run.journal.close()


def _exit_code(codes: Sequence[int]) -> int:
    ended = [code for code in codes if code in _ENDING]
    failed = [code for code in codes if code not in (EXIT_OK, EXIT_ROWS_FAILED)]
    return next(iter([*ended, *failed, *(code for code in codes if code != EXIT_OK)]), EXIT_OK)

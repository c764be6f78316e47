"""How `graphbench run` survives what it measures: the run's directory, its worker, and going on where one stopped."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import hashlib
import io
import itertools
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

from graphbench.cli.code_flags import BESIDE_RESUME, Code, not_beside_resume, resume_command
from graphbench.cli.common import EXIT_INTERRUPTED, emit, say, version
from graphbench.cli.config import IGNORE_FLAG
from graphbench.cli.output import PROFILE
from graphbench.cli.view import ViewOptions
from graphbench.document import SCHEMA_VERSION
from graphbench.errors import GraphbenchError, UsageError
from graphbench.runs.entries import Started
from graphbench.runs.journal import JOURNAL, Journal, read_journal
from graphbench.runs.ledger import Ledger
from graphbench.runs.partial import read_partial
from graphbench.runs.series import is_series
from graphbench.runs.supervisor import EXIT_CONTEXT_LOST, Supervisor

_SET_PARENT_DEATH_SIGNAL: Final = 1  # PR_SET_PDEATHSIG of <sys/prctl.h>
_PIECE_BYTES: Final = 1 << 20
_SIGNALLED: Final = 128
_TEMPORARY: Final = "graphbench-run-"
_OWN_FLAGS: Final = ("--no-supervise", "--supervise", "--debug", IGNORE_FLAG)

_BESIDE_RESUME: Final = ("resume", "supervise", "debug", *BESIDE_RESUME)

Measure = Callable[["RunDirectory", Ledger, Callable[[], None] | None], int]
"""Measures, delivers, and returns the exit code."""


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """Where a run keeps what it has measured; `temporary` ones are removed when it is done."""

    folder: Path
    journal: Journal
    temporary: bool

    @classmethod
    def begin(
        cls, output_dir: Path | None, words: Sequence[str], files: Sequence[Path], *, force: bool
    ) -> RunDirectory:
        """A new run's directory, locked.

        Args:
            output_dir: where results go; `None` for a temporary directory.
            words: the command line after `run`.
            files: those that the run reads.
            force: forget a run that was cut short there.

        Raises:
            UsageError: another run is writing there, or one was cut short there and `force` is not set.
            JournalError: it cannot be written to.
        """
        folder = output_dir.absolute() if output_dir is not None else Path(tempfile.mkdtemp(prefix=_TEMPORARY))
        journal = Journal.open(folder)
        made = cls(folder, journal, output_dir is None)
        if journal.size and not force:
            journal.close()
            raise UsageError(
                f"{folder} holds a run that was cut short",
                hint=f"graphbench run --resume {folder} continues it; --force starts again",
                subject=str(folder),
            )
        begun = False
        try:
            journal.clear()
            journal.append(
                Started(
                    schema_version=SCHEMA_VERSION,
                    graphbench=version(),
                    command=tuple(word for word in words if word not in _OWN_FLAGS),
                    folder=str(Path.cwd()),
                    temporary=output_dir is None,
                    files=tuple((str(file.absolute()), _digest(file)) for file in files if file.is_file()),
                )
            )
            begun = True
        finally:
            if not begun:
                made.let_go("")
        return made

    @classmethod
    def again(cls, folder: Path) -> tuple[RunDirectory, Started]:
        """The directory of a run that was cut short, locked, and how the run was started.

        Raises:
            ProfileFormatError: there is no journal in it, or it cannot be read.
            UsageError: another run is writing there, its beginning is lost, or a file that it reads has changed.
            JournalError: it cannot be written to.
        """
        refuse_complete(folder)
        started = read_journal(folder).started
        if started is None:
            raise beginning_lost(folder)
        for name, digest in started.files:
            if not Path(name).is_file() or _digest(Path(name)) != digest:
                raise UsageError(
                    f"{name} has changed since the run was started",
                    hint="start a new run in another directory",
                    subject=name,
                )
        journal = Journal.open(folder.absolute())
        return cls(folder.absolute(), journal, started.temporary), started

    def ledger(self) -> Ledger:
        """What has been measured so far; what is added is written."""
        contents = read_journal(self.folder)
        for dropped in contents.dropped:
            say(f"{self.journal.path}: {dropped}")
        return Ledger(self.journal, contents.entries)

    def finish(self) -> None:
        """The run is done and delivered: nothing of it needs to be kept."""
        self.journal.path.unlink(missing_ok=True)

    def let_go(self, again: str) -> None:
        """Say where a run lies that is not done. One that has measured nothing is removed.

        Args:
            again: the command that goes on with it.
        """
        if self.journal.path.exists():
            if _has_one_line(self.journal.path):  # how it was started
                self.finish()
            else:
                say(f"what was measured so far is in {self.folder}: {again} continues")
        if self.temporary and not self.journal.path.exists():
            with contextlib.suppress(OSError):  # somebody else's files are in it
                self.folder.rmdir()
        self.journal.close()


def refuse_complete(folder: Path) -> None:
    """Refuse to go on with a run that is done.

    Raises:
        UsageError: it is.
    """
    if is_series(folder) and not (folder / JOURNAL).exists():
        raise UsageError(
            f"the series of {folder} is complete: there is nothing to go on with",
            hint=f"graphbench show {folder}",
            subject=str(folder),
        )
    if (folder / PROFILE).is_file() and not (folder / JOURNAL).exists():
        raise UsageError(
            f"the run of {folder} is complete: there is nothing to go on with",
            hint=f"graphbench show {folder / PROFILE}",
            subject=str(folder),
        )


def beginning_lost(folder: Path) -> UsageError:
    """The error for a journal whose first line is damaged."""
    return UsageError(
        f"{folder / JOURNAL}: how the run was started is lost: that line is damaged",
        hint=f"graphbench show {folder} prints what was measured; start the run again in another directory",
        subject=str(folder),
    )


def check_continued(given: argparse.Namespace, defaults: argparse.Namespace) -> None:
    """Refuse options beside `--resume`: a run goes on with those that it had.

    Raises:
        UsageError: naming the first one.
    """
    for name, default in vars(defaults).items():
        if name not in _BESIDE_RESUME and getattr(given, name) != default:
            raise not_beside_resume(f"--{name.replace('_', '-')}")


def parse_started(parser: argparse.ArgumentParser, started: Started, folder: Path) -> argparse.Namespace:
    """The command line that a journal holds. A journal is a file like any other: what it says may be anybody's.

    Raises:
        UsageError: it is none that starts a run.
    """
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            original = parser.parse_args(started.command)
    except SystemExit as error:  # --help
        raise _no_start(folder) from error
    if original.resume is not None or original.worker is not None:
        raise _no_start(folder)
    return original


def _no_start(folder: Path) -> UsageError:
    return UsageError(
        f"{folder / JOURNAL}: found a command line that starts no run",
        hint="start the run again in another directory",
        subject=str(folder),
    )


def supervise(
    run: RunDirectory, words: Sequence[str], folder: str, unit_timeout_s: float | None, *, debug: bool
) -> int:
    """Let a worker do the run, and start it again where that helps.

    Args:
        run: its directory.
        words: the command line after `run`.
        folder: where it was given.
        unit_timeout_s: how long a unit may take.
        debug: let the worker show tracebacks.

    Returns:
        The worker's exit code.

    Raises:
        GraphbenchError: it died of something that cannot be left out.
    """
    worker = (
        *(["--debug"] if debug else []),
        IGNORE_FLAG,
        "run",
        *words,
        "--worker",
        f"{run.journal.fd}:{os.getpid()}:{run.folder}",
    )
    return Supervisor(run.journal, worker, folder, unit_timeout_s, say).run()


@contextlib.contextmanager
def ended_in_order() -> Iterator[None]:
    """While inside, a signal that would end this process at once (`kill`, a terminal that is closed) ends it in order.

    One that is ignored, as under `nohup`, stays so.

    Raises:
        SystemExit: the signal came; its code is the one that a shell reports.
    """

    def end(number: int, frame: FrameType | None) -> NoReturn:
        raise SystemExit(_SIGNALLED + number)

    with contextlib.ExitStack() as stack:
        if threading.current_thread() is threading.main_thread():  # others may not set handlers
            for number in (signal.SIGTERM, signal.SIGHUP):
                if signal.getsignal(number) is signal.SIG_DFL:
                    stack.callback(signal.signal, number, signal.SIG_DFL)
                    signal.signal(number, end)
        yield


@contextlib.contextmanager
def told(run: RunDirectory, code: Sequence[Code]) -> Iterator[None]:
    """Afterwards, say where a run lies that is not done. One that has measured nothing is removed.

    Args:
        run: its directory.
        code: what it runs: to go on, that has to be named again.
    """
    try:
        yield
    finally:
        run.let_go(resume_command(run.folder, code))


def print_partial(run: RunDirectory, view: ViewOptions) -> None:
    """Print what was measured of a run that Ctrl-C ended; nothing where that is nothing."""
    # Imported here: most runs come to their end.
    from graphbench.report import REPORTERS

    with contextlib.suppress(GraphbenchError):  # nothing was measured yet
        emit(REPORTERS["table"].render(read_partial(run.folder), **view.on_screen()), view.color)


def work(run: RunDirectory, measure: Measure, *, leave: bool) -> int:
    """Measure, in this process.

    Args:
        run: where what is found is noted.
        measure: does it.
        leave: end the process when the device is lost, for a supervisor to start another one.

    Returns:
        The exit code.
    """
    os.register_at_fork(after_in_child=run.journal.close)  # DataLoader workers would hold the directory after the run
    try:
        code = measure(run, run.ledger(), _leave if leave else None)
    except BrokenPipeError:  # who read the table has seen enough
        if run.temporary or (run.folder / PROFILE).is_file():
            run.finish()
        raise
    run.finish()
    return code


def worker_of(text: str) -> RunDirectory:
    """The run that a supervisor hands to its worker, as `FD:PROCESS:FOLDER`."""
    fd, supervisor, folder = text.split(":", 2)
    _die_with(int(supervisor))
    os.set_inheritable(int(fd), False)  # a program that the model starts would hold the directory after the run
    return RunDirectory(Path(folder), Journal(Path(folder), int(fd)), temporary=False)


def _leave() -> NoReturn:
    """End at once: on a lost device nothing can be put back any more."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(EXIT_CONTEXT_LOST)


def _die_with(supervisor: int) -> None:
    """End when the supervisor does: a worker without one would hold the run's directory for nobody.

    Source: `prctl(PR_SET_PDEATHSIG)`, Linux.
    """
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, int(signal.SIGKILL))
    if os.getppid() != supervisor:
        os._exit(EXIT_INTERRUPTED)


def _has_one_line(journal: Path) -> bool:
    """Or none. Whether the lines can be read is not asked: what went wrong before is what matters."""
    with journal.open("rb") as stream:
        return sum(1 for _ in itertools.islice(stream, 2)) < 2


def _digest(file: Path) -> str:
    found = hashlib.sha256()
    with file.open("rb") as stream:
        while piece := stream.read(_PIECE_BYTES):
            found.update(piece)
    return found.hexdigest()

"""Watches the process that measures: one that crashes or hangs is started again, without the unit that it died of."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from graphbench.errors import GraphbenchError
from graphbench.runs.entries import SIDE_TIMEOUTS, Begun, Conditions, Entry, Failed, MeasuredRegion, SideRow, UnitRow
from graphbench.runs.journal import Journal, Tail, read_journal
from graphbench.runs.ledger import in_progress

EXIT_CONTEXT_LOST: Final = 75
"""A worker ends with this when its device's context is lost; it has noted what did it."""
EXIT_INTERRUPTED: Final = 130
MOST_IN_VAIN: Final = 5
"""Restarts one after the other that bring neither a row nor a fault."""
KILLS_FORGIVEN: Final = 1
"""How often a unit may be under way when the process is killed from outside before it is held to be the cause."""
FROM_OUTSIDE: Final = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT})
"""What others send: no process crashes of these by itself."""
GRACE_S: Final = 10.0
LEAST_S: Final = 600.0
"""What may pass outside of units however short they must be: a backward is compiled late, files are written."""
LOOK_EVERY_S: Final = 1.0
LATE_S: Final = 5.0
INTERRUPT_S: Final = 10.0
_START = "import sys; sys.path[:] = {path!r}; from graphbench.cli import main; sys.exit(main())"


@dataclass(slots=True)
class Supervisor:
    """Runs a worker until it has measured everything.

    Args:
        journal: of the run; the worker inherits it, so that it stays locked until both are gone.
        command: the worker's command line, after the interpreter's own.
        folder: where the worker runs.
        unit_timeout_s: how long a unit may take; `None` for no limit. The worker stops what can be stopped; what
            cannot is killed `GRACE_S` later, and so is a worker that outside of units notes nothing for `SIDE_TIMEOUTS`
            times as long, at least `LEAST_S`.
        say: tells the user.
    """

    journal: Journal
    command: Sequence[str]
    folder: str
    unit_timeout_s: float | None
    say: Callable[[str], None]
    _killed: Counter[Begun] = field(default_factory=Counter)

    def run(self) -> int:
        """Run the worker, again and again if need be.

        Returns:
            The exit code of the one that came to an end.

        Raises:
            GraphbenchError: it died of something that no unit can be blamed for, or of too many.
        """
        in_vain = n_results = 0
        while in_vain <= MOST_IN_VAIN:
            n_before = len(read_journal(self.journal.folder).entries)
            code, hung = self._worker()
            if code >= 0 and code != EXIT_CONTEXT_LOST:
                return code
            if not self.journal.path.exists():  # which goes once everything is delivered
                self.say("everything is measured and delivered; the measuring process crashed as it ended")
                return 0
            self.journal.cut_unfinished()  # or the next line would be lost with the one that the worker was writing
            self._blame(code, hung, read_journal(self.journal.folder).entries[n_before:])
            before, n_results = n_results, _n_results(read_journal(self.journal.folder).entries)
            in_vain = in_vain + 1 if n_results == before else 0
        raise GraphbenchError(
            f"gave up after {in_vain} restarts of the measuring process that brought nothing new",
            hint=self._hint(),
            subject="run",
        )

    def _worker(self) -> tuple[int, bool]:
        """One worker's exit code, negative for a signal, and whether it was killed because it hung."""
        # What the command imports, the worker does: the empty entry would mean the folder that it runs in.
        source = _START.format(path=[entry for entry in sys.path if entry])
        words = [sys.executable, "-c", source, *self.command]
        process = subprocess.Popen(words, cwd=self.folder, pass_fds=(self.journal.fd,))
        watch = _Watch(self.journal, self.unit_timeout_s)
        while True:
            try:
                return process.wait(LOOK_EVERY_S), False
            except subprocess.TimeoutExpired:
                if watch.hangs():
                    process.kill()
                    return process.wait(), True
            except KeyboardInterrupt:
                return _interrupted(process), False
            except BaseException:
                process.kill()
                process.wait()
                raise

    def _blame(self, code: int, hung: bool, entries: Sequence[Entry]) -> None:
        """Note what the worker died of, so that the next one leaves it out.

        Args:
            code: its exit code.
            hung: it was killed because it hung.
            entries: what it has added to the journal; what an earlier process left under way is not its work.

        Raises:
            GraphbenchError: nothing was being measured.
        """
        cause = "a lost device" if code == EXIT_CONTEXT_LOST else signal.Signals(-code).name
        if not any(isinstance(entry, Conditions) for entry in entries):
            raise GraphbenchError(
                f"the measuring process died of {cause} while the model was built, compiled or called",
                hint="does the model run without graphbench?",
            )
        if code == EXIT_CONTEXT_LOST:
            self.say("the device's context was lost; starting again without the unit that lost it")
            return
        begun = in_progress(entries)
        if begun is None:
            raise GraphbenchError(
                f"the measuring process died of {cause} while nothing was being measured", hint=self._hint()
            )
        what = f"{begun.region} {begun.row}"
        self._killed[begun] += 1
        if -code in FROM_OUTSIDE and not hung and self._killed[begun] <= KILLS_FORGIVEN:
            self.say(f"the measuring process was killed at {what}; starting again")
            return
        reason = _reason(code, hung, self.unit_timeout_s)
        self.journal.append(Failed(region=begun.region, kind=begun.kind, row=begun.row, reason=reason))
        self.say(f"{what}: {reason}; starting again without it")

    def _hint(self) -> str:
        return f"what was measured is safe: graphbench run --resume {self.journal.folder}"


def _n_results(entries: Iterable[Entry]) -> int:
    return sum(isinstance(entry, (UnitRow, SideRow, Failed, MeasuredRegion)) for entry in entries)


def _reason(code: int, hung: bool, unit_timeout_s: float | None) -> str:
    if hung:
        return f"timeout: not done after {unit_timeout_s:g} s, and its process had to be killed"
    name = signal.Signals(-code).name
    if -code in FROM_OUTSIDE:
        cause = ", for want of memory perhaps" if code == -signal.SIGKILL else ""
        return f"its process was killed ({name}) each time it was measured{cause}"
    return f"its process crashed ({name})"


def _interrupted(process: subprocess.Popen[bytes]) -> int:
    """The exit code of a worker that was interrupted along with this process, as by a terminal, and ends by itself.

    One that heard nothing and comes to its end meanwhile has done everything.
    """
    for ask in (None, signal.SIGINT, signal.SIGKILL):
        if ask is not None:
            process.send_signal(ask)
        try:
            process.wait(INTERRUPT_S)
            break
        except subprocess.TimeoutExpired:
            continue
    return 0 if process.returncode == 0 else EXIT_INTERRUPTED


class _Watch:
    """Notices, by what it adds to the journal, that a worker hangs."""

    def __init__(self, journal: Journal, unit_timeout_s: float | None) -> None:
        self._tail = Tail(journal)
        self._limit_s = unit_timeout_s
        self._looked_s = time.monotonic()
        self._waited_s = 0.0
        self._ready = False
        self._last: Entry | None = None

    def hangs(self) -> bool:
        """Whether what was noted last is longer ago than it may be."""
        before_s, self._looked_s = self._looked_s, time.monotonic()
        # A look is late when this process was suspended, as by Ctrl-Z, and the worker with it.
        self._waited_s += min(self._looked_s - before_s, LATE_S)
        new = self._tail.read()
        if new:
            self._waited_s, self._last = 0.0, new[-1]
            # Nothing is known of how long it takes to build, compile and call the model.
            self._ready = self._ready or any(isinstance(entry, Conditions) for entry in new)
        if self._limit_s is None or not self._ready:
            return False
        unit = isinstance(self._last, Begun) and self._last.kind in ("isolated", "backward")
        limit_s = self._limit_s if unit else max(self._limit_s * SIDE_TIMEOUTS, LEAST_S)
        return self._waited_s > limit_s + GRACE_S

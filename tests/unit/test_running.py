"""A run's directory: who holds it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

from graphbench.cli.running import RunDirectory, work
from graphbench.runs.journal import Journal
from graphbench.runs.ledger import Ledger


def test_a_fork_that_the_model_leaves_behind_does_not_hold_the_directory(tmp_path: Path) -> None:
    run = RunDirectory.begin(tmp_path / "out", (), (), force=False)
    forked, forks = os.pipe()

    def measure(run: RunDirectory, ledger: Ledger, leave: Callable[[], None] | None) -> int:
        child = os.fork()
        if child == 0:
            os.write(forks, b".")
            signal.pause()
        os.read(forked, 1)
        run.journal.close()
        try:
            Journal.open(run.folder).close()
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        return 0

    assert work(run, measure, leave=False) == 0

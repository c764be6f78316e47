"""A run's directory that comes to nothing: it is cleared away, and never in the way of what is told."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from graphbench.cli.running import RunDirectory, told
from graphbench.errors import JournalError
from graphbench.runs import journal as journals
from graphbench.runs.entries import Begun
from graphbench.runs.journal import JOURNAL

WORDS = ("--model", "hf:gpt2")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_run_that_cannot_even_be_noted_leaves_nothing(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(journals.os, "write", full)
    with pytest.raises(JournalError, match="No space left on device"):
        RunDirectory.begin(None, WORDS, (), force=False)
    assert list(temporary.iterdir()) == []


def test_a_run_that_measured_nothing_leaves_nothing(temporary: Path) -> None:
    with told(RunDirectory.begin(None, WORDS, (), force=False), ()):
        pass
    assert list(temporary.iterdir()) == []


def test_a_journal_that_cannot_be_read_hides_no_error(tmp_path: Path) -> None:
    run = RunDirectory.begin(tmp_path / "out", WORDS, (), force=False)
    run.journal.clear()
    with pytest.raises(ZeroDivisionError), told(run, ()):
        raise ZeroDivisionError
    assert run.journal.fd < 0


def test_a_journal_whose_lines_are_damaged_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = RunDirectory.begin(tmp_path / "out", WORDS, (), force=False)
    with told(run, ()):
        run.journal.append(Begun(region="r0", kind="isolated", row="relu"))
        content = bytearray(run.journal.path.read_bytes())
        content[-5] ^= 1
        run.journal.path.write_bytes(content)
    assert (tmp_path / "out" / JOURNAL).exists()
    assert f"--resume {tmp_path / 'out'} continues" in capsys.readouterr().err

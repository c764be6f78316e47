"""The supervisor's judgement, without a worker: what hangs, and what a death is put down to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from graphbench.errors import GraphbenchError
from graphbench.runs import supervisor
from graphbench.runs.entries import Begun, Conditions, Entry, Failed, Started
from graphbench.runs.journal import Journal, read_journal
from graphbench.runs.supervisor import Supervisor
from tests.samples import cpu_profile

RECORD = cpu_profile()
BEGUN = Begun(region="r0", kind="isolated", row="relu")
ENTRIES: tuple[Entry, ...] = (
    Started(schema_version=RECORD.schema_version, graphbench="0.1.0", command=(), folder="/"),
    Conditions(created=RECORD.created, subject=RECORD.subject, environment=RECORD.environment, policy=RECORD.policy),
    BEGUN,
)


def failures(folder: Path, *deaths: int) -> list[str]:
    """The reasons that are noted when workers end with these codes, each while it measures the same unit."""
    journal = Journal.open(folder)
    for entry in ENTRIES:
        journal.append(entry)
    watching = Supervisor(journal, (), "/", 120.0, lambda text: None)
    for code in deaths:
        watching._blame(code, hung=False, entries=ENTRIES)
    journal.close()
    return [entry.reason for entry in read_journal(folder).entries if isinstance(entry, Failed)]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_a_unit_is_not_blamed_for_what_somebody_sent(tmp_path: Path, number: signal.Signals) -> None:
    assert failures(tmp_path, -number) == []


def test_a_unit_that_is_killed_each_time_is_left_out(tmp_path: Path) -> None:
    assert failures(tmp_path, -signal.SIGTERM, -signal.SIGTERM) == [
        "its process was killed (SIGTERM) each time it was measured"
    ]


def test_a_line_that_the_worker_was_writing_takes_no_other_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def worker(watching: Supervisor) -> tuple[int, bool]:
        if any(isinstance(entry, Failed) for entry in read_journal(tmp_path).entries):
            return 0, False
        for entry in ENTRIES[1:]:
            watching.journal.append(entry)
        os.write(watching.journal.fd, b"0badf00d half a li")
        return -signal.SIGSEGV, False

    monkeypatch.setattr(Supervisor, "_worker", worker)
    journal = Journal.open(tmp_path)
    journal.append(ENTRIES[0])
    assert Supervisor(journal, (), "/", 120.0, lambda text: None).run() == 0
    journal.close()
    contents = read_journal(tmp_path)
    assert contents.dropped == ()
    assert contents.entries[-1] == Failed(
        region="r0", kind="isolated", row="relu", reason="its process crashed (SIGSEGV)"
    )


def test_a_unit_is_not_blamed_for_a_crash_before_anything_was_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Supervisor, "_worker", lambda watching: (-signal.SIGSEGV, False))
    journal = Journal.open(tmp_path)
    for entry in ENTRIES:  # of a process that was killed in the middle of a unit
        journal.append(entry)
    with pytest.raises(GraphbenchError, match="died of SIGSEGV while the model was built"):
        Supervisor(journal, (), "/", 120.0, lambda text: None).run()
    journal.close()
    assert read_journal(tmp_path).entries == ENTRIES


def test_a_worker_that_crashes_once_all_is_delivered_has_done_its_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def worker(watching: Supervisor) -> tuple[int, bool]:
        watching.journal.path.unlink()
        return -signal.SIGSEGV, False

    monkeypatch.setattr(Supervisor, "_worker", worker)
    journal, said = Journal.open(tmp_path), list[str]()
    journal.append(ENTRIES[0])
    assert Supervisor(journal, (), "/", 120.0, said.append).run() == 0
    journal.close()
    assert said == ["everything is measured and delivered; the measuring process crashed as it ended"]


def looks(folder: Path, monkeypatch: pytest.MonkeyPatch, *times_s: float) -> list[bool]:
    """Whether a unit with 5 seconds hangs, looked at at these times; it was begun at 0."""
    clock = SimpleNamespace(monotonic=iter((0.0, 0.0, *times_s)).__next__)
    monkeypatch.setattr(supervisor, "time", clock)
    journal = Journal.open(folder)
    watch = supervisor._Watch(journal, 5.0)
    for entry in ENTRIES:
        journal.append(entry)
    assert not watch.hangs()
    found = [watch.hangs() for _ in times_s]
    journal.close()
    return found


def test_a_unit_that_takes_longer_than_it_may_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit_s = 5 + supervisor.GRACE_S
    assert looks(tmp_path, monkeypatch, *map(float, range(1, int(limit_s) + 2)))[-2:] == [False, True]


def test_a_run_that_was_suspended_does_not_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert looks(tmp_path, monkeypatch, 1.0, 3600.0, 3601.0) == [False, False, False]


def test_a_worker_that_ends_well_while_the_run_is_interrupted_was_not() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    assert supervisor._interrupted(process) == 0

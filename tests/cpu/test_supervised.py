"""The fault campaign, with real processes: workers that crash, hang or are killed, and runs that go on afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from graphbench import document
from graphbench.measurements import Measurement
from graphbench.records import ProfileRecord
from graphbench.runs.entries import UnitRow
from graphbench.runs.journal import JOURNAL, Journal, read_journal
from graphbench.runs.partial import read_partial
from tests.cpu.campaign import OUTCOMES, Outcome

MODEL = Path(__file__).with_name("faulty_model.py")
WORDS = ("--custom-model-file", str(MODEL), "--model-class", "Faulty", "--repeat", "5", "--warmup", "1")
PATIENCE_S = 240


def environment(folder: Path, fault: str) -> dict[str, str]:
    return {
        **os.environ,
        "GRAPHBENCH_TEST_FAULT": fault,
        "GRAPHBENCH_TEST_FAULT_MARK": str(folder / "happened"),
        "GRAPHBENCH_TEST_JOURNAL": str(folder / "out" / JOURNAL),
        "OMP_NUM_THREADS": "1",
    }


def start(folder: Path, *words: str, fault: str = "") -> subprocess.Popen[str]:
    """`graphbench run` with its worker, in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "graphbench", "run", *words],
        env=environment(folder, fault),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run(folder: Path, *words: str, fault: str = "") -> tuple[int, str]:
    """Its exit code and what it said."""
    process = start(folder, *words, fault=fault)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert "Traceback" not in said, said
    return process.returncode, said


def new_run(folder: Path) -> tuple[str, ...]:
    return (*WORDS, "--output-dir", str(folder / "out"))


def again(folder: Path) -> tuple[str, ...]:
    return ("--resume", str(folder / "out"), "--custom-model-file", str(MODEL))


def isolated(record: ProfileRecord) -> dict[str, Measurement]:
    """What was measured alone, by row."""
    (region,) = record.regions
    rows = {node.name: node.isolated for node in region.nodes}
    rows |= {f"forward:{op.name}": op.isolated for op in region.post_grad if not op.is_view}
    return rows | {kernel.key: kernel.isolated for kernel in region.kernels}


def finished(folder: Path) -> ProfileRecord:
    """The profile of a run that is done, which leaves no journal."""
    assert not (folder / "out" / JOURNAL).exists()
    return document.read(folder / "out" / "profile.json")


def note(kind: str, named: str, rows: dict[str, Measurement], expected_failures: int) -> None:
    failed = [name for name, measurement in rows.items() if measurement.status != "ok"]
    OUTCOMES.append(Outcome(kind, "process", named, lost=len(failed) - expected_failures))
    assert named
    assert len(failed) == expected_failures, rows


def wait_for_fault(folder: Path, process: subprocess.Popen[str]) -> None:
    """Until the unit is under way that waits."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not (folder / "happened").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def wait_for_end(number: int) -> None:
    """Until a process is no more, but for its entry that somebody has yet to remove."""
    deadline_s, command = time.monotonic() + PATIENCE_S, Path(f"/proc/{number}/cmdline")
    while command.exists() and command.read_bytes():
        assert time.monotonic() < deadline_s, "the worker outlived its supervisor"
        time.sleep(0.05)


def worker_of(process: subprocess.Popen[str]) -> int:
    """The process that measures."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return int(children[0])


@pytest.mark.parametrize(("fault", "told"), [("abort", "SIGABRT"), ("segmentation fault", "SIGSEGV")])
def test_a_crash_costs_the_unit_that_crashed(tmp_path: Path, fault: str, told: str) -> None:
    code, said = run(tmp_path, *new_run(tmp_path), fault=fault)
    assert code == 0, said
    rows = isolated(finished(tmp_path))
    (reason,) = (measurement.reason for measurement in rows.values() if measurement.status != "ok")
    assert reason == f"its process crashed ({told})"
    note(f"a process ends of {told}", reason, rows, 1)


def test_a_unit_that_nothing_can_interrupt_is_killed(tmp_path: Path) -> None:
    code, said = run(tmp_path, *new_run(tmp_path), "--unit-timeout", "8", fault="hang")
    assert code == 0, said
    rows = isolated(finished(tmp_path))
    (reason,) = (measurement.reason for measurement in rows.values() if measurement.status != "ok")
    assert reason == "timeout: not done after 8 s, and its process had to be killed"
    note("a unit hangs and hears no signal", reason, rows, 1)


def test_a_worker_that_is_killed_once_costs_nothing(tmp_path: Path) -> None:
    code, said = run(tmp_path, *new_run(tmp_path), fault="kill")
    assert code == 0, said
    record = finished(tmp_path)
    told = next(line for line in said.splitlines() if "was killed at" in line)
    assert any("continued" in line for line in record.notes)
    note("a worker is killed", told, isolated(record), 0)


def test_a_supervisor_that_is_killed_takes_its_worker_along_and_the_run_goes_on(tmp_path: Path) -> None:
    process = start(tmp_path, *new_run(tmp_path), fault="wait")
    wait_for_fault(tmp_path, process)
    worker = worker_of(process)
    process.kill()
    process.communicate(timeout=PATIENCE_S)
    wait_for_end(worker)
    known = {
        entry.row: entry.measurement.samples
        for entry in read_journal(tmp_path / "out").entries
        if isinstance(entry, UnitRow)
    }
    document.check(read_partial(tmp_path / "out"))
    code, said = run(tmp_path, *again(tmp_path))
    assert code == 0, said
    record = finished(tmp_path)
    rows = isolated(record)
    assert {row: rows[row].samples for row in known} == known
    note("a supervisor is killed", next(line for line in record.notes if "continued" in line), rows, 0)


def test_ctrl_c_ends_a_run_that_can_go_on(tmp_path: Path) -> None:
    process = start(tmp_path, *new_run(tmp_path), fault="wait")
    wait_for_fault(tmp_path, process)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, said = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, "Traceback" in said, said.count("interrupted")) == (130, False, 1), said
    assert f"graphbench run --resume {tmp_path / 'out'} --custom-model-file {MODEL} continues" in said
    code, said = run(tmp_path, *again(tmp_path))
    assert code == 0, said
    note("a run is interrupted by Ctrl-C", "interrupted", isolated(finished(tmp_path)), 0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_told_to_end_says_where_it_lies(tmp_path: Path, number: signal.Signals) -> None:
    process = start(tmp_path, *new_run(tmp_path), fault="wait")
    wait_for_fault(tmp_path, process)
    worker = worker_of(process)
    process.send_signal(number)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 128 + number, said
    wait_for_end(worker)
    assert f"graphbench run --resume {tmp_path / 'out'} --custom-model-file {MODEL} continues" in said


def test_the_second_process_on_a_directory_refuses(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "out")
    try:
        code, said = run(tmp_path, *new_run(tmp_path))
    finally:
        journal.close()
    assert code == 2
    assert "another graphbench run is writing to it" in said
    OUTCOMES.append(Outcome("two processes on one directory", "process", said))


def test_a_disk_that_is_full_ends_a_run_that_can_go_on(tmp_path: Path) -> None:
    code, said = run(tmp_path, *new_run(tmp_path), fault="full disk")
    assert code == 1, said
    told = next(line for line in said.splitlines() if "cannot write" in line)
    assert f"{JOURNAL}: File too large" in told
    assert read_journal(tmp_path / "out").dropped == ()
    code, said = run(tmp_path, *again(tmp_path))
    assert code == 0, said
    note("the disk is full, in a process", told, isolated(finished(tmp_path)), 0)


def test_a_run_that_changed_cannot_go_on(tmp_path: Path) -> None:
    model = tmp_path / "model.py"
    model.write_text(MODEL.read_text())
    words = ("--custom-model-file", str(model), *new_run(tmp_path)[2:])
    process = start(tmp_path, *words, fault="wait")
    wait_for_fault(tmp_path, process)
    process.kill()
    process.communicate(timeout=PATIENCE_S)
    time.sleep(0.5)
    code, said = run(tmp_path, "--resume", str(tmp_path / "out"))
    assert code == 2
    assert "name it again to allow it" in said
    model.write_text(model.read_text().replace("x * 2", "x * 3"))
    code, said = run(tmp_path, "--resume", str(tmp_path / "out"), "--custom-model-file", str(model))
    assert code == 2
    assert "has changed since the run was started" in said
    OUTCOMES.append(Outcome("the model's file has changed", "process", said))

"""A series with real workers: Ctrl-C ends it, and it goes on with the set that was cut short and those behind it."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from graphbench import document
from graphbench.runs.journal import JOURNAL
from tests.cpu.test_supervised import PATIENCE_S, WORDS, again, run, start, wait_for_fault

TWO = ("--example-inputs", "f32[4,16]", "--example-inputs", "f32[64,16]")


def test_a_series_that_was_interrupted_goes_on(tmp_path: Path) -> None:
    process = start(tmp_path, *WORDS, *TWO, "--output-dir", str(tmp_path / "out"), fault="wait")
    wait_for_fault(tmp_path, process)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert f"0 of 2 sets of inputs measured, in {tmp_path / 'out'}: graphbench run --resume" in said
    assert (tmp_path / "out" / "0=4x16" / JOURNAL).is_file()
    assert not (tmp_path / "out" / "0=64x16").exists()

    code, said = run(tmp_path, *again(tmp_path))
    assert code == 0, said
    assert json.loads((tmp_path / "out" / "series.json").read_text())["sets"] == ["0=4x16", "0=64x16"]
    records = [document.read(tmp_path / "out" / name / "profile.json") for name in ("0=4x16", "0=64x16")]
    assert any("continued" in note for note in records[0].notes)
    batches = [record.regions[0].nodes[-1].outputs[0].shape[0] for record in records]
    assert batches == [4, 64]
    assert not list((tmp_path / "out").rglob(JOURNAL))
    assert "over 2 sets of inputs" in (tmp_path / "out" / "report.txt").read_text()

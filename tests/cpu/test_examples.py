"""Every example runs, as it stands, with tiny budgets."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from graphbench.cli import main
from graphbench.records import ProfileRecord

EXAMPLES = Path(__file__).parents[2] / "examples"
BUDGET_MS = 2.0


@pytest.fixture(autouse=True)
def _fresh_session(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Examples import their neighbours; what one captured must not reach the next."""
    import graphbench

    monkeypatch.syspath_prepend(str(EXAMPLES))
    graphbench.reset()
    yield
    graphbench.reset()
    for name in [path.stem for path in EXAMPLES.glob("*.py")]:
        sys.modules.pop(name, None)


def load(name: str) -> ModuleType:
    return importlib.import_module(name)


def timed_kernels(record: ProfileRecord) -> list[str]:
    """Kernels with an in-graph time."""
    return [k.key for region in record.regions for k in region.kernels if k.in_graph.status == "ok"]


def test_every_example_is_tested() -> None:
    models = {"small_transformer", "wrap_a_model", "profile_a_training_step", "diff_two_versions"}
    tested = {*models, "compare_implementations", "find_graph_breaks", "did_it_pay", "find_the_culprit"}
    assert {path.stem for path in EXAMPLES.glob("*.py")} == tested


def test_wrap_a_model_prints_what_it_measured(capsys: pytest.CaptureFixture[str]) -> None:
    record = load("wrap_a_model").main(measure_ms=BUDGET_MS).record
    printed = capsys.readouterr().out
    assert timed_kernels(record)
    assert "attributed 100.00 %" in printed
    assert "softmax" in printed


def test_profile_a_training_step_has_backward_and_optimizer(capsys: pytest.CaptureFixture[str]) -> None:
    record = load("profile_a_training_step").main(measure_ms=BUDGET_MS).record
    assert record.step is not None
    assert {"forward", "backward", "optimizer"} <= {row.phase for row in record.step.rows}
    assert capsys.readouterr().out


def test_find_graph_breaks_tells_what_each_cost(capsys: pytest.CaptureFixture[str]) -> None:
    record = load("find_graph_breaks").main(measure_ms=BUDGET_MS, n_tokens=3).record
    assert record.step is not None
    assert [(phase.name, phase.calls) for phase in record.step.user_phases] == [("prefill", 1), ("decode", 2)]
    assert {"disabled", "break"} <= {entry.kind for entry in record.breaks}
    assert re.search(r"cause: chances\.max\(\)\.item\(\)\n +cost: r1 \| \w+: ", capsys.readouterr().out)


def test_diff_two_versions_compares_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load("diff_two_versions").main(measure_ms=BUDGET_MS, folder=tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"before.json", "after.json"}
    assert "softmax" in capsys.readouterr().out


def test_compare_implementations_times_forwards_and_backwards(capsys: pytest.CaptureFixture[str]) -> None:
    forwards, backwards = load("compare_implementations").main(measure_ms=BUDGET_MS)
    assert [row.measurement.status for row in forwards.rows] == ["ok"] * 4
    assert [row.difference.equal for row in backwards.rows if row.difference is not None] == [True]
    printed = capsys.readouterr().out
    assert "in bfloat16" in printed
    assert "its result is not written out's" not in printed.replace("in bfloat16: its", "")


def test_small_transformer_is_a_model_file(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--custom-model-file", os.fspath(EXAMPLES / "small_transformer.py"), "--model-class", "SmallTransformer"]
    assert main(["run", *words, "--measure-ms", str(BUDGET_MS), "--no-progress", "--strict"]) == 0
    assert "attributed 100.00 %" in capsys.readouterr().out


def test_did_it_pay_predicts_and_measures(capsys: pytest.CaptureFixture[str]) -> None:
    story = load("did_it_pay").main(measure_ms=BUDGET_MS)
    printed = capsys.readouterr().out
    assert printed.count("at most ") == 3
    assert any(found.kind == "attention" for found in story.before.opportunities())
    assert story.predicted_ns > 0
    assert story.measured_ns > 0
    attended = [node for region in story.after.record.regions for node in region.nodes if "attend" in node.module]
    assert {node.op_type for node in attended} == {"scaled_dot_product_attention"}

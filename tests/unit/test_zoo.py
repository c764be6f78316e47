"""The zoo benchmark: what is run of each model, what is kept, what its table says."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from graphbench.cli import parse
from tests import factories
from tests.benchmarks import zoo
from tests.benchmarks.zoo_models import MODELS, ZooEntry


@pytest.mark.parametrize("entry", MODELS, ids=lambda entry: entry.name)
def test_every_model_is_a_command_line_that_parses(entry: ZooEntry) -> None:
    arguments = parse(["run", *entry.words("cuda:0"), "--max-seconds", "12", "--no-progress"])
    assert arguments.model == entry.model
    assert arguments.train == entry.train


def test_there_are_at_least_25_models_of_three_zoos_each_named_once() -> None:
    names = [entry.name for entry in MODELS]
    assert len(names) == len(set(names)) >= 25
    assert {entry.model.partition(":")[0] for entry in MODELS} == {"torchvision", "timm", "hf"}


def options(output: Path, **changes: Any) -> argparse.Namespace:
    defaults = {"resume": True, "again": False, "jobs": 1, "budget_seconds": 1e9, "max_seconds_per_model": 1.0}
    defaults["max_measuring_seconds"] = None
    return argparse.Namespace(**{**defaults, "device": "cpu", "output": output, **changes})


ENTRIES = (ZooEntry(model="hf:a"), ZooEntry(model="hf:b"))


def test_models_with_a_row_are_not_run_again(tmp_path: Path) -> None:
    ran: list[str] = []

    def measure(entry: ZooEntry, *_: Any) -> dict[str, Any]:
        ran.append(entry.name)
        return {"outcome": "report"}

    output = tmp_path / "zoo.json"
    zoo.run(ENTRIES[:1], options(output), measure)
    rows = zoo.run(ENTRIES, options(output), measure)
    assert ran == ["hf:a", "hf:b"]
    assert list(rows) == list(json.loads(output.read_text())) == ["hf:a", "hf:b"]
    zoo.run(ENTRIES, options(output, again=True, jobs=2), measure)
    assert sorted(ran) == ["hf:a", "hf:a", "hf:b", "hf:b"]


def test_no_model_is_begun_that_there_is_no_time_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = zoo.run(ENTRIES, options(tmp_path / "zoo.json", budget_seconds=0.5), lambda *_: {"outcome": "report"})
    assert rows == {}
    assert "out of time for 2" in capsys.readouterr().err


def test_figures_are_those_of_the_report() -> None:
    record = factories.profile()
    found = zoo.figures(record)
    assert found["nodes"] == sum(len(region.nodes) for region in record.regions)
    assert found["kernels"] == sum(len(region.kernels) for region in record.regions)
    assert found["nodes_failed"] == 0


def test_a_model_without_a_report_says_why_in_the_table() -> None:
    text = zoo.table({"hf:a": {"outcome": "failed", "seconds": 3.0, "no_report": "nothing was measured"}})
    assert "nothing was measured" in text
    assert zoo._percent(0.99999) == "99.99 %", "only a whole coverage reads 100.00 %"

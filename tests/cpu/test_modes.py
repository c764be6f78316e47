"""The table of modes: a part of its cells is run here, what was run of all is as expected, README shows it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import graphbench
from tests.modes.__main__ import follow
from tests.modes.cells import BEYOND_TORCH, MEASURED, Outcome, mode_named, run_cell
from tests.modes.models import MODELS
from tests.modes.modes import MODES, Kind, Mode
from tests.modes.table import FILES, README_MARKS, ROOT, cells, row_entry, table

IN_CI: dict[str, tuple[Kind, str]] = {
    "freezing, set globally": ("inference", "conv"),
    "cpp_wrapper, set globally": ("inference", "mlp"),
    "compiled autograd": ("training", "mlp"),
    "nested_compile_region": ("training", "attention"),
    "block by block": ("training", "conv"),
    "compile inside compile": ("inference", "mlp"),
    "inference_mode": ("inference", "attention"),
    "autocast outside": ("training", "mlp"),
    "tensor subclass as input": ("training", "mlp"),
    "quantised weights (a subclass)": ("inference", "mlp"),
    "DTensor": ("training", "mlp"),
    "mark_dynamic": ("inference", "attention"),
}
"""What no other test runs; the rest is `slow`, and has been run for the results that are kept."""


def every_cell() -> Iterator[Any]:
    for mode in MODES:
        for kind in mode.kinds:
            for model in MODELS:
                marks = [] if IN_CI.get(mode.name) == (kind, model) else [pytest.mark.slow]
                yield pytest.param(mode, kind, model, id=f"{mode.name}-{kind}-{model}", marks=marks)


def as_expected(mode: Mode, outcome: Outcome) -> list[str]:
    """What of a cell is not as the table of modes has it."""
    if mode.refusal:
        return [] if outcome.verdict.startswith(mode.refusal) else [outcome.verdict]
    if (outcome.kind, outcome.model) in mode.beyond_torch and outcome.verdict.startswith(BEYOND_TORCH):
        return []
    if outcome.verdict != MEASURED:
        return [outcome.verdict]
    untimed = [] if outcome.nodes and outcome.eager_ns and outcome.compiled_ns else ["no time"]
    return [*outcome.faults, *untimed, *([] if outcome.attributed == 1.0 else [f"attributed {outcome.attributed}"])]


@pytest.mark.parametrize(("mode", "kind", "model"), list(every_cell()))
def test_a_cell_is_measured_whole_or_refused_in_a_sentence(mode: Mode, kind: Kind, model: str) -> None:
    try:
        assert as_expected(mode, run_cell(mode, kind, model, "cpu")) == []
    finally:
        graphbench.reset()


@pytest.mark.parametrize("device", FILES)
def test_every_cell_was_run_and_is_as_expected(device: str) -> None:
    known = cells(device)
    for mode in MODES:
        for kind in mode.kinds:
            for model in MODELS:
                cell = known.get((mode.name, kind, model))
                assert cell is not None, f"{mode.name}, {kind}, {model}: not run on {device}"
                outcome = Outcome(**{**cell, "faults": tuple(cell["faults"])})
                assert as_expected(mode, outcome) == [], f"{mode.name}, {kind}, {model} on {device}"


def test_the_table_in_readme_is_that_of_the_results() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    _, _, rest = text.partition(README_MARKS[0])
    shown, _, _ = rest.partition(README_MARKS[1])
    assert shown.strip() == table()


def test_a_row_says_what_came_of_each_of_its_cells() -> None:
    measured = {"verdict": MEASURED, "nodes": 4, "kernels": 5, "eager_ns": 41272.0, "compiled_ns": 37546.0}
    refused = {"verdict": "graphbench: it is C++"}
    beyond: dict[str, Any] = {"verdict": f"{BEYOND_TORCH}: why"}
    sentences: list[str] = []
    assert row_entry([measured, beyond, None], sentences, timed=True) == "41 → 38, torch cannot (1), none kept"
    assert row_entry([measured, measured, measured], sentences, timed=False) == "4/5"
    assert row_entry([refused, refused, refused], sentences, timed=False) == "refused (2)"
    assert sentences == [f"{BEYOND_TORCH}: why", "it is C++"]


def test_a_mode_that_writes_much_or_hangs_keeps_the_cells_that_it_finished() -> None:
    cells_kept: list[dict[str, Any]] = []
    loud = "import sys, time; sys.stderr.write('x' * 300_000 + chr(10) + 'why'); print('{}', flush=True); "
    assert follow([sys.executable, "-c", loud + "sys.exit(3)"], 60.0, cells_kept.append) == "exit 3: why"
    assert follow([sys.executable, "-c", loud + "time.sleep(60)"], 3.0, cells_kept.append) == "ended after 3 s"
    assert follow([sys.executable, "-c", loud], 60.0, cells_kept.append) == ""
    assert cells_kept == [{}, {}, {}]


def test_cells_in_ci_are_cells_of_the_table() -> None:
    for name, (kind, model) in IN_CI.items():
        assert kind in mode_named(name).kinds
        assert model in MODELS


def test_settings_of_the_process_are_as_they_were_after_a_cell() -> None:
    from torch._inductor import config

    before = (config.freezing, config.cpp_wrapper, os.environ.get("TORCHINDUCTOR_FREEZING"))
    run_cell(mode_named("cpp_wrapper, set globally"), "inference", "mlp", "cpu")
    assert (config.freezing, config.cpp_wrapper, os.environ.get("TORCHINDUCTOR_FREEZING")) == before

"""README's table of modes, from the cells that were run on the CPU and on a GPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
RESULTS: Final = ROOT / "tests" / "benchmarks" / "results"
FILES: Final = {"cpu": RESULTS / "modes_cpu.json", "cuda": RESULTS / "modes_gpu.json"}
README_MARKS: Final = ("<!-- modes -->", "<!-- /modes -->")
SHOWN: Final = {"cpu": "CPU", "cuda": "GPU"}
MODELS: Final = ("mlp", "conv", "attention")


def cells(device: str) -> dict[tuple[str, str, str], dict[str, Any]]:
    """What was run on a device, by mode, kind and model."""
    if not FILES[device].exists():
        return {}
    found = json.loads(FILES[device].read_text())
    return {(cell["mode"], cell["kind"], cell["model"]): cell for cell in found["cells"]}


def table() -> str:
    """One row for each mode: what came of its cells on either device; below it the sentences that it refers to."""
    from tests.modes.modes import KINDS, MODES

    columns = [(device, kind) for device in FILES for kind in KINDS]
    known = {device: cells(device) for device in FILES}
    heads = [f"{kind}, {SHOWN[device]}" for device, kind in columns]
    lines = [f"| mode | {' | '.join(heads)} |", "|---" * (len(columns) + 1) + "|"]
    sentences: list[str] = []
    for mode in MODES:
        entries = [
            row_entry(
                [known[device].get((mode.name, kind, model)) for model in MODELS], sentences, timed=device == "cuda"
            )
            if kind in mode.kinds
            else "–"
            for device, kind in columns
        ]
        lines.append(f"| {mode.name} | {' | '.join(entries)} |")
    notes = [f"{number}. {sentence}" for number, sentence in enumerate(sentences, 1)]
    return "\n".join([*lines, "", *notes]) if notes else "\n".join(lines)


def row_entry(found: list[dict[str, Any] | None], sentences: list[str], *, timed: bool) -> str:
    """What came of a mode's cells, one for each model; said once where it is the same of all.

    Whole runs in µs (`timed`), or how many nodes and kernels were timed: such counts do not depend on what else a
    machine does. Sentences are collected in `sentences`, and referred to by number.
    """
    texts = [_text(cell, sentences, timed) for cell in found]
    return texts[0] if len(set(texts)) == 1 else ", ".join(texts)


def _text(cell: dict[str, Any] | None, sentences: list[str], timed: bool) -> str:
    if cell is None:
        return "none kept"
    verdict = cell["verdict"]
    if verdict == "measured":
        if not timed:
            return f"{cell['nodes']}/{cell['kernels']}"
        return f"{_us(cell['eager_ns'])} → {_us(cell['compiled_ns'])}"
    sentence = verdict.removeprefix("graphbench: ")
    if sentence not in sentences:
        sentences.append(sentence)
    what = "refused" if verdict.startswith("graphbench: ") else "torch cannot"
    return f"{what} ({sentences.index(sentence) + 1})"


def _us(ns: float | None) -> str:
    return "–" if ns is None else f"{ns / 1000:.0f}"


def in_readme() -> None:
    """Put the table between its marks in README.md."""
    file = ROOT / "README.md"
    before, _, rest = file.read_text().partition(README_MARKS[0])
    _, _, after = rest.partition(README_MARKS[1])
    file.write_text(f"{before}{README_MARKS[0]}\n{table()}\n{README_MARKS[1]}{after}")

"""README's table of modes, from the cells that were run on the CPU and on a GPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
RESULTS: Final = ROOT / "tests" / "benchmarks" / "results"
FILES: Final = {"cpu": RESULTS / "modes_cpu.json", "cuda": RESULTS / "modes_gpu.json"}
README_MARKS: Final = ("<!-- modes -->", "<!-- /modes -->")
MODELS: Final = ("mlp", "conv", "attention")


def cells(device: str) -> dict[tuple[str, str, str], dict[str, Any]]:
    """What was run on a device, by mode, kind and model."""
    if not FILES[device].exists():
        return {}
    found = json.loads(FILES[device].read_text())
    return {(cell["mode"], cell["kind"], cell["model"]): cell for cell in found["cells"]}


def table() -> str:
    """One row for each mode: what came of inference and training, with whole runs' times where it is measured."""
    from tests.modes.modes import KINDS, MODES

    shown = "cuda" if FILES["cuda"].exists() else "cpu"
    known = cells(shown)
    lines = ["| mode | inference | training |", "|---|---|---|"]
    for mode in MODES:
        entries = [
            _text([known.get((mode.name, kind, model)) for model in MODELS]) if kind in mode.kinds else "–"
            for kind in KINDS
        ]
        lines.append(f"| {mode.name} | {' | '.join(entries)} |")
    return "\n".join(lines)


def _text(found: list[dict[str, Any] | None]) -> str:
    texts = list(map(_cell_text, found))
    return texts[0] if len(set(texts)) == 1 else ", ".join(texts)


def _cell_text(cell: dict[str, Any] | None) -> str:
    if cell is None:
        return "not run"
    if cell["verdict"] == "measured":
        return f"{_us(cell['eager_ns'])} → {_us(cell['compiled_ns'])}"
    if cell["verdict"].startswith("torch cannot"):
        return "torch cannot"
    return f"refused: {cell['verdict'].partition(': ')[2].partition(':')[2].strip()}"


def _us(ns: float | None) -> str:
    return "–" if ns is None else f"{ns / 1000:.0f}"


def in_readme() -> None:
    """Put the table between its marks in README.md."""
    file = ROOT / "README.md"
    before, _, rest = file.read_text().partition(README_MARKS[0])
    _, _, after = rest.partition(README_MARKS[1])
    file.write_text(f"{before}{README_MARKS[0]}\n{table()}\n{README_MARKS[1]}{after}")

"""Records a whole profile on a GPU for tests of reports: a training step with every part that a report has.

Run on a machine with a GPU, from the repository root: `python -m tests.data.record_profile`. It writes
`tests/data/profiles/training_step.json.gz`.
"""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

import graphbench
from graphbench import document
from graphbench.measurements import SourceLine
from tests.recorded import PROFILES

WIDTH, LAYERS, VOCABULARY = 256, 3, 1000
ROOT = Path(__file__).resolve().parents[2]


class Block(nn.Module):
    """One layer of three: they are equal, so that reports fold them."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of any batch."""
        found: torch.Tensor = x + self.down(functional.gelu(self.up(self.norm(x))))
        return found


class Model(nn.Module):
    """An embedding, layers, a graph break, a head: two regions with a gap between them."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Of any batch."""
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        scale = x.abs().mean().item()
        found: torch.Tensor = self.head(x / scale)
        return found


def training_step(device: str) -> Callable[[], None]:
    """A whole step with AdamW, batch 8 x 128 tokens."""
    torch.manual_seed(0)
    model = Model().to(device)
    compiled = torch.compile(model, backend="graphbench")
    optimizer = torch.optim.AdamW(model.parameters())
    tokens, targets = (torch.randint(0, VOCABULARY, (8, 128), device=device) for _ in range(2))

    def step() -> None:
        loss = functional.cross_entropy(compiled(tokens).flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def without_paths(entry: Any) -> Any:
    """A record without the folders of the machine that made it: files of this repository stay, others lose theirs."""
    if isinstance(entry, SourceLine):
        file = Path(entry.file)
        inside = file.is_relative_to(ROOT)
        return dataclasses.replace(entry, file=str(file.relative_to(ROOT)) if inside else file.name)
    if dataclasses.is_dataclass(entry) and not isinstance(entry, type):
        values = {part.name: without_paths(getattr(entry, part.name)) for part in dataclasses.fields(entry)}
        return dataclasses.replace(entry, **values)
    if isinstance(entry, tuple):
        return tuple(map(without_paths, entry))
    if isinstance(entry, str):
        return re.sub(r"(?<![\w.])/(?:[\w.+-]+/)+(?=[\w.+-])", "", entry) if "/" in entry else entry
    return entry


def main() -> None:
    """Record and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--folder", type=Path, default=PROFILES)
    options = parser.parse_args()
    step = training_step(options.device)
    profile = graphbench.profile(step, measure_ms=3, subject="three MLP blocks, training step")
    options.folder.mkdir(parents=True, exist_ok=True)
    text = document.dumps(without_paths(profile.record))
    file = options.folder / "training_step.json.gz"
    file.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"{file}: {file.stat().st_size} bytes")  # noqa: T201


if __name__ == "__main__":
    main()

"""A tensor is permuted, reshaped and multiplied with itself; would one fused product be faster? Find what really costs.

The second version merges the three ops into one. The comparison shows what that saved, and the table of nodes that
another op, which fills the same places of every result, takes most of the time in both.
"""

from __future__ import annotations

import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

import graphbench
from graphbench.api import ProfileDiff
from graphbench.records import NodeRecord

BATCH, CHANNELS, LENGTH, WIDTH = 8, 2, 384, 8


class Pairs(nn.Module):
    """Products of all pairs of positions, of which a fixed mask hides the later ones."""

    mask: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1))

    def hide(self, products: Tensor) -> Tensor:
        """`[batch, length, length]`, the same with -inf where the mask says so."""
        return products.masked_fill(self.mask, float("-inf"))


class InPieces(Pairs):
    """One op after the other."""

    def forward(self, x: Tensor) -> Tensor:
        """`[batch, channels, length, width] -> [batch, length, length]`."""
        rows = x.permute(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)
        return self.hide(torch.matmul(rows, rows.transpose(-2, -1)))


class Fused(Pairs):
    """The same products in one op."""

    def forward(self, x: Tensor) -> Tensor:
        """`[batch, channels, length, width] -> [batch, length, length]`."""
        return self.hide(torch.einsum("bctd,bcsd->bts", x, x))


@dataclass(frozen=True)
class Found:
    """What both versions showed: the most expensive node of each, and its part of all nodes' isolated time."""

    difference: ProfileDiff
    culprits: tuple[NodeRecord, NodeRecord]
    shares: tuple[float, float]


def measure(model: Pairs, path: Path, measure_ms: float) -> graphbench.Profile:
    """Measure one version, print its nodes and save its profile at `path`."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    graphbench.reset()  # forget the version before
    compiled = torch.compile(model.to(device).eval(), backend="graphbench")
    torch.manual_seed(0)
    x = torch.randn(BATCH, CHANNELS, LENGTH, WIDTH, device=device)
    with torch.no_grad():
        compiled(x)
    profile = graphbench.measure(measure_ms=measure_ms, subject=path.stem)
    profile.save(path, overwrite=True)
    print(profile.table(top=5))
    return profile


def most_expensive(profile: graphbench.Profile) -> tuple[NodeRecord, float]:
    """The node that takes longest alone, and its part of the time of all."""
    times_ns = {
        node.name: statistics.median(node.isolated.samples.busy_ns)
        for node in profile.record.regions[0].nodes
        if node.isolated.samples is not None
    }
    node = max(profile.record.regions[0].nodes, key=lambda node: times_ns.get(node.name, 0.0))
    return node, times_ns[node.name] / sum(times_ns.values())


def main(measure_ms: float = 100.0, folder: Path | None = None) -> Found:
    """Measure both versions, compare them, name the op that costs most.

    Args:
        measure_ms: measuring budget per node or kernel, in milliseconds.
        folder: where the two profiles are kept; a new temporary folder by default.
    """
    folder = folder or Path(tempfile.mkdtemp(prefix="graphbench-"))
    before = measure(InPieces(), folder / "in_pieces.json", measure_ms)
    after = measure(Fused(), folder / "fused.json", measure_ms)
    difference = graphbench.diff(before, after)
    print(difference)
    (old, old_share), (new, new_share) = most_expensive(before), most_expensive(after)
    for name, node, share in (("in pieces", old, old_share), ("fused", new, new_share)):
        line = f"line {node.source.line}: {node.source.code}" if node.source is not None else "no line is known"
        print(f"{name}: {node.op_type} takes {100 * share:.0f} % of the nodes' time ({line})")
    print(f"profiles: {folder}")
    return Found(difference, (old, new), (old_share, new_share))


if __name__ == "__main__":
    main()

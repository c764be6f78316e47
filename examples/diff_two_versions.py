"""Measure two versions of a model and see which nodes became faster, and whether the compiled whole did.

The second version replaces the attention that was written out by torch's fused one.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from small_transformer import SmallTransformer, example_inputs
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - the name that every PyTorch program gives it

import graphbench
from graphbench.api import ProfileDiff
from graphbench.models.demo import Attention


class FusedAttention(Attention):
    """The same attention, `[batch, length, width] -> [batch, length, width]`, in one call."""

    def forward(self, x: Tensor) -> Tensor:
        """Attend from every position of `x` to those before it and to itself."""
        batch, length, width = x.shape
        split = self.project_in(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        attended: Tensor = self.project_out(mixed.transpose(1, 2).reshape(batch, length, width))
        return attended


def measure(model: SmallTransformer, path: Path, measure_ms: float) -> None:
    """Measure one version and save its profile at `path`."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    graphbench.reset()  # forget the version before
    compiled = torch.compile(model.to(device).eval(), backend="graphbench")
    with torch.no_grad():
        compiled(example_inputs().to(device))
    graphbench.measure(measure_ms=measure_ms, subject=path.stem).save(path, overwrite=True)


def main(measure_ms: float = 100.0, folder: Path | None = None) -> ProfileDiff:
    """Measure both versions, compare them, print.

    Args:
        measure_ms: measuring budget per node or kernel, in milliseconds.
        folder: where the two profiles are kept; a new temporary folder by default.
    """
    folder = folder or Path(tempfile.mkdtemp(prefix="graphbench-"))
    torch.manual_seed(0)
    model = SmallTransformer()
    measure(model, folder / "before.json", measure_ms)
    for block in model.blocks:
        fused = FusedAttention(width=128, heads=4)
        fused.load_state_dict(block.attention.state_dict())
        block.attention = fused
    measure(model, folder / "after.json", measure_ms)
    difference = graphbench.diff(folder / "before.json", folder / "after.json")
    print(difference)
    print(f"profiles: {folder}")
    return difference


if __name__ == "__main__":
    main()

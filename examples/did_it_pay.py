"""From a profile to a decision: what could be gained, what one change should give, and what it gave.

A model with attention written out as its formula says. Its opportunities are read from its profile; then one of them is
taken: the scores, which pass through memory again and again, are left to torch's fused attention. What that should do
to the step is predicted from the profile and from both attentions timed alone; then the changed model is profiled too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name that every PyTorch program gives it

import graphbench


class WrittenOut(nn.Module):
    """Causal attention as its formula says."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        """`[batch, heads, tokens, width]` three times and `[tokens, tokens]` -> `[batch, heads, tokens, width]`."""
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
        return torch.where(mask, scores, -1e4).softmax(-1) @ value


class Fused(nn.Module):
    """The same in one call, which knows the mask without reading it and keeps the scores to itself."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        """As `WrittenOut.forward`."""
        return F.scaled_dot_product_attention(query, key, value, is_causal=True)


class Block(nn.Module):
    """One layer: attention and a gated MLP, each behind a normalisation, each added to its input."""

    def __init__(self, width: int, heads: int, attend: type[nn.Module]) -> None:
        super().__init__()
        self.heads = heads
        self.attend = attend()
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(2))
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate, self.up = (nn.Linear(width, 3 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(3 * width, width, bias=False)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """`[batch, tokens, width]` and `[tokens, tokens]` -> `[batch, tokens, width]`."""
        batch, tokens, width = x.shape
        parts = self.qkv(self.norms[0](x)).view(batch, tokens, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind()
        attended = self.attend(query, key, value, mask).transpose(1, 2).reshape(batch, tokens, width)
        x = x + self.out(attended)
        y = self.norms[1](x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Model(nn.Module):
    """A few layers, and the causal mask that they share."""

    mask: Tensor

    def __init__(self, size: Size, attend: type[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block(size.width, size.heads, attend) for _ in range(size.layers))
        self.register_buffer("mask", torch.ones(size.tokens, size.tokens, dtype=torch.bool).tril())

    def forward(self, x: Tensor) -> Tensor:
        """`[batch, tokens, width]` -> `[batch, tokens, width]`."""
        for layer in self.layers:
            x = layer(x, self.mask)
        return x


@dataclass(frozen=True)
class Size:
    """How large the model and its input are."""

    batch: int
    tokens: int
    width: int
    heads: int
    layers: int


@dataclass(frozen=True)
class Story:
    """Both profiles; device times of a step in nanoseconds, as predicted for the second model and as measured."""

    before: graphbench.Profile
    after: graphbench.Profile
    before_ns: float
    predicted_ns: float
    measured_ns: float


def main(measure_ms: float = 100.0) -> Story:
    """Profile, read the opportunities, take one, predict, profile again.

    Args:
        measure_ms: measuring budget per node and kernel, in milliseconds.
    """
    gpu = torch.cuda.is_available()
    device, dtype = ("cuda", torch.bfloat16) if gpu else ("cpu", torch.float32)
    size = Size(8, 1024, 1024, 16, 4) if gpu else Size(2, 64, 64, 4, 2)
    torch.manual_seed(0)
    written_out, fused = (Model(size, attend).to(device, dtype).eval() for attend in (WrittenOut, Fused))
    fused.load_state_dict(written_out.state_dict())
    x = torch.randn(size.batch, size.tokens, size.width, device=device, dtype=dtype)

    before = profiled(written_out, x, measure_ms)
    print("The three most promising opportunities:")
    for found in before.opportunities()[:3]:
        where = f"{', '.join(found.nodes[:3])} in {found.module or 'the model'}"
        print(f"  at most {found.gain_ns / 1e3:.1f} µs a step: {found.kind}, {where}: {found.what}")

    factor = faster_alone(written_out, size, measure_ms)
    prediction = before.what_if("layers.*.attend", factor)
    print(prediction)

    after = profiled(fused, x, measure_ms)
    now = after.what_if("layers.*.attend", 1.0)
    assert prediction.before_ns is not None
    assert prediction.after_ns is not None
    assert now.before_ns is not None
    for name, ns in (("before", prediction.before_ns), ("predicted", prediction.after_ns), ("measured", now.before_ns)):
        print(f"{name:>10}: {ns / 1e6:.3f} ms of device time a step")
    return Story(before, after, prediction.before_ns, prediction.after_ns, now.before_ns)


def faster_alone(model: Model, size: Size, measure_ms: float) -> float:
    """How much faster the fused attention is, alone and compiled, on tensors such as a layer gives it."""
    shape = (3, size.batch, size.heads, size.tokens, size.width // size.heads)
    parts = torch.randn(shape, device=model.mask.device, dtype=next(model.parameters()).dtype)
    ways = {attend.__name__: torch.compile(attend()) for attend in (WrittenOut, Fused)}
    with torch.no_grad():
        table = graphbench.compare(ways, inputs=(*parts, model.mask), measure_ms=measure_ms)
    print(table)
    slow_ns, fast_ns = (row.p50_ns for row in table.rows)
    assert slow_ns is not None
    assert fast_ns is not None
    return slow_ns / fast_ns


def profiled(model: Model, x: Tensor, measure_ms: float) -> graphbench.Profile:
    """The profile of one compiled forward."""
    graphbench.reset()
    compiled = torch.compile(model, backend="graphbench")
    with torch.no_grad():
        return graphbench.profile(compiled, x, measure_ms=measure_ms)


if __name__ == "__main__":
    main()

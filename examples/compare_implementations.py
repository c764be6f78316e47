"""Compare ways to compute one thing: on shared inputs, in place on inputs of one's own, and their backwards.

Nobody's inputs may change, so the implementation that writes in place gets a copy of its own and puts it back.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - the name that every PyTorch program gives it

import graphbench
from graphbench.comparing.table import ImplementationTable


def written_out(x: Tensor, weight: Tensor) -> Tensor:
    """RMS normalisation as its formula says: `[tokens, width]`, `[width]` -> `[tokens, width]`."""
    return x * (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt() * weight


def fused(x: Tensor, weight: Tensor) -> Tensor:
    """The same in one call of torch's."""
    return F.rms_norm(x, weight.shape, weight, eps=1e-6)


def in_bfloat16(x: Tensor, weight: Tensor) -> Tensor:
    """The same in half the bytes. The casts are part of what this way costs, so they are inside the call."""
    return fused(x.bfloat16(), weight.bfloat16()).float()


def in_place(x: Tensor, weight: Tensor) -> Tensor:
    """The same without another tensor as large as `x`."""
    return x.mul_((x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()).mul_(weight)


def main(measure_ms: float = 100.0) -> tuple[ImplementationTable, ImplementationTable]:
    """Compare the forwards, then two backwards, and print both tables.

    Args:
        measure_ms: measuring budget per implementation, in milliseconds.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    x, weight = torch.randn(512, 1024, device=device), torch.rand(1024, device=device)
    own = x.clone()
    forwards = graphbench.compare(
        [
            graphbench.Implementation("written out", written_out),
            graphbench.Implementation("fused", fused),
            graphbench.Implementation("in bfloat16", in_bfloat16),
            # Untimed, and before the cache is cleared: what reset writes is not in the cache when the call starts.
            graphbench.Implementation("in place", in_place, inputs=(own, weight), reset=lambda: own.copy_(x)),
        ],
        inputs=(x, weight),
        measure_ms=measure_ms,
    )
    print(forwards)

    leaves = x.clone().requires_grad_(), weight.clone().requires_grad_()
    backwards = graphbench.compare(
        {way.__name__: graphbench.backward_of(way(*leaves), leaves) for way in (written_out, fused)},
        measure_ms=measure_ms,
    )
    print(backwards)
    return forwards, backwards


if __name__ == "__main__":
    main()

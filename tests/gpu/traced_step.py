"""A training step, and its trace by torch.profiler: `python -m tests.gpu.traced_step FILE` in a process of its own.

A CUDA session of torch.profiler leaves CUPTI's clock bent for whoever comes after it in the process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch
from torch import nn

WARM_UPS = 3
WIDTH = 256


def training_step(backend: str) -> Callable[[], None]:
    """A compiled model of products, a normalisation and pointwise ops, with a loss and an optimizer around it."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH)).cuda()
    model: Callable[[torch.Tensor], torch.Tensor] = torch.compile(net, backend=backend)
    optimizer = torch.optim.AdamW(net.parameters())
    x, target = torch.randn(2, 4 * WIDTH, WIDTH, device="cuda")

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), target).backward()
        optimizer.step()

    return step


def main(path: str) -> None:
    """Write the trace of one step."""
    step = training_step("inductor")
    for _ in range(WARM_UPS):
        step()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        step()
        torch.cuda.synchronize()
    profiler.export_chrome_trace(path)


if __name__ == "__main__":
    main(sys.argv[1])

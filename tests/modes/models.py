"""Three small models that differ in what they are made of, with a batch each."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

WIDTHS = {"cpu": 64, "cuda": 512}
"""Wide enough that kernels take longer than any kernel does."""


class Mlp(nn.Module):
    """Products and pointwise ops."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`[n, width]` to the same."""
        return self.down(functional.gelu(self.up(self.norm(x))))


class ConvNet(nn.Module):
    """A convolution, statistics that a call updates, a reduction."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, width // 4, 3, padding=1), nn.BatchNorm2d(width // 4)
        self.head = nn.Linear(width // 4, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`[n, 3, h, w]` to `[n, 16]`."""
        return self.head(functional.relu(self.norm(self.conv(x))).mean((2, 3)))


class Attention(nn.Module):
    """Views, and an op that a library does whole."""

    def __init__(self, width: int, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`[n, length, width]` to the same."""
        n, length, width = x.shape
        q, k, v = self.qkv(x).view(n, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        found = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(found.transpose(1, 2).reshape(n, length, width))


MODELS: dict[str, tuple[Callable[[int], nn.Module], Callable[[int, int], torch.Tensor]]] = {
    "mlp": (Mlp, lambda n, width: torch.randn(4 * n, width)),
    "conv": (ConvNet, lambda n, _: torch.randn(n, 3, 16, 16)),
    "attention": (Attention, lambda n, width: torch.randn(n, 32, width)),
}
"""How each is made, and its batch of size `n`."""


def made(name: str, device: str) -> nn.Module:
    """A model with the same weights each time."""
    torch.manual_seed(0)
    return MODELS[name][0](WIDTHS[device]).to(device)


def batch(name: str, device: str, size: int = 8) -> torch.Tensor:
    """An input for it."""
    torch.manual_seed(1)
    return MODELS[name][1](size, WIDTHS[device]).to(device)

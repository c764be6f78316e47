"""A small transformer in plain PyTorch: the model of `graphbench demo`, of the examples and of tests.

Normalisation and attention are written out, as research code often has them: that is where fusion pays most.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name that every PyTorch program gives it

EPSILON = 1e-6


class RMSNorm(nn.Module):
    """Root-mean-square normalisation over the last dimension, `[..., width] -> [..., width]`."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise `x`."""
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPSILON) * self.weight


class Attention(nn.Module):
    """Causal self-attention with an explicit softmax, `[batch, length, width] -> [batch, length, width]`."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.project_in = nn.Linear(width, 3 * width, bias=False)
        self.project_out = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Attend from every position of `x` to those before it and to itself."""
        batch, length, width = x.shape
        split = self.project_in(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4).unbind(0)
        scores = query @ key.transpose(-2, -1) / math.sqrt(width // self.heads)
        future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(future, float("-inf")).softmax(-1)
        mixed = (weights @ value).transpose(1, 2).reshape(batch, length, width)
        attended: Tensor = self.project_out(mixed)
        return attended


class Block(nn.Module):
    """One pre-norm transformer block, `[batch, length, width] -> [batch, length, width]`."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(width)
        self.attention = Attention(width, heads)
        self.mlp_norm = RMSNorm(width)
        self.expand = nn.Linear(width, 4 * width)
        self.contract = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Attention and MLP, each added to what it read."""
        x = x + self.attention(self.attention_norm(x))
        hidden = F.gelu(self.expand(self.mlp_norm(x)), approximate="tanh")
        contracted: Tensor = self.contract(hidden)
        return x + contracted


class SmallTransformer(nn.Module):
    """A decoder-only language model, token ids `[batch, length]` -> logits `[batch, length, vocabulary]`.

    Args:
        width: size of a token's vector; a multiple of `heads`.
        heads: attention heads per block.
        layers: number of blocks.
        vocabulary: number of token ids.
    """

    def __init__(self, width: int = 128, heads: int = 4, layers: int = 2, vocabulary: int = 1000) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm = RMSNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of the next token at every position."""
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(self.norm(x))
        return logits

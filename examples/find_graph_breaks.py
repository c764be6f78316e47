"""What Dynamo left to eager, and what that costs: a loop that generates tokens, with two graph breaks a token.

Parts of the loop have names, so that the report has totals for each.
"""

from __future__ import annotations

import torch
from small_transformer import VOCABULARY, SmallTransformer, example_inputs
from torch import Tensor, nn

import graphbench


@torch.compiler.disable
def allowed(logits: Tensor) -> Tensor:
    """Logits, `[batch, vocabulary]`, without those of tokens that nobody wants. Dynamo is told to leave it alone."""
    return logits.index_fill(-1, torch.arange(10, device=logits.device), float("-inf"))


class Generator(nn.Module):
    """A transformer and the choice of the next token."""

    def __init__(self) -> None:
        super().__init__()
        self.transformer = SmallTransformer(vocabulary=VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        """`[batch, length]` -> `[batch, 1]`, the next token."""
        logits = allowed(self.transformer(tokens)[:, -1])
        chances = logits.softmax(-1)
        if chances.max().item() < 0.5:  # not sure: look at more than the first
            chances = chances.square()
        return chances.argmax(-1, keepdim=True)


def main(measure_ms: float = 100.0, n_tokens: int = 4) -> graphbench.Profile:
    """Generate tokens with everything recorded, print.

    Args:
        measure_ms: measuring budget per node, kernel or gap op, in milliseconds.
        n_tokens: how many to generate.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    model = torch.compile(Generator().to(device).eval(), backend="graphbench")
    prompt = example_inputs(batch_size=2).to(device)

    def generate() -> Tensor:
        with torch.no_grad():
            with graphbench.phase("prefill"):
                tokens = model(prompt)
            for _ in range(n_tokens - 1):
                with graphbench.phase("decode"):
                    tokens = model(torch.cat([prompt[:, 1:], tokens], dim=1))
        return tokens

    for _ in range(2):
        generate()  # compiles
    with graphbench.record() as recording:
        generate()
    profile = recording.profile(measure_ms=measure_ms, subject="a loop that generates tokens")
    print(profile.table(top=5))
    return profile


if __name__ == "__main__":
    main()

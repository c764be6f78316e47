"""Profile a whole training step: what was compiled, what ran eagerly around it, backward and the optimizer."""

from __future__ import annotations

import torch
from small_transformer import VOCABULARY, SmallTransformer, example_inputs
from torch.nn import functional as F  # noqa: N812 - the name that every PyTorch program gives it

import graphbench


def main(measure_ms: float = 100.0) -> graphbench.Profile:
    """Profile one step of next-token training, print.

    Args:
        measure_ms: measuring budget per node or kernel, in milliseconds.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    model = SmallTransformer(vocabulary=VOCABULARY).to(device)
    compiled = torch.compile(model, backend="graphbench")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens = example_inputs(batch_size=4).to(device)

    def step() -> None:
        optimizer.zero_grad()
        logits = compiled(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()

    # The step really runs, optimizer included: restore puts weights and moments back.
    profile = graphbench.profile(step, restore=[model, optimizer], measure_ms=measure_ms, subject="a training step")
    print(profile)
    return profile


if __name__ == "__main__":
    main()

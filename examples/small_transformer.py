"""A model file for the command line; `example_inputs` spares you from describing the inputs.

graphbench run --custom-model-file examples/small_transformer.py --model-class SmallTransformer --model-arg layers=4
"""

from __future__ import annotations

import torch

from graphbench.models.demo import SmallTransformer

__all__ = ["SmallTransformer", "example_inputs"]

LENGTH = 64
VOCABULARY = 1000


def example_inputs(batch_size: int = 2) -> torch.Tensor:
    """Token ids, `[batch_size, LENGTH]`."""
    return torch.randint(VOCABULARY, (batch_size, LENGTH))

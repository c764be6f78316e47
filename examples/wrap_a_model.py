"""Wrap a model with torch.compile, call it, and see what each op and each fused kernel costs."""

from __future__ import annotations

import torch
from small_transformer import SmallTransformer, example_inputs

import graphbench


def main(measure_ms: float = 100.0) -> graphbench.Profile:
    """Compile the model, run it once, measure, print.

    Args:
        measure_ms: measuring budget per node or kernel, in milliseconds.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    model = torch.compile(SmallTransformer().to(device).eval(), backend="graphbench")
    with torch.no_grad():
        model(example_inputs().to(device))  # the same result, and the same speed, as with backend="inductor"
    profile = graphbench.measure(measure_ms=measure_ms, subject="a small transformer")
    print(profile)
    return profile


if __name__ == "__main__":
    main()

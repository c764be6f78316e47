"""The value policy `synthetic`: random values in a stable range, integers within the range of the captured ones."""

from __future__ import annotations

import torch


def synthesize(original: torch.Tensor, pooled: torch.Tensor) -> None:
    """Fill with values of the same kind as `original`: uniform in [-1, 1), legal integers or coins.

    Integers are drawn between the captured minimum and maximum, so that indices stay inside what they index. The
    generator is our own; the global ones do not move.
    """
    if pooled.numel() == 0:
        return
    generator = torch.Generator(device=pooled.device).manual_seed(0)
    with torch.no_grad():
        if pooled.dtype is torch.bool:
            pooled.copy_(torch.randint(0, 2, pooled.shape, generator=generator, device=pooled.device).bool())
        elif pooled.is_floating_point() or pooled.is_complex():
            dtype = pooled.dtype if pooled.is_complex() else torch.float32
            drawn = torch.rand(pooled.shape, generator=generator, device=pooled.device, dtype=dtype)
            pooled.copy_(drawn.mul_(2).sub_(1))
        else:
            low, high = int(original.min()), int(original.max())
            drawn_int = torch.randint(low, high + 1, pooled.shape, generator=generator, device=pooled.device)
            pooled.copy_(drawn_int)

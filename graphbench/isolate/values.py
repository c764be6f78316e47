"""The value policy `synthetic`: random floats in a stable range. What decides what an op does stays as captured."""

from __future__ import annotations

import torch

from graphbench.errors import IsolationError


def is_drawn(tensor: torch.Tensor) -> bool:
    """Whether the policy draws a tensor's values. Integers and masks are indices, offsets, counts: they stay."""
    return (tensor.is_floating_point() or tensor.is_complex()) and tensor.numel() > 0


def synthesize(original: torch.Tensor, pooled: torch.Tensor) -> None:
    """Fill with random values like those of `original`: uniform in [0, 1) where none is negative, else in [-1, 1).

    So variances, probabilities and rates stay what they are. Integers and masks are `original`'s. The generator is our
    own; the global ones do not move.
    """
    with torch.no_grad():
        if not is_drawn(original):
            _distinct(pooled).copy_(_distinct(original))
            return
        drawn = _draw(_distinct(pooled))
        if pooled.is_complex() or pooled.dtype.itemsize == 1 or not bool(original.min() >= 0):  # fp8 has no minimum
            drawn.mul_(2).sub_(1)
        _distinct(pooled).copy_(drawn)


def make_up(tensor: torch.Tensor) -> None:
    """Fill a tensor of which nothing is known but what it is: uniform in [-1, 1), or coins.

    Raises:
        IsolationError: integers: what they may be is not known.
    """
    with torch.no_grad():
        if tensor.dtype is torch.bool:
            tensor.copy_(_draw(tensor) < 0.5)
        elif is_drawn(tensor) or not tensor.numel():
            tensor.copy_(_draw(tensor).mul_(2).sub_(1))
        else:
            raise IsolationError(f"the {tensor.dtype} argument of shape {tuple(tensor.shape)} was not kept")


def _draw(like: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator(device=like.device).manual_seed(0)
    dtype = like.dtype if like.is_complex() else torch.float32
    return torch.rand(like.shape, generator=generator, device=like.device, dtype=dtype)


def _distinct(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor without its repetitions: what is repeated by a stride of 0 lies there once, and cannot be written."""
    for dim, (size, step) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        if step == 0 and size > 1:
            tensor = tensor.narrow(dim, 0, 1)
    return tensor

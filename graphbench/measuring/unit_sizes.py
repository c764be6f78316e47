"""What a unit will allocate beside the tensors that it is given, as far as that is known before it is built."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from graphbench.isolate.pool import copies_bytes
from graphbench.measurements import ValuePolicy
from graphbench.tensors import spec_of, tensors_of


def unit_bytes(
    tensors: Sequence[torch.Tensor],
    written: Sequence[torch.Tensor],
    device: torch.device,
    values: ValuePolicy,
    result: int,
) -> int:
    """Bytes of a call's unit: copies, made-up values to put back, what is written, the trial's and a sample's result.

    Args:
        tensors: the call's arguments.
        written: those known to be written, whose effects are kept.
        device: where it counts.
        values: what the copies hold.
        result: bytes of one result.
    """
    copies = copies_bytes(tensors, device)
    saved = copies if values == "synthetic" else 0
    return copies + saved + copies_bytes(written, device) + 2 * result


def backward_bytes(tensors: Sequence[torch.Tensor], device: torch.device, values: ValuePolicy, result: int) -> int:
    """Bytes of the unit of a call's backward: copies, made-up values, a result, a tangent like it, and gradients."""
    copies = copies_bytes(tensors, device)
    saved = copies if values == "synthetic" else 0
    gradients = copies_bytes([tensor for tensor in tensors if tensor.requires_grad], device)
    return copies + saved + gradients + 2 * result


def result_bytes(example: Any) -> int:
    """Bytes of what an op returns, by the values that it was traced with; sizes that are not known count as 0."""
    specs = [spec_of(tensor) for tensor in tensors_of(example)]
    return sum(math.prod(max(size, 0) for size in spec.shape) * getattr(torch, spec.dtype).itemsize for spec in specs)

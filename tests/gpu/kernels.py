"""A Triton kernel written by a user, for tests. Imported only where Triton is."""

from typing import Any

import torch
import triton
import triton.language as tl


@triton.jit
def _increment(pointer, n_elements, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, N803
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    tl.store(pointer + offsets, tl.load(pointer + offsets, mask=mask) + 1, mask=mask)


def increment(x: torch.Tensor) -> torch.Tensor:
    """Add 1 to `x` in place, by a write that no version counter sees, and return twice the result."""
    kernel: Any = _increment
    kernel[(triton.cdiv(x.numel(), 1024),)](x, x.numel(), BLOCK=1024)
    return x * 2


@triton.autotune(configs=[triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 256})], key=["n_elements"])
@triton.jit
def _double(pointer, result, n_elements, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, N803
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    tl.store(result + offsets, tl.load(pointer + offsets, mask=mask) * 2, mask=mask)


def doubled(x: torch.Tensor) -> torch.Tensor:
    """Twice a vector, by a kernel that is tuned when it first runs."""
    result = torch.empty_like(x)
    kernel: Any = _double
    kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, result, x.numel())
    return result

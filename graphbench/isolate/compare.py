"""Compares what two executions of the same work returned."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

from graphbench.measurements import Comparison
from graphbench.tensors import device_of, parts_of, spec_of, tensors_of, unpoolable

# Relative tolerance by dtype: room for another reduction order, not for other arithmetic.
RTOL = {torch.float64: 1e-7, torch.float32: 1e-3, torch.float16: 1e-2, torch.bfloat16: 2e-2}
PIECE_ELEMENTS = 4 << 20  # values are compared in pieces: each is widened, and takes several tensors of its length
NEW_NAN = "NaN where the other result has none"
NARROW = 2  # bytes: narrower floating types (fp8) are compared loosely, as float32


def compare_trees(found: Any, expected: Any, *, tolerance: float = 1.0) -> Comparison:
    """Compare two nested results tensor by tensor.

    Args:
        found: one result.
        expected: the result that it should equal.
        tolerance: factor on the relative tolerance, for results of long chains of ops.

    Returns:
        `equal` within tolerance; `max_abs` the largest absolute difference over all tensors.
    """
    left = [part for tensor in tensors_of(found) for part in parts_of(tensor)]
    right = [part for tensor in tensors_of(expected) for part in parts_of(tensor)]
    if len(left) != len(right):
        return Comparison(equal=False, max_abs=None, note=f"{len(left)} tensors instead of {len(right)}")
    parts = [compare_tensors(one, other, tolerance=tolerance) for one, other in zip(left, right, strict=True)]
    if not parts:
        return Comparison(equal=None, max_abs=None, note="no tensors to compare")
    known = [part.max_abs for part in parts if part.max_abs is not None]
    notes = dict.fromkeys(part.note for part in parts if part.note)
    verdicts = [part.equal for part in parts]
    return Comparison(
        equal=False if False in verdicts else None if None in verdicts else True,
        max_abs=max(known) if known else None,
        note="; ".join(notes),
    )


def compare_tensors(found: torch.Tensor, expected: torch.Tensor, *, tolerance: float = 1.0) -> Comparison:
    """Compare two tensors; NaN equals NaN. The scale of the tolerance is the largest expected magnitude.

    One of them may be kept on the host: it is brought to where the other one is, piece by piece.
    """
    one, other = spec_of(found).shape, spec_of(expected).shape  # a nested tensor has no `shape`
    if one != other or found.dtype != expected.dtype:
        note = f"{one} {found.dtype} instead of {other} {expected.dtype}"
        return Comparison(equal=False, max_abs=None, note=note)
    unfit = next((reason for reason in map(unpoolable, (found, expected)) if reason), None)
    if unfit is not None:
        return Comparison(equal=None, max_abs=None, note=f"cannot be compared: {unfit}")
    if found.numel() == 0:
        return Comparison(equal=True, max_abs=0.0)
    with torch.no_grad():
        return _compare_values(found.detach(), expected.detach(), tolerance)


def _compare_values(found: torch.Tensor, expected: torch.Tensor, tolerance: float) -> Comparison:
    rtol = RTOL.get(found.dtype, 0.25 if found.dtype.itemsize < NARROW and found.is_floating_point() else 0.0)
    if found.is_complex():
        found, expected, rtol = (
            torch.view_as_real(found.resolve_conj()),
            torch.view_as_real(expected.resolve_conj()),
            1e-3,
        )
    wide = torch.float64 if found.dtype is torch.float64 else torch.float32
    if not found.is_floating_point():
        wide = torch.int64  # exact: float32 cannot tell 2**24 from the number after it
    device = device_of([found, expected])

    def pieces() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for one, other in zip(_pieces(found), _pieces(expected), strict=True):
            yield one.to(device, wide), other.to(device, wide)

    if all(bool(_same(one, other).all()) for one, other in pieces()):
        return Comparison(equal=True, max_abs=0.0)
    gaps, scales = zip(*(_gap(one, other) for one, other in pieces()), strict=True)
    if not all(map(math.isfinite, gaps)):
        new = any(bool((one.isnan() & ~other.isnan()).any()) for one, other in pieces())
        return Comparison(equal=False, max_abs=None, note=NEW_NAN if new else "NaN or infinite on one side only")
    return Comparison(equal=max(gaps) <= rtol * tolerance * max(*scales, 1e-6), max_abs=max(gaps))


def _same(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return (one == other) | (one.isnan() & other.isnan())


def _pieces(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """A tensor cut along its longest dimension; small ones are one piece."""
    if tensor.numel() <= PIECE_ELEMENTS:
        return (tensor,)
    dim = max(range(tensor.dim()), key=lambda position: tensor.shape[position])
    across = tensor.numel() // tensor.shape[dim]
    return torch.split(tensor, max(1, PIECE_ELEMENTS // across), dim)


def _gap(one: torch.Tensor, other: torch.Tensor) -> tuple[float, float]:
    """The largest difference, and the largest finite magnitude expected."""
    finite = other[other.isfinite()]
    scale = float(finite.abs().max()) if finite.numel() else 0.0
    return float(torch.where(_same(one, other), torch.zeros_like(one), (one - other).abs()).max()), scale


def how_different(found: Comparison) -> tuple[bool, float]:
    """Order comparisons by how bad they are: a wrong result without a size (NaN on one side) is the worst."""
    wrong = found.equal is False
    return wrong, found.max_abs if found.max_abs is not None else math.inf if wrong else 0.0

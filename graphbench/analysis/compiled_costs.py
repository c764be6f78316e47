"""What every node costs compiled: each kernel's time divided over the nodes that it works for. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from graphbench.analysis.digest import Digest
from graphbench.records import KernelRecord, NodeRole, Phase, RegionRecord, Role

WORKING: tuple[frozenset[Role], ...] = (
    frozenset({"executes", "recomputes", "differentiates"}),
    frozenset({"prepares"}),
)
"""Roles that a kernel's time is divided over: of the first kind, or if it has none, of the second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledCost:
    """A node's part of its kernels' isolated medians, in nanoseconds.

    `None`: no kernel of that phase works for it, or one of them has no time.
    """

    forward_ns: float | None = None
    backward_ns: float | None = None


def compiled_costs(region: RegionRecord, digest: Digest | None = None) -> dict[str, CompiledCost]:
    """Divide every kernel's time over the nodes that it executes, differentiates or prepares for.

    A kernel of several nodes is divided by the bytes that each one's post-grad nodes move in it, in equal parts where
    none are known to move. Over all nodes the parts add up to the times of all kernels with a node.

    Args:
        region: a region with kernels and roles.
        digest: statistics already computed for this record.
    """
    digest = digest or Digest()
    sums: dict[Phase, dict[str, float | None]] = {"forward": {}, "backward": {}}
    for kernel in region.kernels:
        time_ns = digest.median(kernel.isolated)
        total_ns = None if time_ns is None else time_ns * max(1, kernel.calls)
        found = sums[kernel.phase]
        for node, part in kernel_parts(kernel).items():
            before = found.get(node, 0.0)
            found[node] = None if before is None or total_ns is None else before + total_ns * part
    names = dict.fromkeys(name for found in sums.values() for name in found)
    return {
        name: CompiledCost(forward_ns=sums["forward"].get(name), backward_ns=sums["backward"].get(name))
        for name in names
    }


def kernel_parts(kernel: KernelRecord) -> dict[str, float]:
    """The part of a kernel that falls to each node that it works for; they add up to 1. None without an owner."""
    for kinds in WORKING:
        moved = _moved(role for role in kernel.roles if role.role in kinds)
        if moved:
            total = sum(moved.values())
            return {node: size / total if total else 1 / len(moved) for node, size in moved.items()}
    return {}


def _moved(roles: Iterable[NodeRole]) -> dict[str, int]:
    moved: dict[str, int] = {}
    for role in roles:
        moved[role.node] = moved.get(role.node, 0) + max(0, role.moved_bytes)
    return moved

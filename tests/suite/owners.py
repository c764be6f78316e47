"""Kernels without an owner, and how often each post-grad node is executed. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from graphbench.analysis.summary import is_owned
from graphbench.records import KernelRecord, PostGradNode


def unowned(kernels: Iterable[KernelRecord]) -> list[str]:
    """Keys of kernels that belong to no node."""
    return [kernel.key for kernel in kernels if not is_owned(kernel)]


def executed_times(post_grad: Iterable[PostGradNode], kernels: Sequence[KernelRecord]) -> dict[str, float]:
    """How often each computing post-grad node is executed over all kernels, recomputation left out: once."""
    found: dict[str, float] = {}
    for node in post_grad:
        if node.op in ("placeholder", "get_attr") or node.is_view or node.target == "getitem":
            continue
        found[f"{node.phase}:{node.name}"] = sum(
            dict(kernel.parts).get(node.name, 1.0)
            for kernel in kernels
            if kernel.phase == node.phase and node.name in kernel.executes and node.name not in kernel.recomputes
        )
    return found


def not_once(times: Mapping[str, float]) -> dict[str, float]:
    """Those that are not executed exactly once."""
    return {name: count for name, count in times.items() if abs(count - 1.0) > 1e-9}

"""Unfused time of a kernel: its post-grad nodes run one by one. Pure arithmetic on records.

Sum over kernels + nodes of no kernel = sum over post-grad nodes + what is recomputed, for each phase.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from graphbench.analysis.digest import Digest
from graphbench.records import NO_TENSOR, KernelRecord, Phase, PostGradNode, RegionRecord

PHASES: tuple[Phase, ...] = ("forward", "backward")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfused:
    """What a kernel's post-grad nodes take one by one, in nanoseconds per run of the graph.

    `recomputed_ns` is the part of those that another kernel computed before. Where `time_ns` is `None`, `cause` says
    why in words that many kernels share, and `detail` of which nodes.
    """

    time_ns: float | None = None
    recomputed_ns: float | None = None
    cause: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfusedSums:
    """Both sides of the sum over a phase, in nanoseconds: `nodes_ns + recomputed_ns = kernels_ns + without_kernel_ns`.

    `nodes_ns` has each post-grad node once; `kernels_ns` is of the kernels whose nodes were all timed.
    """

    nodes_ns: float
    recomputed_ns: float
    kernels_ns: float
    without_kernel_ns: float


def moves_nothing(node: PostGradNode) -> bool:
    """Whether a post-grad node launches nothing by itself: a view, an item of a call's results, arithmetic on sizes."""
    return node.is_view or node.target == "getitem" or node.isolated.reason == NO_TENSOR


def unfused_times(region: RegionRecord, digest: Digest | None = None) -> dict[str, Unfused]:
    """The unfused time of every kernel of a region, by key.

    A node that several kernels execute together (piecewise, or in two steps of a reduction) is divided over them by
    their `parts`; one that a kernel recomputes counts there as a whole. Views count as nothing.

    Args:
        region: a region with post-grad nodes and kernels.
        digest: statistics already computed for this record.
    """
    digest = digest or Digest()
    found: dict[str, Unfused] = {}
    for phase in PHASES:
        nodes = {node.name: node for node in region.post_grad if node.phase == phase}
        kernels = [kernel for kernel in region.kernels if kernel.phase == phase]
        found |= {kernel.key: _unfused(kernel, nodes, digest) for kernel in kernels}
    return found


def unfused_sums(region: RegionRecord, phase: Phase, digest: Digest | None = None) -> UnfusedSums | None:
    """Both sides of the sum over a phase; `None` where a node has no time or a kernel runs several times.

    Then they cannot agree.

    Args:
        region: a region with post-grad nodes and kernels.
        phase: whose kernels.
        digest: statistics already computed for this record.
    """
    digest = digest or Digest()
    nodes = [node for node in region.post_grad if node.phase == phase]
    times = {node.name: digest.median(node.isolated) for node in nodes}
    known = {name: time for name, time in times.items() if time is not None}
    kernels = [kernel for kernel in region.kernels if kernel.phase == phase]
    if any(kernel.calls > 1 for kernel in kernels):
        return None
    if not known or any(times[node.name] is None and not moves_nothing(node) for node in nodes):
        return None
    by_kernel = unfused_times(region, digest)
    recomputed = [by_kernel[kernel.key].recomputed_ns or 0.0 for kernel in kernels]
    written = {name for kernel in kernels for name in _written(kernel)}
    return UnfusedSums(
        nodes_ns=sum(known.values()),
        recomputed_ns=sum(recomputed),
        kernels_ns=sum(by_kernel[kernel.key].time_ns or 0.0 for kernel in kernels),
        without_kernel_ns=sum(time for name, time in known.items() if name not in written),
    )


def _written(kernel: KernelRecord) -> set[str]:
    return set(kernel.executes) - set(kernel.recomputes)


def _unfused(kernel: KernelRecord, nodes: Mapping[str, PostGradNode], digest: Digest) -> Unfused:
    calls, parts = max(1, kernel.calls), dict(kernel.parts)
    times: dict[str, float] = {}
    missing: list[str] = []
    for name in kernel.executes:
        node = nodes.get(name)
        time = digest.median(node.isolated) if node else None
        if time is not None:
            times[name] = calls * time * parts.get(name, 1.0)
        elif node is None or not moves_nothing(node):
            missing.append(f"{name} ({node.isolated.reason if node else 'not recorded'})")
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        return Unfused(cause="not all of its post-grad nodes were timed", detail=f": {', '.join(missing[:3])}{more}")
    if not times:
        return Unfused(cause="it only executes views" if kernel.executes else "it executes no post-grad node")
    recomputed_ns = sum((times.get(name, 0.0) for name in kernel.recomputes), 0.0)
    return Unfused(time_ns=sum(times.values()), recomputed_ns=recomputed_ns)

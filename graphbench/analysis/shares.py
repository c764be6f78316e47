"""Eager time of a kernel: every node's isolated time divided over the kernels that execute it, nothing lost on the way.

Pure arithmetic on records. Sum of shares + sum of the nodes without a kernel = sum of all nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from graphbench.analysis.digest import Digest
from graphbench.analysis.stats import Summary
from graphbench.records import FateKind, KernelRecord, NodeRecord, NodeRole, RegionRecord

EXECUTING_ROLES = frozenset({"executes", "recomputes"})
TIMED_KINDS = frozenset({"compute", "view"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A time in nanoseconds with its spread. Sums and shares are taken of each quantile alike."""

    p10_ns: float
    p50_ns: float
    p90_ns: float

    def scaled(self, factor: float) -> Interval:
        """The interval times `factor`."""
        return Interval(p10_ns=self.p10_ns * factor, p50_ns=self.p50_ns * factor, p90_ns=self.p90_ns * factor)


ZERO = Interval(p10_ns=0.0, p50_ns=0.0, p90_ns=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelShare:
    """What a kernel's nodes cost eagerly: the part of their isolated times that falls to it.

    `nodes` are those that it executes, merged ones included; `missing` those of them without a time, and why.
    """

    time: Interval
    nodes: tuple[str, ...]
    missing: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """A region's isolated node times, divided: `kernels` by key, `without_kernel` by fate, `total` over all nodes."""

    kernels: Mapping[str, KernelShare]
    without_kernel: Mapping[FateKind, Interval]
    total: Interval


def interval(summary: Summary | None) -> Interval | None:
    """The spread of a summary in nanoseconds; `None` stays `None`."""
    return None if summary is None else Interval(p10_ns=summary.p10, p50_ns=summary.p50, p90_ns=summary.p90)


def add(intervals: Iterable[Interval]) -> Interval:
    """Sum of intervals, quantile by quantile."""
    p10_ns = p50_ns = p90_ns = 0.0
    for entry in intervals:
        p10_ns += entry.p10_ns
        p50_ns += entry.p50_ns
        p90_ns += entry.p90_ns
    return Interval(p10_ns=p10_ns, p50_ns=p50_ns, p90_ns=p90_ns)


def shares(region: RegionRecord, digest: Digest | None = None) -> Shares:
    """Divide each node's isolated time over the kernels that execute or recompute it.

    A node's time falls to its kernels in proportion to the bytes that its post-grad nodes move in each, in equal parts
    when none are known to move. A node merged into another (its fate's note names it) goes where that one goes.

    Args:
        region: a region with nodes, kernels and roles.
        digest: statistics already computed for this record.

    Returns:
        The division; sums are conserved. Nodes without an isolated time appear as `missing` of their kernels.
    """
    digest = digest or Digest()
    weights = _weights(region.kernels)
    nodes = {node.name: node for node in region.nodes}
    parts: dict[str, list[Interval]] = {kernel.key: [] for kernel in region.kernels}
    names: dict[str, list[str]] = {kernel.key: [] for kernel in region.kernels}
    missing: dict[str, list[tuple[str, str]]] = {kernel.key: [] for kernel in region.kernels}
    rest: dict[FateKind, list[Interval]] = {}
    everything: list[Interval] = []
    for node in region.nodes:
        time = interval(digest.summary(node.isolated))
        shared_out = _destination(node, nodes, weights)
        for key in shared_out:
            names[key].append(node.name)
        if time is None:
            if node.kind in TIMED_KINDS:
                for key in shared_out:
                    missing[key].append((node.name, node.isolated.reason))
            continue
        everything.append(time)
        if not shared_out:
            rest.setdefault(node.fate.kind, []).append(time)
        for key, fraction in shared_out.items():
            parts[key].append(time.scaled(fraction))
    return Shares(
        kernels={
            key: KernelShare(time=add(parts[key]), nodes=tuple(names[key]), missing=tuple(missing[key]))
            for key in parts
        },
        without_kernel={fate: add(times) for fate, times in rest.items()},
        total=add(everything),
    )


def _weights(kernels: Sequence[KernelRecord]) -> dict[str, dict[str, float]]:
    """Fraction of each node that falls to each kernel: `weights[node][kernel]`, adding up to 1 per node.

    A node's time is that of its forward: what backward recomputes takes nothing from the kernel that ran it there.
    """
    roles: dict[str, dict[str, int]] = {}
    for phase in ("forward", "backward"):
        before = frozenset(roles)
        for kernel in kernels:
            for role in kernel.roles:
                if kernel.phase == phase and role.role in EXECUTING_ROLES and role.node not in before:
                    in_kernel = roles.setdefault(role.node, {})
                    in_kernel[kernel.key] = in_kernel.get(kernel.key, 0) + max(0, role.moved_bytes)
    weights: dict[str, dict[str, float]] = {}
    for node, moved in roles.items():
        total_bytes = sum(moved.values())
        weights[node] = {key: size / total_bytes if total_bytes else 1 / len(moved) for key, size in moved.items()}
    return weights


def _destination(
    node: NodeRecord, nodes: Mapping[str, NodeRecord], weights: Mapping[str, dict[str, float]]
) -> dict[str, float]:
    """The kernels of a node, or of the node that it was merged into, directly or over several merges."""
    seen: set[str] = set()
    current: NodeRecord | None = node
    while current is not None and current.name not in seen:
        if current.name in weights:
            return weights[current.name]
        if current.fate.kind != "merged":
            break
        seen.add(current.name)
        current = nodes.get(current.fate.note)
    return {}


def executing_roles(kernel: KernelRecord) -> tuple[NodeRole, ...]:
    """The roles of the nodes that a kernel executes or recomputes."""
    return tuple(role for role in kernel.roles if role.role in EXECUTING_ROLES)

"""Eager time of a kernel: every node's isolated time divided over its kernels, nothing lost on the way.

A node's forward is divided over the kernels that execute it, its backward over those that differentiate it. Pure
arithmetic on records. Sum of shares + sum of the nodes without a kernel = sum of all nodes, for either apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from graphbench.analysis.digest import Digest
from graphbench.analysis.stats import Summary
from graphbench.measurements import Measurement
from graphbench.records import FateKind, KernelRecord, NodeRecord, NodeRole, Phase, RegionRecord, Role

EXECUTING_ROLES: frozenset[Role] = frozenset({"executes", "recomputes"})
DIFFERENTIATING_ROLES: frozenset[Role] = frozenset({"differentiates"})
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


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelShare:
    """What a kernel's nodes cost eagerly: the part of their isolated times that falls to it.

    `nodes` are those it has a part of, merged ones included, and `parts` which part of each; `missing` those of them
    without a time, and why.
    """

    time: Interval
    nodes: tuple[str, ...]
    parts: tuple[float, ...]
    missing: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """A region's isolated node times, divided: `kernels` by key, `without_kernel` by fate, `total` over all nodes."""

    kernels: Mapping[str, KernelShare]
    without_kernel: Mapping[FateKind, Interval]
    total: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class EagerShares:
    """Both divisions of a region: of its nodes' forward times and of their backward times."""

    forward: Shares
    backward: Shares


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


def eager_shares(region: RegionRecord, digest: Digest | None = None) -> EagerShares:
    """Divide forward and backward times of a region's nodes; see `shares` and `backward_shares`."""
    digest = digest or Digest()
    return EagerShares(forward=shares(region, digest), backward=backward_shares(region, digest))


def shares(region: RegionRecord, digest: Digest | None = None) -> Shares:
    """Divide each node's isolated time over the kernels that execute or recompute it.

    A node's time falls to its kernels in proportion to the bytes that its post-grad nodes move in each, in equal parts
    when none are known to move. A node merged into another (its fate's note names it) goes where that one goes. What
    backward recomputes takes nothing from the kernel that ran it in forward.

    Args:
        region: a region with nodes, kernels and roles.
        digest: statistics already computed for this record.

    Returns:
        The division; sums are conserved. Nodes without an isolated time appear as `missing` of their kernels.
    """
    moved = _moved_bytes(region.kernels, EXECUTING_ROLES, "forward")
    moved = _moved_bytes(region.kernels, EXECUTING_ROLES, "backward") | moved
    return _divide(region, region.nodes, _weights(moved), lambda node: node.isolated, digest or Digest())


def backward_shares(region: RegionRecord, digest: Digest | None = None) -> Shares:
    """Divide each node's isolated backward time over the backward kernels that differentiate it.

    By bytes and through merges as `shares` does.

    Args:
        region: a region with nodes, kernels and roles.
        digest: statistics already computed for this record.

    Returns:
        The division; sums are conserved. Nodes that have a backward but no time appear as `missing` of their kernels.
    """
    weights = _weights(_moved_bytes(region.kernels, DIFFERENTIATING_ROLES, "backward"))
    nodes = [node for node in region.nodes if node.name in weights or not has_no_backward(node)]
    return _divide(region, nodes, weights, lambda node: node.backward_isolated, digest or Digest())


def has_no_backward(node: NodeRecord) -> bool:
    """Whether there is nothing to differentiate: it was skipped, and none of its results requires grad."""
    return node.backward_isolated.status == "skipped" and not any(spec.requires_grad for spec in node.outputs)


def _divide(
    region: RegionRecord,
    among: Sequence[NodeRecord],
    weights: Mapping[str, Mapping[str, float]],
    measured: Callable[[NodeRecord], Measurement],
    digest: Digest,
) -> Shares:
    nodes = {node.name: node for node in region.nodes}
    times: dict[str, list[Interval]] = {kernel.key: [] for kernel in region.kernels}
    parts: dict[str, dict[str, float]] = {kernel.key: {} for kernel in region.kernels}
    missing: dict[str, list[tuple[str, str]]] = {kernel.key: [] for kernel in region.kernels}
    rest: dict[FateKind, list[Interval]] = {}
    everything: list[Interval] = []
    for node in among:
        time = interval(digest.summary(measured(node)))
        shared_out = _destination(node, nodes, weights)
        for key, fraction in shared_out.items():
            parts[key][node.name] = fraction
        if time is None:
            if node.kind in TIMED_KINDS:
                for key in shared_out:
                    missing[key].append((node.name, measured(node).reason))
            continue
        everything.append(time)
        if not shared_out:
            rest.setdefault(node.fate.kind, []).append(time)
        for key, fraction in shared_out.items():
            times[key].append(time.scaled(fraction))
    return Shares(
        kernels={
            key: KernelShare(
                time=add(times[key]),
                nodes=tuple(parts[key]),
                parts=tuple(parts[key].values()),
                missing=tuple(missing[key]),
            )
            for key in times
        },
        without_kernel={fate: add(found) for fate, found in rest.items()},
        total=add(everything),
    )


def _moved_bytes(kernels: Sequence[KernelRecord], roles: frozenset[Role], phase: Phase) -> dict[str, dict[str, int]]:
    """Bytes that each node moves in each kernel of a phase in which it has such a role: `moved[node][kernel]`."""
    moved: dict[str, dict[str, int]] = {}
    for kernel in kernels:
        for role in kernel.roles:
            if kernel.phase == phase and role.role in roles:
                in_kernel = moved.setdefault(role.node, {})
                in_kernel[kernel.key] = in_kernel.get(kernel.key, 0) + max(0, role.moved_bytes)
    return moved


def _weights(moved: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, float]]:
    """Fraction of each node that falls to each kernel: `weights[node][kernel]`, adding up to 1 per node."""
    weights: dict[str, dict[str, float]] = {}
    for node, sizes in moved.items():
        total = sum(sizes.values())
        weights[node] = {key: size / total if total else 1 / len(sizes) for key, size in sizes.items()}
    return weights


def _destination(
    node: NodeRecord, nodes: Mapping[str, NodeRecord], weights: Mapping[str, Mapping[str, float]]
) -> Mapping[str, float]:
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

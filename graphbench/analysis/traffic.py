"""What kernels move and how far they are from their device's limit, beside what their nodes move one by one. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from graphbench.analysis.costs import Cost, kernel_cost, node_cost, of_phase, unfused_cost
from graphbench.analysis.digest import Digest
from graphbench.analysis.roofline import Ceilings, Limit, limit_of
from graphbench.analysis.shares import EagerShares, Shares
from graphbench.analysis.unfused import PHASES
from graphbench.measurements import Measurement
from graphbench.records import VIEW, NodeRecord, Phase, RegionRecord

NONE_MEASURED = Ceilings()
"""Of a device whose ceilings are not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCosts:
    """A kernel against its limit; `cost`, `unfused` (its post-grad nodes one by one) and `limit` are of one call."""

    calls: int
    cost: Cost
    unfused: Cost
    limit: Limit

    @property
    def moved_bytes(self) -> float | None:
        """What all calls read and write."""
        return _times(self.cost.moved_bytes, self.calls)

    @property
    def unfused_bytes(self) -> float | None:
        """What its post-grad nodes read and write one by one, in all calls."""
        return _times(self.unfused.moved_bytes, self.calls)

    @property
    def limit_ns(self) -> float | None:
        """How long all calls take at the limit."""
        return _times(self.limit.time_ns, self.calls)


@dataclass(frozen=True, slots=True, kw_only=True)
class EagerTraffic:
    """The part of its nodes' bytes that falls to a kernel, per run of the graph; `None` with a `reason`."""

    moved_bytes: float | None = None
    reason: str = ""


def _times(amount: float | None, calls: int) -> float | None:
    return None if amount is None else amount * calls


def kernel_costs(
    region: RegionRecord, ceilings: Ceilings = NONE_MEASURED, digest: Digest | None = None
) -> dict[str, KernelCosts]:
    """Costs and limit of every kernel of a region, by key.

    Args:
        region: a region with post-grad nodes and kernels.
        ceilings: of its device.
        digest: statistics already computed for this record.
    """
    digest = digest or Digest()
    found: dict[str, KernelCosts] = {}
    for phase in PHASES:
        post_grad = of_phase(region, phase)
        for kernel in (kernel for kernel in region.kernels if kernel.phase == phase):
            unfused = unfused_cost(kernel, post_grad)
            cost = kernel_cost(kernel, post_grad, unfused)
            found[kernel.key] = KernelCosts(
                calls=max(1, kernel.calls),
                cost=cost,
                unfused=unfused,
                limit=measured_limit(cost, kernel.isolated, ceilings, digest),
            )
    return found


def measured_limit(cost: Cost, measured: Measurement, ceilings: Ceilings, digest: Digest) -> Limit:
    """A measured call against its limit.

    Only CUPTI tells how long the device worked and, apart from that, how long the host took to issue the call. What
    lies between two events holds the waiting for the host, and on the CPU both are one time: there, that a row is bound
    by its launch cannot be told.
    """
    busy_ns = digest.median(measured)
    limit = limit_of(cost, busy_ns, ceilings, cache=measured.cache)
    if limit.bound is None or busy_ns is None or not _waits_for_host(measured, busy_ns, digest):
        return limit
    return replace(limit, bound="launch")


def _waits_for_host(measured: Measurement, busy_ns: float, digest: Digest) -> bool:
    """Whether issuing a call takes longer than the device needs for it."""
    samples = measured.samples
    if measured.timer != "cupti" or samples is None or not samples.host_ns:
        return False
    # The extremes settle it for most rows, without sorting hundreds of samples.
    if max(samples.host_ns) <= busy_ns:
        return False
    return min(samples.host_ns) > busy_ns or (digest.median(measured, "host_ns") or 0.0) > busy_ns


def node_limit(node: NodeRecord, phase: Phase, cost: Cost, ceilings: Ceilings, digest: Digest) -> Limit:
    """A node alone, or its backward, against its limit; a view has none."""
    if phase == "forward" and node.kind == "view":
        return Limit(reason=VIEW)
    measured = node.isolated if phase == "forward" else node.backward_isolated
    return measured_limit(cost, measured, ceilings, digest)


def eager_traffic(region: RegionRecord, divided: EagerShares) -> dict[str, EagerTraffic]:
    """Divide the bytes that nodes move alone over kernels, as their eager times are divided, by key.

    Σ kernels + nodes without a kernel = Σ nodes.

    Args:
        region: a region with nodes and kernels.
        divided: the shares of its kernels in its nodes.
    """
    nodes = {node.name: node for node in region.nodes}
    phases: tuple[tuple[Phase, Shares], ...] = (("forward", divided.forward), ("backward", divided.backward))
    found: dict[str, EagerTraffic] = {}
    for kernel in region.kernels:
        parts = [
            (node_cost(nodes[name], phase), part)
            for phase, shares in phases
            for name, part in zip(shares.kernels[kernel.key].nodes, shares.kernels[kernel.key].parts, strict=True)
        ]
        found[kernel.key] = _eager(parts)
    return found


def _eager(parts: Sequence[tuple[Cost, float]]) -> EagerTraffic:
    if not parts:
        return EagerTraffic(reason="no bytes of a node fall to it")
    moved_bytes = 0.0
    for cost, part in parts:
        if cost.moved_bytes is None:
            return EagerTraffic(reason=cost.no_bytes)
        moved_bytes += cost.moved_bytes * part
    return EagerTraffic(moved_bytes=moved_bytes)

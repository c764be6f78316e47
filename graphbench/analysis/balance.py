"""Sums that must agree: what nodes cost, and what falls to kernels and to nodes without one. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graphbench.analysis.digest import Digest
from graphbench.analysis.shares import EagerShares, Shares
from graphbench.analysis.unfused import PHASES, UnfusedSums, unfused_sums
from graphbench.records import FateKind, Phase, RegionRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class EagerBalance:
    """Eager times of all regions in nanoseconds: `nodes_ns = kernels_ns + untold_ns + sum(without_kernel.values())`.

    `kernels_ns` is of the kernels that have an eager time, `untold_ns` what falls to those that have none because
    another of their nodes was not timed.
    """

    phase: Phase
    nodes_ns: float
    kernels_ns: float
    untold_ns: float
    without_kernel: Mapping[FateKind, float]


def eager_balances(divided: Sequence[EagerShares]) -> list[EagerBalance]:
    """One balance of the forward times of nodes and one of their backward times, where any was timed.

    Args:
        divided: the shares of each region.
    """
    found = [
        _eager_balance("forward", [entry.forward for entry in divided], divided),
        _eager_balance("backward", [entry.backward for entry in divided], divided),
    ]
    return [balance for balance in found if balance.nodes_ns]


def _eager_balance(phase: Phase, parts: Sequence[Shares], divided: Sequence[EagerShares]) -> EagerBalance:
    kernels_ns = untold_ns = 0.0
    without: dict[FateKind, float] = {}
    for part, whole in zip(parts, divided, strict=True):
        for key, share in part.kernels.items():
            if whole.forward.kernels[key].missing or whole.backward.kernels[key].missing:
                untold_ns += share.time.p50_ns
            else:
                kernels_ns += share.time.p50_ns
        for fate, time in part.without_kernel.items():
            without[fate] = without.get(fate, 0.0) + time.p50_ns
    nodes_ns = sum(part.total.p50_ns for part in parts)
    return EagerBalance(
        phase=phase, nodes_ns=nodes_ns, kernels_ns=kernels_ns, untold_ns=untold_ns, without_kernel=without
    )


def unfused_balances(regions: Sequence[RegionRecord], digest: Digest | None = None) -> list[tuple[Phase, UnfusedSums]]:
    """Sums of unfused times over all regions by phase; a phase is left out where one of its regions has no such sum."""
    digest = digest or Digest()
    found: list[tuple[Phase, UnfusedSums]] = []
    for phase in PHASES:
        among = [region for region in regions if any(node.phase == phase for node in region.post_grad)]
        sums = [unfused_sums(region, phase, digest) for region in among]
        known = [entry for entry in sums if entry is not None]
        if known and len(known) == len(sums):
            found.append((phase, _added(known)))
    return found


def _added(sums: Sequence[UnfusedSums]) -> UnfusedSums:
    return UnfusedSums(
        nodes_ns=sum(entry.nodes_ns for entry in sums),
        recomputed_ns=sum(entry.recomputed_ns for entry in sums),
        kernels_ns=sum(entry.kernels_ns for entry in sums),
        without_kernel_ns=sum(entry.without_kernel_ns for entry in sums),
    )

"""The lines that prove for the reader that no time is lost between nodes and kernels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from graphbench.analysis.balance import EagerBalance, eager_balances, unfused_balances
from graphbench.analysis.digest import Digest
from graphbench.analysis.shares import EagerShares
from graphbench.analysis.unfused import UnfusedSums
from graphbench.records import Phase, RegionRecord
from graphbench.units import format_duration


def balance_lines(regions: Sequence[RegionRecord], divided: Sequence[EagerShares], digest: Digest) -> list[str]:
    """Σ nodes = Σ kernels + nodes without one: eager forward and backward, then unfused times.

    Args:
        regions: all regions of a profile.
        divided: their shares, in the same order.
        digest: statistics already computed for this profile.
    """
    lines = [_eager(balance) for balance in eager_balances(divided)]
    return lines + [_unfused(phase, sums) for phase, sums in unfused_balances(regions, digest)]


def _eager(balance: EagerBalance) -> str:
    return f"eager {balance.phase}: nodes {format_duration(balance.nodes_ns)} = {' + '.join(_parts(balance))}"


def _parts(balance: EagerBalance) -> Iterator[str]:
    yield f"kernels {format_duration(balance.kernels_ns)}"
    if balance.untold_ns:
        yield f"kernels with a node that was not timed {format_duration(balance.untold_ns)}"
    without = {fate: time_ns for fate, time_ns in balance.without_kernel.items() if time_ns}
    if without:
        named = ", ".join(f"{fate} {format_duration(time_ns)}" for fate, time_ns in without.items())
        which = "kernel" if balance.phase == "forward" else "backward kernel"
        yield f"nodes without a {which} {format_duration(sum(without.values()))} ({named})"


def _unfused(phase: Phase, sums: UnfusedSums) -> str:
    recomputed = f" + recomputed {format_duration(sums.recomputed_ns)}" if sums.recomputed_ns else ""
    rest = f" + nodes without a kernel {format_duration(sums.without_kernel_ns)}" if sums.without_kernel_ns else ""
    nodes = f"post-grad nodes {format_duration(sums.nodes_ns)}{recomputed}"
    left_ns, right_ns = sums.nodes_ns + sums.recomputed_ns, sums.kernels_ns + sums.without_kernel_ns
    sign = "=" if math.isclose(left_ns, right_ns, rel_tol=1e-6, abs_tol=1.0) else "≠"
    return f"unfused {phase}: {nodes} {sign} kernels {format_duration(sums.kernels_ns)}{rest}"

"""What rows have to do at least: FLOPs and bytes of nodes and kernels, and the rates they reached. Pure.

All of one call: a kernel that runs several times does so much each time.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from graphbench.analysis.unfused import moves_nothing
from graphbench.measurements import Measurement, Work
from graphbench.records import KernelRecord, NodeRecord, Phase, PostGradNode, RegionRecord

NO_FORMULA = "no op of it has a FLOP formula"
NOT_COUNTED = "its work was not counted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """FLOPs and bytes of one call; each `None` where it is not known, which the reasons explain.

    `arithmetic` is a dtype, or `tf32`. Fractions come from kernels that share a post-grad node.
    """

    flops: float | None = None
    arithmetic: str = ""
    read_bytes: float | None = None
    written_bytes: float | None = None
    no_flops: str = ""
    no_bytes: str = ""

    @property
    def moved_bytes(self) -> float | None:
        """What is read and what is written together."""
        if self.read_bytes is None or self.written_bytes is None:
            return None
        return self.read_bytes + self.written_bytes

    @property
    def intensity(self) -> float | None:
        """FLOP per byte moved."""
        moved = self.moved_bytes
        return self.flops / moved if self.flops is not None and moved else None

    def bytes_per_s(self, busy_ns: float | None) -> float | None:
        """Bytes moved per second, in `busy_ns`."""
        return _rate(self.moved_bytes, busy_ns)

    def flops_per_s(self, busy_ns: float | None) -> float | None:
        """FLOP per second, in `busy_ns`."""
        return _rate(self.flops, busy_ns)


NOTHING = Cost(read_bytes=0, written_bytes=0, no_flops=NO_FORMULA)
"""What a view costs."""


def _rate(amount: float | None, busy_ns: float | None) -> float | None:
    return amount / busy_ns * 1e9 if amount is not None and busy_ns else None


def node_cost(node: NodeRecord, phase: Phase = "forward") -> Cost:
    """What a node has to do, or its backward; a view nothing."""
    if phase == "forward" and node.kind == "view":
        return NOTHING
    return _of_measured(node.isolated if phase == "forward" else node.backward_isolated)


def post_grad_cost(node: PostGradNode) -> Cost:
    """What a post-grad node has to do by itself."""
    return NOTHING if moves_nothing(node) else _of_measured(node.isolated)


@functools.lru_cache(maxsize=64)
def _unknown(reason: str) -> Cost:
    """Nothing is known, for this reason; most rows of a profile without counted work share one."""
    return Cost(no_flops=reason, no_bytes=reason)


def _of_measured(measured: Measurement) -> Cost:
    work = measured.work
    if work is None:
        return _unknown(NOT_COUNTED if measured.status == "ok" or not measured.reason else measured.reason)
    return Cost(
        flops=work.flops,
        arithmetic=work.arithmetic,
        read_bytes=work.read_bytes,
        written_bytes=work.written_bytes,
        no_flops=_no_flops(work),
        no_bytes=work.reason if work.read_bytes is None else "",
    )


def _no_flops(work: Work) -> str:
    if work.flops is not None:
        return ""
    return work.reason or NO_FORMULA


def kernel_cost(kernel: KernelRecord, post_grad: Mapping[str, PostGradNode], unfused: Cost | None = None) -> Cost:
    """What one call of a kernel has to do: the FLOPs of what it executes, the bytes that it gets and gives.

    Args:
        kernel: the kernel.
        post_grad: the post-grad nodes of its phase by name, as `of_phase` gives them.
        unfused: their `unfused_cost`, where it is known already.
    """
    unfused = unfused or unfused_cost(kernel, post_grad)
    untold = "" if kernel.traffic else kernel.untold or NOT_COUNTED
    return Cost(
        flops=unfused.flops,
        arithmetic=unfused.arithmetic,
        read_bytes=None if untold else sum(entry.read_bytes for entry in kernel.traffic),
        written_bytes=None if untold else sum(entry.written_bytes for entry in kernel.traffic),
        no_flops=unfused.no_flops,
        no_bytes=untold,
    )


def unfused_cost(kernel: KernelRecord, post_grad: Mapping[str, PostGradNode]) -> Cost:
    """What the post-grad nodes of one call do one by one: each reads its own inputs and writes its own results.

    Of nodes that several kernels execute together, each has its part.
    """
    parts = dict(kernel.parts)
    costs = [(post_grad_cost(post_grad[name]), parts.get(name, 1.0)) for name in kernel.executes if name in post_grad]
    if not costs or len(costs) < len(kernel.executes):
        reason = "it executes no post-grad node that is known"
        # A copy that only prepares for others executes none, and computes nothing.
        return Cost(no_flops=reason if kernel.executes else NO_FORMULA, no_bytes=reason)
    return add_costs(costs)


def add_costs(costs: Iterable[tuple[Cost, float]]) -> Cost:
    """Sum of parts of costs. What has no FLOP formula adds none; bytes that are not known are missing from the sum."""
    entries = list(costs)
    no_bytes = next((cost.no_bytes for cost, _ in entries if cost.moved_bytes is None), "")
    uncounted = next((cost.no_flops for cost, _ in entries if cost.flops is None and cost.no_flops != NO_FORMULA), "")
    counted = [(cost, part) for cost, part in entries if cost.flops is not None]
    known = bool(counted) and not uncounted
    most = max(counted, key=lambda entry: (entry[0].flops or 0.0) * entry[1], default=(Cost(), 0.0))[0]
    return Cost(
        flops=sum((cost.flops or 0.0) * part for cost, part in counted) if known else None,
        arithmetic=most.arithmetic if known else "",
        read_bytes=None if no_bytes else sum((cost.read_bytes or 0.0) * part for cost, part in entries),
        written_bytes=None if no_bytes else sum((cost.written_bytes or 0.0) * part for cost, part in entries),
        no_flops="" if known else uncounted or NO_FORMULA,
        no_bytes=no_bytes,
    )


def of_phase(region: RegionRecord, phase: Phase) -> dict[str, PostGradNode]:
    """The post-grad nodes of one of a region's graphs, by name."""
    return {node.name: node for node in region.post_grad if node.phase == phase}

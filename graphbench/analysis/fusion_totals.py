"""Did fusion pay in all: time and traffic of a whole profile, what is far from its limit and what suspicious. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from graphbench.analysis.costs import node_cost
from graphbench.analysis.fusion import FusionRow
from graphbench.analysis.missing import expected_backwards
from graphbench.analysis.roofline import NO_CEILINGS, Limit
from graphbench.analysis.rows import ProfileRows
from graphbench.analysis.shares import TIMED_KINDS
from graphbench.analysis.views import NodeRow
from graphbench.records import RegionRecord

FAR: Final = 0.7
"""A kernel below this part of its limit is far from it."""

Suspicion = tuple[str, tuple[str, ...]]
"""What may be wrong, and the names of the rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AtLimit:
    """Kernels whose limit is known, of all that were timed: nanoseconds per run, as they are and at their limits."""

    kernels: int
    timed: int
    fused_ns: float
    limit_ns: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """Traffic of the kernels of which that of their nodes is known too, of all kernels: bytes per run.

    `whole`: the traffic of every node and of every kernel is known, and these are sums of all of them, with a kernel or
    without. `unfused_bytes` is `None` where it is not known of all these kernels.
    """

    kernels: int
    of: int
    whole: bool
    eager_bytes: float
    unfused_bytes: float | None
    moved_bytes: float

    @property
    def removed_bytes(self) -> float:
        """What fusion removed; below 0 where compiled code moves more."""
        return self.eager_bytes - self.moved_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionTotals:
    """All kernels of a profile together. What is `None` is known of no kernel.

    `slower` than their nodes alone; `far` from their limits, with `far_share` of all kernels' time. `suspicious` are
    nodes, backwards and kernels beyond their limits. `no_limits` says why no row has a limit though work was counted.
    """

    at_limit: AtLimit | None
    removed: Removed | None
    slower: tuple[str, ...]
    far: tuple[str, ...]
    far_share: float | None
    suspicious: tuple[Suspicion, ...]
    no_limits: str = ""


def fusion_totals(regions: Sequence[RegionRecord], rows: ProfileRows) -> FusionTotals:
    """Sum up the rows of all regions of a profile; names carry their region's where there are several."""
    nodes, fusions = rows.nodes, rows.fusions
    many = len(regions) > 1
    far = [row for row in fusions if _is_far(row.limit)]
    time_ns = sum(row.fused_ns or 0.0 for row in fusions)
    limits = list(_limits(nodes, fusions, many))
    counted = any(row.moved_bytes is not None for row in fusions) or any(row.node.isolated.work for row in nodes)
    unlimited = counted and not any(limit.bound for _, limit in limits)
    return FusionTotals(
        at_limit=_at_limit(fusions),
        removed=_removed(regions, fusions),
        slower=tuple(_name(row, many) for row in fusions if row.verdict == "slower"),
        far=tuple(_name(row, many) for row in sorted(far, key=lambda row: -(row.fused_ns or 0.0))),
        far_share=sum(row.fused_ns or 0.0 for row in far) / time_ns if time_ns else None,
        suspicious=_suspicious(limits),
        no_limits=NO_CEILINGS if unlimited and any(limit.reason == NO_CEILINGS for _, limit in limits) else "",
    )


def _is_far(limit: Limit) -> bool:
    return limit.part is not None and limit.part < FAR


def _name(row: NodeRow | FusionRow, many: bool) -> str:
    name = row.name if isinstance(row, NodeRow) else row.key
    return f"{row.region}/{name}" if many else name


def _at_limit(fusions: Sequence[FusionRow]) -> AtLimit | None:
    timed = [row for row in fusions if row.fused_ns is not None]
    known = [(row.fused_ns, row.limit_ns) for row in timed if row.fused_ns is not None and row.limit_ns is not None]
    if not known:
        return None
    return AtLimit(
        kernels=len(known),
        timed=len(timed),
        fused_ns=sum(fused_ns for fused_ns, _ in known),
        limit_ns=sum(limit_ns for _, limit_ns in known),
    )


def _removed(regions: Sequence[RegionRecord], fusions: Sequence[FusionRow]) -> Removed | None:
    known = [row for row in fusions if row.removed_bytes is not None]
    if not known:
        return None
    eager = [moved_bytes for region in regions for moved_bytes in _node_bytes(region)]
    moved = [row.moved_bytes for row in fusions]
    whole = None not in eager and None not in moved
    among = fusions if whole else known
    unfused = [row.unfused_bytes for row in among]
    return Removed(
        kernels=len(among),
        of=len(fusions),
        whole=whole,
        eager_bytes=_sum(eager) if whole else _sum([row.eager_bytes for row in known]),
        unfused_bytes=None if None in unfused else _sum(unfused),
        moved_bytes=_sum([row.moved_bytes for row in among]),
    )


def _node_bytes(region: RegionRecord) -> Iterator[float | None]:
    """Bytes of every node alone, and of every backward that should have been measured."""
    yield from (node_cost(node).moved_bytes for node in region.nodes if node.kind in TIMED_KINDS)
    yield from (node_cost(node, "backward").moved_bytes for node in expected_backwards(region))


def _sum(values: Sequence[float | None]) -> float:
    return sum(value for value in values if value is not None)


def _limits(nodes: Sequence[NodeRow], fusions: Sequence[FusionRow], many: bool) -> Iterator[tuple[str, Limit]]:
    for row in nodes:
        yield _name(row, many), row.limit
        if row.backward.samples is not None:
            yield f"backward of {_name(row, many)}", row.backward_limit
    yield from ((_name(row, many), row.limit) for row in fusions)


def _suspicious(limits: Sequence[tuple[str, Limit]]) -> tuple[Suspicion, ...]:
    found: dict[str, list[str]] = {}
    for name, limit in limits:
        if limit.suspicious:
            found.setdefault(limit.suspicious, []).append(name)
    return tuple((reason, tuple(names)) for reason, names in found.items())

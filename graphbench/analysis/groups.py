"""Nodes and their parts of kernels, summed by one of `group_by.GROUP_BY`; repeated layers are one row. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, get_args

from graphbench.analysis.compiled_costs import kernel_parts
from graphbench.analysis.costs import node_cost
from graphbench.analysis.digest import Digest
from graphbench.analysis.group_by import GroupBy
from graphbench.analysis.group_homes import Home, Homes, homes_of
from graphbench.analysis.missing import expected_backwards
from graphbench.analysis.roofline import Ceilings
from graphbench.analysis.shares import TIMED_KINDS
from graphbench.analysis.shown import ShownRow
from graphbench.analysis.traffic import KernelCosts, kernel_costs
from graphbench.analysis.unfused import unfused_times
from graphbench.records import FateKind, KernelRecord, Phase, ProfileRecord, RegionRecord

TOTAL: Final = "total"
NOT_COMPILED: frozenset[FateKind] = frozenset({"eager", "unknown"})
"""Fates of nodes that cost something compiled which nobody knows; the others without a kernel cost nothing."""

_Time = Literal["eager", "eager_backward", "compiled", "compiled_backward"]
_What = Literal[_Time, "unfused", "limit", "eager_bytes", "unfused_bytes", "moved_bytes"]
_TIMES: frozenset[_What] = frozenset(get_args(_Time))
_REMOVED: frozenset[_What] = frozenset({"eager_bytes", "moved_bytes"})
_COMPILED: Mapping[Phase, _What] = {"forward": "compiled", "backward": "compiled_backward"}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow(ShownRow):
    """One group. Times in nanoseconds: sums of medians of its nodes, and of its parts of compiled kernels.

    A time is `None` where all that should be in it is missing, and 0 where nothing should; `missing` counts the times
    that sums lack. `layers` counts the modules or lines that are one row here, and is `None` for the total; `kernels`
    counts those that work for its nodes: a kernel of several groups counts in each, its time is divided; where kernels
    are groups, that is so of `nodes`. `share` is its part of all eager time, backward included.

    Of its parts of kernels, both directions: `unfused_ns` of their post-grad nodes one by one, `limit_ns` at the limit,
    and the bytes that these move; `eager_bytes` its nodes move alone. `unlimited` counts the kernels whose limit is
    not known, `uncounted` the nodes and kernels whose bytes are not.
    """

    group: str
    layers: int | None
    nodes: int
    kernels: int
    eager_ns: float | None
    compiled_ns: float | None
    eager_backward_ns: float | None
    compiled_backward_ns: float | None
    missing: int
    unfused_ns: float | None = None
    limit_ns: float | None = None
    eager_bytes: float | None = None
    unfused_bytes: float | None = None
    moved_bytes: float | None = None
    unlimited: int = 0
    uncounted: int = 0
    share: float | None = None

    @property
    def removed_bytes(self) -> float | None:
        """Traffic of its nodes alone that compiled code does without; `None` where that of one of either is missing."""
        if self.uncounted or self.eager_bytes is None or self.moved_bytes is None:
            return None
        return self.eager_bytes - self.moved_bytes

    @property
    def limit_part(self) -> float | None:
        """Time at the limit ÷ compiled time, both directions; `None` where a limit or a time is missing."""
        compiled_ns = _sum([self.compiled_ns, self.compiled_backward_ns])
        if self.unlimited or self.missing or self.limit_ns is None or not compiled_ns:
            return None
        return self.limit_ns / compiled_ns

    @property
    def cost_ns(self) -> float | None:
        """Eager time, both directions, as far as it is known."""
        return _sum([self.eager_ns, self.eager_backward_ns])

    @property
    def saved_ns(self) -> float | None:
        """Eager less compiled, both directions; `None` where a time is missing of either."""
        both = self._both()
        return None if both is None else both[0] - both[1]

    @property
    def speedup(self) -> float | None:
        """Eager ÷ compiled, both directions; `None` where a time is missing of either, or either is nothing."""
        both = self._both()
        return both[0] / both[1] if both is not None and all(both) else None

    def _both(self) -> tuple[float, float] | None:
        if self.missing or self.eager_ns is None or self.eager_backward_ns is None:
            return None
        if self.compiled_ns is None or self.compiled_backward_ns is None:
            return None
        return self.eager_ns + self.eager_backward_ns, self.compiled_ns + self.compiled_backward_ns


@dataclass(slots=True)
class _Sums:
    """What is known of a group so far; `missing` names each time or size that its sums lack."""

    places: set[str] = field(default_factory=set)
    kernels: set[tuple[str, str]] = field(default_factory=set)
    nodes: set[tuple[str, str]] = field(default_factory=set)
    missing: set[tuple[_What, str, str]] = field(default_factory=set)
    sums: dict[_What, float | None] = field(default_factory=dict)

    def add(self, what: _What, region: str, row: str, amount: float | None) -> None:
        if amount is None:
            self.missing.add((what, region, row))
            self.sums.setdefault(what, None)
        else:
            self.sums[what] = (self.sums.get(what) or 0.0) + amount


def group_rows(
    record: ProfileRecord, by: GroupBy, *, depth: int | None = None, digest: Digest | None = None
) -> tuple[list[GroupRow], GroupRow]:
    """Group a profile's nodes, the most expensive group first, and add up the groups.

    Over all groups the times add up to those of the ungrouped tables; kernels of no node are a group of their own.

    Args:
        record: a profile.
        by: `module` path, in which numbers that repeat become `*`, `source` line, `op_type`, `shape`: op type with the
            shapes and dtypes of its inputs, or `kernel`: its name without number, over which nodes are divided.
        depth: cut module paths after so many components.
        digest: statistics already computed for this record.

    Returns:
        The groups, and their sum.
    """
    digest = digest or Digest()
    homes_in = homes_of(record, by, depth, digest)
    sums: dict[str, _Sums] = {}
    for region in record.regions:
        homes = homes_in(region)
        _add_nodes(sums, region, homes, digest)
        _add_kernels(sums, region, homes, Ceilings.of(record.ceilings, region.device), digest)
    return _rows(sums)


def _add_nodes(sums: dict[str, _Sums], region: RegionRecord, homes: Homes, digest: Digest) -> None:
    """Eager times; what no kernel works for costs nothing compiled, unless it did not run compiled."""
    backwards = {node.name for node in expected_backwards(region)}
    worked_for = {(kernel.phase, node) for kernel in region.kernels for node in kernel_parts(kernel)}
    has_backward = any(kernel.phase == "backward" for kernel in region.kernels)
    for node in (node for node in region.nodes if node.kind in TIMED_KINDS):
        amounts: dict[_What, float | None] = {"eager": digest.median(node.isolated)}
        if node.kind != "view":
            amounts["eager_bytes"] = node_cost(node).moved_bytes
        if ("forward", node.name) not in worked_for:
            amounts["compiled"] = None if node.fate.kind in NOT_COMPILED else 0.0
        _add(sums, homes.of_node(node, "forward"), region.key, node.name, amounts)
        if node.name in backwards:
            amounts = {
                "eager_backward": digest.median(node.backward_isolated),
                "eager_bytes": node_cost(node, "backward").moved_bytes,
            }
            if ("backward", node.name) not in worked_for:
                amounts["compiled_backward"] = 0.0 if has_backward else None
            _add(sums, homes.of_node(node, "backward"), region.key, node.name, amounts, prefix="∂ ")


def _add(
    sums: dict[str, _Sums],
    homes: Sequence[Home],
    region: str,
    node: str,
    amounts: Mapping[_What, float | None],
    *,
    prefix: str = "",
) -> None:
    """Divide what is known of a node over its groups; `prefix` tells its backward from its forward."""
    for home in homes:
        found = _group_of(sums, home)
        found.nodes.add((region, node))
        for what, amount in amounts.items():
            found.add(what, region, prefix + node, None if amount is None else amount * home.part)


def _add_kernels(
    sums: dict[str, _Sums], region: RegionRecord, homes: Homes, ceilings: Ceilings, digest: Digest
) -> None:
    costs, unfused = kernel_costs(region, ceilings, digest), unfused_times(region, digest)
    for kernel in region.kernels:
        amounts = _amounts(kernel, costs[kernel.key], unfused[kernel.key].time_ns, digest)
        for home in homes.of_kernel(kernel):
            found = _group_of(sums, home)
            found.kernels.add((region.key, kernel.key))
            for what, amount in amounts.items():
                found.add(what, region.key, kernel.key, None if amount is None else amount * home.part)


def _amounts(
    kernel: KernelRecord, costs: KernelCosts, unfused_ns: float | None, digest: Digest
) -> dict[_What, float | None]:
    """Everything of a kernel that is divided over its nodes, of all its calls."""
    time_ns = digest.median(kernel.isolated)
    return {
        _COMPILED[kernel.phase]: None if time_ns is None else time_ns * costs.calls,
        "unfused": unfused_ns,
        "limit": costs.limit_ns,
        "unfused_bytes": costs.unfused_bytes,
        "moved_bytes": costs.moved_bytes,
    }


def _group_of(sums: dict[str, _Sums], home: Home) -> _Sums:
    found = sums.setdefault(home.group, _Sums())
    if home.place is not None:
        found.places.add(home.place)
    return found


def _rows(sums: Mapping[str, _Sums]) -> tuple[list[GroupRow], GroupRow]:
    groups = list(sums.values())
    rows = [_row(name, len(found.places), found) for name, found in sums.items()]
    whole = _Sums(
        nodes={node for found in groups for node in found.nodes},
        kernels={kernel for found in groups for kernel in found.kernels},
        missing={entry for found in groups for entry in found.missing},
        sums={what: _sum([found.sums.get(what, 0.0) for found in groups]) for what in get_args(_What)},
    )
    total = _row(TOTAL, None, whole)
    shared = [_with_share(row, total.cost_ns) for row in rows]
    return sorted(shared, key=lambda row: -(row.cost_ns or 0.0)), _with_share(total, total.cost_ns)


def _row(group: str, layers: int | None, found: _Sums) -> GroupRow:
    whats = [what for what, _, _ in found.missing]
    return GroupRow(
        group=group,
        layers=layers,
        nodes=len(found.nodes),
        kernels=len(found.kernels),
        eager_ns=found.sums.get("eager", 0.0),
        compiled_ns=found.sums.get("compiled", 0.0),
        eager_backward_ns=found.sums.get("eager_backward", 0.0),
        compiled_backward_ns=found.sums.get("compiled_backward", 0.0),
        missing=sum(what in _TIMES for what in whats),
        unfused_ns=found.sums.get("unfused", 0.0),
        limit_ns=found.sums.get("limit", 0.0),
        eager_bytes=found.sums.get("eager_bytes", 0.0),
        unfused_bytes=found.sums.get("unfused_bytes", 0.0),
        moved_bytes=found.sums.get("moved_bytes", 0.0),
        unlimited=whats.count("limit"),
        uncounted=sum(what in _REMOVED for what in whats),
    )


def _sum(amounts: Sequence[float | None]) -> float | None:
    """Sum of those that are known; `None` where none of them is."""
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known or not amounts else None


def _with_share(row: GroupRow, whole_ns: float | None) -> GroupRow:
    return replace(row, share=row.cost_ns / whole_ns if row.cost_ns is not None and whole_ns else None)

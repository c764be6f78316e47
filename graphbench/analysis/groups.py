"""Nodes and their parts of kernels, summed by module or by source line; repeated layers are one row. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from graphbench.analysis.compiled_costs import compiled_costs, nodes_worked_for
from graphbench.analysis.digest import Digest
from graphbench.analysis.shares import TIMED_KINDS
from graphbench.analysis.views import source_text
from graphbench.records import KernelRecord, NodeRecord, Phase, ProfileRecord

GroupBy = Literal["module", "source"]
GROUP_BY: tuple[GroupBy, ...] = ("module", "source")
TOP_LEVEL = "(top level)"
NO_SOURCE = "(no source line)"
NO_OWNER = "(no owner)"
TOTAL = "total"
LAYER = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """One group. Times in nanoseconds: sums of medians of its nodes, and of its parts of compiled kernels.

    `layers` counts the modules or lines that are one row here, `kernels` those that work for its nodes; a kernel of
    several groups counts in each, its time is divided. `missing` counts nodes and kernels without a time. `share` is
    its part of all eager time, backward included.
    """

    group: str
    layers: int
    nodes: int
    kernels: int
    eager_ns: float
    compiled_ns: float
    eager_backward_ns: float
    compiled_backward_ns: float
    missing: int
    share: float | None = None

    @property
    def saved_ns(self) -> float:
        """Eager less compiled, both directions."""
        return self.eager_ns + self.eager_backward_ns - self.compiled_ns - self.compiled_backward_ns

    @property
    def speedup(self) -> float | None:
        """Eager ÷ compiled, both directions; `None` where nothing of it was compiled."""
        compiled_ns = self.compiled_ns + self.compiled_backward_ns
        return (self.eager_ns + self.eager_backward_ns) / compiled_ns if compiled_ns else None


@dataclass(slots=True)
class _Sums:
    places: set[str] = field(default_factory=set)
    kernels: set[tuple[str, str]] = field(default_factory=set)
    nodes: int = 0
    missing: int = 0
    times: dict[str, float] = field(default_factory=dict)

    def add(self, what: str, time_ns: float | None) -> None:
        self.times[what] = self.times.get(what, 0.0) + (time_ns or 0.0)


def group_rows(
    record: ProfileRecord, by: GroupBy, *, depth: int | None = None, digest: Digest | None = None
) -> tuple[list[GroupRow], GroupRow]:
    """Group a profile's nodes, the most expensive group first, and add up the groups.

    Over all groups the times add up to those of the ungrouped tables; kernels of no node are a group of their own.

    Args:
        record: a profile.
        by: `module` path, in which numbers that repeat become `*`, or `source` line.
        depth: cut module paths after so many components.
        digest: statistics already computed for this record.

    Returns:
        The groups, and their sum.
    """
    digest = digest or Digest()
    nodes = [node for region in record.regions for node in region.nodes if node.kind in TIMED_KINDS]
    name_of = _names(nodes, by, depth)
    sums: dict[str, _Sums] = {}
    for region in record.regions:
        groups = {node.name: name_of(node) for node in region.nodes}
        costs = compiled_costs(region, digest)
        for node in region.nodes:
            cost = costs.get(node.name)
            if node.kind in TIMED_KINDS or cost is not None:
                found = sums.setdefault(groups[node.name], _Sums())
                found.places.add(_place(node, by))
                _add_node(found, node, digest)
                found.add("compiled", cost.forward_ns if cost else None)
                found.add("compiled_backward", cost.backward_ns if cost else None)
        for kernel in region.kernels:
            owners = {groups[node] for node in nodes_worked_for(kernel)} or {NO_OWNER}
            _add_kernel(sums, kernel, owners, region.key, digest)
    return _rows(sums)


def _add_node(found: _Sums, node: NodeRecord, digest: Digest) -> None:
    if node.kind not in TIMED_KINDS:
        return
    found.nodes += 1
    time_ns = digest.median(node.isolated)
    found.missing += time_ns is None
    found.add("eager", time_ns)
    found.add("eager_backward", digest.median(node.backward_isolated))


def _add_kernel(
    sums: dict[str, _Sums], kernel: KernelRecord, owners: Iterable[str], region: str, digest: Digest
) -> None:
    time_ns = digest.median(kernel.isolated)
    for owner in owners:
        found = sums.setdefault(owner, _Sums())
        found.kernels.add((region, kernel.key))
        found.missing += time_ns is None
        if owner == NO_OWNER and time_ns is not None:
            what: Mapping[Phase, str] = {"forward": "compiled", "backward": "compiled_backward"}
            found.add(what[kernel.phase], time_ns * max(1, kernel.calls))


def _rows(sums: Mapping[str, _Sums]) -> tuple[list[GroupRow], GroupRow]:
    rows = [
        GroupRow(
            group=name,
            layers=len(found.places),
            nodes=found.nodes,
            kernels=len(found.kernels),
            eager_ns=found.times.get("eager", 0.0),
            compiled_ns=found.times.get("compiled", 0.0),
            eager_backward_ns=found.times.get("eager_backward", 0.0),
            compiled_backward_ns=found.times.get("compiled_backward", 0.0),
            missing=found.missing,
        )
        for name, found in sums.items()
    ]
    kernels = {kernel for found in sums.values() for kernel in found.kernels}
    total = GroupRow(
        group=TOTAL,
        layers=sum(row.layers for row in rows),
        nodes=sum(row.nodes for row in rows),
        kernels=len(kernels),
        eager_ns=sum(row.eager_ns for row in rows),
        compiled_ns=sum(row.compiled_ns for row in rows),
        eager_backward_ns=sum(row.eager_backward_ns for row in rows),
        compiled_backward_ns=sum(row.compiled_backward_ns for row in rows),
        missing=sum(row.missing for row in rows),
    )
    whole_ns = total.eager_ns + total.eager_backward_ns
    shared = [_with_share(row, whole_ns) for row in rows]
    return sorted(shared, key=lambda row: -(row.eager_ns + row.eager_backward_ns)), _with_share(total, whole_ns)


def _with_share(row: GroupRow, whole_ns: float) -> GroupRow:
    return replace(row, share=(row.eager_ns + row.eager_backward_ns) / whole_ns if whole_ns else None)


def _place(node: NodeRecord, by: GroupBy) -> str:
    if by == "module":
        return node.module
    return f"{node.source.file}:{node.source.line}" if node.source else ""


def _names(nodes: Sequence[NodeRecord], by: GroupBy, depth: int | None) -> Callable[[NodeRecord], str]:
    """The name of every node's group."""
    if by == "module":
        folded = fold_layers({node.module for node in nodes})
        cut = {path: ".".join(name.split(".")[:depth]) for path, name in folded.items()}
        return lambda node: cut.get(node.module, node.module) or TOP_LEVEL
    return lambda node: _line(node) or NO_SOURCE


def _line(node: NodeRecord) -> str:
    code = node.source.code.strip() if node.source else ""
    return f"{source_text(node.source)} {code}".strip()


def fold_layers(paths: Iterable[str]) -> dict[str, str]:
    """Module paths -> the same with `*` for numbers that have siblings: `h.0.mlp` and `h.1.mlp` are both `h.*.mlp`.

    A number without a sibling is no repetition and stays.
    """
    distinct = sorted(set(paths))
    folded: dict[str, list[str]] = {path: [] for path in distinct}
    for level in range(max((path.count(".") + 1 for path in distinct), default=0)):
        numbers: dict[tuple[str, ...], set[str]] = {}
        for path in distinct:
            parts = path.split(".")
            if level < len(parts) and parts[level].isdigit():
                numbers.setdefault(tuple(folded[path]), set()).add(parts[level])
        for path in distinct:
            parts = path.split(".")
            if level < len(parts):
                siblings = numbers.get(tuple(folded[path]), ())
                repeated = parts[level].isdigit() and len(siblings) > 1
                folded[path].append(LAYER if repeated else parts[level])
    return {path: ".".join(parts) for path, parts in folded.items()}

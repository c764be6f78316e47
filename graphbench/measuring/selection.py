"""Which rows are isolated, where not all are wanted: nodes by pattern, with the kernels that work for them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from graphbench.analysis.matching import folded, is_meant, unmatched
from graphbench.condition_records import Policy
from graphbench.conservation import post_grad_row
from graphbench.errors import UsageError
from graphbench.measurements import SourceLine
from graphbench.records import KernelRecord, NodeRecord, PostGradNode

WORKING = ("executes", "differentiates", "prepares")


@dataclass(frozen=True, slots=True)
class Selection:
    """What a policy asks for. A node is wanted if `select` means it, or says nothing, and `exclude` does not.

    A kernel is wanted if it works for a wanted node, or if `select` names it and `exclude` does not. Then the other
    nodes that it executes, and those merged into them, are measured too: there would be nothing to judge it against.
    """

    select: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()

    @classmethod
    def of(cls, policy: Policy) -> Selection:
        """That of a policy."""
        return cls(policy.select, policy.exclude, policy.only_regions)

    @property
    def takes_all(self) -> bool:
        """Whether every row is wanted."""
        return not self.select and not self.exclude

    def wants_region(self, key: str, shapes_of: str, location: SourceLine | None) -> bool:
        """Whether a region is measured: by its key, for which that of its first group of sizes serves too, or place.

        `r0` means all its groups and `r0.2` one, `model.py:*` or `model.py:12` what lies there.
        """
        places = [key, shapes_of] if shapes_of else [key]
        if location is not None:
            places += [f"{name}:{location.line}" for name in (location.file, Path(location.file).name)]
        return not self.regions or any(fnmatchcase(place, want) for place in places for want in self.regions)

    def rows(
        self,
        region: str,
        nodes: Sequence[NodeRecord],
        kernels: Iterable[KernelRecord],
        post_grad: Iterable[PostGradNode],
    ) -> frozenset[str] | None:
        """The rows of a region that are isolated; `None` for all.

        Args:
            region: its key.
            nodes: of its Dynamo graph.
            kernels: of all its compiled graphs, with the roles of nodes.
            post_grad: likewise.
        """
        if self.takes_all:
            return None
        fold = folded(nodes)
        excluded = {node.name for node in nodes if _means(self.exclude, region, node, fold)}
        chosen = {node.name for node in nodes if not self.select or _means(self.select, region, node, fold)} - excluded
        rows, judged = set(chosen), set(chosen)
        merged = _merged(nodes)
        for kernel in kernels:
            works_for = {role.node for role in kernel.roles if role.role in WORKING}
            works_for |= {name for name, into in merged.items() if into in works_for}
            named = _names(self.select, kernel)
            if not _names(self.exclude, kernel) and (named or chosen & works_for):
                rows.add(kernel.key)
                judged |= works_for - excluded
        rows |= judged
        rows |= {
            post_grad_row(op.phase, op.name)
            for op in post_grad
            if not judged.isdisjoint((*op.sources, *op.differentiates))
        }
        return frozenset(rows)

    def gap_rows(self, rows: Mapping[str, str]) -> frozenset[str] | None:
        """The gap ops that are isolated, of op types by row; `None` for all."""
        if self.takes_all:
            return None
        return frozenset(
            name
            for name, op_type in rows.items()
            if (not self.select or _fits(self.select, (name, op_type))) and not _fits(self.exclude, (name, op_type))
        )

    def check(
        self,
        nodes: Mapping[str, Sequence[NodeRecord]],
        kernels: Sequence[KernelRecord],
        gaps: Mapping[str, str],
        places: Collection[tuple[str, str, SourceLine | None]],
    ) -> None:
        """Refuse a pattern that means nothing, before anything is measured.

        Args:
            nodes: of all graphs, by region.
            kernels: that are known by now.
            gaps: op types of gap ops, by row.
            places: of regions: keys, those of their first groups of sizes, and locations.

        Raises:
            UsageError: naming the pattern and what comes close.
        """
        every = [node for found in nodes.values() for node in found]
        fold = folded(every)
        for option, pattern in (*(("select", one) for one in self.select), *(("exclude", one) for one in self.exclude)):
            meant = any(_means((pattern,), key, node, fold) for key, found in nodes.items() for node in found)
            meant = meant or any(_names((pattern,), kernel) for kernel in kernels)
            if not meant and not any(_fits((pattern,), entry) for entry in gaps.items()):
                names = [*(kernel.key for kernel in kernels), *gaps.values()]
                raise unmatched(pattern, every, fold, names, option=option)
        for pattern in self.regions:
            if not any(Selection(regions=(pattern,)).wants_region(*place) for place in places):
                known = ", ".join(f"{key} ({_place(location)})" if location else key for key, _, location in places)
                raise UsageError(
                    f"only_region {pattern!r}: no such region", hint=f"regions: {known or 'none'}", subject=pattern
                )


def _merged(nodes: Sequence[NodeRecord]) -> dict[str, str]:
    """By node that was merged into another, directly or over several merges, the one that is left."""
    into = {node.name: node.fate.note for node in nodes if node.fate.kind == "merged"}
    found: dict[str, str] = {}
    for name, left in into.items():
        seen = {name}
        while left in into and left not in seen:
            seen.add(left)
            left = into[left]
        found[name] = left
    return found


def _means(patterns: Iterable[str], region: str, node: NodeRecord, fold: Mapping[str, str]) -> bool:
    return any(is_meant(pattern, region, node, fold) for pattern in patterns)


def _names(patterns: Iterable[str], kernel: KernelRecord) -> bool:
    return _fits(patterns, (kernel.key, kernel.name))


def _fits(patterns: Iterable[str], names: Iterable[str]) -> bool:
    names = tuple(names)
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in names)


def _place(location: SourceLine) -> str:
    return f"{Path(location.file).name}:{location.line}"

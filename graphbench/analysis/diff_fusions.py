"""Fusions before and after: what became of each, in time and in bytes moved, and a verdict or why none. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from graphbench.analysis.diff_kernels import WORKING, KernelPair, join_kernels, node_set
from graphbench.analysis.diff_rows import ONLY, OTHER_WORK, DiffRow, Joined
from graphbench.analysis.diff_rule import Rule, Timed, add_times, judge_runs
from graphbench.analysis.digest import Digest
from graphbench.analysis.shown import ShownRow
from graphbench.analysis.stats import Verdict
from graphbench.analysis.unfused import PHASES
from graphbench.records import KernelRecord, Phase

FusionChange = Literal["same", "changed", "merged", "split", "added", "gone"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionDiffRow(ShownRow):
    """Kernels of the first profile and those of the second that do their work, all calls of each.

    `change`: `same` set of nodes, one for one `changed`, several `merged` into one, one `split` into several, `added`,
    `gone`. `nodes` are those it executes or differentiates, by their names in the second profile. Times are isolated
    medians in nanoseconds, added up; bytes are what the kernels get and give. What is `None` either side does not have,
    or `reason` says why, as for the verdict.
    """

    region: str
    phase: Phase
    change: FusionChange
    kernels_before: tuple[str, ...]
    kernels_after: tuple[str, ...]
    nodes: tuple[str, ...]
    before_ns: float | None
    after_ns: float | None
    before_bytes: float | None
    after_bytes: float | None
    verdict: Verdict | None
    reason: str = ""

    @property
    def name(self) -> str:
        """The kernels' names: those of the second profile where it has any."""
        return ", ".join(self.kernels_after or self.kernels_before)

    @property
    def delta_ns(self) -> float | None:
        """After - before; a kernel that only one side has costs nothing on the other."""
        if self.change in ("added", "gone"):
            return self.after_ns if self.change == "added" else None if self.before_ns is None else -self.before_ns
        return None if self.before_ns is None or self.after_ns is None else self.after_ns - self.before_ns

    @property
    def delta_bytes(self) -> float | None:
        """Bytes moved after - before."""
        if self.before_bytes is None or self.after_bytes is None:
            return None
        return self.after_bytes - self.before_bytes

    @property
    def ratio(self) -> float | None:
        """After ÷ before."""
        return self.after_ns / self.before_ns if self.after_ns is not None and self.before_ns else None


def fusion_pairs(joined: Joined) -> list[tuple[Phase, KernelPair]]:
    """All kernels of two joined regions, each in one pair."""
    return [(phase, pair) for phase in PHASES for pair in join_kernels(joined.old, joined.new, joined.partner, phase)]


def fusion_rows(
    joined: Joined,
    pairs: Sequence[tuple[Phase, KernelPair]],
    nodes: Iterable[DiffRow],
    rule: Rule,
    digest: Digest,
    unlike: str,
) -> list[FusionDiffRow]:
    """One row a pair of `fusion_pairs`.

    Args:
        joined: the two regions.
        pairs: their kernels.
        nodes: the rows of their nodes: a fusion of nodes whose work differs is not the same work.
        rule: which differences are noise.
        digest: statistics already computed.
        unlike: why nothing is judged, "" where it is.
    """
    rows = _Rows(joined, {row.name: row.work for row in nodes if row.work}, rule, digest, unlike)
    return [rows.row(phase, old, new) for phase, (old, new) in pairs]


class _Rows:
    """Makes the rows of one pair of regions."""

    def __init__(self, joined: Joined, other: Mapping[str, str], rule: Rule, digest: Digest, unlike: str) -> None:
        self._key = joined.key
        self._names = ({old: new for new, old in joined.partner.items()}, {new: new for new in joined.partner})
        self._regions = (joined.old, joined.new)
        self._other, self._rule, self._digest, self._unlike = other, rule, digest, unlike

    def row(self, phase: Phase, old: Sequence[KernelRecord], new: Sequence[KernelRecord]) -> FusionDiffRow:
        """The row of one pair."""
        sets = [self._nodes(kernels, side) for side, kernels in enumerate((old, new))]
        change = _change(old, new, sets)
        times = [self._time(kernels) for kernels in (old, new)]
        reason = ONLY[change] if change in ("added", "gone") else self._why_not(old, new, sets)
        before, after = times
        judged = not reason and before is not None and after is not None
        moved = [self._bytes(kernels, phase, side) for side, kernels in enumerate((old, new))]
        return FusionDiffRow(
            region=self._key,
            phase=phase,
            change=change,
            kernels_before=tuple(_name(kernel) for kernel in old),
            kernels_after=tuple(_name(kernel) for kernel in new),
            nodes=_node_names(old, new, self._names),
            before_ns=before.p50_ns if before else None,
            after_ns=after.p50_ns if after else None,
            before_bytes=moved[0],
            after_bytes=moved[1],
            verdict=judge_runs(before, after, self._rule) if judged and before and after else None,
            reason=reason,
        )

    def _nodes(self, kernels: Sequence[KernelRecord], side: int) -> frozenset[Hashable]:
        word = ("before", "after")[side]
        return frozenset().union(*(node_set(kernel, self._names[side], word) for kernel in kernels))

    def _time(self, kernels: Sequence[KernelRecord]) -> Timed | None:
        """All calls of all of them; `None` where there are none, or one has no time."""
        summaries = [(self._digest.summary(kernel.isolated), max(1, kernel.calls)) for kernel in kernels]
        known = [Timed.of(summary, calls) for summary, calls in summaries if summary is not None]
        return add_times(known) if known and len(known) == len(kernels) else None

    def _bytes(self, kernels: Sequence[KernelRecord], phase: Phase, side: int) -> float | None:
        region = self._regions[side]
        if region is None or not kernels or not all(kernel.traffic for kernel in kernels):
            return None
        return sum(
            max(1, kernel.calls) * sum(entry.read_bytes + entry.written_bytes for entry in kernel.traffic)
            for kernel in kernels
        )

    def _why_not(
        self, old: Sequence[KernelRecord], new: Sequence[KernelRecord], sets: Sequence[frozenset[Hashable]]
    ) -> str:
        for which, kernels in (("before", old), ("after", new)):
            for kernel in kernels:
                if kernel.isolated.samples is None:
                    return f"{which}: {kernel.isolated.reason}"
        if self._unlike:
            return self._unlike
        measured = {(kernel.isolated.timer, kernel.isolated.cache) for kernel in (*old, *new)}
        if len(measured) > 1:
            return "not comparable: other timers or cache states"
        other = [self._other[name] for name in _node_names(old, new, self._names) if name in self._other]
        if other:
            return f"{OTHER_WORK}: {other[0]}"
        return f"{OTHER_WORK}: other nodes" if sets[0] != sets[1] else ""


def _change(
    old: Sequence[KernelRecord], new: Sequence[KernelRecord], sets: Sequence[frozenset[Hashable]]
) -> FusionChange:
    if not old or not new:
        return "gone" if old else "added"
    if len(old) == len(new) == 1:
        return "same" if sets[0] == sets[1] else "changed"
    return "merged" if len(new) == 1 else "split" if len(old) == 1 else "changed"


def _name(kernel: KernelRecord) -> str:
    return kernel.key.split("/", 1)[-1]


def _node_names(
    old: Sequence[KernelRecord], new: Sequence[KernelRecord], names: Sequence[Mapping[str, str]]
) -> tuple[str, ...]:
    """Nodes that the kernels work for, those of the second profile first."""
    found: dict[str, None] = {}
    for kernels, known in ((new, {}), (old, names[0])):
        for kernel in kernels:
            roles = [role for role in kernel.roles if role.role in WORKING] or kernel.roles
            found |= dict.fromkeys(known.get(role.node, role.node) for role in roles if role.role != "contributes")
    return tuple(found)

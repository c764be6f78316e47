"""Nodes of two joined regions: one row each, forward and backward, with a verdict or why there is none. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from graphbench.analysis.diff_nodes import join_nodes
from graphbench.analysis.diff_rule import Rule, Timed, judge_runs
from graphbench.analysis.digest import Digest
from graphbench.analysis.shares import TIMED_KINDS
from graphbench.analysis.shown import ShownRow
from graphbench.analysis.stats import Verdict
from graphbench.analysis.views import source_text, spec_text
from graphbench.measurements import Measurement, TensorSpec
from graphbench.records import VIEW, NodeRecord, Phase, RegionRecord

Change = Literal["both", "added", "gone"]
NodePair = tuple[NodeRecord | None, NodeRecord | None]
OTHER_WORK = "not the same work"
ONLY: dict[Change, str] = {"added": "only in the second profile", "gone": "only in the first profile"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffRow(ShownRow):
    """One node of either profile, forward or backward. Medians of isolated time in ns; `ratio` is after ÷ before.

    `verdict` says what `after` is against `before`; when it is `None`, `reason` says why. `work` has the specs of both
    sides where they differ: then times are not of the same work. `repeats` names the row that shows the same pair of
    measurements first, where equal nodes were measured once on both sides. `old` and `new` are the nodes themselves,
    `devices` where their regions ran.
    """

    region: str
    name: str
    name_before: str | None
    op_type: str
    module: str
    source: str
    change: Change
    before_ns: float | None
    after_ns: float | None
    verdict: Verdict | None
    reason: str = ""
    work: str = ""
    repeats: str | None = None
    phase: Phase = "forward"
    old: NodeRecord | None = field(default=None, repr=False)
    new: NodeRecord | None = field(default=None, repr=False)
    devices: tuple[str, str] = ("", "")

    @property
    def delta_ns(self) -> float | None:
        """After - before; a node that only one side has costs nothing on the other."""
        if self.change != "both":
            return self.after_ns if self.change == "added" else None if self.before_ns is None else -self.before_ns
        return None if self.before_ns is None or self.after_ns is None else self.after_ns - self.before_ns

    @property
    def ratio(self) -> float | None:
        """After ÷ before."""
        return self.after_ns / self.before_ns if self.after_ns is not None and self.before_ns else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """Two regions that are one, or one alone. `partner`: names of nodes of `new`, each with that of its node of `old`.

    `pairs` are the nodes that have a time: those of `new` in order, then those of `old` that are gone.
    """

    old: RegionRecord | None
    new: RegionRecord | None
    partner: dict[str, str]
    pairs: tuple[NodePair, ...]

    @property
    def key(self) -> str:
        """The region's name in the second profile, or in the first where it is gone."""
        region = self.new or self.old
        return region.key if region else ""


def join(old: RegionRecord | None, new: RegionRecord | None) -> Joined:
    """Join the nodes of two regions."""
    partner = join_nodes(old, new) if old is not None and new is not None else {}
    left = {node.name: node for node in old.nodes} if old else {}
    paired: list[NodePair] = [(left.get(partner.get(node.name, "")), node) for node in (new.nodes if new else ())]
    matched = set(partner.values())
    paired += [(node, None) for node in left.values() if node.name not in matched]
    timed = (pair for pair in paired if any(node is not None and node.kind in TIMED_KINDS for node in pair))
    return Joined(old=old, new=new, partner=partner, pairs=tuple(timed))


def judged_pairs(joined: Joined) -> int:
    """How many pairs of measurements there are to judge; one that repeats another's on both sides is none."""
    measured = [
        (isolated(old, phase), isolated(new, phase))
        for old, new in joined.pairs
        if old is not None and new is not None
        for phase in _PHASES
    ]
    return sum(bool(a.samples and b.samples and not (a.shared_with and b.shared_with)) for a, b in measured)


def isolated(node: NodeRecord, phase: Phase) -> Measurement:
    """A node's forward alone, or its backward."""
    return node.isolated if phase == "forward" else node.backward_isolated


_PHASES: tuple[Phase, ...] = ("forward", "backward")


def node_rows(joined: Joined, rule: Rule, digest: Digest, unlike: str) -> list[DiffRow]:
    """One row a node; then the backwards that either profile timed of nodes that both have.

    There are no backwards where one of the two timed none. `unlike` says why nothing is judged, "" where it is.
    """
    rows = _Rows(joined, rule, digest, unlike)
    both = [pair for pair in joined.pairs if None not in pair]
    timed = [[node is not None and bool(node.backward_isolated.samples) for node in pair] for pair in both]
    found = rows.of(joined.pairs, "forward")
    if not all(any(flags[side] for flags in timed) for side in (0, 1)):
        return found
    return found + rows.of([pair for pair, flags in zip(both, timed, strict=True) if any(flags)], "backward")


class _Rows:
    """Makes the rows of one pair of regions."""

    def __init__(self, joined: Joined, rule: Rule, digest: Digest, unlike: str) -> None:
        self._joined = joined
        self._rule = rule
        self._digest = digest
        self._unlike = unlike
        self._specs = tuple(_specs(region) if region else {} for region in (joined.old, joined.new))
        self._devices = tuple(region.device if region else "" for region in (joined.old, joined.new))

    def of(self, pairs: Sequence[NodePair], phase: Phase) -> list[DiffRow]:
        """The rows of one phase; the first that compares two measurements is named by those that repeat it."""
        rows = [self._row(old, new, phase) for old, new in pairs]
        first: dict[tuple[str, str], str] = {}
        for index, (old, new) in enumerate(pairs):
            if old is None or new is None or rows[index].verdict is None:
                continue
            key = (isolated(old, phase).shared_with or old.name, isolated(new, phase).shared_with or new.name)
            if first.setdefault(key, new.name) != new.name:
                rows[index] = replace(rows[index], repeats=first[key])
        return rows

    def _row(self, old: NodeRecord | None, new: NodeRecord | None, phase: Phase) -> DiffRow:
        node = new or old
        if node is None:  # not reached: a row is made for a node of one side at least
            raise ValueError("a row of no node")
        work = "" if old is None or new is None else self._other_work(old, new)
        change: Change = "both" if old and new else "added" if new else "gone"
        before, after = (self._time(side, phase) for side in (old, new))
        reason = self._why_not(old, new, phase) if old is not None and new is not None else ONLY[change]
        if not reason and work:
            reason = f"{OTHER_WORK}: {work}"
        judged = not reason and before is not None and after is not None
        return DiffRow(
            region=self._joined.key,
            name=node.name,
            name_before=old.name if old else None,
            op_type=node.op_type,
            module=node.module,
            source=source_text(node.source),
            change=change,
            before_ns=before.p50_ns if before else None,
            after_ns=after.p50_ns if after else None,
            verdict=judge_runs(before, after, self._rule) if judged and before and after else None,
            reason=reason,
            work=work,
            phase=phase,
            old=old,
            new=new,
            devices=(self._devices[0], self._devices[1]),
        )

    def _time(self, node: NodeRecord | None, phase: Phase) -> Timed | None:
        summary = self._digest.summary(isolated(node, phase)) if node else None
        return None if summary is None else Timed.of(summary)

    def _why_not(self, old: NodeRecord, new: NodeRecord, phase: Phase) -> str:
        if phase == "forward" and old.kind == new.kind == "view":
            return VIEW  # what its call costs the host is no time of the model's
        left, right = isolated(old, phase), isolated(new, phase)
        for which, measured in (("before", left), ("after", right)):
            if measured.samples is None:
                return f"{which}: {measured.reason}"
        if self._unlike:
            return self._unlike
        if left.timer != right.timer or left.cache != right.cache:
            return f"not comparable: {left.timer}, {left.cache} before, {right.timer}, {right.cache} after"
        return ""

    def _other_work(self, old: NodeRecord, new: NodeRecord) -> str:
        """What both sides made, or read, where it differs; a layout is no other work."""
        a, b = _texts(old.outputs, new.outputs)
        if a != b:
            return f"{a} before, {b} after"
        read = [
            [spec for name in node.inputs for spec in specs.get(name, ())]
            for node, specs in zip((old, new), self._specs, strict=True)
        ]
        a, b = _texts(*read)
        return f"reads {a} before, {b} after" if a != b else ""


def _specs(region: RegionRecord) -> dict[str, tuple[TensorSpec, ...]]:
    given = {entry.name: (entry.spec,) for entry in region.inputs if entry.spec is not None}
    return given | {node.name: node.outputs for node in region.nodes}


def _texts(old: Sequence[TensorSpec], new: Sequence[TensorSpec]) -> tuple[str, str]:
    """Both sides in short, alike where their work is: with the kind of device only where that differs."""
    if [_what(spec) for spec in old] == [_what(spec) for spec in new]:
        return "", ""
    kinds = [[spec.device.split(":")[0] for spec in specs] for specs in (old, new)]
    told = [" ".join(map(spec_text, specs)) or "nothing" for specs in (old, new)]
    if told[0] == told[1] and kinds[0] != kinds[1]:
        told = [f"{text} on {', '.join(dict.fromkeys(kind))}" for text, kind in zip(told, kinds, strict=True)]
    return told[0], told[1]


def _what(spec: TensorSpec) -> tuple[tuple[int, ...], str, str]:
    return spec.shape, spec.dtype, spec.device.split(":")[0]

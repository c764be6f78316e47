"""What changed between two profiles: joined on nodes, a verdict per row, environment differences first. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from graphbench.analysis.conditions import environment, findings, notes
from graphbench.analysis.diff_gaps import GapDiffRow, diff_gaps
from graphbench.analysis.diff_totals import DiffTotal, compare_runs, noise_between_runs, totals
from graphbench.analysis.shares import TIMED_KINDS
from graphbench.analysis.stats import Verdict, quantile
from graphbench.analysis.views import outputs_text, source_text, verdict_grain_ns
from graphbench.errors import UsageError
from graphbench.measurements import Measurement, TimerName
from graphbench.records import NodeRecord, Phase, ProfileRecord, RegionRecord

Change = Literal["both", "added", "gone"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffRow:
    """One node of either profile, forward or backward. Medians of isolated time in ns; `ratio` is after ÷ before.

    `verdict` says what `after` is against `before`; when it is `None`, `reason` says why. `repeats` names the row that
    shows the same pair of measurements first, where equal nodes were measured once on both sides.
    """

    region: str
    name: str
    name_before: str | None
    op_type: str
    source: str
    change: Change
    before_ns: float | None
    after_ns: float | None
    delta_ns: float | None
    ratio: float | None
    verdict: Verdict | None
    reason: str = ""
    repeats: str | None = None
    phase: Phase = "forward"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """Two profiles compared. `environment` lists (what, before, after) wherever the conditions differ.

    Differences of medians below the fraction `noise` are noise between two runs with this `timer`, whose stamps have
    steps of `grain_ns` (0 where that is unknown or does not matter). `findings` may explain all differences at once.
    `gaps` are the gap ops of both steps, where both recorded one.
    """

    before: str
    after: str
    timer: TimerName
    noise: float
    environment: tuple[tuple[str, str, str], ...]
    totals: tuple[DiffTotal, ...]
    rows: tuple[DiffRow, ...]
    notes: tuple[str, ...] = ()
    grain_ns: float = 0.0
    gaps: tuple[GapDiffRow, ...] = ()
    findings: tuple[str, ...] = ()


def diff(before: ProfileRecord, after: ProfileRecord, *, names: tuple[str, str] = ("", "")) -> Diff:
    """Compare two profiles.

    Regions are paired by order; their nodes by name and op type, what is left by op type in the order of source lines.

    Args:
        before: the baseline.
        after: the profile to judge.
        names: of their files, where they have any.

    Raises:
        UsageError: they were measured with different timers or cache states, so no difference would mean anything.
    """
    for what, a, b in (
        ("timers", before.policy.timer, after.policy.timer),
        ("cache states", before.policy.cache, after.policy.cache),
    ):
        if a != b:
            hint = "measure both profiles in the same way"
            raise UsageError(f"cannot compare profiles of different {what}: {a} and {b}", hint=hint, subject=what)
    grain = max(verdict_grain_ns(before), verdict_grain_ns(after))
    rows: list[DiffRow] = []
    for index in range(max(len(before.regions), len(after.regions))):
        left = before.regions[index] if index < len(before.regions) else None
        right = after.regions[index] if index < len(after.regions) else None
        key = right.key if right else left.key if left else ""
        rows.extend(_region_rows(key, left, right, grain))
    return Diff(
        before=_title(before, names[0]),
        after=_title(after, names[1]),
        timer=after.policy.timer,
        noise=noise_between_runs(after.policy.timer),
        grain_ns=grain,
        findings=tuple(findings(before, after)),
        environment=tuple(environment(before, after)),
        totals=tuple(totals(before, after, grain)),
        rows=tuple(rows),
        gaps=diff_gaps(before, after, grain),
        notes=tuple(notes(before, after)),
    )


def worst_regression(result: Diff) -> DiffRow | DiffTotal | None:
    """The row or total with the largest ratio of those whose verdict is `slower`, else `None`."""
    judged: list[DiffRow | DiffTotal] = [*result.rows, *result.totals]
    slower = [(entry.ratio, entry) for entry in judged if entry.verdict == "slower" and entry.ratio is not None]
    return max(slower, key=lambda found: found[0])[1] if slower else None


def _title(record: ProfileRecord, name: str) -> str:
    return f"{f'{name}: ' if name else ''}{record.subject or 'a model'} ({record.created})"


# --- joining ----------------------------------------------------------------------------------------------------------


def _region_rows(key: str, before: RegionRecord | None, after: RegionRecord | None, grain: float) -> list[DiffRow]:
    left = [node for node in before.nodes if node.kind in TIMED_KINDS] if before else []
    right = [node for node in after.nodes if node.kind in TIMED_KINDS] if after else []
    partner = _join(left, right)
    matched = {node.name for node in partner.values()}
    rows = [_row(key, partner.get(node.name), node, grain) for node in right]
    _mark_repeats(rows, right, partner)
    rows += [_row(key, node, None, grain) for node in left if node.name not in matched]
    return rows + _backward_rows(key, right, partner, grain)


def _backward_rows(
    key: str, right: Sequence[NodeRecord], partner: Mapping[str, NodeRecord], grain: float
) -> list[DiffRow]:
    """The backwards that either profile timed of nodes that both have; none where one of them timed no backward."""
    pairs = [(partner[node.name], node) for node in right if node.name in partner]
    if not all(any(pair[side].backward_isolated.samples for pair in pairs) for side in (0, 1)):
        return []
    pairs = [pair for pair in pairs if any(node.backward_isolated.samples for node in pair)]
    rows = [_row(key, old, new, grain, "backward") for old, new in pairs]
    _mark_repeats(rows, [new for _, new in pairs], partner)
    return rows


def _mark_repeats(rows: list[DiffRow], right: Sequence[NodeRecord], partner: Mapping[str, NodeRecord]) -> None:
    """Name the first row that compares the same two measurements; `rows` are those of the nodes `right`, in order."""
    first: dict[tuple[str, str], str] = {}
    for index, node in enumerate(right):
        old = partner.get(node.name)
        if old is None or rows[index].verdict is None:
            continue
        phase = rows[index].phase
        pair = (_isolated(old, phase).shared_with or old.name, _isolated(node, phase).shared_with or node.name)
        if first.setdefault(pair, node.name) != node.name:
            rows[index] = replace(rows[index], repeats=first[pair])


def _isolated(node: NodeRecord, phase: Phase) -> Measurement:
    return node.isolated if phase == "forward" else node.backward_isolated


def _join(left: Sequence[NodeRecord], right: Sequence[NodeRecord]) -> dict[str, NodeRecord]:
    """Map names of `right` to their nodes of `left`."""
    by_name = {node.name: node for node in left}
    partner = {
        node.name: by_name[node.name]
        for node in right
        if node.name in by_name and by_name[node.name].op_type == node.op_type
    }
    taken = {node.name for node in partner.values()}
    free = _by_op_type([node for node in left if node.name not in taken])
    for op_type, nodes in _by_op_type([node for node in right if node.name not in partner]).items():
        partner.update((new.name, old) for new, old in zip(nodes, free.get(op_type, []), strict=False))
    return partner


def _by_op_type(nodes: Sequence[NodeRecord]) -> dict[str, list[NodeRecord]]:
    groups: dict[str, list[NodeRecord]] = {}
    for node in nodes:
        groups.setdefault(node.op_type, []).append(node)
    for group in groups.values():
        group.sort(key=lambda node: (node.source.file, node.source.line) if node.source else ("", 0))
    return groups


def _row(
    region: str, before: NodeRecord | None, after: NodeRecord | None, grain: float, phase: Phase = "forward"
) -> DiffRow:
    node = after or before
    if node is None:  # not reached: a row is made for a node of one side at least
        raise ValueError("a row of no node")
    before_ns = _median(_isolated(before, phase)) if before else None
    after_ns = _median(_isolated(after, phase)) if after else None
    verdict, reason = _judge(before, after, grain, phase)
    comparable = verdict is not None and before_ns is not None and after_ns is not None
    return DiffRow(
        region=region,
        name=node.name,
        name_before=before.name if before else None,
        op_type=node.op_type,
        source=source_text(node.source),
        change="both" if before and after else "added" if after else "gone",
        before_ns=before_ns,
        after_ns=after_ns,
        delta_ns=after_ns - before_ns if comparable and after_ns is not None and before_ns is not None else None,
        ratio=after_ns / before_ns if comparable and after_ns is not None and before_ns else None,
        verdict=verdict,
        reason=reason,
        phase=phase,
    )


def _judge(
    before: NodeRecord | None, after: NodeRecord | None, grain: float, phase: Phase
) -> tuple[Verdict | None, str]:
    if before is None or after is None:
        return None, "only in the second profile" if before is None else "only in the first profile"
    left, right = _isolated(before, phase), _isolated(after, phase)
    for which, measured in (("before", left), ("after", right)):
        if measured.samples is None:
            return None, f"{which}: {measured.reason}"
    old, new = outputs_text(before.outputs), outputs_text(after.outputs)
    if old != new:
        return None, f"not the same work: {old} before, {new} after"
    if left.timer != right.timer or left.cache != right.cache:
        return None, f"not comparable: {left.timer}, {left.cache} before, {right.timer}, {right.cache} after"
    if left.samples is None or right.samples is None or right.timer is None:
        return None, "not measured"
    return compare_runs(left.samples.busy_ns, right.samples.busy_ns, right.timer, grain_ns=grain), ""


def _median(measurement: Measurement) -> float | None:
    return quantile(measurement.samples.busy_ns, 0.5) if measurement.samples else None

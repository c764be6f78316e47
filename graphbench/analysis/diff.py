"""What changed between two profiles: regions, nodes and fusions joined, a verdict per row, conditions first. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from graphbench.analysis.conditions import environment, findings, notes, other_device
from graphbench.analysis.diff_fusions import FusionDiffRow, fusion_pairs, fusion_rows
from graphbench.analysis.diff_gaps import GapDiffRow, diff_gaps, judged_gaps
from graphbench.analysis.diff_regions import other_calls, pair_regions
from graphbench.analysis.diff_rows import OTHER_WORK, DiffRow, join, judged_pairs, node_rows
from graphbench.analysis.diff_rule import Rule
from graphbench.analysis.diff_totals import DiffTotal, totals
from graphbench.analysis.digest import Digest
from graphbench.analysis.views import verdict_grain_ns
from graphbench.condition_records import Ceiling
from graphbench.errors import UsageError
from graphbench.measurements import TimerName
from graphbench.records import ProfileRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """Two profiles compared. `environment` lists (what, before, after) wherever the conditions differ.

    `rule` says which differences of rows are noise between two runs with this `timer`. `findings` may explain all
    differences at once. `gaps` are the gap ops of both steps, where both recorded one. `devices` are the names of two
    devices that differ: then nothing has a verdict. `ceilings` are those of either profile.
    """

    before: str
    after: str
    timer: TimerName
    rule: Rule
    environment: tuple[tuple[str, str, str], ...]
    totals: tuple[DiffTotal, ...]
    rows: tuple[DiffRow, ...]
    fusions: tuple[FusionDiffRow, ...] = ()
    notes: tuple[str, ...] = ()
    gaps: tuple[GapDiffRow, ...] = ()
    findings: tuple[str, ...] = ()
    devices: tuple[str, str] | None = None
    ceilings: tuple[tuple[Ceiling, ...], tuple[Ceiling, ...]] = field(default=((), ()), repr=False)


def diff(before: ProfileRecord, after: ProfileRecord, *, names: tuple[str, str] = ("", "")) -> Diff:
    """Compare two profiles.

    Regions are joined by what their graphs do and where they stand, their nodes by source and neighbourhood, fusions by
    the nodes that they execute: `diff_regions`, `diff_nodes` and `diff_fusions` say how, `diff_rule` what is judged.

    Args:
        before: the baseline.
        after: the profile to judge.
        names: of their files, where they have any.

    Raises:
        UsageError: one device was measured with different timers or cache states, so no difference would mean anything.
    """
    devices = other_device(before, after)
    if devices is None:
        _check_policies(before, after)
    unlike = "" if devices is None else "another device"
    grain_ns = max(verdict_grain_ns(before), verdict_grain_ns(after))
    pairs = pair_regions(before.regions, after.regions)
    joined = [join(old, new) for old, new in pairs]
    other = other_calls(pairs)
    fusions = [fusion_pairs(entry) for entry in joined]
    count = sum(map(judged_pairs, joined)) + sum(map(len, fusions)) + judged_gaps(before, after)
    rule, digest = Rule.of(after.policy.timer, grain_ns, count), Digest()
    nodes = [node_rows(entry, rule, digest, unlike) for entry in joined]
    return Diff(
        before=_title(before, names[0]),
        after=_title(after, names[1]),
        timer=after.policy.timer,
        rule=rule,
        findings=tuple(findings(before, after)),
        environment=tuple(environment(before, after)),
        totals=tuple(totals(before, after, grain_ns, unlike or (other and f"{OTHER_WORK}: {other}"))),
        rows=tuple(row for entry in nodes for row in entry),
        fusions=tuple(
            row
            for entry, kernels, rows in zip(joined, fusions, nodes, strict=True)
            for row in fusion_rows(entry, kernels, rows, rule, digest, unlike)
        ),
        gaps=diff_gaps(before, after, rule, unlike),
        notes=tuple(notes(before, after, pairs)),
        devices=devices,
        ceilings=(before.ceilings, after.ceilings),
    )


def _check_policies(before: ProfileRecord, after: ProfileRecord) -> None:
    for what, a, b in (
        ("timers", before.policy.timer, after.policy.timer),
        ("cache states", before.policy.cache, after.policy.cache),
    ):
        if a != b:
            hint = "measure both profiles in the same way"
            raise UsageError(f"cannot compare profiles of different {what}: {a} and {b}", hint=hint, subject=what)


Judged = DiffRow | FusionDiffRow | DiffTotal


def worst_regression(result: Diff) -> Judged | None:
    """The node, fusion or total with the largest ratio of those whose verdict is `slower`, else `None`."""
    judged: list[Judged] = [*result.rows, *result.fusions, *result.totals]
    slower = [(entry.ratio, entry) for entry in judged if entry.verdict == "slower" and entry.ratio is not None]
    return max(slower, key=lambda found: found[0])[1] if slower else None


def _title(record: ProfileRecord, name: str) -> str:
    return f"{f'{name}: ' if name else ''}{record.subject or 'a model'} ({record.created})"

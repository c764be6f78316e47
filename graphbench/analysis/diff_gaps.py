"""Gap ops of two recorded steps, joined on what they are and where the user called them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

from graphbench.analysis.diff_rule import Rule, compare_runs
from graphbench.analysis.digest import Digest
from graphbench.analysis.shown import ShownRow
from graphbench.analysis.stats import Verdict
from graphbench.analysis.views import source_text
from graphbench.records import ProfileRecord
from graphbench.step_records import StepPhase, StepRow


@dataclass(frozen=True, slots=True, kw_only=True)
class GapDiffRow(ShownRow):
    """One gap op of either step. Times in nanoseconds of all its calls in the step; `ratio` is after ÷ before.

    `verdict` says what one call alone became, as for nodes, and is `None` where `reason` says why: a step is recorded
    once, so that its times alone decide nothing. `calls` are `None` on the side that has no such op.
    """

    op_type: str
    phase: StepPhase
    place: str
    source: str
    change: Literal["both", "added", "gone"]
    calls_before: int | None
    calls_after: int | None
    before_ns: float | None
    after_ns: float | None
    verdict: Verdict | None
    reason: str

    @property
    def delta_ns(self) -> float | None:
        """After - before; an op that only one side has costs nothing on the other."""
        if self.change != "both":
            return self.after_ns if self.change == "added" else None if self.before_ns is None else -self.before_ns
        return None if self.before_ns is None or self.after_ns is None else self.after_ns - self.before_ns

    @property
    def ratio(self) -> float | None:
        """After ÷ before."""
        return self.after_ns / self.before_ns if self.after_ns is not None and self.before_ns else None


def judged_gaps(before: ProfileRecord, after: ProfileRecord) -> int:
    """How many pairs of gap ops there are to judge at most."""
    timed = [
        sum(row.kernel is None and row.isolated.samples is not None for row in record.step.rows) if record.step else 0
        for record in (before, after)
    ]
    return min(timed)


def diff_gaps(before: ProfileRecord, after: ProfileRecord, rule: Rule, unlike: str) -> tuple[GapDiffRow, ...]:
    """Gap ops of both profiles' steps; none unless both recorded one.

    Joined on phase, op, inputs and source line (in backward without one, the autograd node), what is left without the
    line, in the order of the steps. `unlike` says why nothing is judged, "" where it is.
    """
    if before.step is None or after.step is None:
        return ()
    left = [row for row in before.step.rows if row.kernel is None]
    right = [row for row in after.step.rows if row.kernel is None]
    pairs = _join(left, right, _exactly)
    pairs += _join(_without(left, [a for a, _ in pairs]), _without(right, [b for _, b in pairs]), _anywhere)
    partner = {b.name: a for a, b in pairs}
    digest = Digest()
    rows = [_row(digest, partner.get(row.name), row, rule, unlike) for row in right]
    rows += [_row(digest, row, None, rule, unlike) for row in _without(left, [a for a, _ in pairs])]
    return tuple(rows)


def _exactly(row: StepRow) -> Hashable:
    where: Hashable = (source_text(row.source), row.source.function) if row.source else row.autograd_node
    return _anywhere(row), where


def _anywhere(row: StepRow) -> Hashable:
    return row.phase, row.op_type, row.inputs, row.outputs


def _join(
    left: Sequence[StepRow], right: Sequence[StepRow], key: Callable[[StepRow], Hashable]
) -> list[tuple[StepRow, StepRow]]:
    """Pairs of one key, in order: the first of either side with the first of the other."""
    waiting: dict[Hashable, list[StepRow]] = {}
    for row in reversed(left):
        waiting.setdefault(key(row), []).append(row)
    return [(waiting[key(row)].pop(), row) for row in right if waiting.get(key(row))]


def _without(rows: Sequence[StepRow], taken: Sequence[StepRow]) -> list[StepRow]:
    names = {row.name for row in taken}
    return [row for row in rows if row.name not in names]


def _row(digest: Digest, before: StepRow | None, after: StepRow | None, rule: Rule, unlike: str) -> GapDiffRow:
    row = after or before
    if row is None:  # not reached: a row is made for an op of one side at least
        raise ValueError("a row of no gap op")
    verdict, reason = _judge(before, after, rule, unlike)
    return GapDiffRow(
        op_type=row.op_type,
        phase=row.phase,
        place=row.place,
        source=source_text(row.source) or row.autograd_node,
        change="both" if before and after else "added" if after else "gone",
        calls_before=before.calls if before else None,
        calls_after=after.calls if after else None,
        before_ns=digest.median(before.in_graph) if before else None,
        after_ns=digest.median(after.in_graph) if after else None,
        verdict=verdict,
        reason=reason,
    )


def _judge(before: StepRow | None, after: StepRow | None, rule: Rule, unlike: str) -> tuple[Verdict | None, str]:
    if before is None or after is None:
        return None, "only in the second profile" if before is None else "only in the first profile"
    old, new = before.isolated, after.isolated
    for which, measured in (("before", old), ("after", new)):
        if measured.samples is None:
            return None, f"{which}: {measured.reason}"
    if old.samples is None or new.samples is None or unlike:
        return None, unlike or "not measured"
    return compare_runs(old.samples.busy_ns, new.samples.busy_ns, rule), ""

"""What a profile says, worked out once for all sections of its page. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphbench.analysis.break_costs import BreakRow, break_rows
from graphbench.analysis.digest import Digest
from graphbench.analysis.fusion_totals import FusionTotals, fusion_totals
from graphbench.analysis.group_by import GROUP_BY, GroupBy
from graphbench.analysis.op_list import is_op_list
from graphbench.analysis.opportunities import opportunities
from graphbench.analysis.opportunity import Opportunity
from graphbench.analysis.rows import ProfileRows, profile_rows
from graphbench.analysis.steps import StepSummary, nothing_compiled, step_summary
from graphbench.analysis.summary import ProfileSummary, summary
from graphbench.records import ProfileRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """A record and what follows from it; `digest` remembers its statistics."""

    record: ProfileRecord
    digest: Digest
    summary: ProfileSummary
    step: StepSummary | None
    rows: ProfileRows
    fusion: FusionTotals
    opportunities: Sequence[Opportunity]
    breaks: Sequence[BreakRow]

    @property
    def only_ops(self) -> bool:
        """Whether it is the profile of an op list."""
        return is_op_list(self.record)

    @property
    def compiled(self) -> bool:
        """Whether anything of it was compiled."""
        return not nothing_compiled(self.record) and not self.only_ops

    @property
    def group_ways(self) -> tuple[GroupBy, ...]:
        """Ways to group: not by kernel where there are none."""
        return GROUP_BY if self.compiled else tuple(way for way in GROUP_BY if way != "kernel")

    @property
    def on_wallclock(self) -> bool:
        """Whether a call's time is its host's, so that columns of host times would repeat others."""
        return self.record.policy.timer == "wallclock"

    @property
    def many(self) -> bool:
        """Whether names need their region's."""
        return len(self.record.regions) > 1


def findings(record: ProfileRecord) -> Findings:
    """Work out everything that the sections of a page need."""
    digest = Digest()
    rows = profile_rows(record, digest)
    only_ops = is_op_list(record)
    return Findings(
        record=record,
        digest=digest,
        summary=summary(record, digest),
        step=step_summary(record.step, digest) if record.step else None,
        rows=rows,
        fusion=fusion_totals(record.regions, rows),
        opportunities=() if only_ops else opportunities(record, digest, rows=rows.fusions),
        breaks=break_rows(record, digest),
    )

"""Two profiles by module, source line, op type or shape: sums of nodes, and how near each gets to the limit. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from graphbench.analysis.costs import node_cost
from graphbench.analysis.diff import Diff
from graphbench.analysis.diff_rows import DiffRow, isolated
from graphbench.analysis.diff_rule import Timed, add_times, judge_runs
from graphbench.analysis.digest import Digest
from graphbench.analysis.group_by import DiffGroupBy
from graphbench.analysis.group_homes import node_namer
from graphbench.analysis.roofline import Ceilings, limit_of
from graphbench.analysis.shown import ShownRow
from graphbench.analysis.stats import Verdict
from graphbench.analysis.views import outputs_text
from graphbench.records import NodeRecord, Phase

TOTAL: Final = "total"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDiffRow(ShownRow):
    """One group of nodes, forward and backward. Times in nanoseconds: sums of isolated medians on each side.

    A pair of which one side has no time is in neither sum; `left_out` counts these. What is added or gone is in the sum
    of its side. The parts of the limit are of what has both a time and a limit on that side, and `None` where nothing
    has. `verdict` is `None` where anything of the group is not the same work on both sides.
    """

    group: str
    before_count: int
    after_count: int
    before_ns: float | None
    after_ns: float | None
    before_limit: float | None
    after_limit: float | None
    left_out: int
    verdict: Verdict | None

    @property
    def delta_ns(self) -> float:
        """After - before."""
        return (self.after_ns or 0.0) - (self.before_ns or 0.0)

    @property
    def ratio(self) -> float | None:
        """After ÷ before."""
        return self.after_ns / self.before_ns if self.after_ns is not None and self.before_ns else None


def group_diff(result: Diff, by: DiffGroupBy) -> tuple[list[GroupDiffRow], GroupDiffRow]:
    """Groups of the rows of a comparison, the largest change first, and their sum.

    Args:
        result: two profiles, compared.
        by: `module`, `source` line or `op_type`, of nodes that both have as the second has them; or op type and `shape`
            of the results: both shapes where they differ.
    """
    name_of = _shape if by == "shape" else _namer(result.rows, by)
    groups: dict[str, list[DiffRow]] = {}
    for row in result.rows:
        groups.setdefault(name_of(row), []).append(row)
    made = _Maker(result)
    rows = [made.row(name, entries) for name, entries in groups.items()]
    return sorted(rows, key=lambda row: -abs(row.delta_ns)), made.row(TOTAL, result.rows)


def _namer(rows: Sequence[DiffRow], by: DiffGroupBy) -> Callable[[DiffRow], str]:
    name_of = node_namer((node for node in map(_node, rows) if node is not None), by)

    def name(row: DiffRow) -> str:
        node = _node(row)
        return row.op_type if node is None else name_of(node)

    return name


def _node(row: DiffRow) -> NodeRecord | None:
    return row.new or row.old


def _shape(row: DiffRow) -> str:
    shapes = [outputs_text(node.outputs) for node in (row.old, row.new) if node is not None]
    return f"{row.op_type} {' → '.join(dict.fromkeys(shapes))}".strip()


class _Maker:
    """Adds up rows. Limits are worked out once per device and side."""

    def __init__(self, result: Diff) -> None:
        self._result = result
        self._digest = Digest()
        self._ceilings: dict[tuple[int, str], Ceilings] = {}

    def row(self, group: str, rows: Sequence[DiffRow]) -> GroupDiffRow:
        """The sum of some rows."""
        known = [row for row in rows if _counts(row)]
        old = [(row.old, row.phase, row.devices[0]) for row in known if row.old is not None]
        new = [(row.new, row.phase, row.devices[1]) for row in known if row.new is not None]
        before, after = self._sum(old), self._sum(new)
        judged = bool(known) and all(row.verdict is not None for row in known)
        return GroupDiffRow(
            group=group,
            before_count=len(old),
            after_count=len(new),
            before_ns=before.p50_ns if before else None,
            after_ns=after.p50_ns if after else None,
            before_limit=self._limit(old, 0),
            after_limit=self._limit(new, 1),
            left_out=len(rows) - len(known),
            verdict=judge_runs(before, after, self._result.rule) if judged and before and after else None,
        )

    def _sum(self, entries: Iterable[tuple[NodeRecord, Phase, str]]) -> Timed | None:
        summaries = (self._digest.summary(isolated(node, phase)) for node, phase, _ in entries)
        times = [Timed.of(summary) for summary in summaries if summary is not None]
        return add_times(times) if times else None

    def _limit(self, entries: Iterable[tuple[NodeRecord, Phase, str]], side: int) -> float | None:
        """Time at the limit ÷ time, of what has both."""
        limit_ns = busy_ns = 0.0
        for node, phase, device in entries:
            if (side, device) not in self._ceilings:
                self._ceilings[side, device] = Ceilings.of(self._result.ceilings[side], device)
            measured = isolated(node, phase)
            time_ns = self._digest.median(measured)
            found = limit_of(node_cost(node, phase), time_ns, self._ceilings[side, device], cache=measured.cache)
            if found.time_ns is not None and time_ns:
                limit_ns += found.time_ns
                busy_ns += time_ns
        return limit_ns / busy_ns if busy_ns else None


def _counts(row: DiffRow) -> bool:
    """Whether a row has its time: on both sides where both have the node."""
    sides = [(row.old, row.before_ns), (row.new, row.after_ns)]
    return all(time is not None for node, time in sides if node is not None)

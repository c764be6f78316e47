"""The table of groups: where the time goes by module or by source line."""

from __future__ import annotations

from typing import NamedTuple

from graphbench.analysis.digest import Digest
from graphbench.analysis.graph import critical_paths
from graphbench.analysis.groups import GROUP_BY, GroupBy, GroupRow, group_rows
from graphbench.analysis.views import sort_rows
from graphbench.errors import UsageError
from graphbench.records import ProfileRecord
from graphbench.report.column import Column, sort_keys
from graphbench.report.names import shorten
from graphbench.units import count_text, format_percent

GROUP_COLUMNS: tuple[Column[GroupRow], ...] = (
    Column(name="group", key="group", kind="text", get=lambda row: row.group, shrink=20, shorten=shorten),
    Column(name="layers", key="layers", kind="number", get=lambda row: row.layers, shown="several"),
    Column(name="nodes", key="nodes", kind="number", get=lambda row: row.nodes),
    Column(name="kernels", key="kernels", kind="number", get=lambda row: row.kernels),
    Column(name="eager", key="eager", kind="time", get=lambda row: row.eager_ns),
    Column(
        name="eager\nbwd", key="eager_backward", kind="time", get=lambda row: row.eager_backward_ns, shown="nonzero"
    ),
    Column(name="comp.", key="compiled", kind="time", get=lambda row: row.compiled_ns),
    Column(
        name="comp.\nbwd",
        key="compiled_backward",
        kind="time",
        get=lambda row: row.compiled_backward_ns,
        shown="nonzero",
    ),
    Column(name="saved", key="saved", kind="time", get=lambda row: row.saved_ns),
    Column(name="ratio", key="speedup", kind="ratio", get=lambda row: row.speedup),
    Column(name="cost", key="cost", kind="time", get=lambda row: row.cost_ns, shown="csv"),
    Column(name="share", key="share", kind="fraction", get=lambda row: row.share),
    Column(name="missing", key="missing", kind="number", get=lambda row: row.missing, shown="nonzero"),
)
EXPLAINED = (
    "eager, eager bwd: sums of the nodes' times alone; comp., comp. bwd: their parts of the compiled kernels, which "
    "are divided over their nodes by the bytes that each moves in them; groups add up to the total"
)


class Grouping(NamedTuple):
    """How to group: by module, whose paths may be cut, or by source line."""

    by: GroupBy
    depth: int | None


def checked_grouping(by: str | None, depth: int | None) -> Grouping | None:
    """What `group_by` and `depth` ask for; `None` for no groups.

    Raises:
        UsageError: no such way to group, or a depth below 1, or one without modules.
    """
    if by is not None and by not in GROUP_BY:
        hint = f"group by one of: {', '.join(GROUP_BY)}"
        raise UsageError(f"cannot group by {by!r}", hint=hint, subject="group_by")
    if depth is not None and (depth < 1 or by != "module"):
        raise UsageError(
            f"depth={depth} with group_by={by!r}: expected at least 1, and modules, whose paths it cuts",
            hint='group_by="module", depth=2 makes encoder.layer of encoder.layer.*.attention',
            subject="depth",
        )
    return Grouping("source" if by == "source" else "module", depth) if by is not None else None


def shown_groups(
    record: ProfileRecord, grouping: Grouping, sort: str, top: int | None, digest: Digest | None = None
) -> tuple[str, list[GroupRow]]:
    """Title and rows of the table, the total last: that of all groups, also of those that `top` leaves out.

    `sort` is a key that `columns.find_sort` knows; one of other tables leaves groups sorted by cost.
    """
    rows, total = group_rows(record, grouping.by, depth=grouping.depth, digest=digest)
    keys = sort_keys(GROUP_COLUMNS, "cost")
    sort = sort if sort in keys else "cost"
    shown = sort_rows(rows, keys, sort, top)
    count = f"{len(shown)} of {len(rows)}" if len(shown) < len(rows) else f"{len(rows)}"
    return f"By {grouping.by} ({count}, sorted by {sort})", [*shown, total]


def groups_legend(record: ProfileRecord, total: GroupRow, digest: Digest) -> list[str]:
    """What the columns are, how much is missing, and the critical paths."""
    lines = [EXPLAINED]
    if total.missing:
        times = count_text(total.missing, "time")
        lines.append(f"missing: {times} of nodes and kernels; sums are of the others, without a saving")
    return lines + path_lines(record, digest)


def path_lines(record: ProfileRecord, digest: Digest) -> list[str]:
    """How much of the kernels' time hangs together in one chain."""
    many = len(record.regions) > 1
    return [
        f"critical path of {f'{path.region} ' if many else ''}{path.phase}: {len(path.kernels)} of "
        f"{count_text(path.count, 'kernel')}, {format_percent(path.path_ns / path.total_ns)} of kernel time"
        f"{f'; {path.missing} without a time' if path.missing else ''}"
        for path in critical_paths(record, digest)
        if path.total_ns
    ]

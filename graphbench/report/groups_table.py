"""The table of groups: where the time goes by module, source line, op type, kernel or shape."""

from __future__ import annotations

from typing import NamedTuple

from graphbench.analysis.digest import Digest
from graphbench.analysis.graph import critical_paths
from graphbench.analysis.group_by import GROUP_BY, GroupBy
from graphbench.analysis.groups import GroupRow, group_rows
from graphbench.analysis.op_list import is_op_list
from graphbench.analysis.views import sort_rows
from graphbench.errors import UsageError
from graphbench.records import ProfileRecord
from graphbench.report.column import Column, sort_keys
from graphbench.report.names import shorten
from graphbench.units import UNKNOWN, count_text, format_percent, format_traffic

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
    Column(name="un-\nfused", key="unfused", kind="time", get=lambda row: row.unfused_ns, shown="nonzero"),
    Column(
        name="at\nlimit", key="at_limit", kind="time", get=lambda row: row.limit_ns, shown="nonzero", missing=UNKNOWN
    ),
    Column(
        name="of\nlimit",
        key="limit",
        kind="fraction",
        get=lambda row: row.limit_part,
        shown="wide",
        missing=UNKNOWN,
    ),
    Column(name="saved", key="saved", kind="time", get=lambda row: row.saved_ns),
    Column(name="ratio", key="speedup", kind="ratio", get=lambda row: row.speedup),
    Column(
        name="re-\nmoved",
        key="removed_bytes",
        kind="number",
        get=lambda row: row.removed_bytes,
        brief=lambda row: None if row.removed_bytes is None else format_traffic(row.removed_bytes),
        shown="nonzero",
        missing=UNKNOWN,
    ),
    Column(name="eager moved", key="eager_bytes", kind="number", get=lambda row: row.eager_bytes, shown="csv"),
    Column(name="unfused moved", key="unfused_bytes", kind="number", get=lambda row: row.unfused_bytes, shown="csv"),
    Column(name="moved", key="moved_bytes", kind="number", get=lambda row: row.moved_bytes, shown="csv"),
    Column(name="cost", key="cost", kind="time", get=lambda row: row.cost_ns, shown="csv"),
    Column(name="share", key="share", kind="fraction", get=lambda row: row.share),
    Column(name="missing", key="missing", kind="number", get=lambda row: row.missing, shown="nonzero"),
    Column(name="no limit", key="unlimited", kind="number", get=lambda row: row.unlimited, shown="csv"),
    Column(name="not counted", key="uncounted", kind="number", get=lambda row: row.uncounted, shown="csv"),
)
LEAVE = ("unfused", "removed_bytes", "kernels", "at_limit", "nodes", "layers", "speedup", "saved")
"""Columns of groups by how little they matter where lines are narrow."""
OF_COMPILED = ("kernels", "removed_bytes", "missing")
"""Columns that say nothing where nothing was compiled."""
OF_OPS = "eager, eager bwd: sums of the ops' times alone; groups add up to the total"
EXPLAINED = (
    "eager, eager bwd: sums of the nodes' times alone; comp., comp. bwd: their parts of the compiled kernels, which "
    "are divided over their nodes by the bytes that each moves in them; groups add up to the total"
)
KERNELS_EXPLAINED = (
    "a row stands for all kernels that differ in their number only; eager, eager bwd: the parts of the nodes' times "
    "alone that fall to them, by the bytes that each node moves in its kernels; groups add up to the total, nodes of "
    "several kernels count in each"
)

LIMITED = (
    "unfused, at limit: their parts of the kernels' post-grad nodes one by one and of the kernels' time at the limit, "
    "both directions; removed: what nodes move alone less what their parts of the kernels move"
)


class Grouping(NamedTuple):
    """How to group; paths of modules may be cut after `depth` parts."""

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
    known = next((way for way in GROUP_BY if way == by), None)
    return Grouping(known, depth) if known is not None else None


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


def groups_legend(record: ProfileRecord, by: GroupBy, total: GroupRow, digest: Digest) -> list[str]:
    """What the columns are, how much is missing, and the critical paths."""
    return sums_legend(record, by, total) + ([] if is_op_list(record) else path_lines(record, digest))


def sums_legend(record: ProfileRecord, by: GroupBy, total: GroupRow) -> list[str]:
    """What the columns are, and how much is missing."""
    if is_op_list(record):
        return [OF_OPS]
    lines = [KERNELS_EXPLAINED if by == "kernel" else EXPLAINED]
    if total.missing:
        times = count_text(total.missing, "time")
        lines.append(f"missing: {times} of nodes and kernels; sums are of the others, without a saving")
    if total.limit_ns:
        lines.append(LIMITED)
    if total.limit_ns and total.unlimited:
        lines.append(f"at limit: of {count_text(total.unlimited, 'kernel')} no limit is known; sums are of the others")
    if total.eager_bytes and total.uncounted:
        rows = count_text(total.uncounted, "node or kernel", "nodes and kernels")
        lines.append(f"removed: the bytes of {rows} are not known; groups with one of them have none")
    return lines


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

"""The columns of all tables but the per-node ones: name, unit, value, place. Text, Markdown and CSV all read these."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import Any, Final

from graphbench.analysis.fusion import FusionRow
from graphbench.analysis.stats import Summary
from graphbench.errors import UsageError
from graphbench.records import NodeRole, Role
from graphbench.report.column import Column
from graphbench.report.device_columns import CONFIG_COLUMNS, COUNT_COLUMN, LAUNCH_COLUMNS, of_one_call
from graphbench.report.difference import difference_text
from graphbench.report.gaps_table import GAP_COLUMNS, GAP_LINE_COLUMNS
from graphbench.report.groups_table import GROUP_COLUMNS
from graphbench.report.limit_columns import FUSION_TRAFFIC_COLUMNS, LIMIT_COLUMNS, LIMIT_KEYS, always
from graphbench.report.names import shorten_head, shorten_kernel_of_kind, shorten_phase
from graphbench.report.node_columns import NODE_COLUMNS, TRAINING_NODE_COLUMNS, row_marks, tail_ratio

_ROLE_WORDS: tuple[tuple[Role, str], ...] = (
    ("executes", ""),
    ("differentiates", "backward of "),
    ("recomputes", "recomputes "),
    ("prepares", "prepares for "),
    ("contributes", "reads "),
)


OF_FOLDS: Final = ("each", "min..max", "count")
"""What only folded tables can be sorted by: see `folded_columns`, which builds on this module."""
BACKWARD_SIGN = "∂ "
"""Stands for `backward of` in tables, where it would take the room of the names."""


def find_sort(text: str) -> str:
    """A sort key as tables know it, from what a user typed; capitals do not matter.

    Raises:
        UsageError: no table of a report has such a column; the hint lists the headers.
    """
    word = " ".join(text.split()).rstrip(".").casefold()
    nodes = (*NODE_COLUMNS, *TRAINING_NODE_COLUMNS)
    columns: list[Column[Any]] = [*nodes, *FUSION_COLUMNS, *GAP_COLUMNS, *LAUNCH_COLUMNS, *CONFIG_COLUMNS]
    columns += [*GROUP_COLUMNS, *GAP_LINE_COLUMNS]
    shown = ["cost", *dict.fromkeys(column.word for column in columns if column.shown != "csv"), *OF_FOLDS]
    if word not in shown and word not in {column.key for column in columns}:
        near = difflib.get_close_matches(word, shown, n=3)
        meant = f"did you mean {' or '.join(near)}? " if near else ""
        raise UsageError(
            f"sort {text!r}: no table has such a column",
            hint=f"{meant}sort by one of: {', '.join(shown)}",
            subject="sort",
        )
    return word


def _of_fused(pick: Callable[[Summary], float | None]) -> Callable[[FusionRow], object]:
    return lambda row: None if row.fused is None else pick(row.fused)


def _recomputed_mark(row: FusionRow) -> str:
    """`*`: a part of it was computed by another kernel before."""
    return "*" if row.recomputed_ns else ""


def roles_text(roles: tuple[NodeRole, ...], names_text: Callable[[Sequence[str]], str] = ", ".join) -> str:
    """A kernel's nodes by role: those that it executes first and bare, the others after what it does with them.

    What it merely reads is told only when nothing else is known: Inductor's origins list half the layer before.
    `names_text` joins the names of one role.
    """
    groups: list[str] = []
    for role, words in _ROLE_WORDS:
        names = list(dict.fromkeys(entry.node for entry in roles if entry.role == role))
        if names and not (role == "contributes" and groups):
            groups.append(words + names_text(names))
    return "; ".join(groups)


def _difference_size(row: FusionRow) -> float | None:
    if difference_text(row.difference) is None or row.difference is None:
        return None
    size = row.difference.max_abs
    return size if size is not None else 0.0 if row.difference.equal else float("inf")


def _one_call_statistics() -> tuple[Column[FusionRow], ...]:
    """Statistics of isolated samples: they stand beside times of all calls of a site, and say that they are of one."""
    picks: tuple[tuple[str, str, Callable[[Summary], float]], ...] = (
        ("p50", "isolated_p50", lambda s: s.p50),
        ("p10", "isolated_p10", lambda s: s.p10),
        ("p90", "isolated_p90", lambda s: s.p90),
        ("iqr", "isolated_iqr", lambda s: s.iqr),
        ("mean", "isolated_mean", lambda s: s.mean),
        ("min", "isolated_min", lambda s: s.minimum),
        ("max", "isolated_max", lambda s: s.maximum),
    )
    times = [
        Column(name=f"1 call\n{name}", key=key, kind="time", get=_of_fused(pick), shown="wide")
        for name, key, pick in picks
    ]
    return (
        *times,
        Column(name="p90/\np50", key="isolated_p90_over_p50", kind="number", get=_of_fused(tail_ratio), shown="wide"),
        Column(name="n", key="samples", kind="number", get=_of_fused(lambda s: s.n), shown="wide"),
    )


FUSION_COLUMNS: tuple[Column[FusionRow], ...] = (
    Column(name="region", key="region", kind="text", get=lambda row: row.region, shown="several", shrink=3),
    Column(name="phase", key="phase", kind="text", get=lambda row: row.phase, shown="several", shorten=shorten_phase),
    Column(
        name="kernel",
        key="kernel",
        kind="text",
        get=lambda row: row.key.split("/", 1)[-1],
        shrink=22,
        shorten=shorten_kernel_of_kind,
    ),
    Column(name="kind", key="kind", kind="text", get=lambda row: row.kind, shorten=shorten_head),
    Column(name="calls", key="calls", kind="number", get=lambda row: row.calls, shown="several"),
    Column(
        name="nodes",
        key="nodes",
        kind="text",
        get=lambda row: roles_text(row.roles),
        brief=lambda row: roles_text(row.roles).replace("backward of ", BACKWARD_SIGN),
        shrink=12,
        shorten=shorten_head,
    ),
    Column(name="eager", key="eager_p50", kind="time", get=lambda row: row.eager.p50_ns if row.eager else None),
    Column(
        name="eager p10", key="eager_p10", kind="time", get=lambda r: r.eager.p10_ns if r.eager else None, shown="csv"
    ),
    Column(
        name="eager p90", key="eager_p90", kind="time", get=lambda r: r.eager.p90_ns if r.eager else None, shown="csv"
    ),
    Column(name="unfused", key="unfused", kind="time", get=lambda row: row.unfused_ns, marks=_recomputed_mark),
    Column(name="recom-\nputed", key="recomputed", kind="time", get=lambda row: row.recomputed_ns, shown="wide"),
    Column(name="fused", key="all_calls_fused_p50", kind="time", get=lambda row: row.fused_ns, marks=row_marks),
    Column(name="saved", key="saved", kind="time", get=lambda row: row.saved_ns),
    Column(name="ratio", key="ratio", kind="ratio", get=lambda row: row.ratio),
    Column(
        name="verdict",
        key="verdict",
        kind="text",
        get=lambda row: row.verdict,
        brief=lambda row: f"{row.verdict} +" if row.verdict and row.together else row.verdict,
        shrink=None,
    ),
    *LIMIT_COLUMNS,
    *FUSION_TRAFFIC_COLUMNS,
    Column(name="judged with", key="judged_with", kind="text", get=lambda row: ", ".join(row.together), shown="csv"),
    Column(name="batch", key="all_calls_batch_p50", kind="time", get=lambda row: row.batch_ns),
    *_one_call_statistics(),
    Column(name="in-\ngraph", key="in_graph", kind="time", get=lambda row: row.in_graph_ns),
    Column(name="1 call\nhost", key="one_call_host", kind="time", get=lambda row: row.host_ns, shown="wide"),
    Column(
        name="max\ndiff",
        key="difference",
        kind="text",
        get=lambda row: difference_text(row.difference),
        shrink=None,
        order=_difference_size,
    ),
    Column(name="state", key="state", kind="text", get=lambda row: row.state, shown="csv"),
    Column(name="reason", key="reason", kind="text", get=lambda row: "; ".join(row.reasons), shown="csv"),
    Column(name="warnings", key="warnings", kind="text", get=lambda row: "; ".join(row.warnings), shown="csv"),
    Column(name="same as", key="shared_with", kind="text", get=lambda row: row.shared_with or "", shown="csv"),
    Column(name="unfaithful", key="unfaithful", kind="text", get=lambda row: row.unfaithful, shown="csv"),
    *of_one_call((COUNT_COLUMN, *LAUNCH_COLUMNS, *CONFIG_COLUMNS)),
)

LEAVE: Final = (
    "samples_line",
    "in_graph_bar",
    "all_calls_batch_p50",
    "in_graph_spread",
    "kind",
    "spread",
    "unfused",
    "bound",
    "in_graph",
    "each",
    "calls",
    "difference",
    "limit",
    "region",
    "phase",
)
"""Columns of kernels by how little they matter where lines are narrow: what stays says whether fusing paid."""

FUSION_LAUNCH_COLUMNS: tuple[Column[FusionRow], ...] = (
    *(column for column in FUSION_COLUMNS if column.key in ("region", "phase", "kernel", "kind")),
    Column(name="p50", key="isolated_p50", kind="time", get=_of_fused(lambda s: s.p50)),
    COUNT_COLUMN,
    *LAUNCH_COLUMNS,
    *CONFIG_COLUMNS,
)

FUSION_LIMIT_COLUMNS: tuple[Column[FusionRow], ...] = (
    *(column for column in FUSION_COLUMNS if column.key in ("region", "phase", "kernel", "kind", "calls")),
    Column(name="fused", key="all_calls_fused_p50", kind="time", get=lambda row: row.fused_ns),
    *always(LIMIT_COLUMNS, *LIMIT_KEYS),
    *always(FUSION_TRAFFIC_COLUMNS, "eager_bytes", "unfused_bytes", "all_calls_moved_bytes", "removed_bytes"),
)

"""The columns of the tables of two compared profiles. Text, Markdown, CSV and JSON all read these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from graphbench.analysis.diff_fusions import FusionDiffRow
from graphbench.analysis.diff_gaps import GapDiffRow
from graphbench.analysis.diff_groups import GroupDiffRow
from graphbench.analysis.diff_rows import DiffRow
from graphbench.analysis.diff_totals import DiffTotal
from graphbench.analysis.roofline import OVER
from graphbench.report.column import Column
from graphbench.report.gaps_table import SHORT_PHASES
from graphbench.report.names import shorten_head, shorten_kernel_of_kind, shorten_phase, shorten_source, shorten_tail
from graphbench.units import format_bytes


class Compared(Protocol):
    """What rows of all these tables have: times in nanoseconds, their difference, and after ÷ before."""

    @property
    def before_ns(self) -> float | None:
        """Of the first profile."""

    @property
    def after_ns(self) -> float | None:
        """Of the second."""

    @property
    def delta_ns(self) -> float | None:
        """After - before."""

    @property
    def ratio(self) -> float | None:
        """After ÷ before."""


_TIMES: tuple[Column[Compared], ...] = (
    Column(name="before", key="before", kind="time", get=lambda row: row.before_ns),
    Column(name="after", key="after", kind="time", get=lambda row: row.after_ns),
    Column(name="delta", key="delta", kind="time", get=lambda row: row.delta_ns),
    Column(name="after/\nbefore", key="ratio", kind="ratio", get=lambda row: row.ratio),
)


def _bytes(name: str, key: str, get: Callable[[FusionDiffRow], float | None]) -> Column[FusionDiffRow]:
    def brief(row: FusionDiffRow) -> str | None:
        size = get(row)
        return None if size is None else format_bytes(round(size))

    return Column(name=name, key=key, kind="number", get=get, brief=brief)


def _repeat_mark(row: DiffRow) -> str:
    return "=" if row.repeats else ""


def _over_mark(part: float | None) -> str:
    return "!" if part is not None and part > OVER else ""


def _listed(names: tuple[str, ...]) -> str:
    """The first name, and how many others there are."""
    more = f" +{len(names) - 1}" if len(names) > 1 else ""
    return f"{names[0]}{more}" if names else ""


TOTAL_COLUMNS: tuple[Column[DiffTotal], ...] = (
    Column(name="total (uninstrumented)", key="name", kind="text", get=lambda row: row.name),
    *_TIMES,
    Column(name="verdict", key="verdict", kind="text", get=lambda row: row.verdict),
    Column(name="reason", key="reason", kind="text", get=lambda row: row.reason, shown="csv"),
)

LEAVE: Final = (
    "before_bytes",
    "after_bytes",
    "other_work",
    "calls_before",
    "calls_after",
    "before_count",
    "after_count",
    "source",
    "before_limit",
    "after_limit",
    "ratio",
    "phase",
    "nodes",
    "change",
)
"""Columns by how little they matter where lines are narrow: what stays says what changed, and by how much."""

DIFF_COLUMNS: tuple[Column[DiffRow], ...] = (
    Column(name="region", key="region", kind="text", get=lambda row: row.region, shown="several", shrink=3),
    Column(name="node", key="name", kind="text", get=lambda row: row.name),
    Column(name="node before", key="name_before", kind="text", get=lambda row: row.name_before, shown="csv"),
    Column(name="op", key="op_type", kind="text", get=lambda row: row.op_type, shorten=shorten_head),
    Column(name="phase", key="phase", kind="text", get=lambda row: row.phase, shown="several", shorten=shorten_phase),
    Column(name="change", key="change", kind="text", get=lambda row: row.change, shown="several", shrink=5),
    Column(name="before", key="before", kind="time", get=lambda row: row.before_ns, marks=_repeat_mark),
    *_TIMES[1:],
    Column(name="verdict", key="verdict", kind="text", get=lambda row: row.verdict, shrink=7),
    Column(
        name="other work",
        key="other_work",
        kind="text",
        get=lambda row: row.work,
        brief=lambda row: row.work.replace(" before, ", " → ").removesuffix(" after") or None,
        shrink=16,
        shorten=shorten_head,
    ),
    Column(name="module", key="module", kind="text", get=lambda row: row.module, shown="csv", shorten=shorten_tail),
    Column(name="source", key="source", kind="text", get=lambda row: row.source, shorten=shorten_source),
    Column(name="reason", key="reason", kind="text", get=lambda row: row.reason, shown="csv"),
    Column(name="repeats", key="repeats", kind="text", get=lambda row: row.repeats, shown="csv"),
)

FUSION_DIFF_COLUMNS: tuple[Column[FusionDiffRow], ...] = (
    Column(name="region", key="region", kind="text", get=lambda row: row.region, shown="several", shrink=3),
    Column(name="phase", key="phase", kind="text", get=lambda row: row.phase, shown="several", shorten=shorten_phase),
    Column(name="fusion", key="change", kind="text", get=lambda row: row.change, shrink=6),
    Column(
        name="kernels before",
        key="kernels_before",
        kind="text",
        get=lambda row: ", ".join(row.kernels_before),
        brief=lambda row: _listed(row.kernels_before) or None,
        shrink=14,
        shorten=shorten_kernel_of_kind,
    ),
    Column(
        name="kernels after",
        key="kernels_after",
        kind="text",
        get=lambda row: ", ".join(row.kernels_after),
        brief=lambda row: _listed(row.kernels_after) or None,
        shrink=14,
        shorten=shorten_kernel_of_kind,
    ),
    *_TIMES,
    Column(name="verdict", key="verdict", kind="text", get=lambda row: row.verdict, shrink=7),
    _bytes("bytes\nbefore", "before_bytes", lambda row: row.before_bytes),
    _bytes("bytes\nafter", "after_bytes", lambda row: row.after_bytes),
    Column(
        name="nodes", key="nodes", kind="text", get=lambda row: ", ".join(row.nodes), shrink=10, shorten=shorten_head
    ),
    Column(name="reason", key="reason", kind="text", get=lambda row: row.reason, shown="csv"),
)

GAP_DIFF_COLUMNS: tuple[Column[GapDiffRow], ...] = (
    Column(name="gap op", key="op_type", kind="text", get=lambda row: row.op_type, shrink=14, shorten=shorten_head),
    Column(name="in", key="phase", kind="text", get=lambda row: SHORT_PHASES[row.phase], shrink=3),
    Column(name="place", key="place", kind="text", get=lambda row: row.place, shown="several", shrink=12),
    Column(name="change", key="change", kind="text", get=lambda row: row.change, shown="several", shrink=5),
    Column(name="calls\nbefore", key="calls_before", kind="number", get=lambda row: row.calls_before),
    Column(name="calls\nafter", key="calls_after", kind="number", get=lambda row: row.calls_after),
    *_TIMES,
    Column(name="1 call", key="verdict", kind="text", get=lambda row: row.verdict, shrink=7),
    Column(name="source", key="source", kind="text", get=lambda row: row.source, shorten=shorten_source),
    Column(name="reason", key="reason", kind="text", get=lambda row: row.reason, shown="csv"),
)

GROUP_DIFF_COLUMNS: tuple[Column[GroupDiffRow], ...] = (
    Column(name="group", key="group", kind="text", get=lambda row: row.group, shrink=20),
    Column(name="nodes\nbefore", key="before_count", kind="number", get=lambda row: row.before_count),
    Column(name="nodes\nafter", key="after_count", kind="number", get=lambda row: row.after_count),
    *_TIMES,
    Column(name="verdict", key="verdict", kind="text", get=lambda row: row.verdict, shrink=7),
    Column(
        name="limit\nbefore",
        key="before_limit",
        kind="fraction",
        get=lambda row: row.before_limit,
        marks=lambda row: _over_mark(row.before_limit),
    ),
    Column(
        name="limit\nafter",
        key="after_limit",
        kind="fraction",
        get=lambda row: row.after_limit,
        marks=lambda row: _over_mark(row.after_limit),
    ),
    Column(name="left out", key="left_out", kind="number", get=lambda row: row.left_out, shown="nonzero"),
)

ENVIRONMENT_COLUMNS: tuple[Column[tuple[str, str, str]], ...] = (
    Column(name="what", key="what", kind="text", get=lambda row: row[0]),
    Column(name="before", key="before", kind="text", get=lambda row: row[1]),
    Column(name="after", key="after", kind="text", get=lambda row: row[2]),
)
"""What differs around two profiles: its name, before, after."""

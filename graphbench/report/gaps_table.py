"""The table of gap ops, under the gap that each ran in, and of the same ops by source line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from graphbench.analysis.gaps import GapLine, GapRow, known_sum
from graphbench.analysis.stats import Summary
from graphbench.plaintext import clean
from graphbench.report.column import Column
from graphbench.report.grid import Drawn, build, draw_lines
from graphbench.report.names import shorten, shorten_head, shorten_source
from graphbench.report.node_columns import row_marks
from graphbench.step_records import GapOpKind, StepPhase
from graphbench.units import count_text, format_bytes, format_duration, format_percent

TITLE = "Gap ops: eager between compiled graphs, in backward or optimizer"
EAGER_TITLE = "Ops as they ran eagerly"
SHORT_KINDS: Mapping[GapOpKind, str] = MappingProxyType(
    {"op": "", "copy": "copy", "sync": "sync", "collective": "coll.", "accumulation": "accum."}
)
SHORT_PHASES: Mapping[StepPhase, str] = MappingProxyType({"forward": "fwd", "backward": "bwd", "optimizer": "opt"})


def _of_isolated(pick: Callable[[Summary], float]) -> Callable[[GapRow], object]:
    return lambda row: None if row.isolated is None else pick(row.isolated)


def copied_text(row: GapRow) -> str:
    """How much went where, such as `4.00 KiB → cuda`; empty where nothing was copied between devices."""
    target = row.row.copied.rpartition(" to ")[2]
    return f"{format_bytes(row.row.copied_bytes)} → {target}" if row.row.copied_bytes else ""


GAP_COLUMNS: tuple[Column[GapRow], ...] = (
    Column(name="place", key="place", kind="text", get=lambda row: row.row.place, shown="several", shrink=10),
    Column(name="op", key="op_type", kind="text", get=lambda row: row.row.op_type, shrink=16, shorten=shorten_head),
    Column(
        name="kind",
        key="kind",
        kind="text",
        get=lambda row: row.row.kind,
        brief=lambda row: SHORT_KINDS[row.row.kind],
        shown="nonzero",
        shrink=4,
        shorten=shorten_head,
    ),
    Column(
        name="in",
        key="phase",
        kind="text",
        get=lambda row: row.row.phase,
        brief=lambda row: SHORT_PHASES[row.row.phase],
        shrink=3,
    ),
    Column(name="user phase", key="user_phase", kind="text", get=lambda row: row.row.user_phase, shown="nonzero"),
    Column(name="calls", key="calls", kind="number", get=lambda row: row.row.calls),
    Column(name="time", key="in_graph", kind="time", get=lambda row: row.in_graph_ns),
    Column(name="of\nstep", key="share", kind="fraction", get=lambda row: row.share),
    Column(name="1 call\np50", key="isolated_p50", kind="time", get=_of_isolated(lambda s: s.p50), marks=row_marks),
    Column(name="1 call\np10", key="isolated_p10", kind="time", get=_of_isolated(lambda s: s.p10), shown="wide"),
    Column(name="1 call\np90", key="isolated_p90", kind="time", get=_of_isolated(lambda s: s.p90), shown="wide"),
    Column(name="n", key="samples", kind="number", get=_of_isolated(lambda s: s.n), shown="wide"),
    Column(name="host", key="host", kind="time", get=lambda row: row.host_ns),
    Column(name="kern.", key="launches", kind="number", get=lambda row: row.launches, shown="wide"),
    Column(name="output", key="outputs", kind="text", get=lambda row: row.outputs, shown="nonzero"),
    Column(
        name="copied",
        key="copied",
        kind="text",
        get=lambda row: row.row.copied,
        brief=copied_text,
        shown="nonzero",
        shrink=10,
        shorten=shorten_head,
        order=lambda row: row.row.copied_bytes,
    ),
    Column(name="copied bytes", key="copied_bytes", kind="number", get=lambda row: row.row.copied_bytes, shown="csv"),
    Column(name="source", key="source", kind="text", get=lambda row: row.source, shorten=shorten_source),
    Column(
        name="autograd",
        key="autograd_node",
        kind="text",
        get=lambda row: row.row.autograd_node,
        shown="nonzero",
        shorten=shorten_head,
    ),
    Column(name="name", key="name", kind="text", get=lambda row: row.row.name, shown="csv"),
    Column(name="state", key="state", kind="text", get=lambda row: row.row.in_graph.status, shown="csv"),
    Column(name="reason", key="reason", kind="text", get=lambda row: "; ".join(row.reasons), shown="csv"),
    Column(name="warnings", key="warnings", kind="text", get=lambda row: "; ".join(row.warnings), shown="csv"),
    Column(name="same as", key="shared_with", kind="text", get=lambda row: row.shared_with or "", shown="csv"),
    Column(name="unfaithful", key="unfaithful", kind="text", get=lambda row: row.unfaithful, shown="csv"),
)

LEAVE: Final = ("launches", "host", "autograd", "autograd_node", "kind", "outputs", "copied", "isolated_p50", "share")
"""Columns of gap ops by how little they matter where lines are narrow."""

GAP_LINE_COLUMNS: tuple[Column[GapLine], ...] = (
    Column(name="line", key="line", kind="text", get=lambda row: row.line, shrink=20, shorten=shorten),
    Column(name="ops", key="ops", kind="text", get=lambda row: ", ".join(row.ops), shrink=14, shorten=shorten_head),
    Column(name="calls", key="calls", kind="number", get=lambda row: row.calls),
    Column(name="fwd", key="forward", kind="time", get=lambda row: row.forward_ns, shown="nonzero"),
    Column(name="bwd", key="backward", kind="time", get=lambda row: row.backward_ns, shown="nonzero"),
    Column(name="opt", key="optimizer", kind="time", get=lambda row: row.optimizer_ns, shown="nonzero"),
    Column(name="time", key="cost", kind="time", get=lambda row: row.time_ns),
    Column(name="of\nstep", key="share", kind="fraction", get=lambda row: row.share),
    Column(name="missing", key="missing", kind="number", get=lambda row: row.missing, shown="nonzero"),
)


def by_place(rows: Sequence[GapRow]) -> list[tuple[str, list[GapRow]]]:
    """Rows by place, the most expensive place first; in a place the order stays."""
    groups: dict[str, list[GapRow]] = {}
    for row in rows:
        groups.setdefault(row.row.place, []).append(row)
    return sorted(groups.items(), key=lambda group: -(known_sum([row.in_graph_ns for row in group[1]]) or 0.0))


def draw_by_place(
    rows: Sequence[GapRow], every: Sequence[GapRow], *, wide: bool, width: int, without: tuple[str, ...]
) -> list[str]:
    """The table with a line above the rows of each place, which says what all ops of it cost together, and its notes.

    Args:
        rows: those to show, in order.
        every: all gap ops, from which the lines above are added up.
        wide: whether the wide columns are shown.
        width: of a line, in characters.
        without: keys of columns to leave out.
    """
    groups = by_place(rows)
    ordered = [row for _, members in groups for row in members]
    grid = build(GAP_COLUMNS, ordered, wide=wide, without=(*without, "place"), leave=LEAVE)
    table, *notes = draw_lines(grid, width)
    if len(groups) == 1:
        return [table, *notes]
    lines = table.split("\n")
    whole = dict(by_place(every))
    header = len(lines) - len(ordered)
    drawn = lines[:header]
    for place, members in groups:
        drawn += [_place_line(place, whole[place]), *lines[header : header + len(members)]]
        header += len(members)
    return [Drawn("\n".join(drawn)), *notes]


def _place_line(place: str, rows: Sequence[GapRow]) -> str:
    time_ns, share = known_sum([row.in_graph_ns for row in rows]), known_sum([row.share for row in rows])
    calls = count_text(sum(row.row.calls for row in rows), "call")
    return f"{clean(place)}: {format_duration(time_ns)} in {calls}, {format_percent(share)} of the step"

"""Compared configurations as text: a line each for the whole step, then every node under each Inductor mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from graphbench.analysis.configurations import ConfigurationRow, NodeAcross, NodesAcross
from graphbench.condition_records import Environment, Policy
from graphbench.plaintext import clean
from graphbench.report.cells import Grid
from graphbench.report.column import Column
from graphbench.report.difference import DIFFERENCE_COLUMN, difference_text, is_wrong
from graphbench.report.grid import build
from graphbench.report.heading import policy_text, timer_lines
from graphbench.report.names import shorten_tail
from graphbench.units import MISSING

SHOWN_NODES = 30


def _half(index: int) -> Callable[[ConfigurationRow], object]:
    return lambda row: row.row.half_ns[index] if row.row is not None and index < len(row.row.half_ns) else None


def _kernels(row: ConfigurationRow) -> object:
    if row.row is None or row.row.n_kernels_range is None:
        return None
    fewest, most = row.row.n_kernels_range
    return fewest if fewest == most else f"{fewest}-{most}"


def _marks(row: ConfigurationRow) -> str:
    return "!" if row.row is not None and row.row.measurement.warnings else ""


CONFIGURATION_COLUMNS: tuple[Column[ConfigurationRow], ...] = (
    Column(name="configuration", key="name", kind="text", get=lambda row: row.name, shrink=14, shorten=shorten_tail),
    Column(name="step\np50", key="step", kind="time", get=lambda row: row.step_ns, marks=_marks),
    Column(name="1st\nhalf", key="first_half", kind="time", get=_half(0)),
    Column(name="2nd\nhalf", key="second_half", kind="time", get=_half(1)),
    Column(name="kern.", key="n_kernels", kind="number", get=_kernels),
    Column(name="time/\nfirst", key="ratio", kind="ratio", get=lambda row: row.ratio),
    Column(name="verdict", key="verdict", kind="text", get=lambda row: row.verdict, shrink=7),
    Column(name="wall", key="wall", kind="time", get=lambda row: row.wall_p50_ns),
    Column(name="wall\nverdict", key="wall_verdict", kind="text", get=lambda row: row.wall_verdict, shrink=7),
    DIFFERENCE_COLUMN,
    Column(
        name="first\ncall s",
        key="first_call",
        kind="number",
        get=lambda row: None if row.first_call_ns is None else round(row.first_call_ns / 1e9, 2),
    ),
)


def configuration_parts(
    rows: Sequence[ConfigurationRow],
    nodes: NodesAcross,
    *,
    subject: str,
    policy: Policy | None,
    environment: Environment | None,
    notes: Sequence[str] = (),
) -> list[str | Grid]:
    """What is told of a comparison of configurations: lines, its title first, and its tables.

    Args:
        rows: one per configuration, in the order asked for.
        nodes: the nodes of those that were profiled.
        subject: what was compiled.
        policy: the budget of one configuration's step; `None` where none could be timed.
        environment: what it ran on, likewise.
        notes: what else a reader must know.
    """
    lines: list[str | Grid] = [
        f"graphbench configurations of {clean(subject) or 'a model'}: {clean(', '.join(r.name for r in rows))}"
    ]
    if policy is not None and environment is not None:
        where = [f"torch {environment.torch}", environment.gpu, f"{environment.cpu}, {environment.num_threads} threads"]
        order = "each step timed twice, in order and then in reverse, with half the budget each time"
        lines += [
            "on: " + clean(" | ".join(part for part in where if part)),
            f"{policy_text(policy, environment)} | {order}",
            *timer_lines(policy.timer),
        ]
    lines += ["", build(CONFIGURATION_COLUMNS, rows, wide=False), *_remarks(rows)]
    if nodes.rows:
        lines += ["", *_node_parts(nodes)]
    return [*lines, *(f"note: {clean(note)}" for note in (*notes, *nodes.notes))]


def _remarks(rows: Sequence[ConfigurationRow]) -> Iterator[str]:
    for row in rows:
        name = clean(row.name)
        if row.reason:
            yield f"{MISSING} {name}: {clean(row.reason)}"
        if row.row is not None and row.row.measurement.warnings:
            yield f"! {name}: {clean('; '.join(row.row.measurement.warnings))}"
        if row.row is not None and row.row.measurement.status != "ok":
            yield f"{MISSING} {name}: {row.row.measurement.status}: {clean(row.row.measurement.reason)}"
        if is_wrong(row) and row.difference is not None:
            note = clean(row.difference.note) or f"max diff {difference_text(row.difference)}"
            yield f"! {name}: its result is not eager's ({note})"
        elif row.difference is not None and row.difference.equal is None:
            yield f"{MISSING} {name}: its result was not compared: {clean(row.difference.note)}"
        if row.no_profile:
            yield f"{MISSING} {name}: no profile: {clean(row.no_profile)}"
    whole = [clean(row.name) for row in rows if row.kind != "inductor" and row.row is not None]
    if whole:
        yield f"timed as a whole only: {', '.join(whole)}"


def _node_parts(nodes: NodesAcross) -> Iterator[str | Grid]:
    shown = nodes.rows[:SHOWN_NODES]
    rest = nodes.rows[SHOWN_NODES:]
    table = list(shown)
    if rest:
        sums = tuple(sum(row.times_ns[i] or 0.0 for row in rest) for i in range(len(nodes.names)))
        table.append(NodeAcross(region="", name=f"{len(rest)} more", op_type="", source="", times_ns=sums))
    table.append(NodeAcross(region="", name="all kernels", op_type="", source="", times_ns=nodes.totals_ns))
    yield "Nodes: their part of their kernels' isolated times, forward and backward"
    region: Column[NodeAcross] = Column(name="region", key="region", kind="text", get=lambda row: row.region)
    columns: list[Column[NodeAcross]] = [
        *([region] if len({row.region for row in nodes.rows if row.region}) > 1 else []),
        Column(name="node", key="node", kind="text", get=lambda row: row.name, shrink=10),
        Column(name="op", key="op_type", kind="text", get=lambda row: row.op_type),
        *(
            Column(name=_two_lines(name), key=name, kind="time", get=_time(index))
            for index, name in enumerate(nodes.names)
        ),
        Column(name="source", key="source", kind="text", get=lambda row: row.source, shorten=shorten_tail),
    ]
    yield build(columns, table, wide=False)


def _time(index: int) -> Callable[[NodeAcross], object]:
    return lambda row: row.times_ns[index]


def _two_lines(name: str) -> str:
    """A long configuration's name, broken where it has a dash."""
    return clean(name).replace("-", "-\n")

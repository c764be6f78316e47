"""Compared implementations as text: one line each, then whatever a reader must know of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from graphbench.analysis.implementations import ImplementationRow, clocks_apart
from graphbench.analysis.stats import Summary
from graphbench.condition_records import Environment, Policy
from graphbench.plaintext import clean
from graphbench.report.cells import Grid
from graphbench.report.column import Column
from graphbench.report.difference import DIFFERENCE_COLUMN, difference_text, is_wrong
from graphbench.report.grid import build
from graphbench.report.heading import policy_text, timer_lines
from graphbench.report.names import shorten_tail
from graphbench.units import MISSING


def _of(pick: Callable[[Summary], float]) -> Callable[[ImplementationRow], object]:
    return lambda row: None if row.summary is None else pick(row.summary)


def _half(index: int) -> Callable[[ImplementationRow], object]:
    return lambda row: row.half_ns[index] if index < len(row.half_ns) else None


def _count(row: ImplementationRow) -> object:
    if row.n_kernels_range is None:
        return None
    fewest, most = row.n_kernels_range
    return fewest if fewest == most else f"{fewest}-{most}"


def _marks(row: ImplementationRow) -> str:
    return "!" if row.measurement.warnings else ""


IMPLEMENTATION_COLUMNS: tuple[Column[ImplementationRow], ...] = (
    Column(name="implementation", key="name", kind="text", get=lambda row: row.name, shrink=14, shorten=shorten_tail),
    Column(name="p50", key="p50", kind="time", get=lambda row: row.p50_ns, marks=_marks),
    Column(name="p10", key="p10", kind="time", get=_of(lambda s: s.p10)),
    Column(name="p90", key="p90", kind="time", get=_of(lambda s: s.p90)),
    Column(name="n", key="samples", kind="number", get=_of(lambda s: s.n)),
    Column(name="1st\nhalf", key="first_half_p50", kind="time", get=_half(0)),
    Column(name="2nd\nhalf", key="second_half_p50", kind="time", get=_half(1)),
    Column(name="kern.", key="n_kernels", kind="number", get=lambda row: row.n_kernels, brief=_count),
    Column(name="host", key="host", kind="time", get=lambda row: row.host_ns),
    Column(name="time/\nfirst", key="ratio", kind="ratio", get=lambda row: row.ratio),
    Column(name="verdict", key="verdict", kind="text", get=lambda row: row.verdict, shrink=7),
    DIFFERENCE_COLUMN,
)


def implementation_parts(
    rows: Sequence[ImplementationRow],
    *,
    device: str,
    policy: Policy,
    environment: Environment,
    notes: Sequence[str] = (),
) -> list[str | Grid]:
    """What is told of a comparison: lines, its title first, and its table; rows in the order given.

    Args:
        rows: what was compared, the baseline first.
        device: where it ran.
        policy: the budget of a whole row.
        environment: what it ran on.
        notes: what else a reader must know.
    """
    without = ("host",) if policy.timer == "wallclock" else ()  # on the CPU it is the same time
    return [
        f"graphbench comparison of {len(rows)} implementation{'s' if len(rows) > 1 else ''} on {clean(device)}",
        _where(environment),
        _how(policy, environment),
        *timer_lines(policy.timer),
        "",
        build(IMPLEMENTATION_COLUMNS, rows, wide=False, without=without),
        *_remarks(rows),
        *(f"note: {clean(note)}" for note in notes),
    ]


def _where(environment: Environment) -> str:
    parts = [f"torch {environment.torch}", environment.gpu, f"{environment.cpu}, {environment.num_threads} threads"]
    return "on: " + clean(" | ".join(part for part in parts if part))


def _how(policy: Policy, environment: Environment) -> str:
    stamped = policy.timer != "wallclock" and environment.stamp_grain_ns is None
    step = " | stamps: step unknown" if stamped else ""
    order = "each timed twice, in order and then in reverse, with half the budget each time"
    return f"{policy_text(policy, environment)}{step} | {order}"


def _remarks(rows: Sequence[ImplementationRow]) -> Iterator[str]:
    baseline = rows[0]
    for row in rows:
        name = clean(row.name)
        if row.measurement.warnings:
            yield f"! {name}: {clean('; '.join(row.measurement.warnings))}"
        if is_wrong(row):
            size = difference_text(row.difference)
            note = clean(row.difference.note) if row.difference is not None else ""
            yield f"! {name}: its result is not {clean(baseline.name)}'s ({note or f'max diff {size}'})"
        elif row.difference is not None and row.difference.equal is None:
            yield f"{MISSING} {name}: its result was not compared: {clean(row.difference.note)}"
        if row.measurement.status != "ok":
            yield f"{MISSING} {name}: {row.measurement.status}: {clean(row.measurement.reason)}"
    apart = clocks_apart(rows)
    if apart is not None:
        yield f"! {clean(apart)}"
    if baseline.measurement.status != "ok" and len(rows) > 1:
        yield f"{MISSING} no ratios or verdicts: {clean(baseline.name)}, the baseline, has no time"

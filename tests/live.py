"""Live steps, recorded and not measured any further, and what their rows say. On the CPU and on a GPU."""

from __future__ import annotations

import linecache
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import graphbench
from graphbench.step_records import StepRecord, StepRow


def recorded(step: Callable[[], Any], *, warm_ups: int = 2) -> StepRecord:
    """Record one call of a step after its warm-ups, and prove that its rows explain all of it."""
    for _ in range(warm_ups):
        step()
    with graphbench.record() as recording:
        step()
    found: StepRecord = recording.step
    prove_explained(found)
    return found


def prove_explained(step: StepRecord) -> None:
    """Every row has a time; nothing is left unattributed; what rows and wrapper do not share is all that was busy."""
    untimed = [(row.name, row.in_graph.reason) for row in step.rows if row.in_graph.samples is None]
    assert untimed == []
    run = step.run
    assert (run.unattributed, run.unattributed_ns, run.dropped) == ((), (0,), 0)
    beside_ns = sum(run.wrapper_ns or ()) + sum(run.beside_ns or ())
    assert busy_ns(step.rows) + beside_ns - run.overlap_ns[0] == run.busy_ns[0]
    if run.timer == "wallclock":
        assert run.busy_ns == run.wall_ns


def kernels(step: StepRecord) -> dict[str, int]:
    """Calls of compiled kernels by `region/phase`."""
    found: Counter[str] = Counter()
    for row in step.rows:
        if row.kernel is not None:
            found[f"{row.region}/{row.kernel.partition('/')[0]}"] += row.calls
    return dict(found)


def gap_rows(step: StepRecord, *op_types: str, **fields: str) -> list[StepRow]:
    """Gap ops: all, or those of some types, and those whose fields have these values."""
    return [
        row
        for row in step.rows
        if row.kernel is None
        and (not op_types or row.op_type in op_types)
        and all(getattr(row, name) == value for name, value in fields.items())
    ]


def calls(step: StepRecord, *op_types: str, **fields: str) -> int:
    """How often gap ops of these types ran."""
    return sum(row.calls for row in gap_rows(step, *op_types, **fields))


def code_of(row: StepRow) -> str:
    """The text of the row's line."""
    return linecache.getline(row.source.file, row.source.line).strip() if row.source else ""


def busy_ns(rows: Iterable[StepRow]) -> float:
    """What rows cost together, in nanoseconds."""
    return sum(row.in_graph.samples.busy_ns[0] for row in rows if row.in_graph.samples)

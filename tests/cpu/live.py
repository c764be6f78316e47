"""Live steps, recorded and not measured any further, and what their rows say. Shared by the tests beside it."""

from __future__ import annotations

import linecache
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

import graphbench
from graphbench.step_records import StepRecord, StepRow
from tests.cpu.stories import WIDTH


class Plain(nn.Module):
    """One matrix product: nothing to build in C++."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


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
    """Every row has a time, and rows and wrapper, less what overlaps, are the step's wall time."""
    untimed = [(row.name, row.in_graph.reason) for row in step.rows if row.in_graph.samples is None]
    assert untimed == []
    run = step.run
    assert run.wrapper_ns is not None
    assert busy_ns(step.rows) + run.wrapper_ns[0] - run.overlap_ns[0] == run.wall_ns[0]
    assert run.unattributed == ()


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

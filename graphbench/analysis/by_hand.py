"""Ops to benchmark by hand: what of a profile has no time because a call of it cannot be repeated on copies. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from graphbench.analysis.missing import isolated, named
from graphbench.measurements import Measurement
from graphbench.records import BY_HAND, ProfileRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ByHandOp:
    """An op, the rows that lack its time, and why it cannot be repeated."""

    op: str
    rows: tuple[str, ...]
    why: str


def by_hand_ops(record: ProfileRecord) -> tuple[ByHandOp, ...]:
    """The to-do list of a profile: its nodes, backwards, post-grad nodes, kernels and gap ops, by op."""
    rows: dict[str, list[str]] = {}
    whys: dict[str, str] = {}
    for row, measured in _measured(record):
        if is_by_hand(measured):
            op, _, why = measured.reason.removeprefix(f"{BY_HAND}: ").partition(": ")
            rows.setdefault(op, []).append(row)
            whys.setdefault(op, why)
    return tuple(ByHandOp(op=op, rows=tuple(found), why=whys[op]) for op, found in rows.items())


def is_by_hand(measured: Measurement) -> bool:
    """Whether a row was skipped because its call cannot be repeated."""
    return measured.status == "skipped" and measured.reason.startswith(f"{BY_HAND}: ")


def _measured(record: ProfileRecord) -> Iterator[tuple[str, Measurement]]:
    many = len(record.regions) > 1
    for region in record.regions:
        yield from ((named(region, row, many), measured) for row, measured in isolated(region))
    if record.step is not None:
        yield from ((row.name, row.isolated) for row in record.step.rows)

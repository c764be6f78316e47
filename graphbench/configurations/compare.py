"""Compares configurations of one model: all tried, timed against each other, and those of Inductor profiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import fx

from graphbench.analysis.configurations import ConfigurationRow, nodes_across
from graphbench.analysis.implementations import ImplementationRow
from graphbench.capture import ambient
from graphbench.capture.breaks import BreakLog
from graphbench.comparing.compare import compare_implementations
from graphbench.comparing.implementation import Implementation
from graphbench.comparing.table import ImplementationTable
from graphbench.configurations.sides import Side, sides_named
from graphbench.configurations.steps import ModelState
from graphbench.configurations.subject import Subject
from graphbench.configurations.trying import Tried, try_sides
from graphbench.configurations.walls import wall_times
from graphbench.errors import GraphbenchError
from graphbench.inductor.compile import BackendOptions, reset_cuda_graphs
from graphbench.measuring.apart import apart
from graphbench.measuring.options import timers_for
from graphbench.measuring.step import WARMUP_STEPS, profile_step
from graphbench.options import MeasureOptions
from graphbench.records import HELD_NOTE, ProfileRecord
from graphbench.report.base import DEFAULT_WIDTH
from graphbench.report.cells import Grid
from graphbench.report.configurations_table import configuration_parts
from graphbench.report.grid import text_of
from graphbench.report.html.fragment import parts_fragment
from graphbench.session import Session

NO_ORDER = "every configuration failed: nothing was timed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Configurations:
    """What `graphbench.compare_configurations` found.

    `rows` are in the order asked for. `profiles` are those of Inductor's modes, by name. `table` is how the steps were
    timed, `None` where none could be.
    """

    subject: str
    rows: tuple[ConfigurationRow, ...]
    profiles: Mapping[str, ProfileRecord]
    table: ImplementationTable | None
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text()

    def text(self, *, width: int = DEFAULT_WIDTH) -> str:
        """The tables as text, in lines of at most `width` characters."""
        return text_of(self._parts(), width)

    def _repr_html_(self) -> str:
        return parts_fragment(self._parts())

    def _parts(self) -> list[str | Grid]:
        return configuration_parts(
            self.rows,
            nodes_across(self.profiles),
            subject=self.subject,
            policy=None if self.table is None else self.table.policy,
            environment=None if self.table is None else self.table.environment,
            notes=self.notes,
        )


@apart
def compare_sides(
    session: Session, subject: Subject, names: Sequence[str], options: MeasureOptions, *, profiled: bool = True
) -> Configurations:
    """Compare configurations; see `graphbench.compare_configurations`.

    Args:
        session: hears nothing of what is compiled.
        subject: what is compiled.
        names: of the configurations; the first is the baseline.
        options: how to measure.
        profiled: also profile those of Inductor.

    Raises:
        UsageError: an unknown name, or an option that does not fit.
        SetupError: the instrument for the device is missing.
    """
    sides = sides_named(names)
    timers_for(options, subject.device)
    state = ModelState(subject.model)
    with session.in_use("compare"), session.unheard(), ambient.rng_untouched():
        try:
            with _dynamo_set_back(len(sides)):
                tried, found = _race(sides, subject, state, options)
            profiles = _profiles(tried, subject, state, options) if profiled else _Profiles()
        finally:
            state.put_back()
    return Configurations(
        subject=subject.name,
        rows=tuple(_rows(tried, found, profiles)),
        profiles=profiles.records,
        table=found.table,
        notes=tuple(_notes(tried, found.table)),
    )


def _notes(tried: Sequence[Tried], table: ImplementationTable | None) -> Iterator[str]:
    if table is None:
        yield NO_ORDER
        return
    first = tried[0].side.name
    if table.rows[0].name != first:
        yield f"{first} failed: times are compared with {table.rows[0].name}"
    yield from table.notes


@contextmanager
def _dynamo_set_back(n_sides: int = 0) -> Iterator[None]:
    """Nothing that Dynamo compiled before is there inside, and nothing of it afterwards.

    All configurations compile the same code, of which Dynamo keeps only so many.

    Source: `torch._dynamo.config.recompile_limit`, torch 2.11 to 2.14.
    """
    _reset()
    limit = torch._dynamo.config.recompile_limit + n_sides
    try:
        with torch._dynamo.config.patch(recompile_limit=limit):
            yield
    finally:
        _reset()


def _reset() -> None:
    reset_cuda_graphs()
    torch._dynamo.reset()


@dataclass(slots=True)
class _Raced:
    """The steps timed against each other, and wall times by name where those are others."""

    table: ImplementationTable | None = None
    walls: Mapping[str, tuple[tuple[float, ...], ...]] = field(default_factory=dict)


def _race(
    sides: Sequence[Side], subject: Subject, state: ModelState, options: MeasureOptions
) -> tuple[list[Tried], _Raced]:
    """Try all, then time those that ran: the first of them is the baseline."""
    timer = timers_for(options, subject.device).running
    tried, moves = try_sides(sides, subject, state, timer)
    reset = state.put_back if moves else None
    entries = [Implementation(each.side.name, each.step, (), reset) for each in tried if each.step is not None]
    if not entries:
        return tried, _Raced()
    on_cpu = subject.device.type == "cpu"
    walls = (
        {} if on_cpu else wall_times(entries, timer, options)
    )  # before an instrument is opened, which slows launches
    whole = replace(options, values="captured", batch=None, memory_budget=None)
    if subject.device.type == "cuda" and options.l2 is None:
        whole = replace(whole, l2="warm")  # a step finds the cache as the step before left it
    return tried, _Raced(compare_implementations(entries, (), whole, device=subject.device), walls)


@dataclass(slots=True)
class _Profiles:
    """Profiles by configuration, and why others have none."""

    records: dict[str, ProfileRecord] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


def _profiles(tried: Sequence[Tried], subject: Subject, state: ModelState, options: MeasureOptions) -> _Profiles:
    """Compile and profile the configurations of Inductor that ran, one after the other: each alone in memory."""
    found = _Profiles()
    for each in tried:
        if each.side.kind != "inductor" or each.step is None:
            continue
        each.step = None
        name = each.side.name
        state.put_back()
        with _dynamo_set_back():
            try:
                found.records[name] = _profile(each.side, subject, options)
            except GraphbenchError as error:
                found.missing[name] = error.message
    return found


def _profile(side: Side, subject: Subject, options: MeasureOptions) -> ProfileRecord:
    own = Session(breaks=BreakLog.from_now())
    chosen = BackendOptions.parse(side.name, None)

    def backend(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        return own.compile(gm, example_inputs, chosen)

    compiled = torch.compile(subject.model, backend=backend, dynamic=subject.dynamic, fullgraph=subject.fullgraph)
    named = replace(options, subject=f"{subject.name or 'a model'}, {side.name}")
    record = profile_step(own, subject.step_of(compiled), (), WARMUP_STEPS, (), named)
    return replace(record, notes=tuple(note for note in record.notes if not note.startswith(HELD_NOTE)))


def _rows(tried: Sequence[Tried], raced: _Raced, profiles: _Profiles) -> Iterator[ConfigurationRow]:
    timed: Mapping[str, ImplementationRow] = {} if raced.table is None else {row.name: row for row in raced.table.rows}
    baseline = raced.walls.get(next(iter(timed), ""), ())
    for each in tried:
        name = each.side.name
        yield ConfigurationRow(
            name=name,
            kind=each.side.kind,
            row=timed.get(name),
            wall_ns=raced.walls.get(name, ()),
            baseline_wall_ns=baseline,
            first_call_ns=each.first_call_ns,
            difference=each.difference,
            profiled=name in profiles.records,
            no_profile=profiles.missing.get(name, ""),
            reason=each.reason,
        )

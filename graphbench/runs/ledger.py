"""What is known of a run's work: filled by measuring, and by the journal of a run that goes on. No torch import."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from graphbench.errors import UsageError
from graphbench.measurements import Measurement
from graphbench.records import NodeRecord, Phase, RegionRecord, Side
from graphbench.runs.entries import (
    STEP,
    Begun,
    Conditions,
    Entry,
    Failed,
    KnownRegion,
    MeasuredRegion,
    RecordedStep,
    SideRow,
    UnitKind,
    UnitRow,
    WorkKind,
)
from graphbench.runs.journal import Journal
from graphbench.step_records import StepRecord

MOST_TRIES: Final = 3
"""How often a unit is begun before it is given up: a process may be killed while it measures an innocent one."""
_COMPARED: Final = ("torch", "cuda", "driver", "gpu", "cpu", "num_threads", "options")


@dataclass(slots=True)
class Book:
    """One region's part of a ledger, or that of a step's gap ops.

    `region` is what is known of it without times, `measured` the whole result. `stopped` are passes that are not to be
    run again, with the reason.
    """

    key: str
    ledger: Ledger
    region: RegionRecord | None = None
    measured: RegionRecord | None = None
    sides: dict[str, SideRow] = field(default_factory=dict)
    units: dict[tuple[UnitKind, str], UnitRow] = field(default_factory=dict)
    stopped: dict[str, str] = field(default_factory=dict)
    _compiled: dict[Phase, tuple[object, ...]] = field(default_factory=dict)

    def known(self, region: RegionRecord) -> None:
        """Say what the region consists of, before it is measured.

        Of a run that goes on, rows of kernels are forgotten where Inductor made other ones this time.

        Raises:
            UsageError: it is not the graph that the run began with.
        """
        if self.region == region:
            return
        if self.region is not None:
            self._check_same(self.region, region)
        entry = KnownRegion(region=region)
        self.enter(entry)
        self.ledger.add(entry)

    def begin(self, kind: WorkKind, row: str) -> None:
        """Note that work begins."""
        self.ledger.add(Begun(region=self.key, kind=kind, row=row))

    def put(self, entry: UnitRow | SideRow | MeasuredRegion) -> None:
        """Note a result."""
        self.enter(entry)
        self.ledger.add(entry)

    def stop(self, row: str, reason: str) -> None:
        """Note that a pass came to an end that it would come to again."""
        entry = Failed(region=self.key, kind="pass", row=row, reason=reason)
        self.enter(entry)
        self.ledger.add(entry)

    def enter(self, entry: UnitRow | SideRow | MeasuredRegion | Failed | KnownRegion) -> None:
        """Take a result in, without writing it."""
        if isinstance(entry, UnitRow):
            self.units[entry.kind, entry.row] = entry
        elif isinstance(entry, SideRow):
            self.sides[entry.row] = entry
        elif isinstance(entry, MeasuredRegion):
            self.measured = entry.region
        elif isinstance(entry, KnownRegion):
            self._take(entry.region)
        elif entry.kind == "side":
            self.sides[entry.row] = SideRow(region=self.key, row=entry.row, side=Side(reason=entry.reason))
        elif entry.kind == "pass":
            self.stopped[entry.row] = entry.reason
        else:
            failed = Measurement(status="failed", reason=entry.reason)
            self.units[entry.kind, entry.row] = UnitRow(
                region=self.key, kind=entry.kind, row=entry.row, measurement=failed
            )

    def drop_orphans(self) -> None:
        """Forget rows that share the measurement of a row that has it no more.

        The line of that one was damaged, say; it may have been measured again since, or have failed then.
        """
        for (kind, row), unit in list(self.units.items()):
            shared = unit.measurement
            if shared.shared_with is not None:
                first = self.units.get((kind, shared.shared_with))
                if first is None or first.measurement.samples != shared.samples:
                    del self.units[kind, row]

    def _check_same(self, before: RegionRecord, region: RegionRecord) -> None:
        if _graph(before) != _graph(region):
            raise UsageError(
                f"{self.key} is not the graph that the run began with: the model, its inputs or its code have changed",
                hint="start a new run in another directory",
                subject=self.key,
            )

    def _take(self, region: RegionRecord) -> None:
        """A graph that is not compiled yet has no kernels, as a backward before it is first called: nothing differs."""
        compiled = _compiled_graphs(region)
        if any(self._compiled.get(phase, graph) != graph for phase, graph in compiled.items()):
            self._forget_kernels(region)
            self._compiled.clear()
        if self.region is None or not compiled.keys() < self._compiled.keys():
            self.region = region
        self._compiled.update(compiled)

    def _forget_kernels(self, region: RegionRecord) -> None:
        """Forget what was measured of kernels, and of the run as a whole."""
        nodes = {node.name for node in region.nodes}
        self.measured = None
        self.sides = {name: side for name, side in self.sides.items() if name.startswith("eager")}
        self.stopped = {name: reason for name, reason in self.stopped.items() if "kernels" not in name}
        self.units = {key: unit for key, unit in self.units.items() if key[1] in nodes}
        self.drop_orphans()


class Ledger:
    """Everything that one run has found so far.

    Args:
        journal: where entries are written; without one they are only kept.
        entries: what the journal held when the run went on.
    """

    def __init__(self, journal: Journal | None = None, entries: Iterable[Entry] = ()) -> None:
        self.books: dict[str, Book] = {}
        self.conditions: Conditions | None = None
        self.step: StepRecord | None = None
        self._journal: Journal | None = None
        for entry in entries:
            self._enter(entry)
        for book in self.books.values():
            book.drop_orphans()
        self.resumed_units = sum(len(book.units) + len(book.sides) for book in self.books.values())
        self._give_up(entries)
        self._journal = journal

    @property
    def journaled(self) -> bool:
        """Whether entries are written somewhere."""
        return self._journal is not None

    def book(self, region: str) -> Book:
        """The part of one region, or of `step`."""
        if region not in self.books:
            self.books[region] = Book(region, self)
        return self.books[region]

    def begin(self, conditions: Conditions) -> None:
        """Say what is measured and how.

        Raises:
            UsageError: a run that goes on began on another machine, or is measured in another way.
        """
        before = self.conditions
        if before is not None:
            _check_conditions(before, conditions)
        self.conditions = conditions
        self.add(conditions)

    def recorded(self, step: StepRecord) -> None:
        """Note the step that was recorded."""
        self._take_step(step)
        self.add(RecordedStep(step=step))

    def add(self, entry: Entry) -> None:
        """Write an entry, where there is a journal."""
        if self._journal is not None:
            self._journal.append(entry)

    def _enter(self, entry: Entry) -> None:
        if isinstance(entry, Conditions):
            self.conditions = entry
        elif isinstance(entry, RecordedStep):
            self._take_step(entry.step)
        elif isinstance(entry, (KnownRegion, MeasuredRegion)):
            self.book(entry.region.key).enter(entry)
        elif isinstance(entry, (UnitRow, SideRow, Failed)):
            self.book(entry.region).enter(entry)

    def _take_step(self, step: StepRecord) -> None:
        """A step may run otherwise each time: what was measured of ops whose row is another one's now is forgotten."""
        if self.step is not None:
            before, now = _gap_ops(self.step), _gap_ops(step)
            same = {name for name, op in now.items() if before.get(name) == op}
            book = self.book(STEP)
            book.units = {key: unit for key, unit in book.units.items() if key[1] in same}
            book.drop_orphans()
        self.step = step

    def _give_up(self, entries: Iterable[Entry]) -> None:
        """Fail units that were begun again and again and never came to an end."""
        for begun, tries in Counter(entry for entry in entries if isinstance(entry, Begun)).items():
            if begun.kind not in ("isolated", "backward"):
                continue
            book = self.book(begun.region)
            if tries >= MOST_TRIES and (begun.kind, begun.row) not in book.units:
                reason = f"the process ended {tries} times while it was measured"
                book.enter(Failed(region=begun.region, kind=begun.kind, row=begun.row, reason=reason))


def in_progress(entries: Iterable[Entry]) -> Begun | None:
    """The innermost work that was begun and has no result: what a process was at when it ended."""
    open_work: list[Begun] = []
    for entry in entries:
        if isinstance(entry, Begun):
            if entry.kind in ("pass", "side"):
                open_work.clear()
            open_work.append(entry)
        elif isinstance(entry, (UnitRow, SideRow, Failed)):
            kind = "side" if isinstance(entry, SideRow) else entry.kind
            open_work = [
                begun for begun in open_work if (begun.region, begun.kind, begun.row) != (entry.region, kind, entry.row)
            ]
        elif isinstance(entry, (MeasuredRegion, Conditions)):
            open_work.clear()
    return open_work[-1] if open_work else None


def _graph(region: RegionRecord) -> tuple[object, ...]:
    """What must be the same for a region's rows to be rows of the same thing."""
    inputs = tuple((entry.name, entry.source, entry.kind, entry.spec) for entry in region.inputs)
    return inputs, region.ambient, tuple(_call(node) for node in region.nodes)


def _call(node: NodeRecord) -> tuple[object, ...]:
    return node.name, node.op, node.op_type, node.inputs, node.arguments, node.module


def _compiled_graphs(region: RegionRecord) -> dict[Phase, tuple[object, ...]]:
    """What must be the same for rows of kernels to be rows of the same kernels, by phase; graphs that were compiled."""
    phases: tuple[Phase, ...] = ("forward", "backward")
    found: dict[Phase, tuple[object, ...]] = {}
    for phase in phases:
        kernels = tuple(
            (kernel.key, kernel.kind, kernel.executes) for kernel in region.kernels if kernel.phase == phase
        )
        ops = tuple((node.name, node.target) for node in region.post_grad if node.phase == phase)
        if kernels or ops:
            found[phase] = kernels, ops
    return found


def _gap_ops(step: StepRecord) -> dict[str, tuple[object, ...]]:
    return {
        row.name: (row.op_type, row.kind, row.phase, row.place, row.source, row.inputs, row.outputs)
        for row in step.rows
        if row.kernel is None
    }


def _check_conditions(before: Conditions, now: Conditions) -> None:
    """Refuse to mix numbers of two machines, or of two ways to measure."""
    differences = [
        f"{name} was {old!r} and is {new!r}"
        for name in _COMPARED
        if (old := getattr(before.environment, name)) != (new := getattr(now.environment, name))
    ]
    if before.policy != now.policy:
        differences.append("it is measured in another way")
    if differences:
        raise UsageError(
            f"the run cannot go on here: {'; '.join(differences)}", hint="start a new run in another directory"
        )

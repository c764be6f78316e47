"""The stage of the fault campaign: one small training region, measured by a scripted timer while faults are injected.

Every row costs what its name says, so that a wrong number is seen at once: whatever a fault does, each row is either
exactly what it is without the fault, or it says why not.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from graphbench import document
from graphbench.document import SCHEMA_VERSION
from graphbench.measurements import Measurement
from graphbench.measuring import whole
from graphbench.measuring.options import Timers
from graphbench.options import MeasureOptions
from graphbench.records import ProfileRecord
from graphbench.runs.entries import Started
from graphbench.runs.journal import Journal, read_journal
from graphbench.runs.ledger import Ledger
from graphbench.session import Session, current
from graphbench.timing.base import Recording
from graphbench.timing.base import Session as TimingSession
from graphbench.timing.fake import FakeTimer
from tests.cpu.stories import compiled

OPTIONS: dict[str, Any] = {"repeat": 3, "warmup": 0, "progress": False, "unit_timeout_s": 60.0}
STARTED = Started(schema_version=SCHEMA_VERSION, graphbench="test", command=("--model", "hf:gpt2"), folder="/")
ALONE = ("node", "backward", "post-grad", "kernel")
Rows = Mapping[tuple[str, str], Measurement]
Record = Callable[[Callable[[TimingSession], None]], Recording]


def cost_ns(row: str, sample: int, process: int = 0) -> float:
    """What a row costs: another amount for every name, sample and process that goes on with a run."""
    return 1000.0 + zlib.crc32(row.encode()) % 100_000 + sample + 7.0 * process


class ScriptedTimer(FakeTimer):
    """A `FakeTimer` whose sessions can be tampered with: `around(record, body)` makes the recording."""

    def __init__(
        self, around: Callable[[Record, Callable[[TimingSession], None]], Recording] | None = None, process: int = 0
    ) -> None:
        super().__init__(lambda row, sample: cost_ns(row, sample, process))
        self._around = around

    def record(self, body: Callable[[TimingSession], None], *, repeats: int = 3) -> Recording:
        record = super().record
        return record(body) if self._around is None else self._around(record, body)


@dataclass(slots=True)
class Stage:
    """A captured region and its profile without any fault, in a first process and in one that goes on."""

    net: nn.Module
    x: torch.Tensor
    session: Session
    timer: FakeTimer = field(default_factory=ScriptedTimer)
    expected: Rows = field(default_factory=dict)
    later: Rows = field(default_factory=dict)

    def measure(self, ledger: Ledger | None = None, *, process: int = 0, **options: Any) -> ProfileRecord:
        """Measure what was captured; the profile is proven whole."""
        with scripted(ScriptedTimer(process=process) if process else self.timer):
            record = whole.measure_session(self.session, MeasureOptions(**{**OPTIONS, **options}), ledger=ledger)
        document.check(record)
        return record

    def journaled(
        self, folder: Path, wrap: Callable[[Journal], Any] = lambda journal: journal, process: int = 0
    ) -> ProfileRecord:
        """Measure with a journal in a folder, and go on with what it holds."""
        journal = Journal.open(folder)
        try:
            if not journal.size:
                journal.append(STARTED)
            return self.measure(Ledger(wrap(journal), read_journal(folder).entries), process=process)
        finally:
            journal.close()

    def lost(self, record: ProfileRecord) -> list[str]:
        """Rows that are not there at all."""
        return [f"{name} is lost" for name in self.expected.keys() - rows_of(record).keys()]

    def wrong(self, record: ProfileRecord) -> list[str]:
        """Rows that hold another number than without a fault, or that of a row which is not its equal."""
        return [
            f"{name}: {measurement.samples}"
            for name, measurement in rows_of(record).items()
            if measurement.samples is not None
            and not (self._is_equal(name, measurement) and self._may_read(name, measurement))
        ]

    def _is_equal(self, name: tuple[str, str], measurement: Measurement) -> bool:
        """Whether a row is shared with one that is in the same group of equals without a fault."""
        first = measurement.shared_with
        return first is None or self._group(name[0], first) == self._group(*name)

    def _group(self, kind: str, row: str) -> str:
        return self.expected[kind, row].shared_with or row

    def _may_read(self, name: tuple[str, str], measurement: Measurement) -> bool:
        """Alone, the cost of whichever row was measured; in a run, what it is without a fault; in either process."""
        assert measurement.samples is not None
        if name[0] in ALONE:
            row, n = measurement.shared_with or name[1], OPTIONS["repeat"]
            costs = [tuple(cost_ns(row, sample, process) for sample in range(n)) for process in (0, 1)]
        else:
            costs = [found.samples.busy_ns for rows in (self.expected, self.later) if (found := rows[name]).samples]
        return measurement.samples.busy_ns in costs

    def missing(self, record: ProfileRecord) -> dict[tuple[str, str], str]:
        """Rows without a number that have one without the fault, with their reasons."""
        return {
            name: measurement.reason
            for name, measurement in rows_of(record).items()
            if measurement.status != "ok" and self.expected[name].status == "ok"
        }


def rows_of(record: ProfileRecord) -> dict[tuple[str, str], Measurement]:
    """Every measurement of the only region, by what it is and its row."""
    (region,) = record.regions
    found: dict[tuple[str, str], Measurement] = {}
    for node in region.nodes:
        found["node", node.name] = node.isolated
        found["in graph", node.name] = node.in_graph
        found["backward", node.name] = node.backward_isolated
        found["backward in graph", node.name] = node.backward_in_graph
    for op in region.post_grad:
        found["post-grad", f"{op.phase}:{op.name}"] = op.isolated
    for kernel in region.kernels:
        found["kernel", kernel.key] = kernel.isolated
        found["kernel in graph", kernel.key] = kernel.in_graph
    sides = {
        "eager": region.eager,
        "eager_backward": region.eager_backward,
        "forward": region.forward,
        "backward": region.backward,
    }
    found.update({("side", name): side.plain for name, side in sides.items()})
    return found


@contextmanager
def scripted(timer: FakeTimer) -> Iterator[None]:
    """Measure by a scripted timer while inside."""
    original = whole.timers_for
    whole.timers_for = lambda options, device: Timers(timer, timer)
    try:
        yield
    finally:
        whole.timers_for = original


def staged() -> Stage:
    """Compile and capture the region, and measure it once without a fault."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)  # restored in every replay: on a busy machine, threads wait for each other for long
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4), nn.Softmax(-1))
    x = torch.randn(6, 8, generator=torch.Generator().manual_seed(7))
    compiled(net)(x).square().sum().backward()
    torch.set_num_threads(n_threads)
    stage = Stage(net, x, current())
    stage.expected, stage.later = rows_of(stage.measure()), rows_of(stage.measure(process=1))
    return stage


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one injection. `named`: how the fault was told."""

    kind: str
    subject: str
    named: str
    lost: int = 0
    wrong: int = 0


OUTCOMES: list[Outcome] = []
"""Of this test session, for the table that is printed when it ends."""


def table(outcomes: Sequence[Outcome]) -> list[str]:
    """One line per kind of fault."""
    lines = [f"{'fault':<44} {'injected':>8} {'named':>6} {'rows lost':>10} {'wrong':>6}"]
    for kind in dict.fromkeys(outcome.kind for outcome in outcomes):
        of_kind = [outcome for outcome in outcomes if outcome.kind == kind]
        lines.append(_line(kind, of_kind))
    return [*lines, _line("all", outcomes)]


def _line(kind: str, outcomes: Sequence[Outcome]) -> str:
    named = sum(bool(outcome.named) for outcome in outcomes)
    lost, wrong = sum(outcome.lost for outcome in outcomes), sum(outcome.wrong for outcome in outcomes)
    return f"{kind:<44} {len(outcomes):>8} {named:>6} {lost:>10} {wrong:>6}"

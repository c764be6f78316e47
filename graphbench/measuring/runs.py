"""Whole runs of a region: uninstrumented as one unit, and labelled row by row in real execution order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from graphbench.analysis.graph_replays import moved_rows
from graphbench.analysis.stats import quantile
from graphbench.condition_records import Policy
from graphbench.device_records import REPLAY_MOVED
from graphbench.errors import AttributionError, GraphbenchError, TimingError, raised_by
from graphbench.measurements import NOT_MEASURED, Measurement, ValuePolicy
from graphbench.measuring.options import Timers
from graphbench.records import Side, UncapturedRun
from graphbench.runs.entries import SideRow
from graphbench.tensors import device_allocations
from graphbench.timing import loop
from graphbench.timing.base import Recording, Session, SplitsReplays
from graphbench.timing.host import host_times
from graphbench.units import format_duration

MOST_RUNS = 50
WALL_WARMUPS = 3


@dataclass(slots=True)
class WholeRun:
    """A `timing.loop.Unit` over a whole run: `setup` makes fresh arguments, `body` runs on what it returned.

    `instrumented` is entered around the labelled runs, for what must be in place while labels are taken. A run that
    `replays_graphs` is labelled without CUDA graphs; its replays are then split over the same rows, of which those
    `outside` are in no graph. Inside of `uncaptured` it runs without. Where the `setup` of a backward runs its forward,
    it `follows_forward`.
    """

    name: str
    device: str
    setup: Callable[[], Any]
    body: Callable[[Any], Any]
    instrumented: Callable[[], AbstractContextManager[None]] = nullcontext
    replays_graphs: bool = False
    uncaptured: Callable[[], AbstractContextManager[None]] = nullcontext
    outside: frozenset[str] = frozenset()
    may_launch_nothing: bool = True
    needs_restore: bool = True
    values: ValuePolicy = "captured"
    follows_forward: bool = False
    _ready: Any = None

    def prepare(self) -> None:
        """Make the next run's arguments.

        Raises:
            CaptureError: the model's own code raised.
        """
        with replaying(self.name):
            self._ready = self.setup()

    def run(self) -> object:
        """Run once.

        Raises:
            CaptureError: the model's own code raised.
        """
        ready, self._ready = self._ready, None
        with replaying(self.name):
            return self.body(ready)

    def allocations(self) -> int | None:
        """Device allocations so far."""
        return device_allocations(torch.device(self.device))


def replaying(subject: str) -> AbstractContextManager[None]:
    """Say of whatever a replay raises where it happened: one side's failure must not end the others.

    Raises:
        CaptureError: anything but graphbench's own errors and interrupts was raised inside.
    """
    return raised_by(f"{subject}: its replay", hint="were its inputs changed since it was captured?", subject=subject)


class Label:
    """The label of the run in progress; rows go unlabelled while no session is open."""

    def __init__(self) -> None:
        self.session: Session | None = None
        self.sample = 0

    def call(self, row: str, function: Callable[[], Any]) -> Any:
        """Make a call under a row's label."""
        if self.session is None:
            return function()
        with self.session.label(row, self.sample):
            return function()


@dataclass(frozen=True, slots=True)
class MeasuredSide:
    """A side's totals, and by row the in-graph time and how often it ran per run."""

    side: Side
    rows: Mapping[str, Measurement] = field(default_factory=dict)
    calls: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def recalled(cls, row: SideRow) -> MeasuredSide:
        """A side as an earlier process found it."""
        return cls(row.side, dict(row.rows), dict(row.calls))

    @classmethod
    def failed(cls, side: Side, reason: str) -> MeasuredSide:
        """A side that could not be measured."""
        return cls(replace(side, reason=reason, plain=Measurement(status="failed", reason=reason)))


def undisturbed(run: WholeRun, timers: Timers, policy: Policy) -> Side:
    """Wall and host times of a run before any instrument is opened: CUPTI, once used, slows the launches that follow.

    Returns:
        A side with `wall_ns` and `host_ns`, and with those of the run `uncaptured` where it replays CUDA graphs; or
        with the reason why the run failed.
    """
    try:
        host_ns, wall_ns = _undisturbed(run, timers, policy)
    except GraphbenchError as error:
        return Side(reason=error.message)
    side = Side(wall_ns=wall_ns, host_ns=host_ns)
    if not run.replays_graphs:
        return side
    try:
        with run.uncaptured():
            host_ns, wall_ns = _undisturbed(run, timers, policy)
        _undisturbed(run, timers, replace(policy, repeat=1))  # what follows finds the graphs in use again
    except GraphbenchError as error:
        return replace(side, uncaptured=_failed(error))
    return replace(side, uncaptured=UncapturedRun(wall_ns=wall_ns, host_ns=host_ns))


def _undisturbed(run: WholeRun, timers: Timers, policy: Policy) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Host and wall times of a run that is warm."""
    host_times(timers.running, run, WALL_WARMUPS)
    _, (typical_ns,) = host_times(timers.running, run, 1)
    return host_times(timers.running, run, policy.repeat or _budgeted(typical_ns, policy))


def _failed(error: GraphbenchError) -> UncapturedRun:
    return UncapturedRun(plain=Measurement(status="failed", reason=error.message))


def _without_graphs(side: Side, run: WholeRun, timers: Timers, policy: Policy) -> Side:
    """A side whose `uncaptured` run has been timed as a whole, in the state in which its replays were."""
    if side.uncaptured is None or not side.uncaptured.wall_ns:
        return side
    try:
        with run.uncaptured():
            plain = loop.measure(timers.running, run, policy, values=run.values, whole=True, clocks=timers.clocks)
    except GraphbenchError as error:
        return replace(side, uncaptured=_failed(error))
    return replace(side, uncaptured=replace(side.uncaptured, plain=plain))


def measure_side(
    side: Side,
    run: WholeRun,
    label: Label,
    rows: Callable[[], list[str]],
    timers: Timers,
    policy: Policy,
    notes: list[str],
) -> MeasuredSide:
    """Time a run as a whole, then again with every row labelled.

    Args:
        side: what `undisturbed` found; a failed one is passed on.
        run: the run; while it runs it sends its calls through `label`.
        label: shared with the run.
        rows: the rows that it labels, asked for afterwards.
        timers: instruments; whole runs find the caches as the run before left them.
        policy: budgets.
        notes: extended by what the instrument notes, and by why CUDA-graph replays could not be split.

    Returns:
        The side's totals, its rows' in-graph measurements and calls. When something fails, a side that says why.
    """
    if side.reason:
        return MeasuredSide.failed(side, side.reason)
    try:
        plain = loop.measure(timers.running, run, policy, values=run.values, whole=True, clocks=timers.clocks)
    except GraphbenchError as error:
        return MeasuredSide.failed(side, error.message)
    side = _without_graphs(side, run, timers, policy)
    n_runs = policy.repeat or _budgeted(quantile(side.wall_ns, 0.5), policy)

    def body(session: Session) -> None:
        for sample in range(n_runs):
            with session.preparation():
                run.prepare()
            label.session, label.sample = session, sample
            try:
                with session.window(sample):
                    result = run.run()
            finally:
                label.session = None
            del result

    try:
        with run.instrumented():
            recording = timers.running.record(body)
        nodes = None
        if run.replays_graphs:
            labelled = recording
            recording, nodes = _replayed(run, labelled, n_runs, timers, notes)
        notes += [note for note in recording.notes if note not in notes]
        totals = loop.run_record(recording, n_runs)
        found = _in_graph(recording, rows(), n_runs, run, timers)
        if nodes is not None:
            notes += _moved(run, _in_graph(labelled, rows(), n_runs, run, timers), found)
    except GraphbenchError as error:
        return MeasuredSide(replace(side, reason=error.message, plain=plain))
    calls = {row: samples[0].calls for row, samples in recording.rows.items() if 0 in samples}
    return MeasuredSide(replace(side, run=totals, plain=plain, graph_nodes=nodes), found, calls)


def _in_graph(
    recording: Recording, rows: list[str], n_runs: int, run: WholeRun, timers: Timers
) -> dict[str, Measurement]:
    timer = timers.running
    return loop.in_graph(recording, rows, n_runs, timer=timer.name, cache=timer.cache, values=run.values)


def _moved(run: WholeRun, without: Mapping[str, Measurement], replayed: Mapping[str, Measurement]) -> list[str]:
    """A note that names the rows which make the kernels of replays take another time, where they do."""
    rows = moved_rows(without, replayed)
    told = [
        f"{row.row} {format_duration(row.without_ns)} one by one, {format_duration(row.replayed_ns)} replayed"
        for row in rows
    ]
    return [f"{REPLAY_MOVED}: {run.name}: {', '.join(told)}"] if rows else []


def _replayed(
    run: WholeRun, labelled: Recording, n_runs: int, timers: Timers, notes: list[str]
) -> tuple[Recording, int | None]:
    """The run's CUDA-graph replays, split over the rows of a labelled run, and how many nodes each has.

    When they cannot be split, the labelled run serves, and a note says why.
    """
    order = tuple(work._replace(in_graph=work.row not in run.outside) for work in labelled.order)

    def body(session: Session) -> None:
        if not isinstance(session, SplitsReplays):
            raise AttributionError(f"the timer {timers.running.name} does not see the nodes of CUDA graphs")
        for sample in range(n_runs):
            with session.preparation():
                run.prepare()
            with session.window(sample), session.replay(sample, order):
                result = run.run()
            del result

    try:
        return timers.running.record(body), sum(work.in_graph for work in order)
    except TimingError as error:
        notes.append(f"{run.name}: in-graph times are of runs without CUDA graphs, since {error.message}")
        return labelled, None


def _budgeted(typical_ns: float, policy: Policy) -> int:
    """Runs within the measuring budget."""
    return int(max(policy.min_samples, min(MOST_RUNS, policy.measure_ms * 1e6 / max(typical_ns, 1.0))))


def unmeasured(reason: str) -> Measurement:
    """A skipped measurement, for rows of a side that did not run."""
    return Measurement(status="skipped", reason=reason) if reason else NOT_MEASURED

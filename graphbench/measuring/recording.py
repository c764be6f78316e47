"""Records a live step: kernels of compiled graphs and the eager ops around them, each under its label."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from graphbench.capture import source_lines
from graphbench.capture.gaps import Depth, GapMode, foreign_modes, in_other_threads, modes_put_back, paused
from graphbench.capture.launchers import launches_heard
from graphbench.capture.user_phases import PhaseClock, phases_heard
from graphbench.collector import collector_paused
from graphbench.inductor import wrapper as wrappers
from graphbench.inductor.compile import CompiledGraph
from graphbench.inductor.sites import Site
from graphbench.isolate.held import Holder
from graphbench.measurements import NOT_MEASURED, Measurement
from graphbench.measuring.gap_ops import GapOp, GapOps, parts_of
from graphbench.measuring.places import Places
from graphbench.put_back import all_put_back
from graphbench.records import Phase
from graphbench.regions import Region
from graphbench.session import Session
from graphbench.step_records import FOREIGN_GRAPHS, TIMELINE_KINDS, StepPhase, StepRecord, StepRow, Timeline
from graphbench.tensors import tensors_of
from graphbench.timing import loop
from graphbench.timing.base import Recording, Timer
from graphbench.timing.base import Session as TimingSession

STILL_COMPILED = "the recorded step compiled something, so it is no ordinary step: use more warmup_steps"
OTHERS_COMPILED = (
    FOREIGN_GRAPHS + " {count}x, made by another backend: on the CPU only those of their kernels that torch's "
    'dispatcher sees are rows; compile with backend="graphbench" to see them all'
)


class Recorder:
    """Labels everything that runs inside `recording()`, which is entered once.

    Args:
        session: whose regions are labelled, as they are when recording starts.
        timer: the instrument.
        device: what the step runs on.
        budget_bytes: what the gap ops' arguments, held until they are isolated, may keep alive.
    """

    def __init__(self, session: Session, timer: Timer, device: torch.device, budget_bytes: int) -> None:
        self.gaps = GapOps(Holder(budget_bytes), device)
        self.places = Places()
        self.reached: set[str] = set()
        self._session = session
        self._timer = timer
        self._labels: TimingSession | None = None
        self._inside = Depth()
        self._runs: dict[tuple[str, StepPhase, str, int], _GraphRun] = {}
        self._phases: PhaseClock | None = None
        self._foreign: set[str] = set()
        self._called: list[Any] = []
        self._others_called = 0
        self._thread = _Thread()
        self._finished: Recording | None = None
        self.still_compiled = False

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """While inside, record. An exception passes through, and leaves nothing recorded and everything put back.

        Raises:
            TimingError: what was recorded cannot be believed.
        """
        calls = {region.key: region.calls for region in self._session.regions}
        compiles = compile_count(self._session)
        with contextlib.ExitStack() as stack:
            stack.enter_context(all_put_back())
            stack.enter_context(self._session.in_use("record"))
            stack.enter_context(modes_put_back())
            self._instrument(stack)
            opened = stack.enter_context(self._timer.open(timeline=True))
            self._phases = stack.enter_context(phases_heard())
            self._foreign = stack.enter_context(foreign_modes())
            stack.enter_context(launches_heard(self._on_launch))
            stack.enter_context(wrappers.all_calls(self._called.append))
            stack.enter_context(in_other_threads(self._in_thread))
            with collector_paused(), opened.session.window(0), self._in_thread() as mode, mode, modes_put_back():
                self._labels = opened.session
                self.gaps.skip_numbers()
                try:
                    yield
                finally:
                    self._labels = None
                    self.gaps.let_go()
        self._finished = opened.recording()
        known = {id(graph.artifact) for region in self._session.regions for graph in region.graphs}
        self._others_called = sum(id(artifact) not in known for artifact in self._called)
        self._called.clear()
        self.still_compiled = compile_count(self._session) != compiles
        self.reached = {region.key for region in self._session.regions if region.calls > calls.get(region.key, 0)}

    @contextlib.contextmanager
    def rehearsal(self) -> Iterator[None]:
        """While inside, do all that recording does but record: what runs a first time takes several times as long.

        Rows that are found stay, without calls and arguments.
        """
        with contextlib.ExitStack() as stack:
            stack.enter_context(all_put_back())
            stack.enter_context(self._session.in_use("record"))
            stack.enter_context(modes_put_back())
            self._instrument(stack)
            self._phases = stack.enter_context(phases_heard())
            stack.enter_context(launches_heard(self._on_launch))
            stack.enter_context(in_other_threads(self._in_thread))
            with self._in_thread() as mode, mode, modes_put_back():
                self._labels = _NoLabels()
                try:
                    yield
                finally:
                    self._labels = None
                    self.gaps.let_go()
        self.gaps.forget_calls()
        self.places = Places()
        for run in self._runs.values():
            run.calls = [0] * len(run.calls)

    @contextlib.contextmanager
    def _in_thread(self) -> Iterator[GapMode]:
        """What the calling thread, one of the user's, does is recorded under the mode returned."""
        with self.places.thread():
            yield GapMode(self._inside, self._on_op)

    def step(self, walls_ns: Sequence[float], isolated: Mapping[str, Measurement] | None = None) -> StepRecord:
        """What was recorded.

        Args:
            walls_ns: wall times of the same step uninstrumented.
            isolated: measurements of gap ops alone, by row.
        """
        assert self._finished is not None
        assert self._phases is not None
        rows = self._rows(self._finished, isolated or {})
        return StepRecord(
            run=loop.run_record(self._finished, 1),
            rows=rows,
            places=self.places.records(),
            user_phases=self._phases.phases(),
            timeline=_timeline(self._finished, [row.name for row in rows]),
            plain_wall_ns=tuple(map(float, walls_ns)),
            compiled=bool(self.reached or self._others_called),
            notes=tuple(self._notes()),
        )

    def _instrument(self, stack: contextlib.ExitStack) -> None:
        """Labels in every compiled graph of the session, and a guard that tells their own calls from gap ops."""
        for region in self._session.regions:
            for graph in region.graphs if not region.shapes_of else ():  # groups of sizes share their graphs
                if graph.artifact is not None:
                    wrapper = wrappers.prepare(graph)
                    stack.enter_context(wrappers.labelled(wrapper, self._on_kernel))
                    stack.enter_context(self._guarded(region, graph, wrapper.sites))

    def _guarded(
        self, region: Region, graph: CompiledGraph, sites: Sequence[Site]
    ) -> contextlib.AbstractContextManager[None]:
        thread = self._thread

        @contextlib.contextmanager
        def call(args: list[Any]) -> Iterator[None]:
            group = region.group_running(graph, args)
            place = place_of(group, graph)
            key = (place, _phase_of_call(group), self._user_phase(), threading.get_ident())
            run = self._runs.get(key)
            if run is None:
                run = self._runs[key] = _GraphRun(group.key, graph.phase, sites, *key[:3])
            around, thread.run = thread.run, run
            try:
                with paused(), self.places.graph(place), self._inside.inside():
                    yield
            finally:
                thread.run = around
            self.gaps.skip_numbers()

        return wrappers.around_calls(graph, call)

    def _on_kernel(
        self, site: Site, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        # What this costs is paid before every kernel of a live step.
        labels, run = self._labels, self._thread.run
        if labels is None or run is None or self._thread.in_gap_op:
            return function(*args, **kwargs)
        position = site.position - 1
        run.calls[position] += 1
        with labels.label(run.names[position], 0):
            return function(*args, **kwargs)

    def _on_op(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        labels = self._labels
        if labels is None:  # a thread that outlives the step
            return function(*args, **kwargs)
        op = self.gaps.find(function, args, kwargs, self.places.current, self._user_phase())
        result = self._labelled(labels, op, lambda: function(*args, **kwargs))
        if op.phase == "backward":
            self.gaps.made(result)
        if op.results is None:
            op.results = tuple(map(parts_of, tensors_of(result)))
        return result

    def _on_launch(self, name: str, call: Callable[[], Any]) -> Any:
        labels = self._labels
        if labels is None or self._inside.depth or self._thread.in_gap_op:
            return call()
        return self._labelled(labels, self.gaps.launch(name, self.places.current, self._user_phase()), call)

    def _labelled(self, labels: TimingSession, op: GapOp, call: Callable[[], Any]) -> Any:
        self._thread.in_gap_op = True
        try:
            with labels.label(op.name, 0):
                return call()
        finally:
            self._thread.in_gap_op = False

    def _user_phase(self) -> str:
        return self._phases.path() if self._phases is not None else ""

    def _rows(self, recording: Recording, isolated: Mapping[str, Measurement]) -> tuple[StepRow, ...]:
        kernels: dict[str, StepRow] = {}
        for run in self._runs.values():
            for row in run.rows():
                known = kernels.get(row.name)
                kernels[row.name] = row if known is None else replace(known, calls=known.calls + row.calls)
        gaps = [op for op in self.gaps.rows.values() if op.calls]
        names = [*kernels, *(op.name for op in gaps)]
        found = loop.in_graph(recording, names, 1, timer=self._timer.name, cache=self._timer.cache, values="captured")
        return (
            *(replace(row, in_graph=found[name]) for name, row in kernels.items()),
            *(op.row(found[op.name], isolated.get(op.name, NOT_MEASURED)) for op in gaps),
        )

    def _notes(self) -> Iterator[str]:
        """What makes the recorded step unlike an ordinary one."""
        if self.still_compiled:
            yield STILL_COMPILED
        if self._others_called:
            yield OTHERS_COMPILED.format(count=self._others_called)
        for region in self._session.regions:
            if region.backend and region.key in self.reached:
                yield f"{region.key} was compiled by {region.backend}, whose ops are gap ops here"
        for name in sorted(self._foreign):
            yield (
                f"the dispatch mode {name} was on: torch runs compiled code eagerly under it, unless its class "
                "declares ignore_compile_internals"
            )


@dataclass(frozen=True, slots=True)
class Recorded:
    """A step that was recorded, ready to be measured. `walls_ns`: of the same step uninstrumented."""

    recorder: Recorder
    device: torch.device
    walls_ns: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()

    def step(self, isolated: Mapping[str, Measurement] | None = None) -> StepRecord:
        """The step's record; `isolated` are measurements of its gap ops alone, by row."""
        found = self.recorder.step(self.walls_ns, isolated)
        return replace(found, notes=(*found.notes, *self.notes))


class _NoLabels:
    """A timer's session of which nothing is kept."""

    def label(self, row: str, sample: int) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def preparation(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def window(self, sample: int) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()


class _GraphRun:
    """The calls of one compiled graph in one thread and phase: names of its kernels' rows, and how often each ran."""

    __slots__ = ("_key", "_phases", "_region", "_sites", "calls", "names")

    def __init__(
        self, region: str, graph: Phase, sites: Sequence[Site], place: str, phase: StepPhase, user_phase: str
    ) -> None:
        self._region, self._sites = region, sites
        self._phases = (place, phase, user_phase)
        self._key = [f"{graph}/{site.name}:{site.position}" for site in sites]
        self.names = [f"{region}/{key}|{phase}|{user_phase}" for key in self._key]
        self.calls = [0] * len(sites)

    def rows(self) -> Iterator[StepRow]:
        """Kernels that ran."""
        place, phase, user_phase = self._phases
        for site, key, name, calls in zip(self._sites, self._key, self.names, self.calls, strict=True):
            if calls:
                yield StepRow(
                    name=name,
                    op_type=site.kind,
                    in_graph=NOT_MEASURED,
                    region=self._region,
                    kernel=key,
                    calls=calls,
                    phase=phase,
                    place=place,
                    user_phase=user_phase,
                )


class _Thread(threading.local):
    """What the calling thread is at."""

    run: _GraphRun | None = None
    in_gap_op = False


def place_of(region: Region, graph: CompiledGraph) -> str:
    """A compiled graph as a place of a step, `r0/forward`."""
    return f"{region.key}/{graph.phase}"


def compile_count(session: Session) -> tuple[int, int, int]:
    """What has been compiled so far: regions, their graphs (a backward compiles late), and Dynamo's own count."""
    regions = [region for region in session.regions if not region.shapes_of]
    graphs = sum(len(region.graphs) for region in regions)
    return len(regions), graphs, int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


def _phase_of_call(region: Region) -> StepPhase:
    """What a compiled graph that is called now belongs to. Around its call grad mode is off, whatever it was before."""
    grad_enabled = region.capture.ambient.grad_enabled if region.capture is not None else None
    if source_lines.of_caller(grad_enabled).optimizer:
        return "optimizer"
    return "backward" if torch._C._current_graph_task_id() != -1 else "forward"


def _timeline(recording: Recording, rows: Sequence[str]) -> Timeline:
    events = recording.timeline
    positions = {row: position for position, row in enumerate(rows)}
    names = {name: position for position, name in enumerate(dict.fromkeys(event.name for event in events))}
    kinds = {kind: position for position, kind in enumerate(TIMELINE_KINDS)}
    return Timeline(
        names=tuple(names),
        kinds=tuple(kinds[event.kind] for event in events),
        rows=tuple(-1 if event.row is None else positions.get(event.row, -1) for event in events),
        event_names=tuple(names[event.name] for event in events),
        starts_ns=tuple(float(event.start_ns) for event in events),
        durations_ns=tuple(float(event.duration_ns) for event in events),
        lanes=tuple(event.lane for event in events),
        devices=tuple(event.device for event in events),
    )

"""CUDA graphs where there is no CUDA device: asked for in vain, and said so; passing them by changes no result."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch

import graphbench
from graphbench.device_records import NO_GRAPHS
from graphbench.execution.replay import CapturedInput, Storages, shadow
from graphbench.inductor import cuda_graphs
from graphbench.inductor.wrapper import is_plain
from graphbench.measuring.options import Timers
from graphbench.measuring.runs import WholeRun, undisturbed
from graphbench.records import Policy
from graphbench.session import current
from graphbench.timing.wallclock import WallClock

ON_CPU = "its kernels run on cpu, and a CUDA graph holds work of a CUDA device only"


@dataclass
class Asked:
    """A training step whose mode asks for CUDA graphs, measured."""

    profile: graphbench.Profile
    outside: dict[str, str]
    passed_by: torch.Tensor
    expected: torch.Tensor


@pytest.fixture(scope="module")
def asked() -> Iterator[Asked]:
    graphbench.reset()
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Tanh())
    compiled = torch.compile(model, backend="graphbench", mode="reduce-overhead")
    x = torch.randn(4, 16)
    compiled(x).sum().backward()
    expected = compiled(x).detach()
    (region,) = current().regions
    graph = region.graph("forward")
    assert graph is not None
    with cuda_graphs.passed_by(graph):
        passed_by = compiled(x).detach()
    assert is_plain(graph)
    yield Asked(graphbench.measure(repeat=3, warmup=1, progress=False), dict(graph.outside), passed_by, expected)
    graphbench.reset()


def test_a_mode_that_asks_for_cuda_graphs_is_measured_without_them(asked: Asked) -> None:
    (region,) = asked.profile.record.regions
    assert [note for note in region.notes if note.startswith(NO_GRAPHS)] == [
        f"{NO_GRAPHS}: forward: {ON_CPU}",
        f"{NO_GRAPHS}: backward: {ON_CPU}",
    ]
    for side in (region.forward, region.backward):
        assert (side.reason, side.graph_nodes, side.uncaptured) == ("", None, None)
        assert side.run is not None


def test_the_report_says_first_that_the_mode_changed_nothing(asked: Asked) -> None:
    text = " ".join(str(asked.profile).split())
    said = f"warning: {NO_GRAPHS}: forward, backward: {ON_CPU}: asking for them changes nothing here"
    assert said in text
    assert text.index(said) < text.index("coverage: ")


def test_inductors_own_code_runs_where_its_graphs_are_passed_by(asked: Asked) -> None:
    assert torch.equal(asked.passed_by, asked.expected)


def test_copies_of_what_a_graph_writes_stay_where_they_are() -> None:
    kept: Storages = {}
    state = torch.arange(6.0)
    inputs = [CapturedInput(state, mutated=True), CapturedInput(state[2:], mutated=True)]
    first = shadow(inputs, kept)
    first[0].add_(1.0)
    second = shadow(inputs, kept)
    assert [copy.data_ptr() for copy in second] == [copy.data_ptr() for copy in first]
    assert torch.equal(second[0], state)
    assert torch.equal(state, torch.arange(6.0))
    assert second[1].untyped_storage().data_ptr() == second[0].untyped_storage().data_ptr()
    assert shadow(inputs)[0].data_ptr() not in {state.data_ptr(), second[0].data_ptr()}


def test_inductor_says_of_every_kernel_why_no_graph_can_hold_it(asked: Asked) -> None:
    assert asked.outside
    assert all("cpu" in why for why in asked.outside.values())


class Tracked:
    """A run that counts how often it was made, with its graphs and without."""

    def __init__(self, *, lost: bool = False) -> None:
        self.lost = lost
        self.without = False
        self.made = {False: 0, True: 0}

    @contextlib.contextmanager
    def uncaptured(self) -> Iterator[None]:
        self.without = True
        try:
            yield
        finally:
            self.without = False

    def body(self, _: object) -> None:
        self.made[self.without] += 1
        if self.without and self.lost:
            raise RuntimeError("no memory for it")


def whole(tracked: Tracked, *, replays: bool) -> WholeRun:
    run = WholeRun("r0 forward", "cpu", lambda: None, tracked.body, replays_graphs=replays)
    run.uncaptured = tracked.uncaptured
    return run


TIMERS = Timers(WallClock(), WallClock())
POLICY = Policy(timer="wallclock", cache="warm", values="captured", repeat=5)


def test_a_run_that_replays_graphs_is_timed_without_them_too_and_left_with_them() -> None:
    tracked = Tracked()
    side = undisturbed(whole(tracked, replays=True), TIMERS, POLICY)
    assert side.uncaptured is not None
    assert [len(times) for times in (side.wall_ns, side.uncaptured.wall_ns, side.uncaptured.host_ns)] == [5, 5, 5]
    assert tracked.made[True] >= 5
    assert not tracked.without


def test_a_run_without_graphs_is_timed_once() -> None:
    tracked = Tracked()
    assert undisturbed(whole(tracked, replays=False), TIMERS, POLICY).uncaptured is None
    assert tracked.made[True] == 0


def test_a_run_that_fails_without_its_graphs_keeps_the_times_with_them() -> None:
    tracked = Tracked(lost=True)
    side = undisturbed(whole(tracked, replays=True), TIMERS, POLICY)
    assert (side.reason, len(side.wall_ns)) == ("", 5)
    assert side.uncaptured is not None
    assert side.uncaptured.plain.status == "failed"
    assert "no memory for it" in side.uncaptured.plain.reason

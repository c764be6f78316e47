"""CUDA graphs as what they are: the same kernels, less host time; what is in no graph is said with its reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import graphbench
from graphbench.analysis.stats import quantile
from graphbench.device_records import NO_GRAPHS, OUTSIDE_GRAPHS
from graphbench.records import RegionRecord, Side
from tests.decode_step import decode_step

pytestmark = pytest.mark.gpu
QUICK: dict[str, Any] = {"repeat": 20, "warmup": 3, "progress": False}
SAME = 0.03
SHORT = 0.1  # of runs of few kernels, each of some microseconds
GRAPHS: dict[str, Any] = {"mode": "reduce-overhead"}


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    graphbench.reset()
    torch.manual_seed(0)
    yield
    graphbench.reset()
    torch.set_float32_matmul_precision("highest")


def measured(step: Callable[[], object], calls: int = 4) -> tuple[RegionRecord, ...]:
    """The regions of a step that has been called often enough for its graphs to be captured."""
    for _ in range(calls):
        step()
    record = graphbench.measure(**QUICK).record
    assert all(region.status == "ok" for region in record.regions), [region.reason for region in record.regions]
    return record.regions


def median(times_ns: tuple[float, ...] | None) -> float:
    assert times_ns
    return quantile(times_ns, 0.5)


def largest(regions: tuple[RegionRecord, ...]) -> RegionRecord:
    """The one of most kernels: releases of transformers differ in what breaks the graph."""
    return max(regions, key=lambda region: len(region.kernels))


def assert_replays_the_same_kernels(region: RegionRecord, phase: str = "forward", *, within: float = SAME) -> None:
    """The sum of the kernels under replay is that of the run without graphs."""
    side: Side = getattr(region, phase)
    assert side.reason == ""
    assert side.graph_nodes, region.notes
    assert side.run is not None
    assert side.run.unattributed == ()
    assert side.uncaptured is not None
    plain = side.uncaptured.plain.samples
    assert plain is not None, side.uncaptured.plain.reason
    rows = [kernel.in_graph.samples for kernel in region.kernels if kernel.phase == phase]
    replayed_ns = sum(median(row.busy_ns) for row in rows if row is not None)
    assert replayed_ns == pytest.approx(median(plain.busy_ns), rel=within)


def resnet() -> Callable[[], object]:
    torchvision = pytest.importorskip("torchvision")
    torch.set_float32_matmul_precision("high")
    compiled = torch.compile(torchvision.models.resnet50().cuda().eval(), backend="graphbench", **GRAPHS)
    image = torch.randn(16, 3, 224, 224, device="cuda")

    def step() -> object:
        with torch.no_grad():
            return compiled(image)

    return step


def test_the_kernels_of_a_resnet_take_the_same_time_under_replay() -> None:
    (region,) = measured(resnet())
    assert_replays_the_same_kernels(region)
    assert region.forward.uncaptured is not None
    assert median(region.forward.host_ns) < median(region.forward.uncaptured.host_ns)


def test_decoding_waits_for_the_host_until_its_graph_is_replayed() -> None:
    pytest.importorskip("transformers")
    default = largest(measured(decode_step(device="cuda", dtype=torch.bfloat16)))
    assert default.forward.plain.samples is not None
    device_ns, wall_ns = median(default.forward.plain.samples.busy_ns), median(default.forward.wall_ns)
    assert median(default.forward.host_ns) > device_ns  # host-bound
    assert default.forward.uncaptured is None
    graphbench.reset()

    region = largest(measured(decode_step(device="cuda", dtype=torch.bfloat16, **GRAPHS)))
    assert [note for note in region.notes if note.startswith(NO_GRAPHS)] == []
    assert_replays_the_same_kernels(region)
    side = region.forward
    assert median(side.wall_ns) < wall_ns
    assert side.uncaptured is not None
    assert median(side.host_ns) < median(side.uncaptured.host_ns)
    before, after = side.uncaptured.plain.samples, side.plain.samples
    assert before is not None
    assert after is not None
    gaps = [median(found.span_ns) - median(found.busy_ns) for found in (before, after)]
    assert gaps[1] < gaps[0]


def test_forward_and_backward_of_a_training_step_are_replayed() -> None:
    model = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.GELU()) for _ in range(4)))
    compiled = torch.compile(model.cuda(), backend="graphbench", **GRAPHS)
    x = torch.randn(4096, 512, device="cuda")

    def step() -> None:
        model.zero_grad(set_to_none=True)
        compiled(x).square().mean().backward()

    (region,) = measured(step)
    for phase in ("forward", "backward"):
        assert_replays_the_same_kernels(region, phase, within=SHORT)


def test_what_a_region_writes_stays_where_it_is_from_replay_to_replay() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.BatchNorm1d(512)).cuda()
    compiled = torch.compile(model, backend="graphbench", **GRAPHS)
    x = torch.randn(4096, 512, device="cuda")

    def step() -> None:
        model.zero_grad(set_to_none=True)
        compiled(x).sum().backward()

    before = None

    def called() -> None:
        nonlocal before
        step()
        before = {name: value.clone() for name, value in model.named_buffers()}

    (region,) = measured(called)
    assert_replays_the_same_kernels(region, within=SHORT)
    assert before is not None
    assert all(torch.equal(value, before[name]) for name, value in model.named_buffers())


def test_ops_of_the_cpu_stand_between_two_graphs() -> None:
    def with_a_pause(x: torch.Tensor) -> torch.Tensor:
        first = (x @ x).relu()
        return (first.cpu().sin().cuda() @ x).tanh()

    compiled = torch.compile(with_a_pause, backend="graphbench", **GRAPHS)
    x = torch.randn(1024, 1024, device="cuda") / 32
    (region,) = measured(lambda: compiled(x))
    told = [note for note in region.notes if note.startswith((OUTSIDE_GRAPHS, NO_GRAPHS))]
    assert len(told) == 1, region.notes
    if told[0].startswith(OUTSIDE_GRAPHS):
        side = region.forward
        assert side.graph_nodes, region.notes
        outside = [kernel for kernel in region.kernels if kernel.key in told[0]]
        assert outside
        nodes = [kernel.in_graph.samples for kernel in region.kernels if kernel not in outside]
        assert side.graph_nodes == sum(row.n_kernels[0] for row in nodes if row and row.n_kernels)


def test_sizes_that_are_skipped_are_said_to_be() -> None:
    options = {"mode": "reduce-overhead", "inductor": {"triton.cudagraph_skip_dynamic_graphs": True}}
    compiled = torch.compile(lambda x: (x @ x.T).relu(), backend="graphbench", dynamic=True, options=options)
    x = torch.randn(512, 256, device="cuda")
    region, *_ = measured(lambda: compiled(x))
    assert region.forward.graph_nodes is None
    assert region.forward.uncaptured is None
    assert [note for note in region.notes if note.startswith(NO_GRAPHS)], region.notes


def test_a_graph_that_writes_an_input_that_may_move_runs_without() -> None:
    def add_to(x: torch.Tensor, into: torch.Tensor) -> torch.Tensor:
        into.add_(x)
        return into.square()

    compiled = torch.compile(add_to, backend="graphbench", **GRAPHS)
    x, into = torch.randn(1024, 1024, device="cuda"), torch.zeros(1024, 1024, device="cuda")
    (region,) = measured(lambda: compiled(x, into))
    (note,) = [note for note in region.notes if note.startswith(NO_GRAPHS)]
    assert "writes inputs" in note or "mutated" in note
    assert region.forward.graph_nodes is None
    assert region.forward.run is not None, region.forward.reason
    assert region.forward.run.unattributed == ()

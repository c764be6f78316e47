"""Graphs that another backend compiled: nodes as ever, the compiled side as a whole, and said so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import fx, nn
from torch._dynamo.exc import BackendCompilerFailed
from torch.nn import functional

import graphbench
from graphbench.analysis.summary import summary
from graphbench.errors import UsageError
from graphbench.records import ProfileRecord, RegionRecord
from tests.cpu.stories import QUICK
from tests.live import busy_ns, prove_explained
from tests.suite.checks import faults

WIDTH = 16


class Net(nn.Module):
    """A view among its nodes, and one that no gradient goes through."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = x.detach() > 0
        return functional.gelu(self.linear(x)).view(-1) * mask.view(-1)


def train(inner: Any) -> None:
    model = torch.compile(Net(), backend="graphbench", options={"inner": inner})
    model(torch.randn(4, WIDTH)).sum().backward()


def measured() -> ProfileRecord:
    return graphbench.measure(**QUICK).record


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    graphbench.reset()
    yield
    graphbench.reset()


@pytest.fixture(scope="module", params=["aot_eager", "eager"])
def region(request: pytest.FixtureRequest) -> RegionRecord:
    """A training run compiled by another backend."""
    graphbench.reset()
    train(request.param)
    record = measured()
    assert faults(record, "inference") == []
    found: RegionRecord
    (found,) = record.regions
    assert found.backend == request.param
    return found


def test_every_node_is_timed_and_its_fate_is_inside(region: RegionRecord) -> None:
    compute = [node for node in region.nodes if node.kind == "compute"]
    assert {node.op_type for node in compute} == {"gt", "linear", "gelu", "mul"}
    assert {node.isolated.status for node in compute} == {"ok"}
    assert {node.fate.kind for node in compute} == {"opaque"}
    assert {node.fate.kernels for node in compute} == {(f"forward/{region.backend}:1",)}
    assert all(f"what {region.backend} made" in node.fate.note for node in compute)


def test_each_phase_is_one_row_that_explains_the_whole_run(region: RegionRecord) -> None:
    assert [(kernel.key, kernel.kind, kernel.calls) for kernel in region.kernels] == [
        (f"forward/{region.backend}:1", "opaque", 1),
        (f"backward/{region.backend}:1", "opaque", 1),
    ]
    for kernel, side in zip(region.kernels, (region.forward, region.backward), strict=True):
        assert side.run is not None
        assert kernel.in_graph.samples is not None
        assert kernel.isolated.reason == "it is the whole graph: its time is that of the run"
        for busy, wrapper, whole in zip(
            kernel.in_graph.samples.busy_ns, side.run.wrapper_ns or (), side.run.busy_ns, strict=True
        ):
            assert busy + wrapper == whole


def test_views_are_no_part_of_a_row_and_only_what_has_a_gradient_is_differentiated(region: RegionRecord) -> None:
    forward, backward = ({role.node for role in kernel.roles} for kernel in region.kernels)
    named = {node.name: node.op_type for node in region.nodes}
    assert {named[name] for name in forward} == {"gt", "linear", "gelu", "mul"}
    assert {named[name] for name in backward} == {"linear", "gelu", "mul"}


def test_the_results_are_compared(region: RegionRecord) -> None:
    assert region.outputs is not None
    assert region.outputs.equal is True


def test_inference_has_one_row_and_the_report_says_who_compiled() -> None:
    model = torch.compile(Net(), backend="graphbench", options={"inner": "aot_eager"})
    with torch.no_grad():
        model(torch.randn(4, WIDTH))
    profile = graphbench.measure(**QUICK)
    assert [kernel.key for kernel in profile.record.regions[0].kernels] == ["forward/aot_eager:1"]
    assert summary(profile.record).coverage.attributed == 1.0
    assert "compiled by aot_eager, not by Inductor" in str(profile).replace("\n  ", " ")


def test_a_function_is_a_backend_under_its_own_name() -> None:
    def mine(gm: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        return gm.forward

    train(mine)
    (found,) = measured().regions
    assert (found.backend, [kernel.key for kernel in found.kernels]) == (
        "mine",
        ["forward/mine:1", "backward/mine:1"],
    )


def test_inductor_by_name_is_the_ordinary_way() -> None:
    train("inductor")
    (found,) = measured().regions
    assert found.backend == ""
    assert {kernel.kind for kernel in found.kernels} >= {"extern", "cpp"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"inner": "aot_eagre"}, "unknown inner backend 'aot_eagre'"),
        ({"inner": "graphbench"}, "unknown inner backend 'graphbench'"),
        ({"inner": 3}, "must be a backend's name or function, found int"),
        ({"inner": "eager", "mode": "max-autotune"}, "mean nothing to the inner backend 'eager'"),
    ],
)
def test_what_cannot_be_meant_is_refused(options: dict[str, Any], message: str) -> None:
    model = torch.compile(Net(), backend="graphbench", options=options)
    with pytest.raises(BackendCompilerFailed) as caught:
        model(torch.randn(4, WIDTH))
    assert isinstance(caught.value.inner_exception, UsageError)
    assert message in caught.value.inner_exception.message


def test_a_backend_that_raises_shows_its_own_error() -> None:
    def broken(gm: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        raise ArithmeticError("it cannot")

    model = torch.compile(Net(), backend="graphbench", options={"inner": broken})
    with pytest.raises(BackendCompilerFailed, match="it cannot"):
        model(torch.randn(4, WIDTH))


def test_in_a_step_the_ops_of_another_backend_are_rows_of_their_own() -> None:
    model = torch.compile(Net(), backend="graphbench", options={"inner": "aot_eager"})
    x = torch.randn(4, WIDTH)

    def step() -> None:
        model(x).sum().backward()

    step()
    with graphbench.record() as recording:
        step()
    profile = recording.profile(**QUICK).record
    assert profile.step is not None
    prove_explained(profile.step)
    names = {(row.op_type, row.phase) for row in profile.step.rows}
    assert {("addmm", "forward"), ("gelu", "forward"), ("gelu_backward", "backward")} <= names
    assert busy_ns(profile.step.rows) > 0
    assert [region.status for region in profile.regions] == ["ok"]
    assert any("r0 was compiled by aot_eager" in note for note in profile.step.notes)

"""A region's eager backward: every op under the label of the node that it belongs to, and the sums conserved."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812 - the name that every PyTorch program gives it
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from graphbench.capture import ambient, graphs
from graphbench.condition_records import Policy
from graphbench.measurements import Measurement
from graphbench.measuring.eager import isolate_nodes, node_records
from graphbench.measuring.eager_backward import EagerBackward, with_backward
from graphbench.measuring.isolating import Isolator
from graphbench.measuring.options import Timers
from graphbench.measuring.runs import Label, WholeRun, measure_side, undisturbed
from graphbench.records import NodeRecord, RegionRecord, Side
from graphbench.regions import Region
from graphbench.timing.wallclock import WallClock
from tests.cpu.stories import Story, batch, dynamo_graphs, measured

Tensor = torch.Tensor
TIMERS = Timers(isolated=WallClock(), running=WallClock())
POLICY = Policy(timer="wallclock", cache="warm", values="captured", warmup=1, repeat=2)


class Log(TorchDispatchMode):
    """A session that only keeps its labels, and the ops that run under each."""

    def __init__(self) -> None:
        super().__init__()
        self.labels: list[str] = []
        self.ops: list[tuple[str, str]] = []
        self._open = ""

    @contextlib.contextmanager
    def label(self, row: str, sample: int) -> Iterator[None]:
        assert not self._open, "labels must not nest"
        self._open = row
        self.labels.append(row)
        try:
            yield
        finally:
            self._open = ""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.ops.append((self._open, func.overloadpacket.__name__))
        return func(*args, **(kwargs or {}))

    def of(self, row: str) -> list[str]:
        return [op for owner, op in self.ops if owner == row and op != "detach"]


def wants(*shape: int) -> Tensor:
    return torch.randn(shape, requires_grad=True)


def region_of(fn: Callable[..., Any], *args: Any) -> Region:
    """A region as the session keeps it, but that nothing was compiled."""
    ((gm, values),) = dynamo_graphs(fn, *args)
    region = Region("r0", "0/0", gm, graphs.node_records(gm), None, "", compiled=gm)
    region.record_call(values, lambda _: 1 << 30)
    return region


def run_once(run: WholeRun, label: Label, *, hooked: bool = True) -> Log:
    log: Any = Log()
    with ambient.rng_untouched(), run.instrumented() if hooked else contextlib.nullcontext():
        run.prepare()
        label.session = log
        with log:
            run.run()
    return log  # type: ignore[no-any-return]


def logged(fn: Callable[..., Any], *args: Any) -> Log:
    """One labelled backward of a function."""
    label = Label()
    return run_once(EagerBackward(region_of(fn, *args), label).whole_run(), label)


def eager_measured(fn: Callable[..., Any], *args: Any) -> tuple[Side, dict[str, NodeRecord]]:
    """The side and the nodes of a function's eager backward, isolated and in-graph."""
    region, label = region_of(fn, *args), Label()
    backward = EagerBackward(region, label)
    run = backward.whole_run()
    with ambient.rng_untouched():
        side = undisturbed(run, TIMERS, POLICY)
        measured = measure_side(side, run, label, backward.rows, TIMERS, POLICY, [])
        found = isolate_nodes(region, Isolator(torch.device("cpu"), TIMERS, POLICY), (), lambda: None)
    nodes = with_backward(node_records(region, found, {}, ""), measured.rows, measured.side.reason)
    return measured.side, {node.name: node for node in nodes}


def rest_ns(side: Side, rows: list[Measurement]) -> list[float]:
    """Per sample: wall time less rows less wrapper; nothing when time is conserved."""
    assert side.run is not None
    assert side.run.wrapper_ns is not None
    sums = [sum(column) for column in zip(*(row.samples.busy_ns for row in rows if row.samples), strict=True)]
    return [wall - row - rest for wall, row, rest in zip(side.run.wall_ns, sums, side.run.wrapper_ns, strict=True)]


# which node an op of the backward belongs to


def one_weight_twice(x: Tensor, weight: Tensor) -> Tensor:
    first = F.linear(x, weight)
    relu = first.relu()
    return F.linear(relu, weight)


def test_nodes_are_labelled_from_the_last_to_the_first() -> None:
    log = logged(one_weight_twice, wants(2, 4), wants(4, 4))
    assert list(dict.fromkeys(log.labels)) == ["linear_1", "relu", "first"]


def test_adding_up_a_shared_parameters_gradient_belongs_to_the_node_that_brings_the_last_part() -> None:
    log = logged(one_weight_twice, wants(2, 4), wants(4, 4))
    assert [row for row, op in log.ops if op == "add"] == ["first"]
    assert log.of("relu") == ["threshold_backward"]


def test_no_op_is_without_a_label() -> None:
    log = logged(one_weight_twice, wants(2, 4), wants(4, 4))
    assert [op for row, op in log.ops if not row] == []


def test_reducing_a_broadcast_gradient_belongs_to_the_node_that_broadcast() -> None:
    log = logged(lambda x, b: (x + b).sin(), wants(3, 4), wants(4))
    assert log.of("add") == ["sum", "view"]
    assert log.of("sin") == ["cos", "mul"]


def written_in_place(x: Tensor) -> Tensor:
    y = x.sin()
    y.mul_(3)
    return y.relu_().cos()


def test_what_is_written_in_place_has_a_backward_of_its_own() -> None:
    log = logged(written_in_place, wants(4))
    assert log.labels == ["cos", "relu_", "mul_", "y"]
    assert (log.of("relu_"), log.of("mul_")) == (["threshold_backward"], ["mul"])


def written_by_index(x: Tensor, value: Tensor) -> Tensor:
    y = x.sin()
    y[1] = value
    return y.exp()


def test_a_written_index_without_a_result_has_a_backward_of_its_own() -> None:
    log = logged(written_by_index, wants(3), wants())
    assert list(dict.fromkeys(log.labels)) == ["exp", "setitem", "y"]
    assert "cos" not in log.of("setitem")
    assert log.of("y") == ["cos", "mul"]


def view_made_stale(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x.sin()
    view = y[0]
    returned = y[1]
    y.mul_(2)
    return view.exp(), returned


def test_a_view_whose_base_was_written_since_stays_with_the_node_that_made_it() -> None:
    log = logged(view_made_stale, wants(2, 3))
    assert set(log.labels) == {"exp", "view", "returned", "mul_", "y"}
    assert log.of("exp") == ["mul"]
    assert "as_strided" in log.of("view")
    assert "as_strided" in log.of("returned")
    assert log.of("mul_")[:1] == ["mul"]


def input_written(x: Tensor) -> Tensor:
    x.mul_(2)
    return x.sin()


def test_the_backward_reaches_through_an_input_that_the_region_writes() -> None:
    assert logged(input_written, wants(3) * 1).labels == ["sin", "mul_"]


def partly_without_grad(x: Tensor) -> Tensor:
    y = x.sin()
    with torch.no_grad():
        z = y.cos()
    return y * z


def test_a_node_under_no_grad_has_no_backward() -> None:
    _, nodes = eager_measured(partly_without_grad, wants(4))
    z = nodes["z"]
    assert (z.backward_isolated.status, z.backward_isolated.reason) == ("skipped", "none of its results requires grad")
    assert (z.backward_in_graph.status, z.backward_in_graph.reason) == ("skipped", "none of its results requires grad")
    assert nodes["y"].backward_in_graph.status == nodes["y"].backward_isolated.status == "ok"


def test_a_result_returned_twice_gets_one_tangent() -> None:
    log = logged(lambda x: [x.sin()] * 2, wants(3))
    assert [op for _, op in log.ops] == ["cos", "mul"]


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * gradient


def own_function(x: Tensor) -> Tensor:
    y: Tensor = Square.apply(x)  # type: ignore[no-untyped-call]
    return y + 1


def checkpointed(x: Tensor) -> Tensor:
    y: Tensor = checkpoint(lambda v: F.dropout(torch.tanh(v), 0.5), x, use_reentrant=False)
    return y.sigmoid()


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v)


HARD: list[Any] = [
    pytest.param(own_function, lambda: (wants(4, 4),), "autograd_function_apply", id="Function"),
    pytest.param(checkpointed, lambda: (wants(4, 4),), "tag_activation_checkpoint", id="checkpoint"),
    pytest.param(attention, lambda: (wants(1, 2, 4, 8),) * 3, "scaled_dot_product_attention", id="attention"),
    pytest.param(lambda x: F.layer_norm(x, (8,)), lambda: (wants(4, 8),), "layer_norm", id="layer_norm"),
    pytest.param(
        lambda i, w: F.embedding(i, w) * 2, lambda: (torch.arange(3), wants(4, 8)), "embedding", id="embedding"
    ),
    pytest.param(lambda x: F.dropout(x, 0.5) + 1, lambda: (wants(8),), "dropout", id="dropout"),
    pytest.param(lambda x: x.expand(4, 8) * 2, lambda: (wants(1, 8),), "expand", id="expand"),
    pytest.param(lambda x: torch.fft.fft(x).abs(), lambda: (wants(8),), "fft_fft", id="complex"),
    pytest.param(written_in_place, lambda: (wants(4),), "mul_", id="in place"),
]


@pytest.mark.parametrize(("fn", "make", "op_type"), HARD)
def test_hard_nodes_have_both_backwards_and_time_is_conserved(
    fn: Callable[..., Any], make: Callable[[], tuple[Any, ...]], op_type: str
) -> None:
    side, nodes = eager_measured(fn, *make())
    node = next(entry for entry in nodes.values() if entry.op_type == op_type)
    assert (node.backward_isolated.status, node.backward_in_graph.status) == ("ok", "ok")
    assert rest_ns(side, [entry.backward_in_graph for entry in nodes.values()]) == [0, 0]


def test_what_a_checkpoint_computes_again_belongs_to_it() -> None:
    log = logged(checkpointed, wants(4, 4))
    # torch 2.11 computes nothing again when this op is called eagerly.
    assert {row for row, op in log.ops if op in ("tanh", "tanh_backward")} == {"tag_activation_checkpoint"}


# the run


def test_a_run_without_labels_has_no_hooks() -> None:
    label = Label()
    run = EagerBackward(region_of(one_weight_twice, wants(2, 4), wants(4, 4)), label).whole_run()
    assert run_once(run, label, hooked=False).labels == []
    assert run_once(run, label).labels != []
    assert run_once(run, label, hooked=False).labels == []


def test_gradients_are_those_of_the_graph() -> None:
    x, weight = wants(2, 4), wants(4, 4)
    run = EagerBackward(region_of(one_weight_twice, x, weight), Label()).whole_run()
    run.prepare()
    pending = run._ready
    found = run.run()
    right = torch.autograd.grad(one_weight_twice(x, weight), [x, weight], pending.tangents)
    assert isinstance(found, tuple)
    for gradient, expected in zip(found, sorted(right, key=lambda g: g.shape != found[0].shape), strict=True):
        torch.testing.assert_close(gradient, expected)
    assert x.grad is None


def without_autocast(x: Tensor, weight: Tensor) -> Tensor:
    with torch.autocast("cpu", enabled=False):
        return x @ weight


def test_a_region_called_under_autocast_runs_its_backward_without() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        log = logged(without_autocast, wants(4, 4), wants(4, 4))
        assert torch.is_autocast_enabled("cpu")
    assert log.of("matmul") == ["t", "mm", "t", "mm"]


class Stubborn(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        raise ValueError("no backward here")


@torch._dynamo.allow_in_graph
def stubborn(x: Tensor) -> Tensor:
    found: Tensor = Stubborn.apply(x)  # type: ignore[no-untyped-call]
    return found


def test_an_op_whose_backward_raises_fails_the_side_and_its_own_row_only() -> None:
    side, nodes = eager_measured(lambda x: stubborn(x.sin()), wants(4))
    assert side.reason == "r0 eager backward: its replay raised ValueError: no backward here"
    assert nodes["sin"].backward_in_graph.reason == side.reason
    assert nodes["sin"].backward_isolated.status == "ok"
    failed = next(node for node in nodes.values() if node.op_type == "stubborn")
    assert failed.isolated.status == "ok"
    assert (failed.backward_isolated.status, failed.backward_isolated.reason) == (
        "failed",
        "alone it raises ValueError: no backward here",
    )


# whole profiles


def region_record(story: Story) -> RegionRecord:
    (region,) = story.first.regions
    return region


@pytest.mark.parametrize("name", ["regularised_training", "transformer_training"])
def test_nodes_and_the_rest_are_the_eager_backwards_wall_time(name: str, request: pytest.FixtureRequest) -> None:
    region = region_record(request.getfixturevalue(name))
    assert region.eager_backward.reason == ""
    assert len(region.eager_backward.wall_ns) == 3
    assert rest_ns(region.eager_backward, [node.backward_in_graph for node in region.nodes]) == [0, 0, 0]


@pytest.mark.parametrize("name", ["regularised_training", "transformer_training"])
def test_every_node_whose_result_requires_grad_has_a_backward_alone(name: str, request: pytest.FixtureRequest) -> None:
    nodes = region_record(request.getfixturevalue(name)).nodes
    wanted = [node for node in nodes if node.kind != "state" and any(out.requires_grad for out in node.outputs)]
    assert len(wanted) >= 4
    assert {(node.backward_isolated.status, node.backward_isolated.values) for node in wanted} == {("ok", "synthetic")}
    others = [node for node in nodes if node not in wanted]
    assert {node.backward_isolated.status for node in others} <= {"skipped"}


def test_a_region_without_backward_says_so(regularised_inference: Story) -> None:
    region = region_record(regularised_inference)
    assert region.eager_backward == Side(reason="the region has no backward: none of its results requires grad")
    reasons = {node.backward_isolated.reason for node in region.nodes if node.kind != "state"}
    assert reasons == {"none of its results requires grad"}


def test_a_compiled_backward_reaches_through_an_input_that_the_region_writes() -> None:
    region = measured(input_written, batch().requires_grad_() * 1)
    kernels = [kernel for kernel in region.kernels if kernel.phase == "backward"]
    assert [(kernel.calls, kernel.in_graph.status) for kernel in kernels] == [(1, "ok")]

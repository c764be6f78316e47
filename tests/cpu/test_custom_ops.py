"""Ops that are not torch's own: benchmarked as they say themselves, repeated on copies, or left to be done by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch._library.opaque_object import get_opaque_type_name, register_opaque_type
from torch._opaque_base import OpaqueBase

import graphbench
from graphbench import Benchable, BenchInputs
from graphbench.analysis.by_hand import by_hand_ops
from graphbench.analysis.warning_kinds import OWN_BENCH
from graphbench.bench_protocol import BENCH
from graphbench.condition_records import Policy
from graphbench.isolate.custom_ops import bench_of, is_foreign, op_name, users_function
from graphbench.measurements import Measurement
from graphbench.measuring.calls import Call
from graphbench.measuring.isolating import Isolator
from graphbench.measuring.options import Timers
from graphbench.records import RegionRecord
from graphbench.timing.wallclock import WallClock
from tests.cpu.stories import batch, clean, dynamo_graphs, measured, node

CPU = torch.device("cpu")


class Handle:
    """What a library keeps about its buffers, outside of every argument: only registered ones may be used."""

    def __init__(self) -> None:
        self.known: set[int] = set()
        self.calls = 0

    def register(self, x: torch.Tensor) -> None:
        self.known.add(x.data_ptr())

    def double(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        if x.data_ptr() not in self.known:
            raise RuntimeError("this buffer was never registered")
        return x * 2


HANDLE = Handle()
DRAWN = [0]


class Queue(OpaqueBase):
    """An argument that is another one after every call."""

    def __init__(self) -> None:
        self.length = 0


@torch.library.custom_op("bytests::registered", mutates_args=())
def registered(x: torch.Tensor) -> torch.Tensor:
    return HANDLE.double(x)


@torch.library.custom_op("bytests::counting", mutates_args=())
def counting(x: torch.Tensor) -> torch.Tensor:
    DRAWN[0] += 1
    return x * DRAWN[0]


@torch.library.custom_op("bytests::scaled", mutates_args=())
def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
    return x * by


@torch.library.custom_op("bytests::scale_", mutates_args=("x",))
def scale_(x: torch.Tensor, by: float) -> None:
    x.mul_(by)


for _op in (registered, counting):
    _op.register_fake(torch.empty_like)
scaled.register_fake(lambda x, by: torch.empty_like(x))

register_opaque_type(Queue, typ="reference")
LIB = torch.library.Library("bytests", "FRAGMENT")
LIB.define(f"push({get_opaque_type_name(Queue)} queue, Tensor x) -> Tensor")


def _push(queue: Queue, x: torch.Tensor) -> torch.Tensor:
    queue.length += 1
    return x * queue.length


LIB.impl("push", _push, "CompositeExplicitAutograd")
torch.library.register_fake("bytests::push", lambda queue, x: torch.empty_like(x), lib=LIB)


def plain(x: torch.Tensor) -> torch.Tensor:
    return x * 3


class Doubled(torch.autograd.Function):
    """Dynamo leaves it whole where it may."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * 2


torch.compiler.allow_in_graph(plain)
torch._dynamo.allow_in_graph(Doubled)


@pytest.fixture
def isolator() -> Isolator:
    clock = WallClock()
    policy = Policy(timer="wallclock", cache="warm", values="captured", warmup=1, repeat=3, min_samples=3)
    return Isolator(CPU, Timers(isolated=clock, running=clock), policy)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Nothing known to the handle, nothing drawn, nothing captured."""
    HANDLE.known.clear()
    HANDLE.calls = DRAWN[0] = 0
    with clean():
        yield


def alone(isolator: Isolator, function: Any, *args: Any, row: str = "row") -> Measurement:
    """What is found of a call, which is then made."""
    call = Call(row, function, args, {}, identity=function)
    return isolator.isolate(call, lambda: function(*args))[1].measurement


def says(monkeypatch: pytest.MonkeyPatch, owner: Any, make: Callable[[BenchInputs], Any]) -> None:
    """Let an owner have a benchmark of its own, for this test."""
    monkeypatch.setattr(owner, BENCH, make, raising=False)


# who is asked


def on_copies(inputs: BenchInputs) -> Callable[[], object]:
    (x,) = inputs.args
    HANDLE.register(x)
    return lambda: registered(x)


OWNERS = {
    "the object that custom_op returns": registered,
    "the operator": torch.ops.bytests.registered,
    "its overload": torch.ops.bytests.registered.default,
    "the function below it": registered._init_fn,
}


@pytest.mark.parametrize("owner", OWNERS.values(), ids=OWNERS)
def test_an_operator_is_asked_however_it_is_known(owner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    overload = torch.ops.bytests.registered.default
    assert bench_of(overload, (batch(),), {}) is None
    says(monkeypatch, owner, on_copies)
    found = bench_of(overload, (batch(),), {})
    assert found is not None
    assert found.make is on_copies


def test_an_operator_without_overload_is_asked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    says(monkeypatch, registered, on_copies)
    assert bench_of(torch.ops.bytests.registered, (batch(),), {}) is not None


def targets(function: Callable[..., Any], *args: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """What Dynamo made of a function's one call: its target, and the arguments where they are values."""
    ((gm, values),) = dynamo_graphs(function, *args)
    seen: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []

    class Keeping(torch.fx.Interpreter):
        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            seen.append((target, args, kwargs))
            return super().call_function(target, args, kwargs)

    Keeping(gm).run(*values)
    return seen[0]


def test_a_function_that_dynamo_leaves_whole_is_asked_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    says(monkeypatch, plain, lambda inputs: lambda: plain(*inputs.args))
    found = bench_of(*targets(lambda x: plain(x), batch()))
    assert found is not None
    assert found.name == "plain"


def test_an_autograd_function_left_whole_is_asked_by_its_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Doubled, BENCH, staticmethod(lambda inputs: lambda: None), raising=False)
    found = bench_of(*targets(lambda x: Doubled.apply(x), batch()))
    assert found is not None
    assert found.name == "Doubled"


def tripled(x: torch.Tensor, *, times: int) -> torch.Tensor:
    return x * 3 * times


def test_a_nonstrict_function_is_asked_and_given_its_own_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    says(monkeypatch, tripled, lambda inputs: lambda: tripled(*inputs.args, **inputs.kwargs))
    whole = torch._dynamo.nonstrict_trace(tripled)
    x = batch()
    function, args, kwargs = targets(lambda x: whole(x, times=2), x)
    found = bench_of(function, args, kwargs)
    assert found is not None
    assert torch.equal(found.ready(args, kwargs)(), x * 6)  # type: ignore[arg-type]
    assert op_name(users_function(function, args, kwargs)) == "tripled"


class Kernel:
    """What stands for a user's Triton kernel in torch's table of such."""

    fn = None

    def __graphbench_bench__(self, inputs: BenchInputs) -> Callable[[], object]:
        return lambda: inputs


def test_a_triton_kernel_is_asked_and_given_its_arguments_and_grid() -> None:
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table, triton_kernel_wrapper_mutation

    x = batch()
    kwargs = {
        "kernel_idx": kernel_side_table.add_kernel(Kernel()),  # type: ignore[arg-type]
        "constant_args_idx": kernel_side_table.add_constant_args({"BLOCK": 64}),
        "grid": [(2, 1, 1)],
        "tma_descriptor_metadata": {},
        "kwargs": {"pointer": x},
    }
    found = bench_of(triton_kernel_wrapper_mutation, (), kwargs)
    assert found is not None
    inputs: Any = found.ready((), kwargs)()
    assert inputs.kwargs == {"BLOCK": 64, "pointer": x, "grid": [(2, 1, 1)]}
    assert is_foreign(triton_kernel_wrapper_mutation, ())


class Line(Queue):
    """A queue that knows how to be benchmarked."""

    def __graphbench_bench__(self, inputs: BenchInputs) -> Callable[[], object]:
        own = Line()
        return lambda: _push(own, inputs.args[1])


def test_an_object_among_the_arguments_is_asked() -> None:
    line = Line()
    found = bench_of(torch.ops.bytests.push.default, (line, batch()), {})
    assert found is not None
    found.ready((line, batch()), {})()
    assert line.length == 0
    assert isinstance(line, Benchable)


def test_torchs_own_ops_and_plain_arguments_are_nobody_to_ask() -> None:
    for function, args in (
        (torch.relu, (batch(),)),
        (torch.ops.aten.add.Scalar, (batch(), 1)),
        (torch.sum, (batch(),)),
    ):
        assert bench_of(function, args, {}) is None
        assert not is_foreign(function, args)


# what is then measured


def test_what_the_op_offers_is_timed_and_compared(isolator: Isolator, monkeypatch: pytest.MonkeyPatch) -> None:
    says(monkeypatch, registered, on_copies)
    x = batch()
    HANDLE.register(x)
    found = alone(isolator, torch.ops.bytests.registered.default, x)
    assert (found.status, found.reason) == ("ok", "")
    assert OWN_BENCH in found.warnings
    assert found.fidelity is not None
    assert (found.fidelity.equal, found.fidelity.max_abs) == (True, 0.0)


def test_a_wrong_result_of_it_is_told(isolator: Isolator, monkeypatch: pytest.MonkeyPatch) -> None:
    says(monkeypatch, scaled, lambda inputs: lambda: inputs.args[0] * 5)
    found = alone(isolator, torch.ops.bytests.scaled.default, torch.ones(4), 2.0)
    assert found.status == "ok"
    assert found.fidelity is not None
    assert (found.fidelity.equal, found.fidelity.max_abs) == (False, 3.0)


@pytest.mark.parametrize("result", [None, torch.ones(3)], ids=["nothing", "another shape"])
def test_a_result_that_does_not_fit_is_not_compared(
    result: object, isolator: Isolator, monkeypatch: pytest.MonkeyPatch
) -> None:
    says(monkeypatch, scaled, lambda inputs: lambda: result)
    found = alone(isolator, torch.ops.bytests.scaled.default, torch.ones(4), 2.0)
    assert found.status == "ok"
    assert found.fidelity is not None
    assert found.fidelity.equal is None
    assert found.fidelity.note.startswith("not compared: its __graphbench_bench__ gives")


def test_an_op_that_returns_nothing_is_still_a_timed_row(isolator: Isolator, monkeypatch: pytest.MonkeyPatch) -> None:
    says(monkeypatch, scaled, lambda inputs: lambda: None)
    call = Call("row", torch.ops.bytests.scaled.default, (torch.ones(4), 2.0), {}, identity=scaled)
    verdict = isolator.isolate(call, lambda: torch.ones(4))[1]
    assert (verdict.has_effect, verdict.is_view) == (True, False)


def test_inputs_are_copies_that_are_put_back_before_every_sample(
    isolator: Isolator, monkeypatch: pytest.MonkeyPatch
) -> None:
    found_there: list[float] = []

    def writing(inputs: BenchInputs) -> Callable[[], object]:
        x, by = inputs.args

        def once() -> None:
            found_there.append(float(x[0]))
            x.mul_(by)

        return once

    says(monkeypatch, scale_, writing)
    x = torch.ones(4)
    found = alone(isolator, torch.ops.bytests.scale_.default, x, 2.0)
    assert set(found_there) == {1.0}
    assert x[0] == 2.0  # by the real call, once
    assert found.fidelity is not None
    assert found.fidelity.equal is True


def test_inputs_keep_layout_values_and_aliasing_and_carry_no_gradient(
    isolator: Isolator, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[torch.Tensor] = []

    def looking(inputs: BenchInputs) -> Callable[[], object]:
        seen.extend(inputs.args[0])
        return lambda: None

    def op(pair: list[torch.Tensor]) -> torch.Tensor:
        return pair[0]

    says(monkeypatch, op, looking)
    base = batch().requires_grad_()
    alone(isolator, op, [base.t(), base])
    first, second = seen[:2]
    assert (first.shape, first.stride()) == (base.t().shape, base.t().stride())
    assert torch.equal(second, base)
    assert second.data_ptr() == first.data_ptr() != base.data_ptr()
    assert [entry.requires_grad for entry in (first, second)] == [False, False]


WRONG = {
    "raises": (lambda inputs: 1 / 0, "alone it raises ZeroDivisionError: division by zero"),
    "returns no callable": (
        lambda inputs: 7,
        "__graphbench_bench__ of bytests.scaled returned int, expected a callable",
    ),
    "makes what raises": (lambda inputs: lambda: 1 / 0, "alone it raises ZeroDivisionError: division by zero"),
    "reshapes": (
        lambda inputs: lambda: inputs.args[0].unsqueeze_(0),
        "what its __graphbench_bench__ returned changes the shape of its inputs",
    ),
}


@pytest.mark.parametrize(("make", "reason"), WRONG.values(), ids=WRONG)
def test_a_benchmark_that_fails_is_the_rows_failure_and_names_the_protocol(
    make: Any, reason: str, isolator: Isolator, monkeypatch: pytest.MonkeyPatch
) -> None:
    says(monkeypatch, scaled, make)
    found = alone(isolator, torch.ops.bytests.scaled.default, torch.ones(4), 2.0)
    assert found.status == "failed"
    assert found.reason.startswith(f"__graphbench_bench__ of bytests.scaled: {reason}")


def test_the_backward_of_what_it_makes_is_measured(isolator: Isolator, monkeypatch: pytest.MonkeyPatch) -> None:
    says(monkeypatch, plain, lambda inputs: lambda: plain(*inputs.args))
    x = torch.ones(4, requires_grad=True)
    found = isolator.isolate_backward(Call("row", plain, (x,), {}, identity=plain))
    assert (found.status, found.reason, found.warnings[-1]) == ("ok", "", OWN_BENCH)


def test_where_that_has_no_backward_it_is_to_be_done_by_hand(
    isolator: Isolator, monkeypatch: pytest.MonkeyPatch
) -> None:
    says(monkeypatch, plain, lambda inputs: lambda: None)
    x = torch.ones(4, requires_grad=True)
    found = isolator.isolate_backward(Call("row", plain, (x,), {}, identity=plain))
    reason = "needs manual benchmark: plain: what __graphbench_bench__ of plain makes has no backward"
    assert (found.status, found.reason) == ("skipped", reason)


# without it


def test_an_op_that_knows_only_its_own_buffers_is_to_be_done_by_hand(isolator: Isolator) -> None:
    x = batch()
    HANDLE.register(x)
    found = alone(isolator, torch.ops.bytests.registered.default, x)
    reason = "bytests.registered: alone it raises RuntimeError: this buffer was never registered"
    assert (found.status, found.reason, found.samples) == ("skipped", f"needs manual benchmark: {reason}", None)


def test_an_op_that_gives_another_result_each_time_is_never_a_number(isolator: Isolator) -> None:
    found = alone(isolator, torch.ops.bytests.counting.default, torch.ones(4))
    assert (found.status, found.samples) == ("skipped", None)
    assert found.reason.startswith("needs manual benchmark: bytests.counting: repeated with equal arguments it gives")


def test_such_an_op_is_not_tried_again(isolator: Isolator) -> None:
    alone(isolator, torch.ops.bytests.counting.default, torch.ones(4))
    before = DRAWN[0]
    found = alone(isolator, torch.ops.bytests.counting.default, torch.ones(5), row="other")
    assert DRAWN[0] == before + 1  # the real call
    assert found.reason.startswith("needs manual benchmark: bytests.counting: repeated")


def test_an_op_with_an_object_that_may_change_is_not_even_tried(isolator: Isolator) -> None:
    queue = Queue()
    found = alone(isolator, torch.ops.bytests.push.default, queue, torch.ones(4))
    assert queue.length == 1
    assert found.reason.startswith("needs manual benchmark: bytests.push: its Queue argument may change")


def test_an_op_whose_tensor_cannot_be_copied_is_to_be_done_by_hand(isolator: Isolator) -> None:
    found = alone(isolator, plain, torch.eye(3).to_sparse())
    reason = "plain: cannot copy an argument of shape (3, 3): torch.sparse_coo layout"
    assert (found.status, found.reason) == ("skipped", f"needs manual benchmark: {reason}")


def test_a_random_op_repeats(isolator: Isolator) -> None:
    def noisy(x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand_like(x)

    found = alone(isolator, noisy, torch.ones(4))
    assert found.status == "ok"
    assert found.fidelity is not None
    assert found.fidelity.equal is True


REFUSED_OF_TORCH = {
    "raises": (torch.relu, (), "alone it raises TypeError"),
    "cannot be copied": (torch.sparse.mm, (torch.eye(3).to_sparse(), torch.ones(3, 3)), "cannot copy an argument"),
}


@pytest.mark.parametrize(("function", "args", "reason"), REFUSED_OF_TORCH.values(), ids=REFUSED_OF_TORCH)
def test_of_torchs_own_ops_nothing_is_to_be_done_by_hand(
    function: Any, args: tuple[Any, ...], reason: str, isolator: Isolator
) -> None:
    call = Call("row", function, args, {}, identity=function)
    found = isolator.isolate(call, lambda: None)[1].measurement
    assert found.status == "failed"
    assert found.reason.startswith(reason)


def test_an_op_inside_the_graph_of_another_counts() -> None:
    body = torch.fx.symbolic_trace(lambda x: torch.ops.bytests.counting.default(x))
    own = torch.fx.symbolic_trace(lambda x: torch.relu(x))
    wrap = torch.ops.higher_order.tag_activation_checkpoint
    assert is_foreign(wrap, (body, batch()))
    assert not is_foreign(wrap, (own, batch()))


# whole profiles


def states(region: RegionRecord, op: str) -> dict[str, str]:
    """Row and status of everything that runs an op."""
    rows = [(entry.name, entry.isolated) for entry in region.nodes if op in entry.callee]
    rows += [(f"post-grad {entry.name}", entry.isolated) for entry in region.post_grad if op in entry.callee]
    rows += [(entry.key, entry.isolated) for entry in region.kernels if op in entry.name]
    return {row: entry.status for row, entry in rows}


def test_node_post_grad_node_and_kernel_of_an_op_are_told_alike() -> None:
    region = measured(lambda x: counting(x.sin()) + 1, batch())
    assert set(states(region, "bytests.counting").values()) == {"skipped"}
    assert len(states(region, "bytests.counting")) == 3
    assert node(region, "sin").isolated.status == "ok"
    assert region.forward.run is not None  # in the run it has its time


def test_and_all_three_are_measured_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    says(monkeypatch, registered, on_copies)
    monkeypatch.setattr(HANDLE, "double", lambda x: x * 2)
    region = measured(lambda x: registered(x.sin()) + 1, batch())
    assert set(states(region, "bytests.registered").values()) == {"ok"}
    kernel = next(entry for entry in region.kernels if entry.kind == "custom")
    assert OWN_BENCH in kernel.isolated.warnings


def test_the_profile_lists_what_is_to_be_done_by_hand() -> None:
    torch.compile(lambda x, queue: torch.ops.bytests.push(queue, x.sin()) + counting(x), backend="graphbench")(
        batch(), Queue()
    )
    profile = graphbench.measure(repeat=3, warmup=1, progress=False)
    assert {entry.op for entry in by_hand_ops(profile.record)} == {"bytests.push", "bytests.counting"}
    text = " ".join(str(profile).split())
    assert "to benchmark by hand: 2 ops: bytests.push, bytests.counting; implement __graphbench_bench__, see" in text
    assert "not measured" not in text

"""Gap ops as rows: which calls share one, whose line it is, what is kept of its arguments, and what it costs alone."""

from __future__ import annotations

import inspect
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import graphbench
from graphbench.errors import UsageError
from graphbench.isolate.held import Holder, Stub
from graphbench.measuring.gap_ops import GapOps
from graphbench.step_records import StepRecord, StepRow
from tests.cpu.stories import QUICK, traces_left
from tests.live import gap_rows

WIDTH = 8


def recorded(step: Callable[[], Any]) -> StepRecord:
    with graphbench.record() as recording:
        step()
    return recording.step


def profiled(step: Callable[[], Any]) -> StepRecord:
    found = graphbench.profile(step, **QUICK).record.step
    assert found is not None
    return found


def line_of(function: Callable[..., Any], text: str) -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(index for index, line in enumerate(lines) if text in line)


def row(step: StepRecord, op_type: str, **fields: Any) -> StepRow:
    (found,) = [
        entry
        for entry in gap_rows(step, op_type)
        if all(getattr(entry, name) == value for name, value in fields.items())
    ]
    return found


# which calls share a row


def test_a_number_that_changes_with_every_call_makes_no_row_of_each() -> None:
    x = torch.ones(WIDTH)
    assert row(recorded(lambda: [x * (0.5 * i) for i in range(5)]), "mul").calls == 5


def test_views_of_other_positions_share_a_row() -> None:
    x = torch.ones(WIDTH, WIDTH)
    assert row(recorded(lambda: [x[i] for i in range(5)]), "select").calls == 5


def test_other_shapes_at_one_line_are_other_rows() -> None:
    xs = [torch.ones(size) for size in (2, 3, 2)]
    found = recorded(lambda: [x.exp() for x in xs])
    assert [(entry.outputs[0].shape, entry.calls) for entry in gap_rows(found, "exp")] == [((2,), 2), ((3,), 1)]


def test_other_layouts_at_one_line_are_other_rows() -> None:
    x = torch.ones(2, 3)
    found = recorded(lambda: [y.exp() for y in (x, x.t().contiguous().t())])
    assert len(gap_rows(found, "exp")) == 2


def test_named_arguments_tell_calls_apart() -> None:
    x = torch.ones(2, 3)
    found = recorded(lambda: [x.sum(dim, keepdim=keep) for dim, keep in ((1, True), (0, True), (1, False))])
    assert len(gap_rows(found, "sum")) == 3


# whose line it is


class PassThrough(TorchDispatchMode):
    """A mode of the user's own that changes nothing."""

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def test_ops_under_a_mode_of_the_users_keep_their_own_lines() -> None:
    x = torch.ones(WIDTH)

    def step() -> None:
        with PassThrough():
            x.sinh()
            x.cosh()

    found = recorded(step)
    lines = {entry.op_type: entry.source.line for entry in found.rows if entry.source is not None}
    assert (lines["sinh"], lines["cosh"]) == (line_of(step, "x.sinh()"), line_of(step, "x.cosh()"))


def test_an_op_of_the_backward_has_the_line_of_its_forward() -> None:
    w = torch.ones(WIDTH, requires_grad=True)

    def step() -> None:
        hidden = w.sinh()
        loss = hidden.cosh().sum()
        loss.backward()

    found = recorded(step)
    lines = {entry.autograd_node: entry.source.line for entry in found.rows if entry.autograd_node and entry.source}
    assert lines["SinhBackward0"] == line_of(step, "w.sinh()")
    assert lines["CoshBackward0"] == line_of(step, "hidden.cosh()")


class Doubled(torch.autograd.Function):
    """Multiplies by two, backward too."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x + x

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return torch.add(gradient, gradient)


def test_a_backward_of_the_users_own_has_its_own_line() -> None:
    w = torch.ones(WIDTH, requires_grad=True)
    found = recorded(lambda: Doubled.apply(w).sum().backward())  # type: ignore[no-untyped-call]
    added = row(found, "add", phase="backward")
    assert added.source is not None
    assert (added.source.line, added.source.function) == (line_of(Doubled.backward, "torch.add"), "backward")


def test_the_first_gradient_is_backwards_although_no_node_makes_it() -> None:
    w = torch.ones((), requires_grad=True)
    assert row(recorded(lambda: (w * 2).backward()), "ones_like").phase == "backward"


class Descent(torch.optim.Optimizer):
    """An optimizer of the user's own."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                moved(parameter)


def moved(parameter: torch.Tensor) -> None:
    parameter.sub_(parameter.grad, alpha=0.1)


def test_an_optimizer_of_the_users_own_is_an_optimizer() -> None:
    w = torch.ones(WIDTH, requires_grad=True)
    optimizer = Descent([w])

    def step() -> None:
        w.sum().backward()
        optimizer.step()

    assert row(recorded(step), "sub_").phase == "optimizer"


def test_a_closure_that_an_optimizer_calls_is_forward_and_backward() -> None:
    w = torch.ones(WIDTH, requires_grad=True)
    optimizer = torch.optim.LBFGS([w], max_iter=1)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = w.cosh().sum()
        loss.backward()
        return loss

    found = recorded(lambda: optimizer.step(closure))  # type: ignore[arg-type]
    assert {entry.phase for entry in gap_rows(found, "cosh")} == {"forward"}
    assert {entry.phase for entry in gap_rows(found, "sinh")} == {"backward"}


# accumulation


def test_gradients_of_two_uses_are_added_up_by_autograd() -> None:
    w = torch.ones(WIDTH, requires_grad=True)
    found = recorded(lambda: (w.sinh() + w.cosh()).sum().backward())
    assert (row(found, "add", phase="backward").kind, row(found, "add", phase="forward").kind) == ("accumulation", "op")


def test_adding_to_a_gradient_that_is_there_is_accumulation() -> None:
    w = torch.ones(WIDTH, requires_grad=True)
    w.grad = torch.zeros(WIDTH)
    assert row(recorded(lambda: w.sinh().sum().backward()), "add_").kind == "accumulation"


@pytest.mark.parametrize("hook", ["register_hook", "register_post_accumulate_grad_hook"])
def test_what_a_hook_on_a_parameter_does_is_no_accumulation(hook: str) -> None:
    w = torch.ones(WIDTH, requires_grad=True)

    def read(tensor: torch.Tensor) -> None:
        float(tensor.detach().sinh().sum())

    getattr(w, hook)(read)
    found = recorded(lambda: (w * 2).sum().backward())
    kinds = [row(found, name, autograd_node="AccumulateGrad").kind for name in ("sinh", "_local_scalar_dense")]
    assert kinds == ["op", "sync"]


def test_an_addition_that_a_backward_needs_itself_is_none() -> None:
    w = torch.ones(WIDTH, requires_grad=True)
    found = recorded(lambda: Doubled.apply(w.exp()).sum().backward())  # type: ignore[no-untyped-call]
    made_by_the_user = row(found, "add", phase="backward")
    assert made_by_the_user.autograd_node == "DoubledBackward"
    assert made_by_the_user.kind == "op"


class Counting(PassThrough):
    """Counts what autograd and the user's code run."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls[func._opname] += 1
        return func(*args, **(kwargs or {}))


def test_recording_changes_nothing_of_what_autograd_runs() -> None:
    w, bias = (torch.ones(WIDTH, requires_grad=True) for _ in range(2))
    norms: list[torch.Tensor] = []
    bias.register_hook(lambda gradient: norms.append(gradient.norm()))

    def step() -> None:
        w.grad = bias.grad = None
        hidden = w * 1.5
        (hidden.sinh() + hidden.cosh() + hidden.exp() + bias).sum().backward()

    with Counting() as counting:
        step()
    found: Counter[str] = Counter()
    for entry in recorded(step).rows:
        found[entry.op_type] += entry.calls
    assert found == counting.calls


# copies and reads


def test_a_copy_between_devices_tells_its_direction_and_bytes() -> None:
    x = torch.ones(WIDTH)
    copied = row(recorded(lambda: [x.to("meta") for _ in range(2)]), "_to_copy")
    assert (copied.kind, copied.copied, copied.copied_bytes) == ("copy", "cpu to meta", 2 * WIDTH * 4)


def test_a_cast_is_no_copy_between_devices() -> None:
    x = torch.ones(WIDTH)
    assert row(recorded(lambda: x.double()), "_to_copy").kind == "op"


def test_a_mask_is_read_by_the_host_and_an_index_is_not() -> None:
    x = torch.arange(WIDTH)
    found = recorded(lambda: (x[x > 2], x[torch.arange(3)]))
    assert sorted(entry.kind for entry in gap_rows(found, "index")) == ["op", "sync"]


@pytest.mark.parametrize(("device", "kind"), [("cpu", "sync"), ("cuda", "op")])
def test_reading_a_value_of_the_cpu_waits_for_no_other_device(device: str, kind: str) -> None:
    ops = GapOps(Holder(budget_bytes=1 << 20), torch.device(device))
    read = ops.find(torch.ops.aten._local_scalar_dense.default, (torch.ones(()),), {}, "start", "")
    assert read.kind == kind


def test_writing_through_a_mask_is_read_by_the_host() -> None:
    x = torch.ones(WIDTH)

    def step() -> None:
        x.index_put_((x > 2,), torch.zeros(()))
        x.index_put_((torch.arange(3),), torch.zeros(3))

    assert [entry.kind for entry in gap_rows(recorded(step), "index_put_")] == ["sync", "op"]


# what is kept, and what an op costs alone


def test_every_gap_op_is_timed_alone_on_what_it_was_given() -> None:
    x = torch.ones(WIDTH, WIDTH)
    alone = row(profiled(lambda: x.mm(x)), "mm").isolated
    assert (alone.status, alone.values) == ("ok", "captured")


def test_equal_gap_ops_are_measured_once() -> None:
    x = torch.ones(WIDTH, WIDTH)

    def step() -> None:
        x.mm(x)
        x.mm(x)

    first, second = gap_rows(profiled(step), "mm")
    assert (first.isolated.shared_with, second.isolated.shared_with) == (None, first.name)
    assert second.isolated.samples is first.isolated.samples


def test_gradients_are_made_anew_for_measuring_alone() -> None:
    w = torch.ones(WIDTH, requires_grad=True)
    alone = row(profiled(lambda: w.sinh().sum().backward()), "cosh").isolated
    assert alone.status == "ok"
    assert row(profiled(lambda: w.sinh().sum().backward()), "expand", phase="backward").isolated.values == "synthetic"


def test_indices_that_were_overwritten_since_are_not_read_again() -> None:
    table, index = torch.ones(WIDTH, WIDTH), torch.arange(3)

    def step() -> None:
        index.fill_(1)
        table.index_select(0, index)
        index.fill_(2)

    alone = row(profiled(step), "index_select").isolated
    assert (alone.status, alone.reason) == (
        "skipped",
        "what an argument held, which decides what the op does, was overwritten later in the step",
    )


def test_indices_that_were_written_before_are_read_again() -> None:
    table, index = torch.ones(WIDTH, WIDTH), torch.arange(3).add_(1)
    assert row(profiled(lambda: table.index_select(0, index)), "index_select").isolated.status == "ok"


def test_values_that_decide_a_shape_are_not_read_again_once_overwritten() -> None:
    def step() -> None:
        x = torch.ones(WIDTH)
        x.nonzero()
        x.sinh()
        x.zero_()

    found = profiled(step)
    assert [row(found, name).isolated.status for name in ("nonzero", "sinh")] == ["skipped", "ok"]


def test_an_integer_that_an_op_itself_writes_is_no_index() -> None:
    count = torch.zeros((), dtype=torch.int64)
    assert row(profiled(lambda: count.add_(1)), "add_").isolated.status == "ok"


def test_measuring_alone_leaves_what_ops_write_as_the_steps_left_it() -> None:
    count = torch.zeros(())
    profiled(lambda: count.add_(1))
    assert float(count) == 4  # three warm-ups and the recorded step


def test_past_the_budget_only_the_spec_is_kept() -> None:
    x = torch.ones(WIDTH)
    held = Holder(budget_bytes=WIDTH * 4).hold((x, torch.ones(WIDTH)), {})
    assert held.args[0].data_ptr() == x.data_ptr()
    assert isinstance(held.args[1], Stub)
    assert not held.whole


def test_what_is_held_already_costs_nothing() -> None:
    x, holder = torch.ones(WIDTH), Holder(budget_bytes=WIDTH * 4)
    assert [holder.hold((x,), {}).whole for _ in range(3)] == [True, True, True]
    assert holder.held_bytes == WIDTH * 4


def test_a_held_tensor_keeps_no_autograd_graph_alive() -> None:
    held = Holder(1 << 20).hold((torch.ones(WIDTH, requires_grad=True) * 2,), {})
    assert held.args[0].grad_fn is None


def test_a_held_tensor_keeps_no_graph_alive_that_a_later_write_gives_it() -> None:
    x = torch.zeros(WIDTH)
    held = Holder(1 << 20).hold((x,), {})
    x.mul_(torch.ones(WIDTH, requires_grad=True))
    assert x.grad_fn is not None
    assert held.args[0].grad_fn is None


def test_a_long_list_keeps_no_autograd_graph_alive() -> None:
    tensors = [torch.zeros(WIDTH), *(torch.ones(WIDTH, requires_grad=True) * 2 for _ in range(9))]
    held = Holder(1 << 20).hold((tensors,), {})
    assert {tensor.grad_fn for tensor in held.args[0]} == {None}


def test_a_held_tensor_has_the_shape_that_it_had() -> None:
    def step() -> None:
        x = torch.ones(2, 3)
        torch.neg(x)
        x.unsqueeze_(0)

    found = profiled(step)
    assert [spec.shape for spec in row(found, "neg").inputs] == [(2, 3)]
    assert [spec.shape for spec in row(found, "unsqueeze_").inputs] == [(2, 3)]


@pytest.mark.parametrize(("shape", "stride"), [((2, 3), (3, 1)), ((2, 3), (1, 2)), ((4, 5), (0, 0)), ((0, 3), (3, 1))])
def test_a_tensor_made_anew_has_the_layout_of_the_one_that_was(shape: tuple[int, ...], stride: tuple[int, ...]) -> None:
    made = Stub(shape, stride, torch.float32, torch.device("cpu"), 3).made()
    assert (tuple(made.shape), made.stride(), made.storage_offset()) == (shape, stride, 3)


def test_a_list_of_tensors_is_kept_as_it_is_although_its_owner_changes_it() -> None:
    owned = [torch.ones(1), torch.ones(2)]
    held = Holder(1 << 20).hold((owned,), {})
    owned.clear()
    assert [spec.shape for spec in held.specs()] == [(1,), (2,)]


# nothing is left behind


def test_a_block_that_raises_leaves_nothing_behind() -> None:
    def block() -> None:
        with graphbench.record():
            nn.Linear(2, 2)(torch.ones(1, 2))
            raise ValueError("late")

    with pytest.raises(ValueError, match="late"):
        block()
    assert traces_left() == []


def test_what_measures_inside_of_what_is_recorded_is_refused() -> None:
    def step() -> None:
        with graphbench.record():
            torch.ones(2) + 1

    with pytest.raises(UsageError, match="graphbench cannot record here: it is called within what graphbench is about"):
        graphbench.profile(step, **QUICK)
    assert traces_left() == []
    assert [entry.op_type for entry in recorded(lambda: torch.ones(2)).rows] == ["ones"]


def test_a_thread_that_outlives_the_block_is_left_alone() -> None:
    go, results = threading.Event(), []

    def late() -> None:
        go.wait(10)
        results.append(torch.ones(2) + 1)

    with graphbench.record() as recording:
        thread = threading.Thread(target=late)
        thread.start()
    go.set()
    thread.join()
    assert [float(result.sum()) for result in results] == [4.0]
    assert gap_rows(recording.step, "add") == []
    assert traces_left() == []

"""A whole step: what ran compiled, what ran between, in which phase and from which line, and that nothing is lost."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

import graphbench
from graphbench.errors import CaptureError, UsageError
from graphbench.records import ProfileRecord
from graphbench.step_records import StepRecord, StepRow
from tests.cpu.stories import QUICK, WIDTH, Scores, batch, clean, compiled, traces_left


class Broken(nn.Module):
    """Two regions around a graph break."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.second = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        torch._dynamo.graph_break()
        return self.second(x)


def profiled(fn: Callable[..., Any], *args: Any, **options: Any) -> ProfileRecord:
    return graphbench.profile(fn, *args, **{**QUICK, **options}).record


def step_of(record: ProfileRecord) -> StepRecord:
    assert record.step is not None
    return record.step


def gaps(record: ProfileRecord) -> list[StepRow]:
    return [row for row in step_of(record).rows if row.kernel is None]


def kernels(record: ProfileRecord) -> list[StepRow]:
    return [row for row in step_of(record).rows if row.kernel is not None]


@dataclass(frozen=True)
class Training:
    """A profiled training step, and how often it was called."""

    record: ProfileRecord
    calls: int
    step: Callable[[], None]


@pytest.fixture(scope="module")
def training() -> Training:
    """Forward with a break, loss outside, backward, AdamW, all in one step."""
    with clean():
        torch.manual_seed(0)
        net, x = Broken(), batch()
        model = compiled(net)
        optimizer = torch.optim.AdamW(net.parameters(), foreach=False)
        calls = []

        def step() -> None:
            calls.append(1)
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            loss.backward()
            optimizer.step()

        return Training(profiled(step), len(calls), step)


def test_the_step_is_called_once_more_than_its_warm_ups(training: Training) -> None:
    assert training.calls == 4


def test_rows_and_wrapper_are_the_steps_wall_time(training: Training) -> None:
    step = step_of(training.record)
    rows_ns = sum(row.in_graph.samples.busy_ns[0] for row in step.rows if row.in_graph.samples)
    assert step.run.wrapper_ns is not None
    assert rows_ns + step.run.wrapper_ns[0] == step.run.wall_ns[0]


def test_every_row_has_its_time(training: Training) -> None:
    assert {row.in_graph.status for row in step_of(training.record).rows} == {"ok"}


def test_compiled_graphs_ran_compiled_while_recorded(training: Training) -> None:
    found = {(row.region, row.phase) for row in kernels(training.record)}
    assert found == {(region, phase) for region in ("r0", "r1") for phase in ("forward", "backward")}


def test_no_op_of_a_compiled_graph_is_a_gap_op(training: Training) -> None:
    assert [row.name for row in gaps(training.record) if row.op_type in ("addmm", "mm", "linear", "t")] == []


def test_ops_outside_are_labelled_with_their_phase(training: Training) -> None:
    phases = {row.op_type: row.phase for row in gaps(training.record)}
    assert phases["mean"] == "forward"
    assert phases["addcdiv_"] == "optimizer"
    assert {row.phase for row in gaps(training.record)} == {"forward", "backward", "optimizer"}


def test_ops_outside_are_labelled_with_their_line(training: Training) -> None:
    lines, first = inspect.getsourcelines(training.step)
    wanted = first + next(index for index, line in enumerate(lines) if "mean()" in line)
    (source,) = [row.source for row in gaps(training.record) if row.op_type == "mean"]
    assert source is not None
    assert (source.file, source.line, source.function) == (__file__, wanted, "step")


def test_the_break_is_named(training: Training) -> None:
    (found,) = training.record.breaks
    assert found.region == "r0"
    assert found.source is not None
    assert found.source.code == "torch._dynamo.graph_break()"


def test_the_regions_that_ran_are_measured(training: Training) -> None:
    assert [(region.key, region.status) for region in training.record.regions] == [("r0", "ok"), ("r1", "ok")]


def test_a_steady_step_does_not_say_that_it_compiled(training: Training) -> None:
    assert step_of(training.record).notes == ()


def test_uninstrumented_wall_times_are_those_of_steps_that_did_not_compile(training: Training) -> None:
    assert len(step_of(training.record).plain_wall_ns) == 1


# the user's state


def weights_and_steps(net: nn.Module, optimizer: torch.optim.Optimizer) -> list[Any]:
    state = optimizer.state_dict()["state"]
    return [
        *(tensor.clone() for tensor in net.state_dict().values()),
        {key: dict(value) for key, value in state.items()},
    ]


def training_step(net: nn.Module) -> tuple[torch.optim.Optimizer, Callable[[], None]]:
    model, x = compiled(net), batch()
    optimizer = torch.optim.AdamW(net.parameters(), foreach=False)

    def step() -> None:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    return optimizer, step


def test_restore_puts_modules_and_optimizers_back() -> None:
    net = nn.Linear(WIDTH, WIDTH)
    optimizer, step = training_step(net)
    step()
    before = [tensor.clone() for tensor in net.state_dict().values()]
    moments = [state["exp_avg"].clone() for state in optimizer.state.values()]
    profiled(step, restore=(net, optimizer))
    assert all(torch.equal(one, other) for one, other in zip(before, net.state_dict().values(), strict=True))
    found = [state["exp_avg"] for state in optimizer.state.values()]
    assert all(torch.equal(one, other) for one, other in zip(moments, found, strict=True))
    assert {float(state["step"]) for state in optimizer.state.values()} == {1.0}


def test_without_restore_the_steps_have_their_effect() -> None:
    net = nn.Linear(WIDTH, WIDTH)
    optimizer, step = training_step(net)
    profiled(step)
    assert {float(state["step"]) for state in optimizer.state.values()} == {4.0}


def test_restore_puts_state_back_when_the_step_raises() -> None:
    net = nn.Linear(WIDTH, WIDTH)
    before = net.weight.detach().clone()

    def step() -> None:
        with torch.no_grad():
            net.weight.zero_()
        raise ValueError("the weather is bad")

    with pytest.raises(CaptureError):
        profiled(step, restore=(net,))
    assert torch.equal(net.weight, before)


# what cannot be recorded


def test_a_step_that_raises_is_told_with_its_message() -> None:
    def step() -> None:
        raise ValueError("the weather is bad\nand more")

    with pytest.raises(CaptureError, match=r"the step raised ValueError: the weather is bad\n  hint: "):
        profiled(step)


def test_a_step_that_raises_while_recorded_leaves_nothing_behind() -> None:
    model, calls = compiled(lambda x: x @ x), []

    def step() -> None:
        calls.append(1)
        model(torch.ones(4, 4))
        if len(calls) == 4:
            raise ValueError("late")

    with pytest.raises(CaptureError, match="the step raised ValueError: late"):
        profiled(step)
    assert traces_left() == []


def test_a_step_without_warm_up_is_refused() -> None:
    with pytest.raises(UsageError, match="warmup_steps=0: expected at least 1, since the first step compiles"):
        profiled(lambda: None, warmup_steps=0)


def test_a_step_that_runs_no_op_is_refused() -> None:
    with pytest.raises(CaptureError, match="the step ran no tensor op"):
        profiled(lambda: None)


def test_a_step_that_compiles_nothing_is_recorded_as_it_runs_eagerly() -> None:
    record = profiled(lambda: torch.ones(2) + 1)
    assert record.regions == ()
    assert not step_of(record).compiled
    assert [(row.op_type, row.isolated.status) for row in gaps(record)] == [("ones", "ok"), ("add", "ok")]


# what is compiled, and what is not


def test_a_module_that_is_not_compiled_yet_is_compiled() -> None:
    record = profiled(Scores(), batch())
    assert {row.region for row in kernels(record)} == {"r0"}


def test_a_module_that_was_compiled_in_place_is_taken_as_it_is() -> None:
    net = Scores()
    net.compile(backend="graphbench")
    record = profiled(net, batch())
    assert [region.key for region in record.regions] == ["r0"]


def test_a_module_with_a_compiled_part_is_taken_as_it_is() -> None:
    net = nn.Sequential(compiled(nn.Linear(WIDTH, WIDTH)), nn.Softmax(-1))  # type: ignore[arg-type]
    with torch.no_grad():
        record = profiled(net, batch())
    assert [row.op_type for row in gaps(record)] == ["_softmax"]


def test_reading_a_value_on_the_host_is_a_row() -> None:
    model = compiled(lambda x: x @ x)

    def step(x: torch.Tensor) -> torch.Tensor:
        x = model(x)
        return x * x.sum().item()

    found = {row.op_type for row in gaps(profiled(step, torch.ones(4, 4)))}
    assert found == {"sum", "_local_scalar_dense", "mul"}


@torch.compiler.disable
def hundred(x: torch.Tensor) -> torch.Tensor:
    for _ in range(100):
        x = torch.mm(x, x)
    return x


def test_ops_of_a_disabled_function_are_counted() -> None:
    model = compiled(lambda x: hundred(x @ x) @ x)
    (row,) = [row for row in gaps(profiled(model, torch.eye(4))) if row.op_type == "mm"]
    assert row.calls == 100
    assert row.source is not None
    assert row.source.function == "hundred"


def test_kernels_of_a_region_that_is_called_twice_are_counted_twice() -> None:
    model = compiled(lambda x: x @ x)
    (row,) = kernels(profiled(lambda: model(model(torch.eye(4)))))
    assert row.calls == 2


def test_a_region_that_the_step_does_not_run_is_skipped() -> None:
    compiled(lambda x: x @ x @ x)(torch.eye(4))
    model = compiled(lambda x: x @ x)
    record = profiled(model, torch.eye(4))
    assert [(region.status, region.reason) for region in record.regions] == [
        ("skipped", "the recorded step did not run it"),
        ("ok", ""),
    ]


def test_a_step_that_still_compiles_says_so() -> None:
    model, sizes = compiled(lambda x: x @ x, dynamic=False), iter((2, 3, 4, 5))
    record = profiled(lambda: model(torch.ones(size := next(sizes), size)))
    assert any("it is no ordinary step" in note for note in step_of(record).notes)


def test_measuring_without_a_step_has_none() -> None:
    compiled(lambda x: x @ x)(torch.eye(4))
    assert graphbench.measure(**QUICK).record.step is None

"""Backward, accumulation, scaling, clipping and optimizers in live steps: every kernel and op once, in its phase."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed, nn
from torch.utils.checkpoint import checkpoint

import graphbench
from graphbench.step_records import StepRecord
from tests.cpu.stories import QUICK, WIDTH, batch, compiled
from tests.live import calls, code_of, gap_rows, kernels, recorded


class Plain(nn.Module):
    """One matrix product: nothing to build in C++."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


# several backwards


@pytest.fixture
def graphs_run_twice() -> Iterator[None]:
    """A compiled backward reuses what it was handed unless this is off while it compiles."""
    with torch._functorch.config.patch(donated_buffer=False):
        yield


def test_a_graph_that_is_kept_is_counted_in_both_backwards(graphs_run_twice: None) -> None:
    net, x = Plain(), batch()
    model = compiled(net)

    def step() -> None:
        net.zero_grad()
        loss = model(x).sum()
        loss.backward(retain_graph=True)
        loss.backward()

    assert kernels(recorded(step)) == {"r0/forward": 1, "r0/backward": 2}


def test_several_losses_of_one_forward_each_have_their_backward(graphs_run_twice: None) -> None:
    net, x = Plain(), batch()
    model = compiled(net)

    def step() -> None:
        net.zero_grad()
        y = model(x)
        y.sum().backward(retain_graph=True)
        y.pow(2).sum().backward(retain_graph=True)
        y.exp().sum().backward()

    found = recorded(step)
    assert kernels(found) == {"r0/forward": 1, "r0/backward": 3}
    assert calls(found, "sum", phase="forward") == 3
    assert calls(found, "add_", kind="accumulation") == 2  # the first backward sets the gradient, two add to it


def test_gradients_that_are_only_asked_for_are_backward_too() -> None:
    net, x = Plain(), batch().requires_grad_()
    model = compiled(net)
    found = recorded(lambda: torch.autograd.grad(model(x).sum(), x))
    assert kernels(found) == {"r0/forward": 1, "r0/backward": 2}  # the compiled backward makes the weight's as well
    assert gap_rows(found, kind="accumulation") == []


def test_an_evaluation_between_training_forwards_is_a_region_of_its_own() -> None:
    net, x = Plain(), batch()
    model = compiled(net)

    def step() -> None:
        net.zero_grad()
        model(x).sum().backward()
        with torch.no_grad():
            model(x)
        model(x).sum().backward()

    assert kernels(recorded(step)) == {"r0/forward": 2, "r0/backward": 2, "r1/forward": 1}


# accumulation


def test_micro_batches_share_rows_and_their_gradients_are_added_up() -> None:
    net, parts = Plain(), batch(16, WIDTH).chunk(4)
    model = compiled(net)

    def step() -> None:
        net.zero_grad()
        for part in parts:
            model(part).sum().backward()

    found = recorded(step)
    assert kernels(found) == {"r0/forward": 4, "r0/backward": 4}
    assert calls(found, "sum", phase="forward") == 4
    (added,) = gap_rows(found, "add_")
    assert (added.kind, added.phase, added.calls) == ("accumulation", "backward", 3)


def test_gradients_of_a_parameter_of_two_regions_are_added_up_once() -> None:
    net, x = Plain(), batch()
    models = compiled(net), compiled(nn.Sequential(net))

    def step() -> None:
        net.zero_grad()
        (models[0](x).sum() + models[1](x).sum()).backward()

    found = recorded(step)
    assert kernels(found) == {"r0/forward": 1, "r1/forward": 1, "r0/backward": 1, "r1/backward": 1}
    (added,) = gap_rows(found, "add", phase="backward")
    assert (added.kind, added.calls) == ("accumulation", 1)
    assert [row.kind for row in gap_rows(found, "add", phase="forward")] == ["op"]


# what surrounds a backward


def test_a_hook_on_a_gradient_runs_in_backward() -> None:
    net, x = Plain(), batch()
    model = compiled(net)

    def step() -> None:
        net.zero_grad()
        y = model(x)
        y.register_hook(lambda gradient: gradient.sin())
        y.sum().backward()

    found = recorded(step)
    assert [(row.phase, row.calls) for row in gap_rows(found, "sin")] == [("backward", 1)]


def test_ops_of_backward_carry_the_line_and_the_node_of_their_forward() -> None:
    net, x = Plain(), batch()
    model = compiled(net)

    def step() -> None:
        net.zero_grad()
        y = model(x)
        z = y.sinh()
        z.sum().backward()

    found = recorded(step)
    (forward,) = gap_rows(found, "sinh", phase="forward")
    (backward,) = gap_rows(found, "cosh", phase="backward")
    assert code_of(forward) == "z = y.sinh()"
    assert backward.source == forward.source
    assert "SinhBackward" in backward.autograd_node
    assert forward.autograd_node == ""


class Sinh(torch.autograd.Function):
    """A function with a backward of the user's own."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        ctx.save_for_backward(x)
        return x.sinh()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        (x,) = ctx.saved_tensors
        return gradient * x.cosh()


def test_ops_of_a_backward_of_the_users_own_carry_its_line() -> None:
    net, x = Plain(), batch()
    model = compiled(net)

    def step() -> None:
        net.zero_grad()
        Sinh.apply(model(x)).sum().backward()

    (row,) = gap_rows(recorded(step), "cosh")
    assert (row.phase, row.autograd_node, code_of(row)) == ("backward", "SinhBackward", "return gradient * x.cosh()")


def test_a_scaled_step_is_explained() -> None:
    net, x = Plain(), batch()
    model, scaler = compiled(net), torch.amp.GradScaler("cpu")
    optimizer = torch.optim.SGD(net.parameters(), 0.1)

    def step() -> None:
        optimizer.zero_grad()
        scaler.scale(model(x).sum()).backward()
        scaler.step(optimizer)
        scaler.update()

    found = recorded(step)
    assert kernels(found) == {"r0/forward": 1, "r0/backward": 1}
    assert calls(found, "_amp_foreach_non_finite_check_and_unscale_", phase="optimizer") == 1
    assert calls(found, "_amp_update_scale_", phase="optimizer") == 1
    assert calls(found, "_local_scalar_dense", kind="sync") == 1  # the scaler asks whether a gradient is infinite


def test_clipping_belongs_to_the_optimizer() -> None:
    net, x = Plain(), batch()
    model, optimizer = compiled(net), torch.optim.SGD(net.parameters(), 0.1)

    def step() -> None:
        optimizer.zero_grad()
        model(x).sum().backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()

    found = recorded(step)
    clipping = [row for row in gap_rows(found) if "clip_grad_norm_" in code_of(row)]
    assert {"clamp", "_foreach_norm", "_foreach_mul_"} <= {row.op_type for row in clipping}
    assert {row.phase for row in clipping} == {"optimizer"}


# backward made otherwise


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpointed_block_runs_its_forward_again(reentrant: bool) -> None:
    net, x = Plain(), batch().requires_grad_()
    model = compiled(net)

    def step() -> None:
        net.zero_grad()
        y = checkpoint(model, x, use_reentrant=reentrant)
        assert isinstance(y, torch.Tensor)
        y.sum().backward()

    found = kernels(recorded(step))
    assert sum(count for where, count in found.items() if where.endswith("forward")) == 2
    assert sum(count for where, count in found.items() if where.endswith("backward")) == 2  # of the input, the weight


def step_with_compiled_autograd() -> Callable[[], None]:
    net, x = Plain(), batch()
    model = compiled(net)

    def step() -> None:
        net.zero_grad()
        loss = model(x).sum()
        with torch._dynamo.compiled_autograd._enable(torch.compile(backend="graphbench")):
            loss.backward()

    return step


def test_a_compiled_backward_graph_of_autograd_is_backward() -> None:
    found = recorded(step_with_compiled_autograd(), warm_ups=3)
    assert kernels(found)["r0/forward"] == 1
    made = [row for row in found.rows if row.region == "r1"]
    assert {row.phase for row in made} == {"backward"}
    assert sum(row.calls for row in made if row.op_type == "extern") == 1
    assert not any(row.region == "r0" and row.phase == "backward" for row in found.rows)


def test_a_backward_that_autograd_compiled_is_measured_too() -> None:
    record = graphbench.profile(step_with_compiled_autograd(), **QUICK).record
    made = next(region for region in record.regions if region.key == "r1")
    assert (made.status, made.eager.reason, made.forward.reason) == ("ok", "", "")
    assert {kernel.isolated.status for kernel in made.kernels} == {"ok"}


# optimizers


def adamw_step(**options: bool) -> Callable[[], None]:
    net, x = Plain(), batch()
    model, optimizer = compiled(net), torch.optim.AdamW(net.parameters(), **options)

    def step() -> None:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    return step


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"foreach": False}, {"addcdiv_": 1, "lerp_": 1, "addcmul_": 1, "sqrt": 1}),
        ({"foreach": True}, {"_foreach_addcdiv_": 1, "_foreach_lerp_": 1, "_foreach_addcmul_": 1, "_foreach_sqrt": 1}),
        ({"fused": True}, {"_fused_adamw_": 1}),
    ],
    ids=["single", "foreach", "fused"],
)
def test_an_optimizers_ops_are_its_own(options: dict[str, bool], expected: dict[str, int]) -> None:
    found = recorded(adamw_step(**options))
    assert {op_type: calls(found, op_type, phase="optimizer") for op_type in expected} == expected
    assert {op_type: calls(found, op_type) for op_type in expected} == expected
    assert kernels(found) == {"r0/forward": 1, "r0/backward": 1}


def test_an_optimizer_that_steps_in_backward_is_no_accumulation() -> None:
    net, x = Plain(), batch()
    model, optimizer = compiled(net), torch.optim.AdamW(net.parameters(), foreach=False)

    def update(_: torch.Tensor) -> None:
        optimizer.step()
        optimizer.zero_grad()

    net.inner.weight.register_post_accumulate_grad_hook(update)
    found = recorded(lambda: model(x).sum().backward())
    assert [(row.phase, row.kind) for row in gap_rows(found, "addcdiv_")] == [("optimizer", "op")]


def test_a_closure_that_an_optimizer_calls_is_forward_and_backward() -> None:
    net, x = Plain(), batch()
    model, optimizer = compiled(net), torch.optim.LBFGS(net.parameters(), max_iter=2)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = model(x).square().sum()
        loss.backward()
        return loss

    found = recorded(lambda: optimizer.step(closure))
    assert kernels(found) == {"r0/forward": 2, "r0/backward": 2}
    assert {row.phase for row in found.rows if row.kernel is not None} == {"forward", "backward"}
    assert {row.phase for row in gap_rows(found, "square", "sum")} >= {"forward"}
    assert {row.phase for row in gap_rows(found, "_local_scalar_dense")} == {"optimizer"}


@pytest.fixture(scope="module")
def compiled_optimizer() -> StepRecord:
    net, x = Plain(), batch()
    model, optimizer = compiled(net), torch.optim.AdamW(net.parameters(), foreach=True)
    update = compiled(optimizer.step)

    def step() -> None:
        optimizer.zero_grad()
        model(x).sum().backward()
        update()

    return recorded(step, warm_ups=3)


def test_a_compiled_optimizers_kernels_are_in_its_phase(compiled_optimizer: StepRecord) -> None:
    made = [row for row in compiled_optimizer.rows if row.region == "r1"]
    assert made
    assert {row.phase for row in made} == {"optimizer"}


def test_a_compiled_optimizer_leaves_nothing_of_the_update_to_eager(compiled_optimizer: StepRecord) -> None:
    updates = ("_foreach_addcdiv_", "_foreach_lerp_", "_foreach_mul_", "_foreach_add_", "_foreach_sqrt")
    assert gap_rows(compiled_optimizer, *updates) == []


# data parallel


@pytest.fixture
def one_rank(tmp_path: Path) -> Iterator[None]:
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


@pytest.mark.parametrize("outside", [False, True], ids=["compiled inside", "compiled outside"])
def test_the_collectives_of_data_parallel_training_are_rows(one_rank: None, outside: bool) -> None:
    net, x = Plain(), batch()
    if not outside:
        net.compile(backend="graphbench")
    parallel = nn.parallel.DistributedDataParallel(net)
    model = compiled(parallel) if outside else parallel

    def step() -> None:
        parallel.zero_grad()
        model(x).sum().backward()

    found = recorded(step)
    assert kernels(found) == {"r0/forward": 1, "r0/backward": 1}
    assert [(row.op_type, row.calls) for row in gap_rows(found, kind="collective")] == [("c10d.allreduce_", 1)]


def test_a_collective_of_ones_own_is_a_row(one_rank: None) -> None:
    net, x = Plain(), batch()
    model = compiled(net)

    def step() -> None:
        with torch.no_grad():
            distributed.all_reduce(model(x))

    (row,) = gap_rows(recorded(step), kind="collective")
    assert (row.op_type, row.phase, row.calls) == ("c10d.allreduce_", "forward", 1)

"""Unfused times: every op of the lowered graph alone, on its real inputs, and nothing of the user's moved by it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import fx
from torch._higher_order_ops.triton_kernel_wrap import triton_kernel_wrapper_mutation

from graphbench import document
from graphbench.condition_records import Policy
from graphbench.execution.lowered import run_lowered, written_inputs
from graphbench.inductor import wrapper as wrappers
from graphbench.measuring import unfused
from graphbench.records import NO_TENSOR, PostGradNode, ProfileRecord, RegionRecord
from graphbench.regions import Region
from tests.cpu.stories import Story, batch, captured, changes, compiled, measured, quick, world

aten = torch.ops.aten
STORIES = ("regularised_training", "regularised_inference", "transformer_training")


@pytest.fixture(params=STORIES)
def story(request: pytest.FixtureRequest) -> Story:
    found: Story = request.getfixturevalue(request.param)
    return found


def graph_of(*calls: tuple[Any, ...]) -> fx.Graph:
    """A graph of one input `x` and calls `(target, *args)`, in which a whole number is the call or input before it."""
    graph = fx.Graph()
    nodes = [graph.placeholder("x")]
    for target, *args in calls:
        given = tuple(nodes[arg] if isinstance(arg, int) else arg for arg in args)
        nodes.append(graph.call_function(target, given))
    graph.output((nodes[-1],))
    return graph


def module_of(graph: fx.Graph) -> fx.GraphModule:
    return fx.GraphModule(torch.nn.Module(), graph)


def lowered(region: Region, phase: str = "forward") -> fx.GraphModule:
    graph = region.graph(phase)
    assert graph is not None
    assert graph.lowered is not None
    return graph.lowered


def op(region: RegionRecord, target: str, phase: str = "forward") -> PostGradNode:
    return next(entry for entry in region.post_grad if entry.target == target and entry.phase == phase)


def reload(record: ProfileRecord) -> ProfileRecord:
    return document.loads(document.dumps(record))


# every op


def test_every_op_that_computes_has_a_time_and_every_view_says_that_it_is_one(story: Story) -> None:
    (region,) = story.first.regions
    assert region.post_grad
    for entry in region.post_grad:
        if entry.is_view or entry.target == "getitem":
            assert (entry.isolated.status, entry.isolated.reason) == ("skipped", "a view")
        else:
            assert entry.isolated.status == "ok", (entry.name, entry.isolated.reason)


def test_every_op_alone_does_what_it_does_in_the_graph(story: Story) -> None:
    for region in story.first.regions:
        found = [entry.isolated.fidelity for entry in region.post_grad if entry.isolated.fidelity is not None]
        assert found
        assert all(comparison.equal for comparison in found)


def test_values_of_a_backward_are_synthetic_and_those_of_a_forward_captured(transformer_training: Story) -> None:
    (region,) = transformer_training.first.regions
    found = {(entry.phase, entry.isolated.values) for entry in region.post_grad if entry.isolated.samples}
    assert found == {("forward", "captured"), ("backward", "synthetic")}


def test_updates_of_buffers_are_timed_and_the_users_buffers_do_not_move(regularised_training: Story) -> None:
    (region,) = regularised_training.first.regions
    assert len([entry for entry in region.post_grad if entry.target == "copy_"]) == 3
    assert regularised_training.changes == []


def test_random_numbers_are_timed_although_only_inductor_has_such_ops(regularised_training: Story) -> None:
    (region,) = regularised_training.first.regions
    for target in ("inductor_seeds", "inductor_lookup_seed", "inductor_random"):
        assert op(region, target).isolated.samples is not None


def test_saved_and_loaded_the_unfused_times_are_the_same(story: Story) -> None:
    assert [region.post_grad for region in reload(story.first).regions] == [
        region.post_grad for region in story.first.regions
    ]


def test_the_lowered_graph_run_eagerly_returns_what_the_compiled_one_does() -> None:
    region = captured(lambda x: (x.softmax(-1) @ x.T).relu(), batch())
    graph = region.graph("forward")
    assert graph is not None
    eager: list[Any] = []
    with wrappers.before_calls(graph, lambda args: eager.append(fx.Interpreter(lowered(region)).run(*args))):
        result = region.compiled_call([batch()])
    torch.testing.assert_close(eager[0][0], result[0])


# sharing


def test_an_op_of_the_backward_that_equals_one_of_the_forward_names_it(regularised_training: Story) -> None:
    (region,) = regularised_training.first.regions
    again = op(region, "var_mean", "backward").isolated
    assert again.shared_with == "forward:var_mean"
    assert again.samples == op(region, "var_mean").isolated.samples


def test_an_op_never_shares_with_a_dynamo_node_of_the_same_target() -> None:
    region = measured(lambda x: aten.relu.default(x) + 1, batch())
    assert op(region, "relu").isolated.samples is not None
    assert op(region, "relu").isolated.shared_with is None


# what a graph writes


def test_an_input_written_through_a_view_is_as_it_was_and_the_write_is_timed() -> None:
    def model(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        cache[2:4].mul_(2)
        cache.index_put_((at,), x)
        return (cache @ x.T).relu()

    cache, x, at = batch(), batch(3, 16), torch.tensor([1, 2, 5])
    compiled(model)(cache, x, at)
    before = world(torch.nn.Identity(), cache, x, at)
    (region,) = quick().regions
    assert changes(before, world(torch.nn.Identity(), cache, x, at)) == []
    assert op(region, "index_put_").isolated.samples is not None
    assert op(region, "copy_").isolated.samples is not None


@pytest.mark.parametrize(
    "calls",
    [
        [(aten.add_.Tensor, 0, 0)],
        [(aten.view.default, 0, [-1]), (aten.add_.Tensor, 1, 1)],
        [(aten.reshape.default, 0, [-1]), (aten.add_.Tensor, 1, 1)],
        [(aten._unsafe_view.default, 0, [-1]), (aten.relu_.default, 1)],
        [(aten.split.Tensor, 0, 2.0), (lambda parts: parts[0], 1), (aten.relu_.default, 2)],
        [(torch.ops.prims.convert_element_type.default, 0, torch.float32), (aten.relu_.default, 1)],
        [(triton_kernel_wrapper_mutation, 0)],
    ],
)
def test_an_input_counts_as_written_directly_and_through_whatever_shares_its_storage(calls: list[Any]) -> None:
    assert {node.name for node in written_inputs(graph_of(*calls))} == {"x"}


def test_writing_a_fresh_result_writes_no_input() -> None:
    graph = graph_of((aten.clone.default, 0), (aten.relu_.default, 1), (aten.add.Tensor, 0, 2))
    assert written_inputs(graph) == set()


def test_a_graph_may_write_its_inputs_and_the_originals_stay() -> None:
    x, seen = torch.zeros(4), []
    graph = graph_of((aten.add_.Scalar, 0, 1.0), (aten.mul.Scalar, 1, 2.0), (aten.neg.default, 2))

    def visit(node: fx.Node, args: Any, kwargs: Any, call: Callable[[], Any]) -> Any:
        seen.append(call())
        return seen[-1]

    run_lowered(module_of(graph), [x], visit, lambda *_: None)
    assert torch.equal(seen[-1], torch.full((4,), -2.0))
    assert torch.equal(x, torch.zeros(4))


# what fails


def test_an_op_that_raises_loses_itself_and_its_readers_alone() -> None:
    graph = graph_of((aten.linalg_cholesky.default, 0), (aten.relu.default, 1), (aten.neg.default, 0))
    found: dict[str, str] = {}

    def visit(node: fx.Node, args: Any, kwargs: Any, call: Callable[[], Any]) -> Any:
        result = call()
        found[node.name] = "ok"
        return result

    def lost(node: fx.Node, status: str, reason: str) -> None:
        found[node.name] = f"{status}: {reason}"

    run_lowered(module_of(graph), [torch.randn(2, 3)], visit, lost)
    assert found["linalg_cholesky_default"].startswith("failed: run eagerly it raises ")
    assert found["relu_default"] == "skipped: reads linalg_cholesky_default, which could not be run"
    assert found["neg_default"] == "ok"


def test_an_op_that_cannot_be_run_is_a_row_with_a_reason_in_a_region_that_is_measured() -> None:
    region = captured(lambda x: (x.sin() @ x.T).relu() + x.sum(), batch(8, 8))
    broken = next(node for node in lowered(region).graph.nodes if node.target is aten.sin.default)
    broken.target = aten._embedding_bag.default  # too few arguments
    (record,) = quick().regions
    assert record.status == "ok"
    assert op(record, "sin").isolated.status == "failed"
    assert op(record, "sin").isolated.reason.startswith("run eagerly it raises ")
    assert op(record, "relu").isolated.reason == "reads sin, which could not be run"
    assert op(record, "sum").isolated.status == "ok"
    assert {kernel.isolated.status for kernel in record.kernels} == {"ok"}


def test_a_run_of_the_ops_that_fails_as_a_whole_says_so_in_every_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any) -> None:
        raise RuntimeError("no memory for copies")

    captured(lambda x: x.sin() + 1, batch())
    monkeypatch.setattr(unfused, "run_lowered", failing)
    (region,) = quick().regions
    reason = "the run of the lowered graph raised RuntimeError: no memory for copies"
    assert {(entry.isolated.status, entry.isolated.reason) for entry in region.post_grad} == {("failed", reason)}
    assert {kernel.isolated.status for kernel in region.kernels} == {"ok"}


def test_a_region_that_is_not_measured_says_why_of_its_ops_too() -> None:
    captured(lambda x: x.sin() + 1, batch()).capture = None
    (region,) = quick().regions
    assert {entry.isolated.reason for entry in region.post_grad} == {region.reason}


# graphs of their own kind


def test_each_region_of_a_broken_graph_has_its_own_ops() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        y = x.sin() + 1
        torch._dynamo.graph_break()
        return y.cos() * 2

    compiled(model)(batch())
    regions = quick().regions
    timed = [{entry.target for entry in region.post_grad if entry.isolated.samples} for region in regions]
    assert timed == [{"sin", "add"}, {"cos", "mul"}]


def test_what_an_op_runs_inside_is_timed_as_that_op() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))
        return result + 1

    region = measured(model, batch())
    assert op(region, "cond").isolated.samples is not None
    assert op(region, "sin").isolated.reason == unfused.NESTED


def test_symbolic_sizes_are_what_they_were_and_arithmetic_on_them_is_no_timed_op() -> None:
    region = measured(lambda x: x.reshape(-1)[: x.shape[0] * 2].softmax(0) * x.shape[0], batch(), dynamic=True)
    assert {entry.isolated.reason for entry in region.post_grad if entry.isolated.samples is None} == {
        unfused.VIEW,
        NO_TENSOR,
    }
    assert op(region, "amax").isolated.samples is not None


def test_a_reshape_that_copies_is_timed() -> None:
    region = captured(lambda x: x.T.reshape(-1).softmax(0), batch())
    copy = next(node for node in lowered(region).graph.nodes if node.target is aten.clone.default)
    copy.replace_all_uses_with(copy.args[0])  # leaves the copying to `reshape`
    (record,) = quick().regions
    assert op(record, "reshape").isolated.samples is not None


def test_autocast_around_the_model_does_not_cast_its_ops_again() -> None:
    x = batch()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        region = captured(lambda x: (x.double() @ x.double().T) + (x @ x.T), x)
    names = {node.name for node in lowered(region).graph.nodes if node.target is aten.mm.default}
    (record,) = quick().regions
    assert len(names) == 2
    assert all(entry.isolated.fidelity and entry.isolated.fidelity.equal for entry in record.post_grad
               if entry.name in names)  # fmt: skip


def test_ops_get_a_quarter_of_the_budgets_and_asked_for_counts_as_they_are() -> None:
    policy = Policy(timer="wallclock", cache="warm", values="captured", warmup_ms=40.0, measure_ms=100.0, repeat=7)
    found = unfused.quartered(policy)
    assert (found.warmup_ms, found.measure_ms, found.max_samples, found.repeat) == (10.0, 25.0, 50, 7)
    assert unfused.quartered(replace(policy, max_samples=10)).max_samples == 10

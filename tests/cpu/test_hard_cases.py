"""Cases in which a number could go wrong silently, or the user's world be changed, each with the right answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import graphbench
from graphbench import session
from graphbench.capture import ambient
from graphbench.capture.gaps import Depth, GapCall, GapMode
from graphbench.errors import GraphbenchError
from graphbench.inductor.hook import AnnouncedIr, Emitted, to_records
from graphbench.inductor.joint import JointGraph
from graphbench.inductor.origins import DynamoGraphs
from graphbench.isolate.bench_unit import BenchUnit
from graphbench.isolate.specs import unit_key
from graphbench.measuring.eager import eager_run
from graphbench.measuring.gap_ops import op_name
from graphbench.measuring.runs import Label
from graphbench.provenance.claims import IrNode
from tests.cpu.stories import QUICK, WIDTH, batch, captured, compiled, dynamo_graphs, measured, quick


def test_calls_with_different_bodies_are_different_units() -> None:
    one, other = (torch.fx.symbolic_trace(body) for body in (lambda x: x.sin(), lambda x: x.cos()))
    x = batch()
    assert unit_key("checkpoint", (one, x), {}) != unit_key("checkpoint", (other, x), {})
    assert unit_key("checkpoint", (one, x), {}) == unit_key("checkpoint", (one, x), {})


def test_an_object_that_is_gone_is_never_taken_for_a_later_one() -> None:
    x = batch()
    keys = [unit_key("op", (x, SimpleNamespace(value=value)), {}) for value in range(50)]
    assert len(set(keys)) == len(keys)


def checkpointed(x: torch.Tensor) -> torch.Tensor:
    y = checkpoint(lambda value: torch.tanh(value) * 2, x, use_reentrant=False)
    return torch.sigmoid(y)


def test_a_nested_graph_belongs_to_the_call_that_runs_it() -> None:
    ((gm, _),) = dynamo_graphs(checkpointed, batch().requires_grad_())
    calls = [node for node in gm.graph.nodes if node.op == "call_function" and "checkpoint" in str(node.target)]
    owners = DynamoGraphs.of(gm).owners
    assert owners[id(gm.graph)] is None
    assert sorted(owner for owner in owners.values() if owner) == [calls[0].name]


def test_a_checkpointed_region_is_measured_and_its_body_credited_to_the_call() -> None:
    region = measured(checkpointed, batch().requires_grad_())
    assert region.status == "ok", region.reason
    fused = next(kernel for kernel in region.kernels if kernel.phase == "forward")
    executing = {role.node for role in fused.roles if role.role == "executes"}
    assert executing == {node.name for node in region.nodes if node.kind == "compute"}


def test_a_write_that_leaves_the_same_bytes_is_still_a_write() -> None:
    cache = torch.zeros(4, 4)
    unit = BenchUnit("copy_", torch.Tensor.copy_, (cache, torch.zeros(4, 4)), {})
    assert unit.needs_restore
    assert not unit.is_view
    assert not unit.may_launch_nothing


def listing(seen: list[str]) -> GapCall:
    """Makes every call, and writes down its name."""

    def on_op(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        seen.append(op_name(function))
        return function(*args, **kwargs)

    return on_op


def test_every_eager_run_under_autocast_casts_its_weights_again() -> None:
    linear = nn.Linear(WIDTH, WIDTH)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        region = captured(linear, batch())
        counts = []
        for _ in range(2):
            seen: list[str] = []
            run = eager_run(region, Label())
            with ambient.restored(region.capture.ambient) if region.capture else pytest.fail("not captured"):
                run.prepare()
                with GapMode(Depth(), listing(seen)):
                    run.run()
            counts.append(seen.count("_to_copy"))
    assert counts[0] == counts[1] > 0


def test_an_interrupt_between_state_nodes_leaves_no_autocast_open() -> None:
    state = ambient.current(("cpu",))
    depth = torch.autocast_increment_nesting()
    torch.autocast_decrement_nesting()

    def interrupted() -> None:
        with ambient.restored(state):
            torch.autocast("cpu", dtype=torch.bfloat16).__enter__()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert torch.autocast_increment_nesting() == depth
    torch.autocast_decrement_nesting()
    assert not torch.is_autocast_enabled("cpu")


def test_the_users_hooks_do_not_run_while_measuring() -> None:
    linear = nn.Linear(WIDTH, WIDTH)
    seen: list[int] = []
    linear.weight.register_hook(lambda gradient: seen.append(1))
    compiled(linear)(batch()).sum().backward()
    assert len(seen) == 1
    quick()
    assert len(seen) == 1


def test_views_of_one_base_are_replayed_as_views_of_one_base() -> None:
    base = batch(8, 6)
    kept = base.clone()

    def update(row: torch.Tensor, column: torch.Tensor) -> torch.Tensor:
        row.add_(1)
        return column * 2

    compiled(update)(base[0], base[:, 1])
    kept[0] += 1
    (region,) = quick().regions
    assert region.status == "ok", region.reason
    assert region.forward.run is not None, region.forward.reason
    assert region.outputs is not None
    assert region.outputs.equal is True
    assert torch.equal(base, kept)


def test_higher_order_ops_in_a_gap_are_gap_ops() -> None:
    seen: list[str] = []
    x = batch()
    with GapMode(Depth(), listing(seen)):
        torch.cond(x.sum() > -1e9, torch.sin, torch.cos, (x,))
    assert seen == ["sum", "gt", "cond"]


def test_training_and_evaluation_of_one_model_are_both_measured() -> None:
    net = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Dropout(0.5))
    model = compiled(net)
    model(batch())
    net.eval()
    with torch.no_grad():
        model(batch())
    assert [region.status for region in quick().regions] == ["ok", "ok"]


def test_a_first_call_that_raises_is_followed_by_one_that_is_captured() -> None:
    table = torch.arange(10.0)

    def look_up(index: torch.Tensor) -> torch.Tensor:
        return table[index] * 2

    model = compiled(look_up)
    with pytest.raises((IndexError, RuntimeError)):
        model(torch.tensor([99]))
    model(torch.tensor([3]))
    (region,) = session.current().regions
    assert region.calls == 2
    assert region.capture is not None
    assert [entry.value.tolist() for entry in region.capture.values if entry.value.dtype == torch.int64] == [[3]]


def test_an_input_overwritten_since_is_a_reason_and_other_regions_are_measured() -> None:
    index, table = torch.tensor([1]), torch.arange(10.0)
    compiled(lambda at: table[at] * 2)(index)
    compiled(lambda x: x.softmax(-1))(batch())
    index.fill_(99)
    broken, healthy = quick().regions
    assert broken.forward.reason.startswith("r0 forward: its replay raised RuntimeError: ")
    assert "index out of bounds: 0 <= tmp" in broken.forward.reason
    assert "index 99 is out of bounds" in broken.eager.reason
    assert healthy.status == "ok"
    assert healthy.forward.run is not None


class Scaled(nn.Module):
    """A number read from a tensor that later becomes a symbol: Dynamo recompiles, and thinks twice about it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = x.mean().item()
        print(end="")  # noqa: T201 - the graph break
        return self.linear(x * scale if scale < 1e9 else x)


def test_an_attempt_that_dynamo_gives_up_is_no_region_and_a_recompile_is_counted() -> None:
    model = compiled(Scaled())
    for seed in range(3):
        model(torch.randn(8, WIDTH, generator=torch.Generator().manual_seed(seed)))
    regions = session.current().regions
    assert [region.problem for region in regions] == [""] * len(regions)
    assert len(session.current().recompiles()) == 2  # both resumed frames, as TORCH_LOGS=recompiles counts


def test_warm_up_steps_that_compile_are_no_uninstrumented_step() -> None:
    model = compiled(nn.Linear(WIDTH, WIDTH))
    record = graphbench.profile(lambda: model(batch()), warmup_steps=1, **QUICK).record
    assert record.step is not None
    assert record.step.plain_wall_ns == ()
    assert any("every warm-up step compiled" in note for note in record.step.notes)
    warm = graphbench.profile(lambda: model(batch()), warmup_steps=3, **QUICK).record
    assert warm.step is not None
    assert len(warm.step.plain_wall_ns) == 1  # the first is cold, the third rehearses the recording


def test_a_map_that_cannot_be_read_is_said_and_the_model_still_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(*_: object) -> None:
        raise AttributeError("no such field in this torch")

    monkeypatch.setattr("graphbench.inductor.hook.to_records", unreadable)
    net, x = nn.Linear(WIDTH, WIDTH), batch()
    model = compiled(net)
    torch.testing.assert_close(model(x), net(x))
    (region,) = quick().regions
    assert region.status == "ok", region.reason
    assert any("could not be mapped to nodes: AttributeError: no such field" in note for note in region.notes)
    assert {kernel.isolated.status for kernel in region.kernels} == {"ok"}
    assert all(not kernel.roles for kernel in region.kernels)


def test_a_call_that_only_mutates_is_named_as_an_operation() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    call = graph.call_function(torch.relu, (x,))
    # As `torch._inductor.ir.UserDefinedTritonKernel`: a buffer without a name, whose `get_name` asserts.
    kernel = SimpleNamespace(
        name=None, operation_name="op3", origin_node=None, origins=[call], inputs=[], get_mutation_names=list
    )
    emitted = Emitted(kernels=[("add_kernel_0:1", True, [AnnouncedIr(kernel, ("arg0_1",), None)])])
    graphs = DynamoGraphs(graph, {}, {}, frozenset(), {})
    _, (origins,) = to_records(emitted, graph, "forward", JointGraph(graphs))
    assert origins.irs == (IrNode("op3", None, ("relu",), ("arg0_1",)),)


def test_what_the_compiler_raised_is_told_not_that_it_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("the disk with the kernels is gone")

    monkeypatch.setattr("graphbench.inductor.compile.compile_region", refuse)
    with pytest.raises(GraphbenchError, match="the step raised OSError: the disk with the kernels is gone"):
        graphbench.profile(compiled(nn.Linear(WIDTH, WIDTH)), batch(), **QUICK)


def test_a_call_that_returns_and_writes_nothing_is_a_host_node_and_one_that_writes_is_not() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        torch._C._log_api_usage_once("a call that returns nothing")
        y = torch.zeros_like(x)
        y[0] = 1.0
        return x + y

    kinds = {node.op_type: node.kind for node in measured(fn, batch()).nodes}
    assert (kinds["_log_api_usage_once"], kinds["setitem"]) == ("host", "compute")

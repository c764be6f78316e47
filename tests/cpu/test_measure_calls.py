"""Regions that are hard to replay: ops that raise, inputs that are written or share memory, sizes, branches."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import graphbench
from graphbench import session
from graphbench.measuring import session_work
from tests.cpu.stories import QUICK, captured, changes, compiled, measured, node, quick, world

# what fails alone


def custom_op(name: str, implementation: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., Any]:
    """A custom op that Inductor calls as it is."""
    op = torch.library.custom_op(f"graphbench_test::{name}", implementation, mutates_args=())
    op.register_fake(torch.empty_like)
    return op


def test_an_op_that_cannot_be_repeated_alone_costs_its_rows_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    alone: list[str] = []

    def implementation(x: torch.Tensor) -> torch.Tensor:
        if alone:
            raise OSError(alone[0])
        return x.clone()

    op = custom_op("fails_alone", implementation)
    captured(lambda x: op(x @ x) @ x, torch.ones(4, 4))
    _while_isolating(monkeypatch, alone)
    (region,) = quick().regions
    rows = [*region.nodes, *region.kernels]
    failed = [(row.isolated.status, row.isolated.reason) for row in rows if row.isolated.status != "ok"]
    reason = "needs manual benchmark: graphbench_test.fails_alone: alone it raises OSError: out of paper"
    assert failed == [("skipped", reason)] * 2
    assert {row.in_graph.status for row in rows} == {"ok"}
    assert region.status == "ok"
    assert node(region, "graphbench_test.fails_alone").isolated.status == "skipped"


def _while_isolating(monkeypatch: pytest.MonkeyPatch, flag: list[str]) -> None:
    """Raise the flag while a unit is measured alone, and only then."""
    from graphbench.measuring.isolating import Isolator

    original = Isolator._measure

    def measure(self: Isolator, call: Any) -> Any:
        flag.append("out of paper")
        try:
            return original(self, call)
        finally:
            flag.clear()

    monkeypatch.setattr(Isolator, "_measure", measure)


def failing_after(calls: int) -> Callable[[torch.Tensor], torch.Tensor]:
    counter = itertools.count(1)

    def implementation(x: torch.Tensor) -> torch.Tensor:
        if next(counter) > calls:
            raise ValueError("enough")
        return x.clone()

    return implementation


def test_an_op_that_raises_from_its_second_call_on_fails_its_own_region_only() -> None:
    op = custom_op("fails_later", failing_after(1))
    compiled(lambda x: op(x @ x) @ x)(torch.ones(4, 4))
    compiled(lambda x: x @ x)(torch.ones(4, 4))
    broken, healthy = quick().regions
    assert (healthy.status, node(healthy, "matmul").isolated.status) == ("ok", "ok")
    failed = node(broken, "graphbench_test.fails_later").isolated
    assert (failed.status, "ValueError: enough" in failed.reason) == ("failed", True)
    assert [(side.run, "ValueError: enough" in side.reason) for side in (broken.eager, broken.forward)] == [
        (None, True)
    ] * 2
    assert {row.in_graph.status for row in (*broken.nodes, *broken.kernels)} == {"skipped"}


def test_a_node_that_always_raises_in_eager_replay_stops_that_side_only() -> None:
    region = captured(lambda x: (x @ x).cos() @ x, torch.ones(4, 4))

    def cos(x: torch.Tensor) -> torch.Tensor:
        raise OSError("no cosines")

    for entry in region.gm.graph.nodes:
        if entry.name == "cos":
            entry.op, entry.target = "call_function", cos
    region.gm.recompile()
    (found,) = quick().regions
    assert found.status == "ok"
    assert (found.eager.run, "OSError: no cosines" in found.eager.reason) == (None, True)
    assert {kernel.in_graph.status for kernel in found.kernels} == {"ok"}
    assert {entry.in_graph.status for entry in found.nodes} == {"skipped"}
    assert [(entry.isolated.status, entry.isolated.reason) for entry in found.nodes] == [
        ("ok", ""),
        ("failed", "eager replay stopped at cos: OSError: no cosines"),
        ("skipped", "eager replay stopped at cos: OSError: no cosines"),
    ]


def test_a_region_that_fails_as_a_whole_is_failed_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled(lambda x: x @ x)(torch.ones(4, 4))

    def failing(*_: Any) -> Any:
        raise graphbench.GraphbenchError("as a test")

    monkeypatch.setattr(session_work.RegionMeasuring, "measure", failing)
    (region,) = quick().regions
    assert (region.status, region.reason) == ("failed", "as a test")
    assert {entry.isolated.reason for entry in region.nodes} == {"as a test"}


# inputs that are written or share memory


def append(cache: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    cache[:, 2] = x
    return cache @ cache.transpose(-1, -2)


def test_a_cache_written_in_place_is_left_as_it_was() -> None:
    cache, x = torch.zeros(2, 4, 8), torch.ones(2, 8)
    model = compiled(append)
    model(cache, x)
    cache[:, 3] = 7.0
    before = world(nn.Identity(), cache, x)
    (region,) = quick().regions
    assert changes(before, world(nn.Identity(), cache, x)) == []
    assert [record.mutated for record in region.inputs] == [True, False]
    assert region.outputs is not None
    assert region.outputs.equal is True


def test_two_inputs_that_are_views_of_one_base_are_replayed() -> None:
    def fn(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.add_(1)
        return a @ b

    base = torch.ones(6, 4)
    compiled(fn)(base[:4], base[2:])
    before = base.clone()
    (region,) = quick().regions
    assert torch.equal(base, before)
    assert region.status == "ok"
    assert region.outputs is not None
    assert region.outputs.equal is True


def test_symbolic_sizes_are_replayed_with_their_first_values() -> None:
    region = measured(lambda x: x @ x.t(), torch.ones(3, 5), dynamic=True)
    assert region.status == "ok"
    assert [spec.shape for spec in node(region, "matmul").outputs] == [(3, 3)]


def test_a_branch_on_data_runs_to_the_end() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x @ x, lambda x: x @ x @ x, (x,)) @ x

    region = measured(fn, torch.ones(4, 4))
    assert region.status == "ok"
    assert region.forward.run is not None
    assert node(region, "matmul").isolated.status == "ok"


def test_synthetic_values_are_measured_and_stamped() -> None:
    compiled(lambda table, index: torch.nn.functional.embedding(index, table) @ table.t())(
        torch.ones(5, 3), torch.tensor([0, 4])
    )
    (region,) = graphbench.measure(values="synthetic", **QUICK).record.regions
    assert {(entry.isolated.status, entry.isolated.values) for entry in region.nodes} == {("ok", "synthetic")}


def test_every_region_of_a_model_is_measured() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        x = x @ x
        torch._dynamo.graph_break()
        return x @ x

    compiled(fn)(torch.ones(4, 4))
    assert [(region.key, region.status, region.calls) for region in quick().regions] == [
        ("r0", "ok", 1),
        ("r1", "ok", 1),
    ]


def test_measuring_does_not_count_as_calling() -> None:
    compiled(lambda x: x @ x)(torch.ones(4, 4))
    quick()
    assert quick().regions[0].calls == session.current().regions[0].calls == 1

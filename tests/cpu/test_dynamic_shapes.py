"""Graphs that take any sizes: a region for every group of sizes, each replayed on inputs of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

import graphbench
from graphbench import session
from graphbench.records import ProfileRecord, RegionRecord
from tests.cpu.stories import QUICK, compiled
from tests.live import busy_ns


def product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """No C++ kernel: compiles in no time."""
    return x @ w


W = torch.ones(8, 4)


def measured(**options: Any) -> ProfileRecord:
    return graphbench.measure(**{**QUICK, **options}).record


def keys() -> list[str]:
    return [region.key for region in session.current().regions]


def by_rows(record: ProfileRecord) -> dict[int, RegionRecord]:
    """Regions by the size of the one dimension that changes."""
    return {dict(region.sizes).popitem()[1]: region for region in record.regions if region.sizes}


def any_rows(rows: int) -> torch.Tensor:
    """A tensor for which a graph is made that takes any number of rows."""
    x = torch.ones(rows, 8, requires_grad=True)
    torch._dynamo.mark_dynamic(x, 0)
    return x


@pytest.fixture(scope="module")
def trained() -> Iterator[ProfileRecord]:
    """A training run over three batch sizes, the first twice."""
    graphbench.reset()
    model = compiled(product)
    for rows in (3, 5, 9, 3):
        model(any_rows(rows), torch.ones(8, 4, requires_grad=True)).sum().backward()
    yield measured()
    graphbench.reset()


def test_every_group_of_sizes_is_measured_and_the_same_sizes_are_one(trained: ProfileRecord) -> None:
    groups = by_rows(trained)
    assert {rows: group.calls for rows, group in groups.items()} == {3: 2, 5: 1, 9: 1}
    assert {group.status for group in groups.values()} == {"ok"}
    first = groups[3]
    assert [group.shapes_of for group in groups.values()] == ["", first.key, first.key]
    assert [group.key for group in groups.values()] == [first.key, f"{first.key}.2", f"{first.key}.3"]


def test_nodes_have_the_sizes_of_their_group_and_the_symbols_of_all(trained: ProfileRecord) -> None:
    for rows, group in by_rows(trained).items():
        (node,) = [node for node in group.nodes if node.op_type == "matmul"]
        assert node.outputs[0].shape == (rows, 4)
        (symbol,) = dict(group.sizes)
        assert node.symbolic == ((symbol, "4"),)
        assert node.isolated.work is not None
        assert node.isolated.work.flops == 2 * rows * 8 * 4


def test_inputs_say_which_of_their_sizes_may_be_any(trained: ProfileRecord) -> None:
    for rows, group in by_rows(trained).items():
        (symbol,) = dict(group.sizes)
        size, *tensors = group.inputs
        assert (size.value, size.symbolic) == (rows, (symbol,))
        assert [(entry.spec and entry.spec.shape, entry.symbolic) for entry in tensors] == [
            ((rows, 8), (symbol, "8")),
            ((8, 4), ()),
        ]


def test_what_inductor_lowered_moves_the_bytes_of_the_group(trained: ProfileRecord) -> None:
    for rows, group in by_rows(trained).items():
        forward = {op.target: op for op in group.post_grad if op.phase == "forward"}
        assert forward["mm"].moved_bytes == 4 * (rows * 8 + 8 * 4 + rows * 4)
        assert forward["mm"].outputs[0].shape == (rows, 4)
        read = [entry.spec.shape for entry in group.graph_inputs if entry.spec and entry.phase == "forward"]
        assert (rows, 8) in read


def test_every_group_has_its_own_backward(trained: ProfileRecord) -> None:
    for rows, group in by_rows(trained).items():
        assert group.backward.run is not None
        backward = [op for op in group.post_grad if op.phase == "backward" and op.target == "mm"]
        assert {op.outputs[0].shape for op in backward} == {(rows, 8), (8, 4)}


def test_only_what_compiled_took_time_to_compile(trained: ProfileRecord) -> None:
    first, *others = by_rows(trained).values()
    assert first.forward.compile_ns is not None
    assert first.backward.compile_ns is not None
    assert {(group.forward.compile_ns, group.backward.compile_ns) for group in others} == {(None, None)}


def test_a_marked_dimension_alone_makes_groups() -> None:
    model = compiled(product)
    x = torch.ones(3, 8)
    torch._dynamo.mark_dynamic(x, 0)
    model(x, W)
    model(torch.ones(5, 8), W)
    assert keys() == ["r0", "r0.2"]


def test_automatic_dynamic_is_a_region_of_its_own_that_says_what_it_was_recompiled_for() -> None:
    model = compiled(product)
    for rows in (3, 5, 9):
        model(torch.ones(rows, 8), W)
    assert keys() == ["r0", "r1", "r1.2"]
    record = measured()
    assert [dict(region.sizes) and list(dict(region.sizes).values()) for region in record.regions] == [{}, [5], [9]]
    (recompile,) = record.recompiles
    assert recompile.region == "r1"
    assert "size mismatch at index 0. expected 3, actual 5" in recompile.guard


def test_an_unbacked_size_of_an_input_has_its_value_in_every_call() -> None:
    model = compiled(product)
    for rows in (3, 5):
        x = torch.ones(rows, 8)
        torch._dynamo.decorators.mark_unbacked(x, 0)
        model(x, W)
    record = measured()
    shapes = [node.outputs[0].shape for region in record.regions for node in region.nodes if node.op_type == "matmul"]
    assert shapes == [(3, 4), (5, 4)]


def test_sizes_beyond_the_groups_that_are_kept_are_counted_and_said() -> None:
    model = compiled(product, dynamic=True, options={"groups": 2})
    for rows in (3, 5, 7, 9, 5):
        assert model(torch.ones(rows, 8), W).shape == (rows, 4)
    first, second = [region for region in session.current().regions if region.calls]
    assert (first.calls, second.calls, first.groups.ungrouped) == (1, 2, 2)
    notes = [note for region in measured().regions for note in region.notes]
    assert [note for note in notes if note.startswith("2 calls had other sizes than the 2 groups")] != []


def test_a_step_credits_the_group_that_ran_in_forward_and_backward() -> None:
    model = compiled(product, dynamic=True)
    w = torch.ones(8, 4, requires_grad=True)

    def step(*rows: int) -> None:
        for count in rows:
            model(torch.ones(count, 8), w).sum().backward()

    step(3, 5, 9)
    with graphbench.record() as recording:
        step(9, 5, 9)
    profile = recording.profile(**QUICK).record
    assert profile.step is not None
    ran = {
        (row.region, row.kernel and row.kernel.partition("/")[0]): row.calls for row in profile.step.rows if row.region
    }
    key = next(region.key for region in profile.regions if region.sizes)
    assert ran == {
        (f"{key}.3", "forward"): 2,
        (f"{key}.3", "backward"): 2,
        (f"{key}.2", "forward"): 1,
        (f"{key}.2", "backward"): 1,
    }
    status = {region.key: (region.status, region.reason) for region in profile.regions if region.sizes}
    assert status[key] == ("skipped", "the recorded step did not run it")
    assert status[f"{key}.2"] == status[f"{key}.3"] == ("ok", "")
    run = profile.step.run
    assert busy_ns(profile.step.rows) + sum(run.wrapper_ns or ()) - run.overlap_ns[0] == run.busy_ns[0]


def test_only_a_regions_key_means_all_its_groups_and_a_groups_key_that_one() -> None:
    model = compiled(product, dynamic=True)
    for rows in (3, 5):
        model(torch.ones(rows, 8), W)
    first, second = [region.key for region in session.current().regions if region.calls]
    both = measured(only_region=(first,))
    assert [region.status for region in both.regions if region.sizes] == ["ok", "ok"]
    one = measured(only_region=(second,))
    assert [region.status for region in one.regions if region.sizes] == ["skipped", "ok"]

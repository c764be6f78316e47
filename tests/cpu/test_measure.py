"""Measuring: rows are complete and add up, replays do the same work, and the user's world is untouched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import nn

import graphbench
from graphbench.inductor import wrapper as wrappers
from graphbench.measurements import Measurement, RunRecord
from graphbench.records import RegionRecord
from tests.cpu.stories import (
    WIDTH,
    Regularised,
    Scores,
    Story,
    batch,
    captured,
    changes,
    compiled,
    forward_kernels,
    node,
    quick,
    shape_of,
    traces_left,
    world,
)

STORIES = ("regularised_training", "regularised_inference", "transformer_training")
TRAINING = ("regularised_training", "transformer_training")


@pytest.fixture
def story(request: pytest.FixtureRequest) -> Story:
    found: Story = request.getfixturevalue(request.param)
    return found


def all_stories(names: Sequence[str] = STORIES) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("story", names, indirect=True)


def region_of(story: Story) -> RegionRecord:
    (region,) = story.first.regions
    return region


# rows


@all_stories()
def test_every_compute_node_has_both_times(story: Story) -> None:
    nodes = [entry for entry in region_of(story).nodes if entry.kind != "state"]
    assert len(nodes) >= 4
    assert {(entry.isolated.status, entry.in_graph.status) for entry in nodes} == {("ok", "ok")}


@all_stories()
def test_every_kernel_has_both_times(story: Story) -> None:
    kernels = region_of(story).kernels
    assert len(kernels) >= 2
    assert {(entry.isolated.status, entry.in_graph.status) for entry in kernels} == {("ok", "ok")}


@all_stories()
def test_every_isolated_unit_is_faithful(story: Story) -> None:
    region = region_of(story)
    rows = [(row.isolated, name) for row in region.nodes for name in [row.name]]
    rows += [(row.isolated, row.key) for row in region.kernels]
    judged = [(row.fidelity.equal, name) for row, name in rows if row.fidelity is not None]
    assert judged
    assert [name for equal, name in judged if not equal] == []


@all_stories()
def test_rows_have_as_many_samples_as_asked_for(story: Story) -> None:
    region = region_of(story)
    rows: list[Measurement] = [node.isolated for node in region.nodes] + [row.in_graph for row in region.kernels]
    assert {len(row.samples.busy_ns) for row in rows if row.samples} == {3}


def rest_ns(run: RunRecord, rows: Sequence[Measurement]) -> list[float]:
    """Per sample: wall time less rows less wrapper; nothing when time is conserved."""
    sums = [sum(column) for column in zip(*(row.samples.busy_ns for row in rows if row.samples), strict=True)]
    assert run.wrapper_ns is not None
    return [wall - row - other for wall, row, other in zip(run.wall_ns, sums, run.wrapper_ns, strict=True)]


@all_stories()
def test_kernels_and_wrapper_are_the_forwards_wall_time(story: Story) -> None:
    region = region_of(story)
    assert region.forward.run is not None
    assert rest_ns(region.forward.run, [kernel.in_graph for kernel in forward_kernels(region)]) == [0, 0, 0]


@all_stories(TRAINING)
def test_kernels_and_wrapper_are_the_backwards_wall_time(story: Story) -> None:
    region = region_of(story)
    assert region.backward.run is not None
    rows = [kernel.in_graph for kernel in region.kernels if kernel.phase == "backward"]
    assert rest_ns(region.backward.run, rows) == [0, 0, 0]


@all_stories()
def test_nodes_and_the_rest_are_the_eager_wall_time(story: Story) -> None:
    region = region_of(story)
    assert region.eager.run is not None
    assert rest_ns(region.eager.run, [entry.in_graph for entry in region.nodes]) == [0, 0, 0]


@all_stories()
def test_every_forward_kernel_has_an_owner_or_makes_random_seeds(story: Story) -> None:
    unowned = [kernel.key for kernel in forward_kernels(region_of(story)) if not kernel.roles]
    assert [key for key in unowned if "inductor_seeds" not in key and "randint" not in key] == []


def test_every_node_of_a_transformer_has_a_known_fate(transformer_training: Story) -> None:
    nodes = [entry for entry in region_of(transformer_training).nodes if entry.kind == "compute"]
    assert [entry.name for entry in nodes if entry.fate.kind == "unknown"] == []


def test_compiled_and_eager_results_are_equal(transformer_training: Story) -> None:
    outputs = region_of(transformer_training).outputs
    assert outputs is not None
    assert outputs.equal is True


def test_where_random_ops_draw_results_are_not_compared(regularised_training: Story) -> None:
    region = region_of(regularised_training)
    assert region.outputs is not None
    assert region.outputs.equal is None
    assert "random ops draw other numbers when compiled" in region.outputs.note


@all_stories()
def test_measured_twice_rows_and_states_are_the_same(story: Story) -> None:
    assert shape_of(story.first) == shape_of(story.second)


def test_a_region_without_gradients_says_why_it_has_no_backward(regularised_inference: Story) -> None:
    backward = region_of(regularised_inference).backward
    assert (backward.run, backward.reason) == (None, "the region has no backward: none of its results requires grad")


def test_identical_nodes_share_one_measurement(transformer_training: Story) -> None:
    shared = [entry.isolated for entry in region_of(transformer_training).nodes if entry.isolated.shared_with]
    names = {entry.name: entry.isolated for entry in region_of(transformer_training).nodes}
    assert shared
    assert all(entry.samples == names[entry.shared_with or ""].samples for entry in shared)


# the user's world


@all_stories()
def test_nothing_of_the_users_has_changed(story: Story) -> None:
    assert story.changes == []


@all_stories(TRAINING)
def test_a_pending_backward_gives_the_gradients_that_it_would_have_given(story: Story) -> None:
    assert len(story.gradients) == len(story.expected_gradients) >= 4
    assert [torch.equal(one, other) for one, other in zip(story.gradients, story.expected_gradients, strict=True)] == (
        [True] * len(story.gradients)
    )


def test_an_interrupted_measurement_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    net, x = Regularised(), batch()
    compiled(net)(x).sum().backward()
    before = world(net, x)

    def interrupting(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(wrappers, "written_arguments", interrupting)
    with pytest.raises(KeyboardInterrupt):
        quick()
    assert changes(before, world(net, x)) == []
    assert traces_left() == []


def test_a_model_that_is_called_after_measuring_gives_the_same_result() -> None:
    model, x = compiled(Scores()), batch()
    before = model(x)
    quick()
    assert torch.equal(model(x), before)


# ambient state


def test_autocast_entered_outside_the_model_is_replayed() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        captured(nn.Linear(WIDTH, WIDTH), batch())
    (region,) = quick().regions
    assert [spec.dtype for spec in node(region, "linear").outputs] == ["bfloat16"]
    assert region.ambient is not None
    assert [(state.enabled, state.dtype) for state in region.ambient.autocast] == [(True, "bfloat16")]
    assert region.outputs is not None
    assert region.outputs.equal is True


def test_autocast_around_measuring_does_not_reach_the_replay() -> None:
    captured(nn.Linear(WIDTH, WIDTH), batch())
    with torch.autocast("cpu", torch.bfloat16):
        (region,) = quick().regions
    assert [spec.dtype for spec in node(region, "linear").outputs] == ["float32"]


def test_a_region_captured_with_gradients_is_replayed_with_gradients_under_no_grad() -> None:
    captured(nn.Linear(WIDTH, WIDTH), batch())
    with torch.no_grad():
        (region,) = quick().regions
    assert region.backward.run is not None


def test_inference_mode_is_recorded_and_replayed(regularised_inference: Story) -> None:
    state = region_of(regularised_inference).ambient
    assert state is not None
    assert state.inference_mode is True


# a model of another library


def test_a_small_gpt2_is_complete() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        n_layer=2, n_embd=64, n_head=2, vocab_size=100, n_positions=16, use_cache=False, bos_token_id=0, eos_token_id=0
    )
    torch.manual_seed(0)
    net = transformers.GPT2LMHeadModel(config).eval()
    tokens = torch.arange(16).view(2, 8)
    with torch.no_grad():
        compiled(net)(tokens)
    before = world(net, tokens)
    record = quick()
    assert changes(before, world(net, tokens)) == []
    rows = [entry for region in record.regions for entry in region.nodes if entry.kind == "compute"]
    assert len(rows) > 40
    assert {(entry.isolated.status, entry.in_graph.status) for entry in rows} == {("ok", "ok")}
    assert [key.key for region in record.regions for key in forward_kernels(region) if not key.roles] == []
    assert [region.outputs.equal for region in record.regions if region.outputs] == [True] * len(record.regions)


# what options add


def test_a_noise_rule_goes_on_sampling_until_the_time_is_up() -> None:
    captured(lambda x: x.relu(), torch.randn(8))
    options: dict[str, Any] = {"repeat": 5, "warmup": 1}
    (once,) = graphbench.measure(**options).record.regions
    (longer,) = graphbench.measure(**options, noise=1e-9, noise_ms=1.0).record.regions
    counts = [len(samples.busy_ns) for samples in (node(r, "relu").isolated.samples for r in (once, longer)) if samples]
    assert counts[0] == 5
    assert counts[1] > 5
    assert counts[1] % 5 == 0

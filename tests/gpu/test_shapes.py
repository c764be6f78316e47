"""One region for all sizes on a GPU: a group for each of six sets of inputs, and exponents that are the work's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

import graphbench
from graphbench.analysis.scaling import Scaling
from graphbench.analysis.scaling_groups import GroupScaling
from tests.benchmarks.shapes import ATTENTION, CASES, LINEAR, profile_of

pytestmark = pytest.mark.gpu
CASE = CASES["cuda"]
"""bf16, lengths and batches so large that no time is that of starting a kernel."""


@pytest.fixture(scope="module")
def profile() -> Iterator[graphbench.Profile]:
    pytest.importorskip("transformers")
    yield profile_of(CASE, "cuda", measure_ms=10.0, warmup_ms=5.0)
    graphbench.reset()
    torch.cuda.empty_cache()


@pytest.fixture(scope="module")
def grown(profile: graphbench.Profile) -> Scaling:
    (found,) = profile.by_size()
    return found.result


def op(grown: Scaling, name: str) -> GroupScaling:
    (found,) = (group for group in grown.ops if group.group == name)
    assert not found.doubt
    return found


def test_six_sets_of_inputs_are_six_groups_of_one_region(profile: graphbench.Profile, grown: Scaling) -> None:
    regions = profile.record.regions
    assert [region.shapes_of for region in regions] == ["", *[regions[0].key] * 5]
    assert [region.status for region in regions] == ["ok"] * 6
    assert [axis.name for axis in grown.axes] == ["input_ids[0]", "input_ids[1]"]
    sets = sorted((batch, length) for batch in CASE.batches for length in CASE.lengths)
    assert list(zip(*(axis.values for axis in grown.axes), strict=True)) == sets


def test_every_node_has_a_time_in_every_group(grown: Scaling) -> None:
    assert {row.name: row.reason for row in grown.rows if None in row.times_ns} == {}


def test_every_group_is_attributed_wholly(profile: graphbench.Profile) -> None:
    for region in profile.record.regions:
        assert region.forward.run is not None, region.forward.reason
        assert region.forward.run.unattributed == ()


def test_linear_layers_grow_as_the_batch_and_as_the_length(grown: Scaling) -> None:
    batch, length = op(grown, LINEAR).growths
    assert 0.7 < batch.exponent < 1.3
    assert 0.7 < length.exponent < 1.3


def test_attention_grows_faster_with_the_length_and_as_the_batch(grown: Scaling) -> None:
    attention, linear = op(grown, ATTENTION), op(grown, LINEAR)
    assert attention.growths[1].exponent > linear.growths[1].exponent + 0.4
    assert 0.6 < attention.growths[0].exponent < 1.3

"""Opportunities, predictions and pay-off of a real profile: what they are of is what was measured."""

from __future__ import annotations

import dataclasses
import math

import pytest

from graphbench.analysis.compiled_costs import kernel_parts
from graphbench.analysis.missed import EPILOGUE, missed_fusions
from graphbench.analysis.opportunities import opportunities
from graphbench.analysis.roofline import Ceilings
from graphbench.analysis.stats import quantile
from graphbench.analysis.what_if import what_if
from graphbench.records import ProfileRecord
from tests.cpu.stories import Story
from tests.factories import ceilings

CEILINGS = ceilings(gb_per_s=5.0)


def record_of(story: Story) -> ProfileRecord:
    return dataclasses.replace(story.first, ceilings=CEILINGS)


def test_without_all_nodes_only_kernels_of_no_node_and_the_wrapper_are_left(transformer_training: Story) -> None:
    record = record_of(transformer_training)
    (region,) = record.regions
    times = {k.key: quantile(k.in_graph.samples.busy_ns, 0.5) for k in region.kernels if k.in_graph.samples}
    found = what_if(record, "*", math.inf)
    assert found.saved_ns == pytest.approx(sum(times[k.key] for k in region.kernels if kernel_parts(k)))
    assert found.before_ns is not None
    assert found.after_ns == pytest.approx(found.before_ns - found.saved_ns)


def test_no_opportunity_gives_more_than_the_kernels_of_its_places(transformer_training: Story) -> None:
    record = record_of(transformer_training)
    (region,) = record.regions
    busy_ns = sum(quantile(k.in_graph.samples.busy_ns, 0.5) for k in region.kernels if k.in_graph.samples)
    found = opportunities(record)
    assert found
    assert all(0 < entry.gain_ns <= busy_ns and entry.part is not None and entry.part <= 1 for entry in found)


def test_an_activation_behind_a_linear_is_an_epilogue_that_a_template_could_take(transformer_training: Story) -> None:
    (region,) = transformer_training.first.regions
    found = missed_fusions(region, Ceilings.of(CEILINGS, region.device))
    forward = [entry for entry in found if entry.phase == "forward" and entry.how == EPILOGUE]
    assert any("gelu" in entry.second for entry in forward)
    # Its value is kept for the backward: it is read again, and written all the same.
    assert all(entry.written_bytes == 0 for entry in forward if "gelu" in entry.second)


def test_what_the_scheduler_keeps_apart_for_what_stands_between_is_no_missed_fusion(
    transformer_training: Story,
) -> None:
    (region,) = transformer_training.first.regions
    found = missed_fusions(region, Ceilings.of(CEILINGS, region.device))
    assert [entry for entry in found if "intermediate nodes" in entry.reason] == []

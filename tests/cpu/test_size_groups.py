"""One graph for all sizes: a group for each, side by side in every row, in the profile, its reports and its diff."""

from __future__ import annotations

import pytest
import torch

import graphbench
from tests.benchmarks.shapes import ATTENTION, LINEAR, Case, figures, profile_of
from tests.cpu.stories import QUICK

SMALL = Case(64, 1, (16, 32), (2, 3, 4), torch.float32)


@pytest.fixture(scope="module")
def bert() -> graphbench.Profile:
    pytest.importorskip("transformers")
    found = profile_of(SMALL, "cpu", **{key: value for key, value in QUICK.items() if key != "progress"})
    graphbench.reset()
    return found


def test_two_lengths_and_three_batches_are_one_region_in_six_groups(bert: graphbench.Profile) -> None:
    found = figures(bert)
    assert (found["regions"], found["groups"], found["measured_groups"]) == (1, 6, 6)
    (region,) = found["by_size"]
    assert region["sizes"] == ["input_ids[0]", "input_ids[1]"]
    assert region["groups"] == [[2, 16], [2, 32], [3, 16], [3, 32], [4, 16], [4, 32]]


def test_every_row_has_a_time_and_two_exponents(bert: graphbench.Profile) -> None:
    (found,) = bert.by_size()
    assert {ATTENTION, LINEAR} <= {row.op_type for row in found.nodes}
    for row in found.nodes:
        assert len(row.times_ns) == 6, row.name
        assert None not in row.times_ns, row.reason
        assert len(row.growths) == 2, row.reason

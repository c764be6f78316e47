"""Recorded CUDA-graph replays, split over the rows of the same calls without graphs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphbench.errors import AttributionError
from graphbench.provenance.correlation import Activity
from graphbench.provenance.graph_replay import LaunchedWork, Replay, launch_order, split_replay
from tests.recorded import RecordedSession, attributed, busy_by_sweep_ns, labelled, load

TELLING = ("sin", "cos", "exp", "neg", "copy")
"""Calls whose kernel, or kind of copy, has the call's name in its own."""


def test_every_replay_of_a_graph_runs_the_same_nodes_in_the_order_of_capture() -> None:
    recorded = load("graph_replay")
    for graph, calls in recorded.expected["graphs"].items():
        replays = [sorted(_nodes(recorded, graph, sample)) for sample in _replays(recorded)]
        assert replays == [replays[0]] * 3
        assert len({node for node, _ in replays[0]}) == len(calls)
        assert [
            name for call, (_, name) in zip(calls, replays[0], strict=True) if call in TELLING and call not in name
        ] == []


def _nodes(recorded: RecordedSession, row: str, sample: int) -> list[tuple[int, str]]:
    return [(a.graph_node_id, a.name.replace("memcpy", "copy")) for a in labelled(recorded)[row, sample]]


def _replays(recorded: RecordedSession) -> list[int]:
    return [sample for sample in sorted(attributed(recorded).runs) if sample != recorded.expected["eager_sample"]]


def _launch_order(recorded: RecordedSession) -> tuple[LaunchedWork, ...]:
    eager = recorded.expected["eager_sample"]
    return launch_order([(row, a) for (row, s), work in labelled(recorded).items() if s == eager for a in work])


def _replayed(recorded: RecordedSession, sample: int) -> list[Activity]:
    return [activity for (_, s), work in labelled(recorded).items() if s == sample for activity in work]


def test_a_replay_is_split_over_the_rows_of_the_same_calls_without_graphs() -> None:
    recorded = load("graph_replay")
    order = _launch_order(recorded)
    called = [name for names in recorded.expected["graphs"].values() for name in names]
    assert [step.row for step in order] == called
    for sample in _replays(recorded):
        split = split_replay(_replayed(recorded, sample), order)
        assert split.beside == []
        assert {row: len(work) for row, work in split.rows.items()} == dict.fromkeys(called, 1)
        assert (
            busy_by_sweep_ns(a for work in split.rows.values() for a in work)
            == attributed(recorded).runs[sample].busy_ns
        )


def test_a_replay_that_lacks_a_node_is_not_split() -> None:
    recorded = load("graph_replay")
    with pytest.raises(AttributionError, match="ran 6 nodes, the labelled run without graphs 7"):
        split_replay(_replayed(recorded, 0)[1:], _launch_order(recorded))


def test_a_replay_of_other_kernels_is_not_split() -> None:
    recorded = load("graph_replay")
    order = _launch_order(recorded)
    with pytest.raises(AttributionError, match=r"node 0 of the CUDA-graph replay is .*, expected .* of cos"):
        split_replay(_replayed(recorded, 0), (order[1], order[0], *order[2:]))


def test_attribution_splits_a_replay_and_conserves_its_time() -> None:
    recorded = load("graph_replay")
    order, eager = _launch_order(recorded), recorded.expected["eager_sample"]
    owners = {
        i: Replay(owner[1], order) if isinstance(owner, tuple) and owner[1] != eager else owner
        for i, owner in recorded.owners.items()
    }
    whole, split = attributed(recorded), attributed(replace(recorded, owners=owners))
    assert split.rows.keys() == {step.row for step in order}
    for sample in _replays(recorded):
        rows_ns = sum(costs[sample].busy_ns for costs in split.rows.values())
        assert split.runs[sample].busy_ns == whole.runs[sample].busy_ns == rows_ns - split.runs[sample].overlap_ns
        assert all(len(costs[sample].work) == 1 for costs in split.rows.values())


def test_work_beside_the_graphs_of_a_replay_is_counted_apart() -> None:
    recorded = load("graph_replay")
    replay, order = _replayed(recorded, 0), _launch_order(recorded)
    input_copy = next(a for a in recorded.activities if a.kind == "copy" and not a.graph_node_id)
    assert split_replay([input_copy, *replay], order).beside == [input_copy]

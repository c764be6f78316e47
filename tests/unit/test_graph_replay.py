"""Splitting CUDA-graph replays over rows by node id."""

from __future__ import annotations

import pytest

from graphbench.errors import AttributionError, TimingError
from graphbench.provenance.correlation import Activity, WindowStamp, attribute
from graphbench.provenance.graph_replay import LaunchedWork, Replay, launch_order, split_replay

FIRST, SECOND = 5 << 32, 9 << 32
ORDER = (LaunchedWork("a", "gemm"), LaunchedWork("a", "epilogue"), LaunchedWork("b", "gemm"))


def node(name: str, graph_node: int, start: int, *, length: int = 10, correlation: int = 70) -> Activity:
    return Activity("kernel", name, start, start + length, correlation, graph_node, 7, 0)


def replay(*, at: int = 1000, correlation: int = 70) -> list[Activity]:
    return [
        node("gemm", FIRST, at, correlation=correlation),
        node("epilogue", FIRST + 1, at + 20, correlation=correlation),
        node("gemm", FIRST + 2, at + 40, correlation=correlation),
    ]


def test_nodes_go_to_rows_in_the_order_of_their_ids_not_of_their_records() -> None:
    split = split_replay(replay()[::-1], ORDER)
    assert {row: [work.start_ns for work in found] for row, found in split.rows.items()} == {
        "a": [1000, 1020],
        "b": [1040],
    }


def test_a_node_that_ran_early_on_another_stream_keeps_its_place() -> None:
    early = [node("gemm", FIRST, 1000), node("epilogue", FIRST + 1, 1020), node("gemm", FIRST + 2, 990)]
    assert [work.start_ns for work in split_replay(early, ORDER).rows["b"]] == [990]


def test_several_graphs_follow_one_another_as_they_were_launched() -> None:
    later_id_first = [
        node("gemm", SECOND, 1000, correlation=70),
        node("epilogue", SECOND + 1, 1020, correlation=70),
        node("gemm", FIRST, 1040, correlation=71),
    ]
    assert [work.start_ns for work in split_replay(later_id_first, ORDER).rows["b"]] == [1040]


def test_a_graph_replayed_twice_in_a_run_is_two_launches() -> None:
    once, again = (
        [node("k", FIRST + i, at + 30 * i, length=10 + 10 * i, correlation=70 + at // 1000) for i in range(2)]
        for at in (1000, 2000)
    )
    order = [LaunchedWork(row, "k") for row in ("a", "b", "a", "b")]
    rows = split_replay([*again, *once], order).rows
    assert {row: [work.end_ns - work.start_ns for work in found] for row, found in rows.items()} == {
        "a": [10, 10],
        "b": [20, 20],
    }


def test_what_a_row_did_outside_its_graph_counts_too() -> None:
    outside = node("gemm", 0, 2000, length=7, correlation=80)
    found = attribute([*replay(), outside], {70: 1, 80: 2}, {1: Replay(0, ORDER), 2: ("a", 0)})
    assert found.rows["a"][0].busy_ns == 27


def test_one_sample_under_two_orders_is_refused() -> None:
    owners = {1: Replay(0, ORDER), 2: Replay(0, ORDER[:1])}
    with pytest.raises(TimingError, match="sample 0 was labelled as replays of two different runs"):
        attribute([*replay(), *replay(correlation=71)], {70: 1, 71: 2}, owners)


def test_work_without_a_node_id_ran_beside_the_graphs() -> None:
    copy = node("copy of the input", 0, 900)
    assert split_replay([copy, *replay()], ORDER).beside == [copy]


@pytest.mark.parametrize("nodes", [replay()[:2], [*replay(), node("gemm", FIRST + 3, 1060)]])
def test_another_number_of_nodes_is_refused(nodes: list[Activity]) -> None:
    with pytest.raises(AttributionError, match=f"ran {len(nodes)} nodes, the labelled run without graphs 3 kernels"):
        split_replay(nodes, ORDER)


def test_another_kernel_is_refused_by_name() -> None:
    others = [*replay()[:2], node("splitK", FIRST + 2, 1040)]
    with pytest.raises(AttributionError, match="node 2 of the CUDA-graph replay is splitK, expected gemm of b"):
        split_replay(others, ORDER)


def test_launch_order_follows_correlation_ids() -> None:
    late = node("gemm", 0, 5, correlation=8)
    early = node("softmax", 0, 50, correlation=3)
    assert launch_order([("b", late), ("a", early)]) == (LaunchedWork("a", "softmax"), LaunchedWork("b", "gemm"))


def test_a_replay_is_conserved_rows_and_what_ran_beside() -> None:
    copy = node("copy of the input", 0, 900, length=5)
    found = attribute([copy, *replay()], {70: 1}, {1: Replay(0, ORDER)}, [WindowStamp(0, 800, 1100)])
    assert {row: samples[0].busy_ns for row, samples in found.rows.items()} == {"a": 20, "b": 10}
    run = found.runs[0]
    assert (run.busy_ns, run.beside_ns, run.unattributed_ns, run.overlap_ns, run.n_kernels) == (35, 5, 0, 0, 4)


def test_every_replay_is_checked_not_only_the_first() -> None:
    second = replay(at=2000, correlation=71)[:2]
    owners = {1: Replay(0, ORDER), 2: Replay(1, ORDER)}
    windows = [WindowStamp(0, 800, 1100), WindowStamp(1, 1800, 2100)]
    with pytest.raises(AttributionError, match="ran 2 nodes"):
        attribute([*replay(), *second], {70: 1, 71: 2}, owners, windows)


@pytest.mark.parametrize("replayed", [[0], []], ids=["the second ran nothing", "nothing ran"])
def test_a_replay_that_ran_nothing_is_refused_not_forgotten(replayed: list[int]) -> None:
    owners = {1: Replay(0, ORDER), 2: Replay(1, ORDER)}
    work = [node for sample in replayed for node in replay(at=1000 * (sample + 1), correlation=70 + sample)]
    with pytest.raises(AttributionError, match="ran 0 nodes, the labelled run without graphs 3 kernels"):
        attribute(work, {70: 1, 71: 2}, owners)


BETWEEN = (LaunchedWork("a", "gemm"), LaunchedWork("c", "copy", in_graph=False), LaunchedWork("b", "gemm"))


def parted() -> list[Activity]:
    """Two graphs with a copy between them, and a copy of the input before the first, of the same name."""
    return [
        node("copy", 0, 900, length=3, correlation=60),
        node("gemm", FIRST, 1000, correlation=70),
        node("copy", 0, 1020, length=7, correlation=80),
        node("gemm", SECOND, 1040, correlation=90),
    ]


def test_a_kernel_between_two_graphs_has_its_row_and_is_not_the_copy_of_an_input() -> None:
    split = split_replay(parted()[::-1], BETWEEN)
    assert {row: [work.start_ns for work in found] for row, found in split.rows.items()} == {
        "a": [1000],
        "c": [1020],
        "b": [1040],
    }
    assert [work.start_ns for work in split.beside] == [900]


def test_what_should_run_between_two_graphs_and_does_not_is_refused_by_name() -> None:
    with pytest.raises(AttributionError, match="copy of c did not run outside of the CUDA graphs"):
        split_replay([work for work in parted() if work.start_ns != 1020], BETWEEN)

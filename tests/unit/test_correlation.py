"""Attribution of device work to labels."""

from __future__ import annotations

import pytest

from graphbench.errors import TimingError
from graphbench.provenance.correlation import (
    PREPARATION,
    Activity,
    ActivityKind,
    Attribution,
    WindowStamp,
    attribute,
)

MS = 1_000_000


def work(
    start: int, end: int, correlation: int = 0, *, name: str = "k", kind: ActivityKind = "kernel", device: int = 0
) -> Activity:
    return Activity(kind, name, start, end, correlation, 0, 7, device)


def label(*activities: Activity, row: str = "row", sample: int = 0) -> Attribution:
    """Attribute activities that all carry one label."""
    return attribute(activities, {a.correlation_id: 5 for a in activities}, {5: (row, sample)})


def test_overlapping_kernels_of_one_device_count_once() -> None:
    cost = label(work(100, 200), work(150, 260)).rows["row"][0]
    assert cost.busy_ns == 160


def test_a_kernel_inside_another_adds_nothing() -> None:
    assert label(work(100, 300), work(150, 200), work(290, 310)).rows["row"][0].busy_ns == 210


def test_kernels_of_two_devices_add_up() -> None:
    cost = label(work(100, 200), work(100, 200, device=1)).rows["row"][0]
    assert cost.busy_ns == 200


def test_gaps_between_kernels_are_in_the_span_only() -> None:
    cost = label(work(100, 200), work(500, 600)).rows["row"][0]
    assert (cost.busy_ns, cost.span_ns) == (200, 500)


def test_kernels_copies_and_fills_are_told_apart() -> None:
    cost = label(
        work(100, 110), work(200, 220, kind="copy", name="memcpy DtoD"), work(300, 340, kind="memset", name="memset")
    ).rows["row"][0]
    assert (cost.kernel_ns, cost.copy_ns, cost.memset_ns, cost.n_kernels) == (10, 20, 40, 1)


def test_names_are_listed_once_in_order_of_start() -> None:
    cost = label(work(300, 310, name="b"), work(100, 110, name="a"), work(500, 510, name="a")).rows["row"][0]
    assert [work.name for work in cost.work] == ["a", "b"]


def test_two_external_ids_of_one_label_are_summed() -> None:
    found = attribute([work(100, 110, 1), work(200, 230, 2)], {1: 5, 2: 6}, {5: ("row", 0), 6: ("row", 0)})
    assert found.rows["row"][0].busy_ns == 40


def test_samples_of_one_row_are_kept_apart() -> None:
    found = attribute([work(100, 110, 1), work(200, 230, 2)], {1: 5, 2: 6}, {5: ("row", 0), 6: ("row", 1)})
    assert [found.rows["row"][i].busy_ns for i in (0, 1)] == [10, 30]


def test_preparation_counts_nowhere() -> None:
    found = attribute([work(100, 110, 1), work(200, 230, 2)], {1: 5, 2: 1}, {5: ("row", 0), 1: PREPARATION})
    assert (found.rows["row"][0].busy_ns, found.runs[0].busy_ns, found.unattributed) == (10, 10, ())


def test_every_kernel_of_a_graph_replay_belongs_to_its_launch() -> None:
    replay = [work(100, 110, 1)._replace(graph_node_id=i) for i in (11, 12)]
    assert attribute(replay, {1: 5}, {5: ("row", 0)}).rows["row"][0].n_kernels == 2


def test_rows_plus_unattributed_less_overlap_is_busy() -> None:
    found = attribute(
        [work(100, 200, 1), work(150, 250, 2), work(240, 300, 3, name="stray")],
        {1: 5, 2: 6},
        {5: ("a", 0), 6: ("b", 0)},
    )
    run = found.runs[0]
    assert (run.busy_ns, run.unattributed_ns, run.overlap_ns, run.n_kernels) == (200, 60, 60, 3)
    rows_ns = sum(samples[0].busy_ns for samples in found.rows.values())
    assert rows_ns + run.unattributed_ns - run.overlap_ns == run.busy_ns


def test_unlabelled_work_is_named() -> None:
    found = attribute([work(100, 110, 1), work(120, 130, 9, name="stray")], {1: 5}, {5: ("row", 0)})
    assert found.unattributed == ("stray",)


def test_without_windows_unlabelled_work_belongs_to_the_sample_that_began_last() -> None:
    found = attribute(
        [work(100, 110, 1), work(1000, 1010, 2), work(1020, 1050, 9), work(50, 57, 8)],
        {1: 5, 2: 6},
        {5: ("row", 0), 6: ("row", 1)},
    )
    assert [found.runs[i].unattributed_ns for i in (0, 1)] == [7, 30]


def test_with_windows_unlabelled_work_belongs_to_the_window_around_it() -> None:
    windows = [WindowStamp(0, 10 * MS, 20 * MS), WindowStamp(1, 30 * MS, 40 * MS)]
    found = attribute(
        # The stray starts before the second window's first label: the label rule would give it to the first.
        [work(11 * MS, 12 * MS, 1), work(31 * MS, 32 * MS, 9), work(33 * MS, 34 * MS, 2)],
        {1: 5, 2: 6},
        {5: ("row", 0), 6: ("row", 1)},
        windows,
    )
    assert [found.runs[i].unattributed_ns for i in (0, 1)] == [0, MS]


def test_unlabelled_work_between_windows_belongs_to_no_run() -> None:
    windows = [WindowStamp(0, 10 * MS, 20 * MS), WindowStamp(1, 30 * MS, 40 * MS)]
    found = attribute([work(11 * MS, 12 * MS, 1), work(25 * MS, 26 * MS, 9)], {1: 5}, {5: ("row", 0)}, windows)
    assert (found.runs[0].unattributed_ns, found.unattributed) == (0, ())


def test_clocks_that_differ_by_microseconds_do_not_push_work_out_of_its_window() -> None:
    windows = [WindowStamp(0, 10 * MS, 20 * MS)]
    found = attribute([work(10 * MS - 9_000, 10 * MS, 9)], {}, {}, windows)
    assert found.runs[0].unattributed_ns == 9_000


def test_a_kernel_without_a_stamp_is_refused_by_name() -> None:
    with pytest.raises(TimingError, match="gemm: the device recorded no time stamp"):
        label(work(0, 0, name="gemm"))


def test_a_kernel_that_ends_before_it_starts_is_refused_by_name() -> None:
    with pytest.raises(TimingError, match="gemm: ends before it starts"):
        label(work(200, 100, name="gemm"))


def test_a_label_id_of_another_tool_is_refused() -> None:
    with pytest.raises(TimingError, match="label id 77"):
        attribute([work(100, 110, 1, name="gemm")], {1: 77}, {})


def test_nothing_recorded_is_nothing_attributed() -> None:
    assert attribute([], {}, {}) == Attribution(rows={}, runs={}, unattributed=())

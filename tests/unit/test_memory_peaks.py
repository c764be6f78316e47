"""Peak memory in a profile: nodes add up to their region's, and tables, CSV and the summary tell it."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

from graphbench import document
from graphbench.errors import ProfileFormatError
from graphbench.records import ProfileRecord, RegionRecord, Side
from graphbench.report import REPORTERS
from tests.factories import node, profile, region

MIB = 1 << 20


def peaked(*held: int | None, node_name: str | None = "n1", total: int | None = None, **sides: Side) -> ProfileRecord:
    """A region whose nodes `n0`, `n1`, ... hold so many bytes at its peak."""
    nodes = [replace(node(f"n{i}", 5.0, module=f"layers.{i}"), peak_bytes=size) for i, size in enumerate(held)]
    whole: RegionRecord = region(nodes, **sides)
    known = sum(size or 0 for size in held) if total is None else total
    return profile(replace(whole, peak_node=node_name, peak_bytes=None if node_name is None else known))


def memory_line(record: ProfileRecord) -> str:
    lines = REPORTERS["table"].render(record).splitlines()
    return next((line for line in lines if line.startswith("memory: ")), "")


def test_nodes_that_hold_the_peak_together_are_whole() -> None:
    document.check(peaked(MIB, 2 * MIB, 0))


@pytest.mark.parametrize(
    ("record", "found"),
    [
        (peaked(MIB, MIB, total=3 * MIB), "3145728 bytes, of which 2 of 2 nodes hold 2097152"),
        (peaked(MIB, None), "1048576 bytes, of which 1 of 2 nodes hold 1048576"),
        (peaked(MIB, MIB, node_name="gone"), '"gone"'),
        (peaked(MIB, MIB, node_name=None), "a peak_bytes"),
        (peaked(-1, 1), "-1"),
        (peaked(0, 0, forward=Side(peak_bytes=-5)), "-5"),
    ],
)
def test_sizes_that_cannot_be_are_refused(record: ProfileRecord, found: str) -> None:
    with pytest.raises(ProfileFormatError) as caught:
        document.check(record)
    assert f"found {found}" in caught.value.message


def test_a_profile_keeps_its_peaks() -> None:
    record = peaked(MIB, 0, eager=Side(peak_bytes=7), forward=Side(peak_bytes=5))
    assert document.loads(document.dumps(record)) == record


def test_the_summary_says_where_eager_holds_most_and_what_each_side_takes() -> None:
    record = peaked(
        MIB,
        2 * MIB,
        0,
        eager=Side(peak_bytes=4 * MIB),
        eager_backward=Side(peak_bytes=6 * MIB),
        forward=Side(peak_bytes=3 * MIB),
        backward=Side(peak_bytes=2 * MIB),
    )
    text = " ".join(REPORTERS["table"].render(record).split())
    assert (
        "memory: eager peaks at 6.00 MiB, compiled 3.00 MiB; most results of eager are alive at n1 (layers.1): "
        "3.00 MiB of 2 nodes"
    ) in text


def test_without_the_allocators_figures_only_results_are_told() -> None:
    assert memory_line(peaked(MIB, 2 * MIB, 0)) == (
        "memory: most results of eager are alive at n1 (layers.1): 3.00 MiB of 2 nodes"
    )


def test_without_an_eager_run_nothing_is_told() -> None:
    assert memory_line(profile(region([node("n0", 5.0)]))) == ""


def test_the_wide_table_has_sizes_and_csv_has_bytes() -> None:
    record = peaked(MIB, 512, 0)
    wide = REPORTERS["table"].render(record, wide=True)
    row = next(line for line in wide.splitlines() if line.startswith("n0"))
    assert "1.00 MiB" in row
    (first, *_) = csv.DictReader(io.StringIO(REPORTERS["csv"].render(record)))
    assert first["peak_bytes"] == str(MIB)


def test_nodes_can_be_sorted_by_what_they_hold() -> None:
    text = REPORTERS["csv"].render(peaked(MIB, 4 * MIB, 2 * MIB), sort="peak_bytes")
    assert [row["name"] for row in csv.DictReader(io.StringIO(text))] == ["n1", "n2", "n0"]

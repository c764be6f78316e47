"""Bars and lines of block elements: what a character stands for, and where tables have them."""

from __future__ import annotations

import re

import pytest

from graphbench.records import ProfileRecord
from graphbench.report.block_columns import BARS, SAMPLES
from graphbench.report.blocks import bar, spark
from graphbench.report.table import TableReporter
from tests.factories import kernel, measurement, node, profile, region, steady
from tests.layer_samples import repeated


@pytest.mark.parametrize(
    ("part", "drawn"),
    [
        (0.0, ""),
        (1e-9, "▏"),
        (1 / 64, "▏"),
        (1 / 16, "▌"),
        (0.5, "████"),
        (0.5 + 1 / 64, "████▏"),
        (63 / 64, "███████▉"),
        (1.0, "████████"),
        (1.7, "████████"),
        (-0.5, ""),
    ],
)
def test_a_bar_counts_eighths_and_shows_whatever_is_not_nothing(part: float, drawn: str) -> None:
    assert bar(part) == drawn


@pytest.mark.parametrize(
    ("samples", "drawn"),
    [
        ((1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0), "▁▂▃▄▅▆▇█"),
        ((8.0, 1.0), "█▁"),
        ((5.0,) * 4, "▅▅▅▅"),
        ((0.0,) * 3, "▄▄▄"),
        ((5.0,), "▅"),
    ],
)
def test_a_line_goes_from_the_least_to_the_largest(samples: tuple[float, ...], drawn: str) -> None:
    assert spark(samples) == drawn


def test_a_character_is_the_median_of_its_samples() -> None:
    samples = [1.0, 1.0, 90.0, 1.0] * 6 + [2.0] * 24
    assert spark(samples, width=2) == "▁█"


def test_noise_below_one_percent_is_not_blown_up() -> None:
    assert set(spark([100.0, 100.1] * 6)) <= set("▄▅")
    assert spark([100.0, 101.0] * 6) == "▁█" * 6


def test_every_sample_is_drawn_once() -> None:
    assert len(spark(range(7))) == 7
    assert len(spark(range(200))) == 12
    assert spark(range(200))[0] == "▁"
    assert spark(range(200))[-1] == "█"


def test_no_samples_are_no_line() -> None:
    with pytest.raises(ValueError, match="no samples"):
        spark([])


BLOCKS = "[▏▎▍▌▋▊▉█]+"


def lines(record: ProfileRecord, **options: object) -> list[str]:
    return TableReporter().render(record, width=200, blocks=True, **options).splitlines()  # type: ignore[arg-type]


def drifting() -> ProfileRecord:
    """Two nodes in a kernel each; the samples of the first fall, those of the second are steady."""
    nodes = [node("falls", measurement(*range(8000, 0, -1000))), node("stays", steady(1500.0))]
    made = [kernel("mm", 3000.0, in_graph=steady(3000.0)), kernel("add", 1000.0, handle=1, in_graph=steady(1500.0))]
    return profile(region(nodes, made))


def test_the_largest_share_fills_its_bar_and_the_others_are_parts_of_it() -> None:
    rows = {line.split()[0]: line for line in lines(drifting()) if line.startswith(("falls ", "stays "))}
    assert re.findall(BLOCKS, rows["falls"]) == ["████████"]
    assert re.findall(BLOCKS, rows["stays"]) == [bar(1500.0 / 4500.0)]


def test_kernels_have_bars_of_their_time_in_the_graph() -> None:
    rows = [line for line in lines(drifting()) if line.startswith(("mm:", "add:"))]
    assert [re.findall(BLOCKS, row) for row in rows] == [["████████"], ["████"]]


def test_folds_have_bars_of_their_sums() -> None:
    (row,) = [line for line in lines(repeated(), fold="always") if "model.layers.*.mlp.up_proj " in line]
    (head,) = [line for line in lines(repeated(), fold="always") if line.strip().startswith("logits ")]
    assert re.findall(BLOCKS, row) == ["████████"]
    assert re.findall(BLOCKS, head) == [bar(50.0 / 80.0)]


def test_wide_tables_have_the_samples_of_every_row() -> None:
    (row,) = [line for line in lines(drifting(), wide=True) if line.startswith("falls ") and "█▇" in line]
    assert "█▇▆▅▄▃▂▁" in row
    assert not any("▇" in line for line in lines(drifting()))


def test_what_the_pictures_are_is_said_below_them() -> None:
    found = "\n".join(lines(drifting(), wide=True))
    assert BARS in found
    assert SAMPLES in found
    assert SAMPLES not in "\n".join(lines(drifting()))


def test_without_them_a_report_is_what_it_was() -> None:
    text = TableReporter().render(drifting(), wide=True)
    assert not set(text) & set("▏▎▍▌▋▊▉█▁▂▃▄▅▆▇")
    assert BARS not in text


def test_bars_are_the_first_to_leave() -> None:
    text = TableReporter().render(repeated(), width=72, blocks=True)
    assert "█" not in text
    assert "no room for: " not in text


def test_of_a_wide_table_only_bars_may_leave() -> None:
    wide = TableReporter().render(repeated(), width=100, wide=True, blocks=True)
    assert "█" not in wide[wide.index("Nodes, isolated") : wide.index("Fusions")].replace("█▁", "")
    assert "no room for" not in wide
    assert "module" in wide

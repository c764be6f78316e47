"""Markdown of large profiles: the most expensive rows, more on a click, the others counted; it fits into a comment."""

from __future__ import annotations

import re

import pytest

from graphbench.analysis.diff import diff
from graphbench.records import ProfileRecord
from graphbench.report import REPORTERS
from graphbench.report.diff_markdown import markdown_diff
from tests.benchmarks.show_speed import make_profile
from tests.factories import node, profile, region

COMMENT = 65_536  # characters that a comment on GitHub may have


def of_nodes(count: int, scale: float = 1.0) -> ProfileRecord:
    """Nodes n0, n1, ... of which the later ones take longer."""
    return profile(region([node(f"n{index}", scale * 1_000.0 * (index + 1), op_type="op") for index in range(count)]))


def names(text: str) -> list[str]:
    return re.findall(r"^\| (?:r0 \| )?(n\d+) \|", text, re.MULTILINE)


def test_the_first_rows_are_shown_and_more_fold() -> None:
    shown, fold = REPORTERS["markdown"].render(of_nodes(30)).split("<details>")
    assert names(shown) == [f"n{index}" for index in range(29, 9, -1)]
    assert names(fold) == [f"n{index}" for index in range(9, -1, -1)]
    assert fold.startswith("<summary>10 more rows</summary>\n\n| node |")


@pytest.mark.parametrize("count", [1, 20])
def test_a_short_table_does_not_fold(count: int) -> None:
    text = REPORTERS["markdown"].render(of_nodes(count))
    assert "<details>" not in text
    assert len(names(text)) == count


def test_what_does_not_fit_is_counted_with_the_way_to_see_it() -> None:
    text = REPORTERS["markdown"].render(of_nodes(100))
    assert len(names(text)) == 60
    assert "40 further rows not shown: `--top 100` shows all, CSV has them." in text


def test_rows_that_were_asked_for_are_all_shown() -> None:
    text = REPORTERS["markdown"].render(of_nodes(100), top=100)
    assert len(names(text)) == 100
    assert "<details>" not in text


@pytest.mark.parametrize("wide", [False, True])
def test_a_profile_of_thousands_of_rows_fits_into_a_comment(wide: bool) -> None:
    assert len(REPORTERS["markdown"].render(make_profile(2_000, 0.8), wide=wide)) < COMMENT


def test_a_diff_of_thousands_of_rows_fits_into_a_comment() -> None:
    text = markdown_diff(diff(make_profile(2_000, 0.8), make_profile(2_000, 1.6)))
    assert "further rows not shown" in text
    assert len(text) < COMMENT


def test_a_diff_shows_all_rows_when_asked() -> None:
    text = markdown_diff(diff(of_nodes(100), of_nodes(100, 2.0)), top=None)
    assert len(names(text)) == 100

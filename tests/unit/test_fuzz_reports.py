"""Whatever names a profile has, what is printed of it is text that shows: nothing is obeyed, computed or forged."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from functools import cache
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphbench import document
from graphbench.records import ProfileRecord
from graphbench.report import REPORTERS
from tests.factories import node, profile, region
from tests.hostile import FIXED, FORGED, RECORDS, comparisons, files, hostile_everywhere, mutator, outcome, renderings

NUMBER = re.compile(r"[+-]?\d+(\.\d+)?(e[+-]?\d+)?")
LONG = 20_000


@cache
def forged(make: Callable[[], ProfileRecord]) -> ProfileRecord:
    return hostile_everywhere(make(), lambda text: f"{text}\n{FORGED}\x1b[31m\x9b\u202e\udcff|`<b>[x](y)\u2028{FORGED}")


@cache
def formulas(make: Callable[[], ProfileRecord]) -> ProfileRecord:
    return hostile_everywhere(make(), lambda text: f"=1+{text}" if text else text)


@settings(FIXED, max_examples=60)
@given(st.sampled_from(RECORDS), st.booleans(), st.randoms(use_true_random=False))
def test_every_report_of_a_changed_profile_is_text_or_a_refusal(
    make: Callable[[], ProfileRecord], compact: bool, draw: Random
) -> None:
    text = json.dumps(mutator(make, compact).mutated(draw, 1))
    record = outcome(lambda: document.loads(text))
    if record is None:
        return
    for _, render in (*renderings(record), *files(record), *comparisons(make(), record)):
        outcome(render)


@pytest.mark.parametrize("make", RECORDS)
def test_nothing_that_is_printed_is_obeyed_by_a_terminal(make: Callable[[], ProfileRecord]) -> None:
    record = forged(make)
    assert record.subject.endswith(FORGED)
    for name, render in (*renderings(record), *comparisons(make(), record), *comparisons(record, record)):
        text = render()
        assert text.replace("\n", "").isprintable(), name
        text.encode("utf-8")


@pytest.mark.parametrize("make", RECORDS)
def test_no_name_makes_a_line_of_its_own(make: Callable[[], ProfileRecord]) -> None:
    record = forged(make)
    for name, render in (*renderings(record), *comparisons(make(), record)):
        lines = render().splitlines()
        assert [line for line in lines if line.lstrip("|- ").startswith(FORGED) and not line.startswith("  ")] == [], (
            name
        )


@pytest.mark.parametrize("make", RECORDS)
def test_no_cell_of_a_csv_is_a_formula(make: Callable[[], ProfileRecord]) -> None:
    seen = 0
    for name, render in renderings(formulas(make)):
        for row in csv.reader(io.StringIO(render())) if name.startswith("csv") else ():
            for cell in row:
                seen += "=1+" in cell
                assert not cell.startswith(tuple("=+-@")) or NUMBER.fullmatch(cell), (name, cell)
    assert seen or make().regions == ()


@pytest.mark.parametrize("make", RECORDS)
def test_no_name_is_markup_in_markdown(make: Callable[[], ProfileRecord]) -> None:
    for name, render in renderings(forged(make)):
        text = re.sub(r"\\.", "", render()) if name.startswith("markdown") else ""
        assert not re.search(r"<|`|\]\(|\]\[|\]:|~", text), name


def test_a_long_name_widens_no_column_beyond_reason() -> None:
    record = profile(region([node("a" * LONG, 5.0), *(node(f"n{i}", 5.0) for i in range(20))]))
    for view in ({}, {"wide": True}):
        assert len(REPORTERS["table"].render(record, **view)) < LONG
    assert len(REPORTERS["markdown"].render(record)) < LONG
    assert "a" * LONG in REPORTERS["csv"].render(record)

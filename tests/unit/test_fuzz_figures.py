"""Whatever a profile holds, a picture of it is JSON that a browser reads, and its texts are no markup."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphbench import document
from graphbench.analysis.diff import diff
from graphbench.records import ProfileRecord
from graphbench.report.html.figures import diff_figures, profile_figures
from graphbench.report.html.model import Figure
from tests.figure_samples import MARKUP, strings
from tests.hostile import FIXED, RECORDS, hostile_everywhere, mutator, outcome


def as_json(figures: tuple[Figure, ...]) -> str:
    return json.dumps([asdict(figure) for figure in figures], allow_nan=False)


@settings(FIXED, max_examples=150)
@given(st.sampled_from(RECORDS), st.randoms(use_true_random=False))
def test_pictures_of_a_changed_profile_are_json(make: Callable[[], ProfileRecord], draw: Random) -> None:
    text = json.dumps(mutator(make, False).mutated(draw, 1))
    record = outcome(lambda: document.loads(text))
    if record is not None:
        assert as_json(profile_figures(record))
        result = outcome(lambda: diff(make(), record))
        assert result is None or as_json(diff_figures(result))


@pytest.mark.parametrize("make", RECORDS)
def test_no_text_of_a_profile_is_markup_in_a_picture(make: Callable[[], ProfileRecord]) -> None:
    record = hostile_everywhere(make(), lambda text: f"{text}\n\x1b<a href='x'><b>[y](z)\u202e")
    figures = (*profile_figures(record), *diff_figures(diff(make(), record)))
    for figure in figures:
        for key, text in strings([*figure.traces, figure.layout]):
            if key not in ("customdata", "ids", "parents", "legendgroup"):
                assert set(MARKUP.findall(text)) <= {"<b>", "</b>", "<br>"}, (figure.id, key)
                assert text.isprintable(), (figure.id, key)

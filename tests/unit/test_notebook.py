"""What notebooks show: every kind of result and of row as a small, escaped, self-contained piece of HTML."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest

import graphbench
from graphbench import markup
from graphbench.analysis.diff import diff
from graphbench.analysis.implementations import ImplementationRow
from graphbench.analysis.rows import profile_rows
from graphbench.analysis.scaling import scaling
from graphbench.analysis.shown import facts
from graphbench.report.grid import build
from graphbench.report.html.fragment import LINES, SHOWN, parts_fragment, rows_fragment
from graphbench.report.node_columns import NODE_COLUMNS
from graphbench.report.profile_diff import ProfileDiff
from graphbench.report.profile_scaling import ProfileScaling
from graphbench.units import format_duration
from tests.factories import executes, kernel, node, profile, region, spec, steady

HOSTILE = "<script>alert(1)</script>&\"'`\x1b[31m\u202e"


class Cells(HTMLParser):
    """All tags, and the texts of cells, row by row."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.attributes: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data


def small(name: str = "relu", ns: float = 2000.0, *, size: int = 4, n: int = 1) -> Any:
    """A profile of `n` nodes and one kernel that executes them."""
    nodes = [
        node(f"{name}_{index}" if n > 1 else name, ns + index, module=name, outputs=(spec(size, 8),))
        for index in range(n)
    ]
    made = kernel("cpp_fused", 1000.0, roles=tuple(executes(entry.name) for entry in nodes))
    return profile(region(nodes, [made]), subject=name)


def everything(name: str) -> list[Any]:
    """One of every kind of result and of row, all named so."""
    record = small(name)
    rows = profile_rows(record)
    compared = diff(record, small(name, 4000.0))
    grown = scaling([small(name, 1000.0 * size, size=size) for size in (4, 8, 16)])
    whole = graphbench.Profile(record)
    found: list[Any] = [whole, ProfileDiff(compared), ProfileScaling(grown), whole.what_if("*")]
    found += [*rows.nodes, *rows.fusions, *compared.rows, *compared.fusions, *grown.rows, *grown.ops]
    found.append(ImplementationRow(name=name, measurement=steady(10.0), halves=(), baseline=steady(10.0)))
    return found


@pytest.mark.parametrize("index", range(len(everything("relu"))))
def test_names_that_are_markup_are_shown_as_text_in_well_formed_html(index: int) -> None:
    shown = everything(HOSTILE)[index]
    parsed = Cells(shown._repr_html_())
    assert parsed.open == []
    assert set(parsed.tags) <= {"div", "strong", "table", "caption", "thead", "tbody", "tr", "th", "td", "br"}
    assert set(parsed.attributes) <= {"class", "style", "scope"}
    assert "\x1b" not in shown._repr_html_()
    assert "\u202e" not in shown._repr_html_()


@pytest.mark.parametrize("index", range(len(everything("relu"))))
def test_no_fragment_has_a_style_that_only_one_theme_can_read(index: int) -> None:
    styles = ";".join(re.findall(r'style="([^"]*)"', everything("relu")[index]._repr_html_()))
    assert set(re.findall(r"(?:^|;)color:([^;\"]*)", styles)) <= {"inherit"}
    assert set(re.findall(r"background[^:]*:([^;\"]*)", styles)) <= {"none"}


def test_a_node_says_its_figures_by_the_names_that_code_reads_them_by() -> None:
    row = profile_rows(small()).nodes[0]
    told = dict(facts(row))
    assert told["isolated_p50_ns"] == format_duration(row.isolated_p50_ns) == "2.000 µs"
    assert told["isolated.p90"] == "2.000 µs"
    assert told["share"] == "100.0 %"
    assert told["outputs"] == "f32[4,8]"
    cells = Cells(row._repr_html_()).rows
    assert ["isolated_p50_ns", "2.000 µs"] in cells


def test_what_is_not_known_of_a_row_is_named_and_is_no_zero() -> None:
    row = profile_rows(profile(region([node("relu")]))).nodes[0]
    told = dict(facts(row))
    assert told["isolated_p50_ns"] is None
    assert told["reason"] == "not measured"
    text = row._repr_html_()
    assert "not known: " in text
    assert "isolated_p50_ns" in text.split("not known: ")[1]


def test_a_fusion_tells_its_nodes_verdict_and_saving() -> None:
    row = profile_rows(small()).fusions[0]
    told = dict(facts(row))
    assert (told["nodes"], told["fused_ns"], told["saved_ns"]) == ("relu", "1.000 µs", "1.000 µs")
    assert told["verdict"] == row.verdict == "faster"


def test_a_changed_node_tells_both_sides() -> None:
    (row,) = diff(small(), small(ns=4000.0)).rows
    told = dict(facts(row))
    assert (told["before_ns"], told["after_ns"], told["delta_ns"]) == ("2.000 µs", "4.000 µs", "2.000 µs")
    assert (told["ratio"], told["verdict"]) == ("2.00x", "slower")


def test_a_row_of_a_scaling_lists_its_times() -> None:
    row = scaling([small(ns=1000.0 * size, size=size) for size in (4, 8)]).rows[0]
    assert dict(facts(row))["times_ns"] == "4.000 µs, 8.000 µs"


def test_a_profile_shows_its_most_expensive_rows_and_says_of_how_many() -> None:
    record = small(n=25)
    text = graphbench.Profile(record)._repr_html_()
    assert "Nodes, isolated, what takes most first (10 of 25)" in text
    names = [row[0] for row in Cells(text).rows if row and row[0].startswith("relu_")]
    assert names == [f"relu_{index}" for index in range(24, 24 - SHOWN, -1)]


def test_the_figures_of_a_profile_are_those_of_its_text() -> None:
    whole = graphbench.Profile(small(ns=2345.0))
    (cells,) = [row for row in Cells(whole._repr_html_()).rows if row[0] == "relu"]
    (line,) = [line.split() for line in str(whole).splitlines() if line.startswith("relu ")]
    assert [cell for cell in cells if cell[0].isdigit()] == [word for word in line if word[0].isdigit()]


def test_a_diff_shows_its_verdict_and_the_rows_that_changed() -> None:
    text = ProfileDiff(diff(small(), small(ns=4000.0)))._repr_html_()
    assert "Nodes that differ (1)" in text
    (cells,) = [row for row in Cells(text).rows if row[0] == "relu"]
    assert cells[2:6] == ["2.00", "4.00", "2.00", "2.00x"]


def test_a_fragment_of_many_rows_stays_small() -> None:
    assert len(graphbench.Profile(small(n=2000))._repr_html_()) < 100_000


def test_a_row_with_long_lists_and_names_stays_small() -> None:
    record = small("x" * 5000, n=500)
    assert len(profile_rows(record).fusions[0]._repr_html_()) < 20_000


def test_of_many_lines_the_first_are_shown_and_the_others_counted() -> None:
    found = ProfileScaling(scaling([small(ns=size, size=size) for size in range(4, 34)]))
    prose = found._repr_html_().split("<table", 1)[0]
    assert prose.count("<div") == 2 + LINES
    assert "more lines" in prose


def test_compared_implementations_are_a_table_with_its_remarks() -> None:
    failed = ImplementationRow(
        name="<b>", measurement=node("x").isolated, halves=(), baseline=node("x").isolated, difference=None
    )
    grid = build((NODE_COLUMNS[1],), profile_rows(small()).nodes, wide=False)
    text = parts_fragment(["title", grid, "", f"– {failed.name}: skipped"])
    assert "<strong>title</strong>" in text
    assert "– &lt;b&gt;: skipped" in text
    assert Cells(text).rows == [["node"], ["relu"]]


def test_rows_of_a_view_are_shown_in_their_order_up_to_a_bound() -> None:
    rows = profile_rows(small(n=12)).nodes
    text = rows_fragment("nodes", NODE_COLUMNS, rows)
    assert "nodes (10 of 12)" in text
    assert [row[0] for row in Cells(text).rows[1:]] == [row.name for row in rows[:10]]


def test_formulas_are_not_made_of_names_with_dollar_signs() -> None:
    assert 'class="tex2jax_ignore mathjax_ignore"' in markup.block([markup.line("$x$")])

"""The page of two profiles and that of several: every value is the comparison's, rows are linked both ways."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from graphbench.analysis.diff import Diff, diff
from graphbench.analysis.scaling import Scaling, scaling
from graphbench.records import InputRecord, ProfileRecord
from graphbench.report.column import Column
from graphbench.report.diff_columns import DIFF_COLUMNS, FUSION_DIFF_COLUMNS, GAP_DIFF_COLUMNS, TOTAL_COLUMNS
from graphbench.report.html.diff_page import diff_page
from graphbench.report.html.model import Page, Section, Table
from graphbench.report.html.scaling_page import scaling_page
from graphbench.report.scaling_columns import group_columns, node_columns, total_columns
from graphbench.report.scaling_table import by_last
from tests.factories import environment, executes, kernel, node, profile, region, spec, steady
from tests.step_samples import training_step

BEFORE = {"conv": 9000.0, "relu": 2000.0, "dead": 500.0}
AFTER = {"conv": 9000.0, "relu": 4000.0, "new": 700.0}


def measured(times: dict[str, float], **changes: Any) -> ProfileRecord:
    """A profile of nodes with a backward each and one kernel that executes all of them."""
    nodes = [
        node(
            name, steady(ns, spread_ns=1), line=index + 1, backward=steady(2 * ns, spread_ns=1), module=f"block.{name}"
        )
        for index, (name, ns) in enumerate(times.items())
    ]
    made = kernel("cpp_fused", steady(sum(times.values()) / 2), roles=tuple(executes(name) for name in times))
    return dataclasses.replace(profile(region(nodes, [made])), **changes)


@pytest.fixture(scope="module")
def result() -> Diff:
    return diff(measured(BEFORE), measured(AFTER), names=("a.json", "b.json"))


def sections(page: Page) -> dict[str, Section]:
    return {section.id: section for section in page.sections}


def table(page: Page, identity: str) -> Table:
    return next(entry for section in page.sections for entry in section.tables if entry.id == identity)


def check_equal(found: Table, columns: Any, rows: Any) -> None:
    """Every column that the table has holds what the column of the text report gets of these rows."""
    known: dict[str, Column[Any]] = {column.key: column for column in columns}
    assert found.columns
    for made in found.columns:
        expected = [known[made.key].get(row) for row in rows]
        assert [None if value == "" else value for value in made.values] == [
            None if value == "" else value for value in expected
        ], made.key


def test_every_value_of_every_table_is_that_of_the_comparison(result: Diff) -> None:
    page = diff_page(result)
    by_name = {(row.name, row.phase): row for row in result.rows}
    names, phases = (column(table(page, "nodes"), key).values for key in ("name", "phase"))
    check_equal(table(page, "nodes"), DIFF_COLUMNS, [by_name[pair] for pair in zip(names, phases, strict=True)])
    check_equal(table(page, "fusions"), FUSION_DIFF_COLUMNS, result.fusions)
    check_equal(table(page, "totals"), TOTAL_COLUMNS, result.totals) if result.totals else None


def column(found: Table, key: str) -> Any:
    return next(entry for entry in found.columns if entry.key == key)


def test_no_row_is_left_out_and_what_changed_most_comes_first(result: Diff) -> None:
    names = column(table(diff_page(result), "nodes"), "name").values
    assert len(names) == len(result.rows)
    assert names[:2] == ("relu", "relu")
    assert set(names) == {"conv", "relu", "dead", "new"}
    assert names[-1] == "conv"


def test_the_page_says_the_verdict_and_which_profiles(result: Diff) -> None:
    lines = diff_page(result).lines
    assert "before: a.json: Net (2026-01-02T03:04:05+00:00)" in lines
    assert "after: b.json: Net (2026-01-02T03:04:05+00:00)" in lines
    assert "nodes: 0 faster, 2 slower, 2 same" in sections(diff_page(result))["summary"].lines[0]


def test_a_node_links_to_its_backward_and_its_fusions_and_these_to_it(result: Diff) -> None:
    page = diff_page(result)
    ids = dict(zip(zip(*(column(table(page, "nodes"), k).values for k in ("name", "phase")), strict=True),
                   table(page, "nodes").ids, strict=True))  # fmt: skip
    (fusion,) = table(page, "fusions").ids
    links = dict(page.details[ids["relu", "forward"]].links)
    assert links == {"its backward": (ids["relu", "backward"],), "fusions that work for it": (fusion,)}
    (head, nodes), = page.details[fusion].links  # fmt: skip
    assert head == "nodes"
    assert ids["relu", "forward"] in nodes
    assert ids["relu", "backward"] not in nodes


def test_a_node_that_is_gone_is_not_the_backward_of_one_that_was_added_with_its_name() -> None:
    before, after = (
        profile(region([node("conv", steady(10.0)), node("act", steady(5.0), op_type=kind, outputs=(spec(size),))]))
        for kind, size in (("relu", 4), ("softmax", 9))
    )
    result = diff(before, after)
    named = [row for row in result.rows if row.name == "act"]
    assert sorted(row.change for row in named) == ["added", "gone"]
    heads = {head for detail in diff_page(result).details.values() for head, _ in detail.links}
    assert "its backward" not in heads


def test_every_row_has_a_detail_and_every_link_leads_to_one(result: Diff) -> None:
    page = diff_page(result)
    rows = [identity for section in page.sections for entry in section.tables for identity in entry.ids]
    assert set(rows) == set(page.details)
    assert len(set(rows)) == len(rows)
    assert {target for detail in page.details.values() for _, ids in detail.links for target in ids} <= set(rows)


def test_a_detail_has_the_samples_of_both_sides(result: Diff) -> None:
    page = diff_page(result)
    ids = dict(zip(column(table(page, "nodes"), "name").values, table(page, "nodes").ids, strict=True))
    detail = page.details[ids["dead"]]
    assert [(series.name, series.values_ns[0]) for series in detail.samples] == [("before, isolated", 499.0)]
    both = page.details[table(page, "nodes").ids[0]].samples
    assert [series.name for series in both] == ["before, isolated", "after, isolated"]


def test_facts_that_both_sides_share_are_told_once() -> None:
    other = measured(AFTER)
    changed = dataclasses.replace(other.regions[0].nodes[1], outputs=(spec(4, 16),))
    nodes = (other.regions[0].nodes[0], changed, other.regions[0].nodes[2])
    other = dataclasses.replace(other, regions=(dataclasses.replace(other.regions[0], nodes=nodes),))
    page = diff_page(diff(measured(BEFORE), other))
    relu = next(detail for detail in page.details.values() if detail.title == "relu")
    facts = dict(relu.facts)
    assert (facts["output before"], facts["output after"]) == ("f32[4,8]", "f32[4,16]")
    assert facts["source"] == "model.py:2\nx = relu(x)"


def test_what_differs_around_the_profiles_is_a_table() -> None:
    page = diff_page(diff(measured(BEFORE), measured(AFTER, environment=environment(torch="2.14.1"))))
    found = table(page, "environment")
    row = column(found, "what").values.index("torch")
    assert (column(found, "before").values[row], column(found, "after").values[row]) == ("2.13.0", "2.14.1")


def test_equal_conditions_are_said(result: Diff) -> None:
    assert "same environment and policy" in sections(diff_page(result))["conditions"].lines


def test_groups_sum_up_and_their_total_stands_below_them(result: Diff) -> None:
    found = table(diff_page(result), "by-op_type")
    assert dict(zip(column(found, "group").values, column(found, "before").values, strict=True)) == {
        "conv": 3 * BEFORE["conv"], "relu": 3 * BEFORE["relu"], "dead": BEFORE["dead"], "new": None,
    }  # fmt: skip
    assert found.notes[0].startswith("all groups: 33.50 µs → 39.70 µs (1.19x)")
    assert "total" not in column(found, "group").values


def test_gap_ops_of_two_steps_are_a_table() -> None:
    result = diff(training_step(), training_step())
    found = table(diff_page(result), "gaps")
    assert len(found.ids) == len(result.gaps) > 0
    check_equal(found, GAP_DIFF_COLUMNS, result.gaps)


def test_profiles_without_steps_have_no_section_of_gap_ops(result: Diff) -> None:
    assert "gaps-section" not in sections(diff_page(result))


@pytest.fixture(scope="module")
def grown() -> Scaling:
    """A product that grows as the square of its input, and a sum that grows as it."""
    records = []
    for n in (128, 256, 512):
        record = profile(region([node("mm", steady(10.0 * n * n)), node("add", steady(1000.0 * n))]))
        read = InputRecord(name="ids", source="", kind="tensor", spec=spec(1, n))
        records.append(dataclasses.replace(record, inputs=(read,)))
    return scaling(records)


def test_every_value_of_a_scalings_page_is_the_scalings(grown: Scaling) -> None:
    page = scaling_page(grown)
    check_equal(table(page, "nodes"), node_columns(grown), by_last(grown.rows))
    check_equal(table(page, "by-op"), group_columns(grown, "op"), grown.ops)
    if grown.totals:
        check_equal(table(page, "totals"), total_columns(grown), grown.totals)


def test_a_scalings_page_says_first_what_grows_fastest(grown: Scaling) -> None:
    page = scaling_page(grown)
    assert page.title == "graphbench scaling of Net over 3 sets of inputs"
    assert "mm (mm) grows fastest of all nodes: as n^2.00" in page.lines[0]


def test_a_node_of_a_scaling_tells_its_times_at_every_size(grown: Scaling) -> None:
    page = scaling_page(grown)
    detail = page.details[table(page, "nodes").ids[0]]
    assert detail.title == "mm"
    assert [text.split("\n")[0] for _, text in detail.facts] == [
        "isolated 163.8 µs", "isolated 655.4 µs", "isolated 2.621 ms",
    ]  # fmt: skip

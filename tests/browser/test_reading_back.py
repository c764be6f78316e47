"""What stands on a page is what the profile holds: cells are read back; tables sort and filter; rows link."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from graphbench.analysis.rows import profile_rows
from graphbench.analysis.scaling_rows import NodeScaling
from graphbench.analysis.summary import summary
from graphbench.report.overview import totals_table
from graphbench.units import MISSING, format_number, format_percent, format_ratio
from tests.browser.opened import OpenedPage, PageOpener
from tests.browser.samples import compared, grown, page_of, recorded

NS = {"ns": 1.0, "µs": 1e3, "ms": 1e6, "s": 1e9}
# All rows of a table, scrolled into being: by column key the text of each cell, and the unit of the column.
READ = """
const table = graphbench.tables.find((one) => one.id === arguments[0]);
table.fill(table.shown.length);
const heads = [...table.head.querySelectorAll("th")];
const keys = heads.map((one) => one.dataset.key);
const units = Object.fromEntries(heads.map((one) => [one.dataset.key, one.querySelector(".unit")?.textContent ?? ""]));
const rows = [...table.body.rows].map((row) =>
  Object.fromEntries([...row.cells].map((cell, i) => [keys[i], cell.textContent])));
return {rows, units};
"""
SHOW_ALL = """
const table = graphbench.tables.find((one) => one.id === arguments[0]);
table.place.querySelectorAll(".choices input:not(:checked)").forEach((box) => box.click());
"""


def read(page: OpenedPage, table: str) -> tuple[list[dict[str, str]], Mapping[str, str]]:
    """The rows of a table as they stand in the document, all columns shown, and the columns' units."""
    page.script(SHOW_ALL, table)
    found = page.script(READ, table)
    return found["rows"], found["units"]


def written(value_ns: float | None, unit: str) -> str:
    """A time as a cell of a column in this unit has it."""
    return MISSING if value_ns is None else format_number(value_ns / NS[unit])


def bare(cell: str) -> str:
    """A cell without its marks."""
    return cell.lstrip("=!*~")


def test_every_node_of_a_real_step_has_the_times_of_the_profile(open_page: PageOpener) -> None:
    rows, units = read(open_page(page_of("recorded")), "nodes-table")
    expected = {(row.region, row.name): row for row in profile_rows(recorded()).nodes}
    assert {(row["region"], row["name"]) for row in rows} == set(expected)
    for cells in rows:
        row = expected[cells["region"], cells["name"]]
        told = {
            "isolated_p50": row.isolated_p50_ns,
            "in_graph": row.in_graph_ns,
            "backward_isolated_p50": row.backward_p50_ns,
            "compiled_forward": row.compiled.forward_ns,
            "compiled_backward": row.compiled.backward_ns,
            "host": row.host_ns,
        }
        assert {key: bare(cells[key]) for key in told} == {
            key: written(value, units[key]) for key, value in told.items()
        }, cells["name"]
        share = MISSING if row.share is None else format_percent(row.share).removesuffix(" %")
        assert (cells["share"], cells["fate"], cells["source"]) == (share, row.fate, row.source)


def test_every_kernel_has_its_times_saving_and_verdict(open_page: PageOpener) -> None:
    rows, units = read(open_page(page_of("recorded")), "fusions-table")
    expected = {row.key.partition("/")[2] + row.region + row.phase: row for row in profile_rows(recorded()).fusions}
    assert len(rows) == len(expected)
    for cells in rows:
        row = expected[cells["kernel"] + cells["region"] + cells["phase"]]
        told = {"all_calls_fused_p50": row.fused_ns, "saved": row.saved_ns, "unfused": row.unfused_ns}
        told["eager_p50"] = row.eager.p50_ns if row.eager else None
        assert {key: bare(cells[key]) for key in told} == {
            key: written(value, units[key]) for key, value in told.items()
        }, cells["kernel"]
        assert cells["ratio"] == format_ratio(row.ratio)
        assert cells["verdict"].removesuffix(" +") == (row.verdict or MISSING)


def test_before_and_after_is_that_of_the_summary(open_page: PageOpener) -> None:
    page = open_page(page_of("recorded"))
    _, expected = totals_table(summary(recorded()), recorded().policy.timer)
    text = " ".join(page.seen("#summary")).replace("\n", " ")
    speedups = [row[-1] for row in expected if row[-1] != MISSING]
    assert speedups
    assert [value for value in speedups if value not in text] == []


def test_rows_of_a_diff_have_both_times_and_the_verdict(open_page: PageOpener) -> None:
    rows, units = read(open_page(page_of("compared")), "nodes")
    expected = {(row.region, row.name, row.phase): row for row in compared().rows}
    assert len(rows) == len(expected)
    for cells in rows:
        row = expected[cells["region"], cells["name"], cells["phase"]]
        assert (bare(cells["before"]), cells["after"], cells["delta"], cells["verdict"]) == (
            written(row.before_ns, units["before"]),
            written(row.after_ns, units["after"]),
            written(row.delta_ns, units["delta"]),
            row.verdict or MISSING,
        )
    assert rows[0]["verdict"] == "slower"
    assert rows[0]["ratio"] == "2.00x"


def test_rows_of_a_scaling_have_their_time_at_every_size(open_page: PageOpener) -> None:
    rows, units = read(open_page(page_of("grown")), "nodes")
    expected: dict[str, NodeScaling] = {row.name: row for row in grown().rows}
    assert {row["name"] for row in rows} == set(expected)
    for cells in rows:
        keys = ("isolated_n128", "isolated_n256", "isolated_n512")
        times = expected[cells["name"]].times_ns
        assert [cells[key] for key in keys] == [written(t, units[k]) for k, t in zip(keys, times, strict=True)]


@pytest.fixture
def page(open_page: PageOpener) -> OpenedPage:
    """5,000 nodes."""
    return open_page(page_of("many"))


NODES = "#nodes-table"


def test_the_first_rows_of_5000_are_there_and_the_others_come_as_one_scrolls(page: OpenedPage) -> None:
    first = len(page.find_all(f"{NODES} tbody tr"))
    assert 20 < first < 1000
    page.script("document.querySelector('#nodes-table .frame').scrollTop = 1e6")
    page.wait(lambda: len(page.find_all(f"{NODES} tbody tr")) > first)
    assert page.attribute(f"{NODES} table", "aria-rowcount") == "5001"

"""The page of one profile in a browser: sorted, filtered, linked both ways, read by keys, and nothing asked for."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from graphbench.analysis.views import node_rows, sort_rows
from graphbench.records import GeneratedCode, ProfileRecord
from graphbench.report.column import sort_keys
from graphbench.report.columns import FUSION_COLUMNS
from graphbench.report.html.model import Page, Table, kernel_id, node_id
from graphbench.report.html.page import profile_page
from graphbench.report.html.render import render_page
from graphbench.report.html.reporter import HtmlReporter
from graphbench.report.node_columns import node_sort_keys
from tests.browser.opened import OpenedPage, PageOpener
from tests.browser.samples import page_of
from tests.factories import executes, kernel, node, profile, region
from tests.recorded import recorded_profile

NODES, FUSIONS = "#nodes-table", "#fusions-table"
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def record() -> ProfileRecord:
    return recorded_profile()


@pytest.fixture(scope="module")
def written(record: ProfileRecord) -> str:
    return HtmlReporter().render(record)


@pytest.fixture
def page(open_page: PageOpener, written: str) -> OpenedPage:
    return open_page(written)


def hostile() -> ProfileRecord:
    """Markup as the names of a node and of a kernel, in its code and in its subject."""
    nodes = [node(SCRIPT, 9000.0, module=SCRIPT), node("relu", 2000.0, inputs=(SCRIPT,))]
    made = replace(kernel("cpp_fused", 6000.0, roles=(executes(SCRIPT), executes("relu"))), line=1)
    code = GeneratedCode(phase="forward", text=f"cpp_fused('{SCRIPT}')")
    return profile(replace(region(nodes, [made]), code=(code,)), subject=SCRIPT)


def cells(page: OpenedPage, table: str, key: str) -> list[str]:
    """The texts of a column, row by row, of the rows that are there."""
    return page.script(
        "const heads = [...document.querySelectorAll(arguments[0] + ' thead th')];"
        "const at = heads.findIndex((head) => head.dataset.key === arguments[1]);"
        "return [...document.querySelectorAll(arguments[0] + ' tbody tr')].map((row) => row.cells[at].textContent)",
        table,
        key,
    )


def ids(page: OpenedPage, table: str) -> list[str]:
    """The ids of the rows that are there."""
    return page.script(
        "const table = window.graphbench.tables.find((one) => '#' + one.id === arguments[0]);"
        "return [...document.querySelectorAll(arguments[0] + ' tbody tr')].map((row) => table.ids[row.dataset.row])",
        table,
    )


def open_row(page: OpenedPage, identity: str) -> None:
    page.wait(
        lambda: page.script("return document.querySelector('#detail').dataset.shows || ''") == identity,
        f"the details of {identity} are not shown",
    )


def show(page: OpenedPage, identity: str) -> None:
    page.script("window.graphbench.show(arguments[0])", identity)
    open_row(page, identity)


def sort_by(page: OpenedPage, table: str, key: str) -> str | None:
    page.click(f"{table} th[data-key={key}] button")
    return page.attribute(f"{table} th[data-key={key}]", "aria-sort")


def tables(page: Page) -> list[Table]:
    return [table for section in page.sections for table in section.tables if not table.closed and table.columns]


def test_every_cell_of_every_table_is_that_of_the_profile(page: OpenedPage, record: ProfileRecord) -> None:
    for table in tables(profile_page(record)):
        if not table.columns[0].values:
            continue
        page.script("window.graphbench.tables.find((table) => table.id === arguments[0]).fill(1e9)", table.id)
        for column in table.columns:
            if not column.hidden:
                assert cells(page, f"#{table.id}", column.key) == list(column.texts), (table.id, column.key)


def test_every_hidden_value_is_shown_on_demand(page: OpenedPage, record: ProfileRecord) -> None:
    (table,) = (table for table in tables(profile_page(record)) if table.id == "nodes-table")
    page.script(
        "const table = window.graphbench.tables.find((table) => table.id === 'nodes-table');"
        "table.columns.forEach((column) => { column.hidden = false; }); table.rebuild(); table.fill(1e9);"
    )
    for column in table.columns:
        assert cells(page, NODES, column.key) == list(column.texts), column.key


def test_numbers_are_sorted_from_large_to_small_then_the_other_way(page: OpenedPage, record: ProfileRecord) -> None:
    rows = sort_rows(node_rows(record), node_sort_keys(), "in_graph", None)
    assert sort_by(page, NODES, "in_graph") == "descending"
    found = ids(page, NODES)
    assert found == [node_id(row.region, row.name) for row in rows][: len(found)]
    assert sort_by(page, NODES, "in_graph") == "ascending"
    times = {node_id(row.region, row.name): row.in_graph_ns for row in rows}
    known = sorted(time for time in times.values() if time is not None)
    shown = [times[identity] for identity in ids(page, NODES)]
    assert shown[: len(known)] == known[: len(shown)]


def test_texts_are_sorted_from_a_to_z_and_missing_values_come_last(page: OpenedPage) -> None:
    assert sort_by(page, FUSIONS, "verdict") == "ascending"
    verdicts = [verdict.removesuffix(" +") for verdict in cells(page, FUSIONS, "verdict")]
    known = [verdict for verdict in verdicts if verdict not in ("–", "")]
    assert known == sorted(known)
    assert verdicts[: len(known)] == known


def test_kernels_come_sorted_by_their_time(page: OpenedPage, record: ProfileRecord) -> None:
    from graphbench.analysis.fusion import all_fusion_rows

    rows = sort_rows(all_fusion_rows(record), sort_keys(FUSION_COLUMNS, "all_calls_fused_p50"), "cost", None)
    names = cells(page, FUSIONS, "kernel")
    assert names == [row.key.split("/", 1)[-1] for row in rows][: len(names)]
    assert page.attribute(f"{FUSIONS} th[data-key=all_calls_fused_p50]", "aria-sort") == "descending"


def test_rows_are_filtered_by_words_and_counted(page: OpenedPage, record: ProfileRecord) -> None:
    names = [row.name for row in node_rows(record)]
    wanted = [name for name in names if "linear" in name]
    page.type(f"{NODES} .words", "linear")
    found = page.wait(lambda: page.texts(f"{NODES} .counter"))
    assert f"of {len(names)} rows" in found[0]
    assert set(wanted) <= set(cells(page, NODES, "name"))
    page.type(f"{NODES} .words", "no such node")
    assert page.texts(f"{NODES} .counter") == [f"0 of {len(names)} rows"]
    assert cells(page, NODES, "name") == []


def test_rows_are_filtered_by_a_choice(page: OpenedPage, record: ProfileRecord) -> None:
    ops = [row.op_type for row in node_rows(record)]
    wanted = max(set(ops), key=ops.count)
    page.script(
        "const box = document.querySelector(`${arguments[0]} select[data-filter=op_type]`);"
        "box.value = '=' + arguments[1]; box.dispatchEvent(new Event('change'));",
        NODES,
        wanted,
    )
    assert cells(page, NODES, "op_type") == [wanted] * ops.count(wanted)


def test_a_choice_of_fates_leaves_out_their_kernels(page: OpenedPage) -> None:
    choices = page.texts(f"{NODES} select[data-filter=fate] option")
    assert any(choice.startswith("fused (") for choice in choices)
    assert not any("→" in choice for choice in choices)


def test_hidden_columns_are_chosen(page: OpenedPage) -> None:
    assert page.find_all(f"{NODES} th[data-key=samples]") == []
    page.click(f"{NODES} .columns summary")
    page.click(f"{NODES} input[data-column=samples]")
    assert len(page.find_all(f"{NODES} th[data-key=samples]")) == 1


def test_a_node_leads_to_its_kernels_and_they_lead_back(page: OpenedPage, record: ProfileRecord) -> None:
    made = record.regions[0]
    entry = next(one for one in made.nodes if one.fate.kind == "fused")
    (first, *_) = entry.fate.kernels
    page.type(f"{NODES} .words", entry.name)
    page.script(
        "[...document.querySelectorAll(arguments[0] + ' tbody a')]"
        ".find((link) => link.textContent === arguments[1]).click()",
        NODES,
        entry.name,
    )
    open_row(page, node_id(made, entry))
    assert page.texts("#detail h2") == [entry.name]
    page.click(f'#detail button[data-id="{kernel_id(made, first)}"]')
    open_row(page, kernel_id(made, first))
    assert page.find_all(f'#detail button[data-id="{node_id(made, entry)}"]')
    page.click("#detail .back")
    open_row(page, node_id(made, entry))


def test_the_address_keeps_the_row(open_page: PageOpener, written: str, record: ProfileRecord) -> None:
    entry = record.regions[0].kernels[0]
    identity = kernel_id(record.regions[0], entry)
    page = open_page(written)
    show(page, identity)
    fragment = page.script("return location.hash").removeprefix("#")
    again = open_page(written, fragment=fragment)
    open_row(again, identity)
    assert again.texts("#detail h2") == [entry.key.split("/", 1)[-1]]


def test_a_kernel_shows_its_generated_code_and_its_samples(page: OpenedPage, record: ProfileRecord) -> None:
    made = record.regions[0]
    found = profile_page(record).details
    entry = next(one for one in made.kernels if (code := found[kernel_id(made, one)].code) and code.source)
    show(page, kernel_id(made, entry))
    code = found[kernel_id(made, entry)].code
    assert code is not None
    assert page.texts("#detail pre") == [code.source, code.call]
    page.wait(lambda: page.find_all("#detail .samples svg"), "no samples are drawn")
    assert page.errors() == []


def test_samples_read_back_are_those_of_the_profile(page: OpenedPage, record: ProfileRecord) -> None:
    entry = next(one for one in record.regions[0].nodes if one.isolated.samples)
    read = page.driver.execute_async_script(
        "const done = arguments[1], { item, samples, data } = window.graphbench;"
        "item(data.details[arguments[0]]).then((detail) => samples(detail.samples[0][1])).then(done)",
        node_id("r0", entry),
    )
    assert entry.isolated.samples is not None
    assert all(map(math.isclose, read, entry.isolated.samples.busy_ns))
    assert len(read) == len(entry.isolated.samples.busy_ns)


def test_keys_move_open_and_close(page: OpenedPage) -> None:
    from selenium.webdriver.common.keys import Keys

    page.script("document.querySelector(arguments[0] + ' tbody tr').focus()", NODES)
    page.press(Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    assert page.focused().get_dom_attribute("aria-rowindex") == "4"
    name = cells(page, NODES, "name")[2]
    page.press(Keys.ENTER)
    page.wait(lambda: page.texts("#detail h2") == [name])
    page.press(Keys.ESCAPE)
    assert not page.find("#detail").is_displayed()
    assert page.focused().get_dom_attribute("aria-rowindex") == "4"
    page.press("/")
    assert page.focused() == page.find(f"{NODES} .words")


def test_the_end_of_a_long_table_is_reached_by_key(page: OpenedPage, record: ProfileRecord) -> None:
    from selenium.webdriver.common.keys import Keys

    page.script("document.querySelector(arguments[0] + ' tbody tr').focus()", NODES)
    page.press(Keys.END)
    assert page.focused().get_dom_attribute("aria-rowindex") == str(len(node_rows(record)) + 1)


def test_a_readers_software_is_told_what_is_what(page: OpenedPage) -> None:
    assert page.script("return document.documentElement.lang") == "en"
    assert len(page.find_all("main")) == len(page.find_all("h1")) == 1
    for table in page.find_all(".frame table"):
        assert table.find_element("css selector", "caption").get_attribute("textContent")
        assert int(table.get_dom_attribute("aria-rowcount") or 0) > 1
        assert all(head.get_dom_attribute("scope") == "col" for head in table.find_elements("css selector", "thead th"))
        row = table.find_element("css selector", "tbody tr")
        assert row.find_element("css selector", "th").get_dom_attribute("scope") == "row"
    unnamed = page.script(
        "return [...document.querySelectorAll('input, select, button')].filter((one) =>"
        " !one.getAttribute('aria-label') && !one.textContent.trim() && !one.closest('label')).length"
    )
    assert unnamed == 0


def test_markup_in_names_and_code_is_shown_as_text(open_page: PageOpener) -> None:
    page = open_page(HtmlReporter().render(hostile()))
    assert page.texts("h1") == [SCRIPT]
    assert SCRIPT in cells(page, NODES, "name")
    for identity in (f"r0/{SCRIPT}", "r0/forward/cpp_fused:0"):
        show(page, identity)
    assert page.texts("#detail pre")[-1] == f"cpp_fused('{SCRIPT}')"
    assert SCRIPT in page.texts("#detail .links button")
    assert page.errors() == []
    with pytest.raises(Exception, match="no such alert"):
        page.driver.switch_to.alert.accept()


def test_the_theme_is_the_systems_until_one_is_chosen(open_page: PageOpener, written: str) -> None:
    page = open_page(written, prefers_color_scheme="dark")
    dark = page.style("body", "background-color")
    page.click("#theme")
    light = page.style("body", "background-color")
    assert dark != light
    page.driver.refresh()
    assert page.style("body", "background-color") == light


CONTRAST = """
const luminance = (colour) => {
  const parts = colour.match(/[\\d.]+/g).slice(0, 3).map((part) => {
    const value = Number(part) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
};
const probe = document.body.appendChild(document.createElement("i"));
const resolved = (name) => {
  probe.style.color = `var(--${name})`;
  return luminance(getComputedStyle(probe).color);
};
return arguments[0].flatMap((text) => arguments[1].map((under) => {
  const [low, high] = [resolved(text), resolved(under)].sort((a, b) => a - b);
  return [text, under, (high + 0.05) / (low + 0.05)];
}));
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_stand_out_from_what_is_under_them(open_page: PageOpener, scheme: str) -> None:
    page = open_page(render_page(Page(title="t", lines=(), sections=())), prefers_color_scheme=scheme)
    texts: list[Any] = page.script(CONTRAST, ["text", "muted", "accent", "good", "bad"], ["page", "surface", "raised"])
    assert [entry for entry in texts if entry[2] < 4.5] == []
    marks = ["eager", "fused", "gap", "idle", "host", *(f"cat-{number}" for number in range(1, 9))]
    assert [entry for entry in page.script(CONTRAST, marks, ["surface"]) if entry[2] < 3] == []


def test_a_click_on_a_row_leaves_it_where_it_is(page: OpenedPage) -> None:
    row = f"{NODES} tbody tr:nth-child(5)"
    page.script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", page.find(row))
    before = page.script("return arguments[0].getBoundingClientRect().top", page.find(row))
    page.find(f"{row} a").click()
    page.wait(lambda: page.find("#detail").is_displayed())
    after = page.script("return arguments[0].getBoundingClientRect().top", page.find(row))
    assert abs(after - before) < 40


def test_an_address_that_names_no_row_opens_nothing(open_page: PageOpener, written: str) -> None:
    for fragment in ("row=r0/no-such-node", "row=", "row=%", "row=__proto__", "<script>alert(1)</script>"):
        page = open_page(written, fragment=fragment)
        page.wait(lambda page=page: page.script("return document.documentElement.dataset.ready") == "true")
        assert not page.find("#detail").is_displayed(), fragment
        assert page.errors() == [], fragment


def test_a_list_of_columns_closes_when_one_clicks_elsewhere(page: OpenedPage) -> None:
    page.click(f"{NODES} .columns summary")
    assert page.find(f"{NODES} .choices").is_displayed()
    page.click("h1")
    assert not page.find(f"{NODES} .choices").is_displayed()


def test_a_closed_table_is_made_when_it_is_opened(page: OpenedPage) -> None:
    assert page.find_all("#groups-op_type tbody tr") == []
    page.click("#groups-op_type summary")
    page.wait(lambda: page.find_all("#groups-op_type tbody tr"))
    page.script("document.querySelector('#groups-op_type tbody a').click()")
    page.wait(lambda: page.texts("#detail .kind") == ["group"])
    assert page.errors() == []


def test_a_point_of_a_picture_selects_its_row(page: OpenedPage, record: ProfileRecord) -> None:
    identity = kernel_id(record.regions[0], record.regions[0].kernels[0])
    page.script("document.dispatchEvent(new CustomEvent('graphbench:select', { detail: arguments[0] }))", identity)
    open_row(page, identity)


def test_a_node_by_size_shows_its_row_with_an_exponent_a_size(open_page: PageOpener) -> None:
    page = open_page(page_of("sizes"))
    (header, first) = page.script(
        """
        const table = document.querySelector('[data-table="by-size-r1"]');
        const cells = (row) => [...row.cells].map((cell) => cell.innerText.split("\\n")[0].trim());
        return [cells(table.querySelector("thead tr")), cells(table.querySelector("tbody tr"))];
        """
    )
    named = dict(zip(header, first, strict=True))
    assert named["node"] == "project"
    exponents = [value for name, value in named.items() if name.startswith("grows as")]
    assert exponents == ["1.00 ±0.00", "1.00"]

"""The page on paper, and by the address of a row: everything is there, and nothing has to be scrolled to."""

from __future__ import annotations

import pytest

from graphbench.report.html.model import Page, node_id
from graphbench.report.html.render import render_page
from graphbench.report.html.reporter import HtmlReporter
from tests.browser.opened import OpenedPage, PageOpener
from tests.browser.samples import page_of
from tests.factories import node, profile, region, steady

ROWS = 250
"""More than are made before one scrolls."""


def long_page() -> str:
    """A node for each of so many rows, the last one the shortest."""
    return HtmlReporter().render(profile(region([node(f"n{i}", steady(1000.0 * (ROWS - i))) for i in range(ROWS)])))


def printed(page: OpenedPage) -> OpenedPage:
    """The page after it was printed, once its pictures can be drawn."""
    page.wait(lambda: page.script("return window.Plotly !== undefined"), "plotly is not unpacked when nothing is to do")
    page.driver.execute_cdp_cmd("Page.printToPDF", {"landscape": True})
    return page


def test_paper_has_every_row(open_page: PageOpener) -> None:
    page = printed(open_page(long_page()))
    assert len(page.find_all("#nodes-table tbody tr")) == ROWS


def test_paper_has_every_picture(open_page: PageOpener) -> None:
    page = printed(open_page(page_of("recorded")))
    assert len(page.find_all(".plot")) == len(page.find_all(".plot .main-svg:first-child")) > 1


def test_paper_is_light(open_page: PageOpener) -> None:
    page = open_page(page_of("recorded"), prefers_color_scheme="dark")
    page.script(
        "window.seen = []; addEventListener('beforeprint', () => seen.push(document.documentElement.dataset.theme))"
    )
    printed(page)
    assert page.script("return [...seen, document.documentElement.dataset.theme]") == ["light", "dark"]


def test_paper_is_as_wide_as_the_pictures_and_the_screen_is_not_kept_so(open_page: PageOpener) -> None:
    page = open_page(page_of("recorded"), width=1400)
    page.script("window.seen = []; addEventListener('beforeprint', () => seen.push(document.body.style.minWidth))")
    width = page.script("return document.documentElement.clientWidth")
    printed(page)
    assert page.script("return [...seen, document.body.style.minWidth]") == [f"{width}px", ""]


@pytest.mark.parametrize("name", ["n0", f"n{ROWS - 1}"])
def test_the_address_of_a_row_brings_it_into_view(open_page: PageOpener, name: str) -> None:
    page = open_page(long_page(), fragment="row=" + node_id("r0", name).replace("/", "%2F"))
    top, bottom = page.script(
        "const row = document.querySelector('#nodes-table tr.selected').getBoundingClientRect();"
        "return [row.top, row.bottom]"
    )
    assert 0 < top < bottom < 900


def test_the_header_of_names_stays_above_them(open_page: PageOpener) -> None:
    page = open_page(page_of("recorded"), width=800)
    left, of_names, scrolled = page.script(
        "const frame = document.querySelector('#nodes-table .frame'); frame.scrollLeft = 200;"
        "const leftOf = (where) => frame.querySelector(where).getBoundingClientRect().left;"
        "return [leftOf('thead th.name'), leftOf('tbody th'), frame.scrollLeft]"
    )
    assert (left, scrolled) == (of_names, 200)


def test_no_column_lies_beyond_the_paper(open_page: PageOpener) -> None:
    page = open_page(page_of("recorded"), width=1000)
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    wide = page.script(
        "return [...document.querySelectorAll('.frame table')].filter((table) => table.clientWidth > 0)"
        ".map((table) => [table.offsetWidth - table.parentElement.clientWidth])"
    )
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert wide
    assert max(over for (over,) in wide) <= 0


def test_a_page_without_a_picture_is_printed_too(open_page: PageOpener) -> None:
    page = open_page(render_page(Page(title="nothing", lines=(), sections=())))
    page.driver.execute_cdp_cmd("Page.printToPDF", {})
    assert page.console() == []

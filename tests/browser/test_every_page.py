"""What holds of every page: it loads nothing, complains of nothing, fits the screen, shows names as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser.opened import OpenedPage, PageOpener
from tests.browser.samples import ALL, HOSTILE, UNTOUCHED, page_of

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

# Of each table the first row that has details.
FIRST_ROWS = """
return [...document.querySelectorAll("[data-table]")]
  .map((table) => table.querySelector("tr.opens a"))
  .filter((link) => link !== null)
  .map((link) => decodeURIComponent(link.hash.slice("#row=".length)))
"""
OUTSIDE = """
return [...document.querySelectorAll("main *")]
  .filter((one) => !one.closest(".frame, .choices, .unseen, svg"))
  .filter((one) => one.getBoundingClientRect().right > innerWidth + 1)
  .map((one) => one.outerHTML.slice(0, 80))
"""


def see_everything(page: OpenedPage) -> None:
    """Scroll to the end so that all pictures are drawn, unfold all tables, and open the details of a row of each."""
    for place in page.find_all(".plot"):
        page.script("arguments[0].scrollIntoView({behavior: 'instant'})", place)
        page.wait(lambda place=place: place.get_dom_attribute("data-drawn"), "a picture was not drawn")
    page.script("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    for row in page.script(FIRST_ROWS):
        page.script("graphbench.show(arguments[0])", row)
        page.wait(lambda row=row: page.attribute("#detail", "data-shows") == row, f"no details of {row}")


@pytest.fixture(scope="module", params=ALL)
def name(request: pytest.FixtureRequest) -> str:
    """The name of a page; all tests of one follow each other."""
    return str(request.param)


@pytest.fixture(scope="module")
def seen(name: str, browser: Chrome, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenedPage]:
    """That page, opened once, with everything on it seen: that takes longer than all that is then asked."""
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(page_of(name), encoding="utf-8")
    page = OpenedPage.load(browser, path, fragment="", width=1280, height=900, media={})
    see_everything(page)
    yield page
    OpenedPage.forget(browser)


def test_nothing_is_loaded_and_nothing_complains_whatever_is_opened(seen: OpenedPage) -> None:
    seen.click("#theme")
    assert seen.outside() == []
    assert seen.errors() == []


def test_no_page_is_wider_than_the_screen(seen: OpenedPage) -> None:
    for width in (1280, 1920, 1000):
        seen.resize(width)
        # Pictures follow a little later.
        seen.wait(lambda: seen.script(OUTSIDE) == [], "something is right of the page")
        assert (width, seen.overflow()) == (width, 0)


def test_markup_in_names_is_shown_as_text_and_never_runs(seen: OpenedPage, name: str) -> None:
    assert (HOSTILE in seen.texts("#nodes-table tbody th, #nodes tbody th")) == (name not in UNTOUCHED)
    own = {"", "application/json", "text/plain"}
    types = seen.script("return [...document.querySelectorAll('script')].map((one) => one.type)")
    assert set(types) <= own
    assert seen.find_all("img, iframe, object, embed, [onerror], [onload]") == []
    assert seen.errors() == []  # an `alert` would have stopped every command before


def test_the_details_of_a_hostile_row_are_text_too(open_page: PageOpener) -> None:
    page = open_page(page_of("hostile"))
    page.click("#nodes-table tbody tr:last-child th a")
    page.wait(lambda: page.attribute("#detail", "data-shows"))
    assert "<" in page.seen("#detail h2")[0]
    assert any(HOSTILE in text for text in page.seen("#detail dd"))
    assert page.find_all("#detail script, #detail img, #detail svg [onload]") == []

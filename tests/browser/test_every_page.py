"""What holds of every page: it loads nothing, complains of nothing, fits the screen, shows names as text."""

from __future__ import annotations

import pytest

from tests.browser.opened import OpenedPage, PageOpener
from tests.browser.samples import ALL, HOSTILE, page_of

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


@pytest.mark.parametrize("name", ALL)
def test_nothing_is_loaded_and_nothing_complains_whatever_is_opened(open_page: PageOpener, name: str) -> None:
    page = open_page(page_of(name))
    see_everything(page)
    page.click("#theme")
    assert page.outside() == []
    assert page.errors() == []


@pytest.mark.parametrize("name", ALL)
def test_no_page_is_wider_than_the_screen(open_page: PageOpener, name: str) -> None:
    page = open_page(page_of(name), width=1280)
    assert page.overflow() == 0
    see_everything(page)
    for width in (1280, 1920, 1000):
        page.resize(width)
        page.wait(
            lambda: page.script(OUTSIDE) == [], "something is right of the page"
        )  # pictures follow a little later
        assert (width, page.overflow()) == (width, 0)


@pytest.mark.parametrize("name", ["hostile", "compared", "grown"])
def test_markup_in_names_is_shown_as_text_and_never_runs(open_page: PageOpener, name: str) -> None:
    page = open_page(page_of(name))
    see_everything(page)
    assert HOSTILE in page.texts("#nodes-table tbody th, #nodes tbody th")
    own = {"", "application/json", "text/plain"}
    types = page.script("return [...document.querySelectorAll('script')].map((one) => one.type)")
    assert set(types) <= own
    assert page.find_all("img, iframe, object, embed, [onerror], [onload]") == []
    assert page.errors() == []  # an `alert` would have stopped every command before


def test_the_details_of_a_hostile_row_are_text_too(open_page: PageOpener) -> None:
    page = open_page(page_of("hostile"))
    page.click("#nodes-table tbody tr:last-child th a")
    page.wait(lambda: page.attribute("#detail", "data-shows"))
    assert "<" in page.seen("#detail h2")[0]
    assert any(HOSTILE in text for text in page.seen("#detail dd"))
    assert page.find_all("#detail script, #detail img, #detail svg [onload]") == []


@pytest.mark.parametrize("fragment", ["row=%", "row=toString", "row=r0%2Fnobody", "<script>alert(1)</script>", "row="])
def test_an_address_with_any_fragment_opens_the_page(open_page: PageOpener, fragment: str) -> None:
    page = open_page(page_of("hostile"), fragment=fragment)
    assert page.attribute("html", "data-ready") == "true"
    assert not page.find("#detail").is_displayed()
    assert page.errors() == []

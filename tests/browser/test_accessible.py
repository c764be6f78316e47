"""Who uses a keyboard or a screen reader, or sees colours otherwise, can use every page."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.opened import OpenedPage, PageOpener
from tests.browser.samples import ALL, page_of

CONTROLS = {"button", "link", "textbox", "searchbox", "checkbox", "combobox", "tab", "switch"}
TEXT_CONTRAST = 4.5
LARGE_CONTRAST = 3.0
# Every text that is seen, with its colour, that of what lies behind it, and its size; `canvas` knows all notations.
TEXTS = """
const context = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
const rgba = (color) => {
  context.clearRect(0, 0, 1, 1);
  context.fillStyle = color;
  context.fillRect(0, 0, 1, 1);
  return [...context.getImageData(0, 0, 1, 1).data];
};
const behind = (element) => {
  for (let one = element; one; one = one.parentElement) {
    const color = rgba(getComputedStyle(one).backgroundColor);
    if (color[3] === 255) return color;
  }
  return [255, 255, 255, 255];
};
const found = new Map();
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  const text = walker.currentNode.data.trim().slice(0, 40);
  if (!text || element.closest("script, style, noscript, .unseen, .skip, svg, [disabled]")) continue;
  if (!element.checkVisibility()) continue;
  const style = getComputedStyle(element);
  const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 600);
  const entry = {color: rgba(style.color), behind: behind(element), large, text};
  found.set(JSON.stringify([entry.color, entry.behind, large]), entry);
}
return [...found.values()];
"""


def luminance(color: list[int]) -> float:
    """Relative luminance of an sRGB colour, 0 to 1, as the WCAG define it."""
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in (c / 255 for c in color)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: list[int], other: list[int]) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast([0, 0, 0], [255, 255, 255]) == pytest.approx(21)
    assert contrast([119, 119, 119], [255, 255, 255]) == pytest.approx(4.48, abs=0.01)


def open_a_row(page: OpenedPage) -> None:
    page.script("graphbench.show(graphbench.tables.find((one) => one.ids.length > 0).ids[0])")
    page.wait(lambda: page.attribute("#detail", "data-shows"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["compared", "grown"])
def test_every_text_stands_out_from_what_is_behind_it(open_page: PageOpener, name: str, scheme: str) -> None:
    page = open_page(page_of(name), prefers_color_scheme=scheme)
    open_a_row(page)
    texts = page.script(TEXTS)
    assert len(texts) > 5
    weak = {
        entry["text"]: round(contrast(entry["color"], entry["behind"]), 2)
        for entry in texts
        if contrast(entry["color"], entry["behind"]) < (LARGE_CONTRAST if entry["large"] else TEXT_CONTRAST)
    }
    assert weak == {}


def accessibility_tree(page: OpenedPage) -> list[dict[str, Any]]:
    """What a screen reader is told. Source: `Accessibility.getFullAXTree` of the Chrome DevTools Protocol."""
    page.driver.execute_cdp_cmd("Accessibility.enable", {})
    nodes = page.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    return [node for node in nodes if not node["ignored"]]


def role_and_name(node: dict[str, Any]) -> tuple[str, str]:
    return node.get("role", {}).get("value", ""), node.get("name", {}).get("value", "")


@pytest.mark.parametrize("name", ALL)
def test_every_control_and_landmark_has_a_name(open_page: PageOpener, name: str) -> None:
    page = open_page(page_of(name))
    open_a_row(page)
    told = [role_and_name(node) for node in accessibility_tree(page)]
    controls = [entry for entry in told if entry[0] in CONTROLS]
    assert len(controls) > 5
    assert [role for role, text in controls if not text.strip()] == []
    for landmark in ("navigation", "complementary", "table", "search", "region"):
        assert all(text.strip() for role, text in told if role == landmark), landmark
    assert [role for role, _ in told].count("main") == 1


@pytest.mark.parametrize("name", ALL)
def test_tables_and_headings_are_what_they_say(open_page: PageOpener, name: str) -> None:
    page = open_page(page_of(name))
    assert len(page.find_all("h1")) == 1
    assert page.attribute("html", "lang") == "en"
    tables = len(page.find_all(".frame table"))
    assert tables == len(page.find_all(".frame table caption")) > 0
    assert page.find_all(".frame thead th:not([scope=col]), .frame tbody th:not([scope=row])") == []
    assert len(page.find_all(".frame thead th[aria-sort]")) == len(page.find_all(".frame thead th"))
    assert len(set(page.script("return [...document.querySelectorAll('[id]')].map((one) => one.id)"))) == len(
        page.find_all("[id]")
    )


def tab_to(page: OpenedPage, where: str, most: int = 80) -> None:
    """Press Tab until an element that matches has the focus; each that gets it on the way has to show it."""
    for _ in range(most):
        page.press("\ue004")
        outline = page.script(
            "const one = document.activeElement, style = getComputedStyle(one);"
            "const seen = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;"
            "return one === document.body || seen ? '' : one.outerHTML.slice(0, 120)"
        )
        assert outline == "", f"no focus is seen on {outline}"
        if page.script("return document.activeElement.matches(arguments[0])", where):
            return
    raise AssertionError(f"{where} is not reached with {most} times Tab")


ENTER, ESCAPE, DOWN = "\ue007", "\ue00c", "\ue015"


def test_the_keyboard_alone_leads_from_the_start_to_the_code_of_a_nodes_kernel(open_page: PageOpener) -> None:
    page = open_page(page_of("recorded"))
    tab_to(page, ".skip")
    page.press(ENTER)
    page.script("document.querySelector('#nodes-table').scrollIntoView({behavior: 'instant', block: 'start'})")
    page.press("/")
    assert page.focused().get_dom_attribute("class") == "words"
    page.press("linear")
    tab_to(page, "tbody tr")
    page.press(DOWN)
    assert page.script("return document.activeElement.getAttribute('aria-rowindex')") == "3"
    page.press(ENTER)
    node = page.wait(lambda: page.attribute("#detail", "data-shows"))
    assert page.script("return document.activeElement.matches('#detail h2')")
    tab_to(page, "#detail .links button")
    page.press(ENTER)
    page.wait(lambda: page.attribute("#detail", "data-shows") not in (None, node))
    assert page.seen("#detail .kind") == ["kernel"]
    tab_to(page, "#detail pre")
    assert len(page.focused().text) > 10
    page.press(ESCAPE)
    assert not page.find("#detail").is_displayed()
    assert page.script("return document.activeElement.matches('tbody tr')")


def test_motion_is_reduced_for_who_asks_for_it(open_page: PageOpener) -> None:
    page = open_page(page_of("grown"), prefers_reduced_motion="reduce")
    assert page.style("html", "scroll-behavior") == "auto"

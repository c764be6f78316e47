"""Pictures in a real browser: drawn without a word in the console, clicked, repainted, with names as text."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from graphbench.records import ProfileRecord
from graphbench.report.html.page import profile_page
from graphbench.report.html.render import render_page
from tests.browser.opened import OpenedPage, PageOpener
from tests.figure_samples import HOSTILE, hostile
from tests.samples import cpu_profile
from tests.step_samples import training_step


@functools.cache
def html(name: str) -> str:
    records = {"training": training_step, "cpu": cpu_profile, "hostile": hostile}
    record: ProfileRecord = records[name]()
    return render_page(profile_page(record))


def draw(page: OpenedPage, figure: str) -> str:
    """Bring a picture into view, wait until it is drawn, and give its selector."""
    where = f'.plot[data-figure="{figure}"]'
    page.script("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", where)
    page.wait(lambda: page.attribute(where, "data-drawn") == "true", f"{figure} is not drawn")
    return where


def figures(page: OpenedPage) -> list[str]:
    return page.script("return [...document.querySelectorAll('.plot')].map((one) => one.dataset.figure)")


def fill(page: OpenedPage, where: str) -> str:
    return page.script("return getComputedStyle(document.querySelector(arguments[0])).fill", f"{where} .bars path")


def click(page: OpenedPage, where: str, index: int = 0) -> None:
    """Click in the middle of a mark, as a mouse does: plotly hears it above the mark."""
    from selenium.webdriver import ActionChains

    mark = page.find_all(where)[index]
    ActionChains(page.driver).move_to_element(mark).pause(0.2).click().perform()


@pytest.mark.parametrize("name", ["training", "cpu"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_picture_is_drawn_without_a_word_and_without_the_network(
    open_page: PageOpener, name: str, scheme: str
) -> None:
    page = open_page(html(name), prefers_color_scheme=scheme)
    assert len(figures(page)) >= 4
    for figure in figures(page):
        where = draw(page, figure)
        assert page.find_all(f"{where} svg.main-svg")
    assert page.errors() == []
    assert page.outside() == []
    assert page.overflow() == 0


def test_names_are_text_in_pictures_and_no_markup(open_page: PageOpener) -> None:
    page = open_page(html("hostile"))
    words: list[str] = []
    for figure in figures(page):
        where = draw(page, figure)
        words += page.texts(f"{where} svg text")
        assert page.find_all(f"{where} svg a") == []
        assert page.find_all(f"{where} svg text b, {where} svg text tspan[style*='bold']") == []
    assert any(HOSTILE[:12] in word for word in words)
    assert page.errors() == []


HEARD = "window.heard = []; document.addEventListener('graphbench:select', (event) => heard.push(event.detail))"


def test_a_click_on_a_kernel_of_the_roofline_shows_its_row(open_page: PageOpener) -> None:
    page = open_page(html("cpu"))
    where = draw(page, "roofline")
    page.script(HEARD)
    click(page, f"{where} .x2y2 path.point", 2)  # behind the two nodes of the panel
    page.wait(lambda: page.script("return heard.length"), "no row was chosen")
    assert page.script("return heard[0]") == "r0/forward/cpp_fused_add_relu_0:2"


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_a_click_makes_a_part_of_the_icicle_the_root(open_page: PageOpener, motion: str) -> None:
    page = open_page(html("cpu"), prefers_reduced_motion=motion)
    where = draw(page, "flow")
    level = "return document.querySelector(arguments[0]).data[0].level"
    assert page.script(level, where) in (None, "")
    page.script(HEARD)
    click(page, f"{where} .icicle .slice path", 1)
    page.wait(lambda: page.script(level, where) == "0.0", "it is still the root")
    assert page.script("return heard") == []
    assert page.errors() == []


def test_a_click_on_a_kernel_of_the_icicle_shows_it(open_page: PageOpener) -> None:
    page = open_page(html("cpu"))
    where = draw(page, "flow")
    page.script(HEARD)
    labels = page.texts(f"{where} .icicle .slice")
    (leaf,) = (index for index, text in enumerate(labels) if "convolution" in text)
    click(page, f"{where} .icicle .slice path", leaf)
    page.wait(lambda: page.script("return heard.length"), "no row was chosen")
    assert page.script("return heard[0]") == "r0/forward/extern_kernels.convolution:1"


def test_pictures_take_the_colours_of_the_theme(open_page: PageOpener) -> None:
    page = open_page(html("cpu"), prefers_color_scheme="light")
    where = draw(page, "op_types")
    light = fill(page, where)
    page.click("#theme")
    page.wait(lambda: fill(page, where) != light, "the bars kept their colour")
    value = page.script("return getComputedStyle(document.documentElement).getPropertyValue('--eager').trim()")
    rgb = ", ".join(str(int(value[at : at + 2], 16)) for at in (1, 3, 5))
    assert fill(page, where) == f"rgb({rgb})"


@pytest.mark.parametrize(("width", "other"), [(1280, 1000), (1000, 1280), (1920, 1280)])
def test_a_picture_is_as_wide_as_its_place(open_page: PageOpener, width: int, other: int) -> None:
    page = open_page(html("cpu"), width=width)
    where = draw(page, "op_types")
    both = (
        "const place = document.querySelector(arguments[0]);"
        "return [place.clientWidth, Math.round(place.querySelector('svg.main-svg').getBoundingClientRect().width)]"
    )
    before = page.script(both, where)[0]
    page.resize(other)
    page.wait(lambda: before != page.script(both, where)[0] == page.script(both, where)[1], "it kept its width")
    assert page.overflow() == 0


def test_a_picture_has_a_name_for_those_who_do_not_see_it(open_page: PageOpener) -> None:
    page = open_page(html("cpu"))
    where = draw(page, "roofline")
    assert page.attribute(where, "role") == "img"
    named = page.attribute(where, "aria-label") or page.attribute(where, "aria-labelledby")
    assert named


def samples(page: OpenedPage, series: list[dict[str, Any]]) -> list[str]:
    """Draw series and give the names in the legend."""
    draw(page, "op_types")  # plotly is there now
    page.script(
        "const place = document.createElement('div'); place.id = 'here'; document.querySelector('main').append(place);"
        "graphbench.drawSamples(place, arguments[0])",
        series,
    )
    page.wait(lambda: page.find_all("#here svg.main-svg"), "no samples are drawn")
    return page.texts("#here .legendtext")


def test_samples_tell_their_quantiles(open_page: PageOpener) -> None:
    page = open_page(html("cpu"))
    told = samples(page, [{"name": "isolated", "values_ns": [float(1000 * i) for i in range(1, 12)]}])
    assert told == ["isolated: p10 2.00, p50 6.00, p90 10.0 µs (n = 11)"]
    assert page.errors() == []


def test_samples_far_above_the_others_are_counted_and_do_not_flatten_them(open_page: PageOpener) -> None:
    page = open_page(html("cpu"))
    values = [1000.0 + i for i in range(99)] + [1_000_000.0]
    (told,) = samples(page, [{"name": "isolated", "values_ns": values}])
    assert told.endswith("(n = 100; 1 above the axis)")
    assert page.script("return document.querySelector('#here').layout.yaxis.range[1]") < 3


def test_samples_of_two_series_share_an_axis_and_one_sample_is_no_error(open_page: PageOpener) -> None:
    page = open_page(html("cpu"))
    told = samples(
        page, [{"name": "isolated", "values_ns": [5.0]}, {"name": "in <b>graph</b>", "values_ns": [7.0, 9.0]}]
    )
    assert told == [
        "isolated: p10 5.00, p50 5.00, p90 5.00 ns (n = 1)",
        "in <b>graph</b>: p10 7.20, p50 8.00, p90 8.80 ns (n = 2)",
    ]
    assert page.errors() == []

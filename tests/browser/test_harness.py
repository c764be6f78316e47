"""The tests' own instrument: a browser that hears nothing would let every page pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.opened import PageOpener

HEAD = "<!doctype html><html lang='en'><meta charset='utf-8'><title>t</title>"


def test_a_quiet_page_asks_for_its_own_file_only_and_says_nothing(open_page: PageOpener) -> None:
    page = open_page(f"{HEAD}<p>µs</p><img src='data:image/gif;base64,R0lGODlhAQABAAAAACw='>")
    assert page.texts("p") == ["µs"]
    assert len(page.requests()) == 1
    assert (page.outside(), page.errors(), page.overflow()) == ([], [], 0)


@pytest.mark.parametrize(
    "part",
    [
        "<img src='https://example.com/a.png'>",
        "<script src='http://example.com/a.js'></script>",
        "<link rel=stylesheet href='//example.com/a.css'>",
        "<script>fetch('https://example.com/a')</script>",
        "<img src='another.png'>",
    ],
)
def test_what_is_loaded_from_outside_is_heard(open_page: PageOpener, part: str) -> None:
    page = open_page(HEAD + part)
    page.wait(page.outside, "no request heard")


def test_an_exception_and_an_error_in_the_console_are_heard(open_page: PageOpener) -> None:
    page = open_page(f"{HEAD}<script>console.error('told');</script><script>nothing.at.all()</script>")
    told = page.wait(lambda: page.errors() if len(page.errors()) > 1 else None)
    assert "told" in told[0]
    assert "nothing is not defined" in told[1]


def test_what_one_page_says_is_not_held_against_the_next(open_page: PageOpener) -> None:
    noisy = open_page(f"{HEAD}<script>console.error('told'); localStorage.setItem('a', 'b');</script>")
    noisy.wait(noisy.errors)
    assert open_page(f"{HEAD}<p>quiet").errors() == []


@pytest.mark.parametrize("width", [1280, 1920])
def test_a_page_that_is_too_wide_is_told_by_how_much(open_page: PageOpener, width: int) -> None:
    page = open_page(f"{HEAD}<body style='margin: 0'><div style='width: 2000px'>wide</div>", width=width)
    assert page.overflow() == 2000 - width


def test_colour_scheme_is_emulated(open_page: PageOpener) -> None:
    style = "<style>p { color: red } @media (prefers-color-scheme: dark) { p { color: blue } }</style><p>x"
    page = open_page(HEAD + style, prefers_color_scheme="dark")
    assert page.style("p", "color") == "rgba(0, 0, 255, 1)"
    page.media(prefers_color_scheme="light")
    assert page.style("p", "color") == "rgba(255, 0, 0, 1)"


def test_a_screenshot_is_as_large_as_the_viewport_or_as_the_document(open_page: PageOpener, tmp_path: Path) -> None:
    page = open_page(f"{HEAD}<body style='margin: 0'><div style='height: 3000px'>", width=1280, height=700)
    page.screenshot(tmp_path / "seen.png")
    page.screenshot(tmp_path / "full.png", full=True)
    assert _size(tmp_path / "seen.png") == (1280, 700)
    assert _size(tmp_path / "full.png") == (1280, 3000)


def _size(path: Path) -> tuple[int, int]:
    """Width and height of a PNG, from its header."""
    head = path.read_bytes()[16:24]
    return int.from_bytes(head[:4], "big"), int.from_bytes(head[4:], "big")

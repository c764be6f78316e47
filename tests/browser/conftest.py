"""A real browser for tests of the HTML page: headless Chromium, driven by selenium, that can reach no network.

Without it these tests are skipped and say how to install it; with GRAPHBENCH_REQUIRE_BROWSER=1 a skip is a failure.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.opened import OpenedPage, PageOpener

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

REQUIRE_BROWSER = "GRAPHBENCH_REQUIRE_BROWSER"
# What is found first runs; an environment variable names another one.
PROGRAMS = {
    "CHROMIUM": ("chromium", "chromium-browser", "google-chrome"),
    "CHROMEDRIVER": ("chromedriver",),
}
PACKAGES = ("selenium", "jinja2", "plotly")
SWITCHES = (
    "--headless=new",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Where a browser is required, a skipped test has failed: nobody would notice that it never ran."""
    report = yield
    if report.skipped and os.environ.get(REQUIRE_BROWSER) == "1":
        report.outcome = "failed"
        report.longrepr = f"{REQUIRE_BROWSER}=1, but the test was skipped: {report.longrepr}"
    return report


def pytest_runtest_setup(item: pytest.Item) -> None:
    missing = why_no_browser()
    if missing:
        pytest.skip(missing)


@functools.cache
def why_no_browser() -> str:
    """What is missing and how to install it, or an empty string."""
    packages = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if packages:
        return f"needs {', '.join(packages)}: pip install 'torch-graphbench[test]'"
    programs = [names[0] for variable, names in PROGRAMS.items() if _program(variable) is None]
    if programs:
        return (
            f"needs {' and '.join(programs)}: apt-get install chromium chromium-driver, "
            f"or name them in {' and '.join(PROGRAMS)}"
        )
    return ""


def _program(variable: str) -> str | None:
    """The path of an executable, or `None`; what the variable names has to exist."""
    named = os.environ.get(variable)
    candidates = (named,) if named else PROGRAMS[variable]
    return next(filter(None, map(shutil.which, candidates)), None)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    """One headless Chromium for all tests, with a profile of its own."""
    driver = start_browser(tmp_path_factory.mktemp("chromium"))
    yield driver
    driver.quit()


def start_browser(folder: Path) -> Chrome:
    """Start Chromium with its profile in an empty folder.

    Selenium is told where the driver is: by itself it would download one.

    Source: `selenium.webdriver`, selenium 4.51; the capabilities `goog:loggingPrefs` and `goog:perfLoggingPrefs` of
    chromedriver.
    """
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService

    options = ChromeOptions()
    options.binary_location = str(_program("CHROMIUM"))
    for switch in (*SWITCHES, f"--user-data-dir={folder}"):
        options.add_argument(switch)
    if os.geteuid() == 0:  # Chromium's sandbox refuses root
        options.add_argument("--no-sandbox")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    options.add_experimental_option("perfLoggingPrefs", {"enableNetwork": True, "enablePage": False})
    driver = Chrome(options=options, service=ChromeService(executable_path=_program("CHROMEDRIVER")))
    driver.set_page_load_timeout(60)
    driver.set_script_timeout(30)
    return driver


@pytest.fixture
def open_page(browser: Chrome, tmp_path: Path) -> Iterator[PageOpener]:
    """Open HTML text, or a file, by `file://`; what a test changes of the browser is put back after it."""

    def opener(
        page: str | Path, *, fragment: str = "", width: int = 1280, height: int = 900, **media: Any
    ) -> OpenedPage:
        path = page if isinstance(page, Path) else tmp_path / "page.html"
        if isinstance(page, str):
            path.write_text(page, encoding="utf-8")
        return OpenedPage.load(browser, path, fragment=fragment, width=width, height=height, media=media)

    yield opener
    OpenedPage.forget(browser)

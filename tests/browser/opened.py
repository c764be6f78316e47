"""A page in the browser: what stands there, what it wrote to the console, and what it asked the network for."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from selenium.webdriver import Chrome
    from selenium.webdriver.remote.webelement import WebElement

WAIT_S = 20.0
INSIDE = ("data:", "blob:", "about:", "chrome:", "devtools:")


class PageOpener(Protocol):
    """The fixture `open_page`."""

    def __call__(
        self, page: str | Path, *, fragment: str = "", width: int = 1280, height: int = 900, **media: Any
    ) -> OpenedPage:
        """Open a page.

        Args:
            page: its HTML, or its file.
            fragment: what follows `#` in the address.
            width: of the viewport, in CSS pixels.
            height: likewise.
            media: emulated media features, with `_` for `-`: `prefers_color_scheme="dark"`.
        """


@dataclass
class OpenedPage:
    """An open page. A `where` is a CSS selector or an element."""

    driver: Chrome
    path: Path
    _console: list[dict[str, Any]] = field(default_factory=list)
    _requests: list[str] = field(default_factory=list)

    @classmethod
    def load(
        cls, driver: Chrome, path: Path, *, fragment: str, width: int, height: int, media: Mapping[str, str]
    ) -> OpenedPage:
        """Load a file. What earlier pages logged is dropped."""
        driver.get("about:blank")
        for log in ("browser", "performance"):
            driver.get_log(log)
        opened = cls(driver, path)
        opened.resize(width, height)
        opened.media(**media)
        driver.get(path.resolve().as_uri() + (f"#{fragment}" if fragment else ""))
        return opened

    @staticmethod
    def forget(driver: Chrome) -> None:
        """Put the browser back: no emulation, nothing stored. All files share one origin."""
        if driver.current_url.startswith("file:"):
            driver.execute_script("localStorage.clear(); sessionStorage.clear();")
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        driver.get("about:blank")

    def resize(self, width: int, height: int = 900) -> None:
        """Make the viewport so large, in CSS pixels."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def media(self, **features: str) -> None:
        """Emulate media features: `prefers_color_scheme="dark"`, `prefers_reduced_motion="reduce"`."""
        told = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": told})

    def find(self, where: str) -> WebElement:
        """The first element; waits for it."""
        return self.wait(lambda: next(iter(self.find_all(where)), None), f"no element {where}")

    def find_all(self, where: str) -> list[WebElement]:
        """All elements that are there now."""
        return self.driver.find_elements("css selector", where)

    def texts(self, where: str) -> list[str]:
        """The text of each element as it stands in the document, seen or not."""
        return self.script("return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)", where)

    def seen(self, where: str) -> list[str]:
        """The text of each element as it is rendered: nothing of what is hidden."""
        return self.script("return [...document.querySelectorAll(arguments[0])].map((one) => one.innerText)", where)

    def attribute(self, where: str, name: str) -> str | None:
        """An attribute of the first element."""
        return self.find(where).get_dom_attribute(name)

    def style(self, where: str, name: str) -> str:
        """A computed style of the first element, such as `color`."""
        return self.find(where).value_of_css_property(name)

    def click(self, where: str | WebElement) -> None:
        """Click with the mouse, as a user does: what is covered is not clicked."""
        element = self.find(where) if isinstance(where, str) else where
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element)
        element.click()

    def type(self, where: str | WebElement, text: str) -> None:
        """Type into a field that is emptied first."""
        element = self.find(where) if isinstance(where, str) else where
        element.clear()
        element.send_keys(text)

    def press(self, *keys: str) -> None:
        """Press keys one after another, wherever the focus is; special ones are `selenium`'s `Keys`."""
        from selenium.webdriver import ActionChains

        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()

    def focused(self) -> WebElement:
        """The element that has the focus."""
        return self.driver.switch_to.active_element

    def script(self, code: str, *arguments: object) -> Any:
        """Run JavaScript as the body of a function and give what it returns."""
        return self.driver.execute_script(code, *arguments)

    def wait(self, condition: Callable[[], Any], what: str = "nothing came of it", seconds: float = WAIT_S) -> Any:
        """Give the first true value of a condition.

        Raises:
            AssertionError: it did not come.
        """
        end = time.monotonic() + seconds
        while True:
            value = condition()
            if value:
                return value
            assert time.monotonic() < end, f"{what} within {seconds:g} s; console: {self.console()}"
            time.sleep(0.02)

    def console(self) -> list[str]:
        """Everything written to the console since the page was opened, also what the browser complains of."""
        self._console += self.driver.get_log("browser")
        return [f"{entry['level']}: {entry['message']}" for entry in self._console]

    def errors(self) -> list[str]:
        """Errors and warnings of the console."""
        return [line for line in self.console() if line.startswith(("SEVERE", "WARNING"))]

    def requests(self) -> list[str]:
        """All addresses that the page asked for, itself included; not what is part of it (`data:`, `blob:`).

        Source: the event `Network.requestWillBeSent` of the Chrome DevTools Protocol.
        """
        for entry in self.driver.get_log("performance"):
            event = json.loads(entry["message"])["message"]
            if event["method"] == "Network.requestWillBeSent":
                self._requests.append(event["params"]["request"]["url"])
        return [url for url in self._requests if not url.startswith(INSIDE)]

    def outside(self) -> list[str]:
        """Requests for anything but the page's own file."""
        own = self.path.resolve().as_uri()
        return [url for url in self.requests() if url.partition("#")[0] != own]

    def overflow(self) -> int:
        """How many pixels of the document are right of the viewport: 0 where nobody has to scroll sideways."""
        return self.script(
            "const root = document.documentElement;"
            "return Math.max(root.scrollWidth, document.body.scrollWidth) - root.clientWidth"
        )

    def screenshot(self, path: Path, *, full: bool = False) -> None:
        """Write what is seen, or the whole document, as PNG."""
        import base64

        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": full} | self._clip(full))
        path.write_bytes(base64.b64decode(shot["data"]))

    def _clip(self, full: bool) -> dict[str, Any]:
        if not full:
            return {}
        size = self.script("return [innerWidth, document.documentElement.scrollHeight]")
        return {"clip": {"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1}}

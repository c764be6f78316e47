"""How long the HTML page takes to write, how large it is, and how long a browser takes until its tables can be used.

Run by hand: `python -m tests.benchmarks.html_speed --output tests/benchmarks/results/html_speed.json`. The bars: 10,000
nodes in less than 10 s and 25 MB, with every measurement its own as the worst case; 5,000 rows of a table in less than
2 s from the start of the navigation.

What is loaded is a page from a file, in headless Chromium without a GPU. `rows_s` is when the first rows of the node
table stand in the document, `load_s` when the browser says that it is done, both counted from the navigation's start;
`sort_s` and `filter_s` pass from a click, or a key, until the next frame after the table has changed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphbench import document
from graphbench.report.html.reporter import HtmlReporter
from tests.benchmarks.show_speed import make_profile, run_python
from tests.browser.conftest import start_browser, why_no_browser

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

BARS = {"write_s": 10.0, "file_bytes": 25e6, "rows_s": 2.0}
NODE_TABLE = "#nodes-table"
WATCH = f"""
new MutationObserver((_, observer) => {{
  if (document.querySelector("{NODE_TABLE} tbody tr")) {{
    window.rowsAt = performance.now();
    observer.disconnect();
  }}
}}).observe(document, {{childList: true, subtree: true}});
"""
ACT = """
const [selector, act, done] = arguments;
const element = document.querySelector(selector);
const start = performance.now();
if (act === "click") element.click();
else { element.value = act; element.dispatchEvent(new Event("input", {bubbles: true})); }
const settle = () => requestAnimationFrame(() => setTimeout(() => done(performance.now() - start)));
setTimeout(settle, 0);
"""


def written(n_nodes: int, shared: float, folder: Path, repeats: int) -> dict[str, Any]:
    """Seconds to render a page in a fresh process, medians of `repeats`, and its size; the last page stays."""
    path = folder / "profile.json"
    document.write(make_profile(n_nodes, shared), path, overwrite=True)
    found = [json.loads(run_python("-m", "tests.benchmarks.html_speed", "--render", str(path))) for _ in range(repeats)]
    times = {name: round(statistics.median(entry[name] for entry in found), 3) for name in found[0]}
    return times | {"file_bytes": path.with_suffix(".html").stat().st_size}


def render(path: Path) -> dict[str, float]:
    """Write the page of a saved profile beside it; wall and CPU seconds of that, without reading the profile."""
    record = document.read(path)
    start, cpu = time.perf_counter(), time.process_time()
    text = HtmlReporter().render(record)
    path.with_suffix(".html").write_text(text, encoding="utf-8")
    return {"write_s": time.perf_counter() - start, "write_cpu_s": time.process_time() - cpu}


def loaded(page: Path, folder: Path, repeats: int) -> dict[str, Any]:
    """Seconds until a page can be used, medians of `repeats` loads in one browser, the first one left out."""
    driver = start_browser(folder)
    try:
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})
        found = [_load(driver, page) for _ in range(repeats + 1)][1:]
    finally:
        driver.quit()
    return {name: round(statistics.median(entry[name] for entry in found), 3) for name in found[0]}


def _load(driver: Chrome, page: Path) -> dict[str, float]:
    driver.get("about:blank")
    driver.get(page.resolve().as_uri())
    times = driver.execute_script(
        "const entry = performance.getEntriesByType('navigation')[0];"
        "return {rows_s: window.rowsAt / 1e3, load_s: entry.loadEventStart / 1e3}"
    )
    header, search = f"{NODE_TABLE} thead th:nth-child(3) button", f"{NODE_TABLE} input[type=search]"
    times["sort_s"] = driver.execute_async_script(ACT, header, "click") / 1e3
    times["filter_s"] = driver.execute_async_script(ACT, search, "hidden_states_49") / 1e3
    return times


def main() -> None:
    """Measure all, or in a fresh process one rendering."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=5_000, help="nodes of the page that is loaded")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path(os.devnull), help="results as JSON")
    parser.add_argument("--render", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.render:
        print(json.dumps(render(options.render)))
        return
    missing = why_no_browser()
    if missing:
        sys.exit(missing)
    results: dict[str, Any] = {"python": platform.python_version(), "cores": os.cpu_count(), "bars": BARS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for what, shared in (("nothing_shared", 0.0), ("80_percent_shared", 0.8)):
            results[what] = {"nodes": options.nodes, **written(options.nodes, shared, folder, options.repeats)}
        page = {"nodes": options.rows, **written(options.rows, 0.8, folder, 1)}
        results["loading"] = page | loaded(folder / "profile.html", folder / "chromium", options.repeats)
    options.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()

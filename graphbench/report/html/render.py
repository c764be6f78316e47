"""From a page to one HTML file that needs nothing else, and asks for nothing: styles, scripts and data are in it."""

from __future__ import annotations

import functools
import re
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from graphbench.errors import SetupError
from graphbench.plaintext import clean
from graphbench.report.html.figures import SCRIPTS as FIGURE_SCRIPTS
from graphbench.report.html.model import Figure, Page
from graphbench.report.html.store import Store, packed, script_json
from graphbench.report.html.tabledata import table_data

if TYPE_CHECKING:
    import jinja2

STYLES: Final = ("page.css", "table.css", "detail.css")
_TABLES: Final = ("data.js", "column.js", "filters.js", "rows.js", "table.js", "detail.js")
SCRIPTS: Final = (*_TABLES, *FIGURE_SCRIPTS, "page.js", "print.js")
POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; "
    "form-action 'none'"
)
"""What a page may do: run and style itself. plotly saves pictures by way of `data:` and `blob:` addresses."""
HINT: Final = "pip install 'torch-graphbench[html]'"
_BAD: Final = ("warning", "host-bound", "suspicious", "slower than what it replaced")
_HEAD: Final = re.compile(r"([A-Za-z][\w ,/-]{0,31}): (?=\S)")


def render_page(page: Page) -> str:
    """The whole file. The same page gives the same bytes.

    Raises:
        SetupError: jinja2, or for a page with figures plotly, is not installed.

    Source: `jinja2.Environment`, jinja2 3.1; `plotly.offline.get_plotlyjs`, plotly 7.1.
    """
    store = Store()
    details = {identity: store.add_detail(detail) for identity, detail in page.details.items()}
    drawn = [figure for section in page.sections for figure in section.figures]
    data = {
        "tables": [table_data(table) for section in page.sections for table in section.tables],
        "figures": {figure.id: _figure_data(figure) for figure in drawn},
        "details": details,
        "starts": store.starts,
    }
    template = _environment().get_template("page.html")
    return str(
        template.render(
            page=page,
            policy=POLICY,
            styles=[_read(name) for name in STYLES],
            scripts=[_read(name) for name in SCRIPTS],
            theme=_read("theme.js"),
            data=script_json(data),
            chunks=store.chunks(),
            plotly=_plotly() if drawn or store.has_samples else "",
        )
    )


def _figure_data(figure: Figure) -> dict[str, Any]:
    head = {"id": figure.id, "title": figure.title, "caption": figure.caption}
    return {**head, "traces": list(figure.traces), "layout": figure.layout}


def told(line: str) -> tuple[str, str, str]:
    """A line of prose as its head, its text and its tone, as `("host-bound", "r0: issuing ...", "bad")`."""
    found = _HEAD.match(line)
    head = found[1] if found else ""
    return head, line[found.end() :] if found else line, "bad" if head in _BAD else ""


def missing_package(name: str) -> SetupError:
    """The error for a page that cannot be made here."""
    return SetupError(f"the HTML report needs {name}, which is not installed", hint=HINT, subject=name)


@functools.cache
def _environment() -> jinja2.Environment:
    try:
        import jinja2
    except ImportError as error:
        raise missing_package("jinja2") from error
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_read),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    environment.filters["told"] = told
    return environment


def _printable(value: object) -> object:
    """Text without characters that do not show; markup of this package as it is."""
    return clean(value) if type(value) is str else value


@functools.cache
def _read(name: str) -> str:
    return resources.files("graphbench.report.html").joinpath("templates", name).read_text("utf-8")


@functools.cache
def _plotly() -> str:
    """The script of plotly, compressed: it is unpacked when the first picture is drawn."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise missing_package("plotly") from error
    return packed(str(get_plotlyjs()))

"""The HTML report of one profile: a page in one file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphbench.collector import collector_paused
from graphbench.records import ProfileRecord
from graphbench.report.base import RenderOptions, check_options
from graphbench.report.html.page import profile_page
from graphbench.report.html.render import render_page

if TYPE_CHECKING:
    from typing_extensions import Unpack


class HtmlReporter:
    """The whole report as one HTML file with tables, pictures, code and samples; takes no options."""

    suffix = ".html"

    def render(self, record: ProfileRecord, **options: Unpack[RenderOptions]) -> str:
        """The HTML text.

        Raises:
            UsageError: an option: everything is on the page, and sorted and filtered there.
            SetupError: jinja2 or plotly is not installed.
        """
        check_options("html", options, ())
        with collector_paused():
            return render_page(profile_page(record))

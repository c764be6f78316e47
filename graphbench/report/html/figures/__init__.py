"""The pictures of the pages: what `figures.js` draws with plotly. Pure; plotly is not imported."""

from __future__ import annotations

from typing import Final

from graphbench.analysis.digest import Digest
from graphbench.analysis.rows import ProfileRows
from graphbench.records import ProfileRecord
from graphbench.report.html.figures.diff import diff_figures
from graphbench.report.html.figures.flow import flow_figure
from graphbench.report.html.figures.modules import module_figure, op_type_figure
from graphbench.report.html.figures.roofline import roofline_figure
from graphbench.report.html.figures.scaling import scaling_figures
from graphbench.report.html.figures.timeline import order_figure, step_figure
from graphbench.report.html.model import Figure

__all__ = ["SCRIPTS", "diff_figures", "profile_figures", "scaling_figures"]

SCRIPTS: Final = ("figures.js", "samples.js")
"""The templates that draw them; both expect plotly as a global, at the latest when the page is loaded."""


def profile_figures(
    record: ProfileRecord, digest: Digest | None = None, rows: ProfileRows | None = None
) -> tuple[Figure, ...]:
    """The pictures of one profile, those left out for which it holds nothing.

    Args:
        record: a profile.
        digest: statistics already computed for this record.
        rows: its rows, where they are made already.
    """
    digest = digest or Digest()
    found = (
        module_figure(record, digest),
        op_type_figure(record, digest),
        flow_figure(record, digest),
        order_figure(record, digest),
        step_figure(record, digest),
        roofline_figure(record, digest, rows),
    )
    return tuple(figure for figure in found if figure is not None)

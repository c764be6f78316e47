"""The page of one profile: what its sections are, and what a click on each row shows. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from graphbench.plaintext import clean
from graphbench.records import ProfileRecord
from graphbench.report.heading import heading_lines
from graphbench.report.html.about_sections import environment_section, measured_section, notes_section
from graphbench.report.html.details import region_details
from graphbench.report.html.figures import profile_figures
from graphbench.report.html.findings import Findings, findings
from graphbench.report.html.group_details import group_details
from graphbench.report.html.model import Page, Section
from graphbench.report.html.row_sections import (
    by_size_section,
    fusions_section,
    groups_section,
    nodes_section,
    opportunities_section,
)
from graphbench.report.html.step_details import break_details, gap_details, opportunity_details, place_details
from graphbench.report.html.step_sections import breaks_section, step_section
from graphbench.report.html.summary_section import summary_section


def profile_page(record: ProfileRecord) -> Page:
    """The page of one profile."""
    found = findings(record)
    _, environment, policy, *_ = heading_lines(record)
    return Page(
        title=f"{clean(record.subject) or 'a model'}",
        lines=(environment, policy, f"measured {record.created}"),
        sections=tuple(_sections(found)),
        details={
            **region_details(record, found.digest),
            **group_details(record, found.group_ways, found.digest),
            **(gap_details(record.step, found.digest) if record.step else {}),
            **(place_details(record.step) if record.step else {}),
            **break_details(record, found.breaks),
            **opportunity_details(found.opportunities),
        },
    )


def _sections(found: Findings) -> Iterator[Section]:
    """From verdicts to rows, and last how they were measured; an op list has no compiled side."""
    yield summary_section(found)
    if not found.only_ops:
        yield opportunities_section(found)
    figures = profile_figures(found.record, found.digest, found.rows)
    if figures:
        yield Section(id="pictures", title="Pictures", figures=figures)
    if found.record.regions:
        yield groups_section(found)
        yield nodes_section(found)
    by_size = by_size_section(found)
    if by_size.tables:
        yield by_size
    if not found.only_ops:
        yield fusions_section(found)
        yield step_section(found)
        yield breaks_section(found)
    yield measured_section(found)
    yield environment_section(found)
    notes = notes_section(found)
    if notes is not None:
        yield notes

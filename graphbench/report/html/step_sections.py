"""The sections of a recorded step, its gap ops, and of graph breaks and recompiles. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from graphbench.analysis.gaps import gap_lines, gap_rows
from graphbench.analysis.recompiles import recompile_rows
from graphbench.analysis.step_parts import step_parts
from graphbench.analysis.steps import StepSummary
from graphbench.analysis.views import sort_rows
from graphbench.report.break_columns import BREAK_COLUMNS, RECOMPILE_COLUMNS
from graphbench.report.break_lines import break_lines
from graphbench.report.column import sort_keys
from graphbench.report.gaps_table import EAGER_TITLE, GAP_COLUMNS, GAP_LINE_COLUMNS, TITLE
from graphbench.report.html.findings import Findings
from graphbench.report.html.model import Section, Table, gap_id
from graphbench.report.html.step_details import break_id, place_id
from graphbench.report.html.tables import html_table
from graphbench.report.legend import legend
from graphbench.report.step_table import IDLE_EXPLAINED, PLACE_COLUMNS, STEP_COLUMNS, step_title
from graphbench.report.table import GAPS_NOT_RECORDED
from graphbench.step_records import StepRecord


def step_section(found: Findings) -> Section:
    """The parts and places of the step and its gap ops, or that none was recorded."""
    step = found.record.step
    if step is None or found.step is None:
        return Section(id="step", title="Step", lines=(GAPS_NOT_RECORDED,))
    return Section(
        id="step",
        title="Step",
        tables=(*_parts(found, step, found.step), *_gaps(found, step)),
    )


def _parts(found: Findings, step: StepRecord, summed: StepSummary) -> Iterator[Table]:
    parts = step_parts(step, found.digest)
    without = (*(() if summed.on_device else ("host",)), *(() if step.user_phases else ("elapsed",)))
    title, _, adds_up = step_title(step, summed).partition("; ")
    yield html_table("step-parts", title, STEP_COLUMNS, parts, head="part", without=without, notes=[adds_up])
    places = summed.places
    if len(places) > 1:
        yield html_table(
            "step-places",
            "Places of the step, in its order",
            PLACE_COLUMNS,
            places,
            ids=[place_id(row.key) for row in places],
            head="place",
            notes=(IDLE_EXPLAINED,) if any(row.idle_ns is not None for row in places) else (),
        )


def _gaps(found: Findings, step: StepRecord) -> Iterator[Table]:
    positions = [position for position, row in enumerate(step.rows) if row.kernel is None]
    ids = dict(zip(map(id, (step.rows[position] for position in positions)), positions, strict=True))
    rows = sort_rows(gap_rows(step, found.digest), sort_keys(GAP_COLUMNS, "in_graph"), "cost", None)
    yield html_table(
        "gaps",
        TITLE if found.compiled else EAGER_TITLE,
        GAP_COLUMNS,
        rows,
        ids=[gap_id(ids[id(row.row)]) for row in rows],
        sort="in_graph",
        head="op_type",
        notes=legend(rows, many=False, wide=False),
        empty="none, every op ran in a compiled graph",
        without=("host",) if found.on_wallclock else (),
    )
    if rows:
        lines = gap_lines(step, found.digest)
        yield html_table(
            "gap-lines", "Gap ops by source line", GAP_LINE_COLUMNS, lines, sort="cost", head="line", closed=True
        )


def breaks_section(found: Findings) -> Section:
    """Graph breaks by cost, and recompiles."""
    record = found.record
    tables = []
    if found.breaks:
        tables.append(
            html_table(
                "breaks-table",
                "Graph breaks by cost",
                BREAK_COLUMNS,
                found.breaks,
                ids=[break_id(position) for position in range(len(found.breaks))],
                head="reason",
            )
        )
    if record.recompiles:
        tables.append(html_table("recompiles", "Recompiles", RECOMPILE_COLUMNS, list(recompile_rows(record))))
    return Section(
        id="breaks",
        title="Graph breaks",
        lines=tuple(break_lines(record, found.digest)[:1]),
        tables=tuple(tables),
    )

"""The last sections: what was measured and what not, on what, how, and what else to know. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Final

from graphbench.analysis.missing import NotMeasured
from graphbench.analysis.views import spec_text
from graphbench.condition_records import Environment, Policy
from graphbench.measurements import SourceLine
from graphbench.plaintext import clean
from graphbench.records import InputRecord, ProfileRecord, RegionRecord
from graphbench.report.break_lines import note_lines
from graphbench.report.column import Column
from graphbench.report.heading import ceiling_lines, policy_text, timer_lines
from graphbench.report.html.findings import Findings
from graphbench.report.html.model import Section, kernel_id, node_id
from graphbench.report.html.summary_section import measured_lines
from graphbench.report.html.tables import html_table
from graphbench.units import format_bytes

MISSING_COLUMNS: Final[tuple[Column[NotMeasured], ...]] = (
    Column(name="region", key="region", kind="text", get=lambda row: row.region, shown="several"),
    Column(name="row", key="row", kind="text", get=lambda row: row.row),
    Column(name="what", key="kind", kind="text", get=lambda row: row.what),
    Column(name="state", key="state", kind="text", get=lambda row: row.status),
    Column(name="why", key="why", kind="text", get=lambda row: row.reason),
)


REGION_COLUMNS: Final[tuple[Column[RegionRecord], ...]] = (
    Column(name="region", key="key", kind="text", get=lambda row: row.key),
    Column(name="of", key="source", kind="text", get=lambda row: _location(row.location)),
    Column(name="compile id", key="compile_id", kind="text", get=lambda row: row.compile_id),
    Column(name="device", key="device", kind="text", get=lambda row: row.device),
    Column(name="calls", key="calls", kind="number", get=lambda row: row.calls),
    Column(name="nodes", key="node_count", kind="number", get=lambda row: len(row.nodes)),
    Column(name="kernels", key="kernel_count", kind="number", get=lambda row: len(row.kernels)),
    Column(name="state", key="state", kind="text", get=lambda row: row.status),
    Column(name="why", key="why", kind="text", get=lambda row: row.reason),
)


def _location(source: SourceLine | None) -> str:
    return f"{source.file}:{source.line} in {source.function}" if source else ""


def measured_section(found: Findings) -> Section:
    """Of what there is a time, and each row without one."""
    missing = found.summary.not_measured
    table = html_table(
        "not-measured",
        "Without a time",
        MISSING_COLUMNS,
        missing,
        ids=[_row_id(entry) for entry in missing],
        head="row",
        empty="nothing: every row that should have a time has one",
    )
    regions = html_table("regions", "Regions", REGION_COLUMNS, found.record.regions, empty="none was captured")
    return Section(id="measured", title="Measured", lines=measured_lines(found), tables=(regions, table))


def _row_id(entry: NotMeasured) -> str:
    """The row that a click shows; none of regions, runs and post-grad nodes, which may have the name of a node."""
    if entry.what == "kernel":
        return kernel_id(entry.region, entry.row)
    return node_id(entry.region, entry.row) if entry.what in ("node", "eager backward") else ""


def environment_section(found: Findings) -> Section:
    """What the numbers were made on, how, and of which inputs."""
    record = found.record
    return Section(
        id="environment",
        title="Environment",
        lines=(
            policy_text(record.policy, record.environment),
            *timer_lines(record.policy.timer),
            *ceiling_lines(record.ceilings),
        ),
        facts=(
            *_environment(record.environment),
            *_policy(record.policy),
            *_inputs(record),
        ),
    )


def _environment(environment: Environment) -> Iterator[tuple[str, str]]:
    for entry in fields(environment):
        value = getattr(environment, entry.name)
        if entry.name == "options":
            yield from ((f"option {name}", clean(text)) for name, text in value)
        elif value is not None and value != "":
            yield _words(entry.name), _value(entry.name, value)


def _policy(policy: Policy) -> Iterator[tuple[str, str]]:
    for entry in fields(policy):
        value = getattr(policy, entry.name)
        if value not in (None, ()):
            yield _words(entry.name), _value(entry.name, value)


def _words(field_name: str) -> str:
    return field_name.removesuffix("_bytes").replace("_", " ")


def _value(field_name: str, value: object) -> str:
    if isinstance(value, tuple):
        return clean(", ".join(map(str, value)))
    if field_name.endswith("_bytes") and isinstance(value, int):
        return format_bytes(value)
    return clean(str(value).removesuffix(".0") if isinstance(value, float) else str(value))


def _inputs(record: ProfileRecord) -> Iterator[tuple[str, str]]:
    yield from ((f"input {clean(entry.name)}", _input(entry)) for entry in record.inputs)


def _input(entry: InputRecord) -> str:
    return spec_text(entry.spec) if entry.spec is not None else clean(repr(entry.value))


def notes_section(found: Findings) -> Section | None:
    """What the profile notes; `None` where that is nothing."""
    lines = tuple(line.removeprefix("note: ") for line in note_lines(found.record))
    return Section(id="notes", title="Notes", lines=lines) if lines else None

"""The trace of a profile: regions, and the step as it happened, as JSON that Perfetto and chrome://tracing open."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from graphbench.analysis.break_costs import break_rows
from graphbench.analysis.digest import Digest
from graphbench.analysis.fusion import FusionRow
from graphbench.analysis.gaps import gap_rows
from graphbench.analysis.generated_code import RegionCode
from graphbench.analysis.rows import ProfileRows, profile_rows
from graphbench.analysis.views import NodeRow
from graphbench.condition_records import Environment, Policy
from graphbench.records import ProfileRecord
from graphbench.report.base import RenderOptions, check_options
from graphbench.report.trace.events import Event, Process, numbered, plain
from graphbench.report.trace.gaps import GapTracks, break_lane, laid_lane
from graphbench.report.trace.regions import RegionRows, region_process
from graphbench.report.trace.step import happenings, idle_lane, timeline_lanes

if TYPE_CHECKING:
    from typing_extensions import Unpack


class TraceReporter:
    """Trace Event JSON; takes no options.

    Every region has a track of its nodes and one of its kernels, laid end to end by their in-graph medians, compiled
    behind eager; a recorded step has its threads, streams, gaps and idle time as they were. Times are exact, starts of
    what is laid end to end whole nanoseconds. A row without a time is an instant that says why.
    """

    suffix = ".json"

    def render(self, record: ProfileRecord, **options: Unpack[RenderOptions]) -> str:
        """The JSON text, an event a line. It is to be written as UTF-8: Perfetto refuses escaped surrogates.

        Raises:
            UsageError: any option.
        """
        check_options("trace", options, ())
        lines = ",\n".join(map(_json, trace_events(record)))
        return f'{{"displayTimeUnit": "ns",\n"otherData": {_json(_facts(record))},\n"traceEvents": [\n{lines}\n]}}\n'


def trace_events(record: ProfileRecord) -> list[Event]:
    """All events: names of processes and tracks first, then each track's by time."""
    digest = Digest()
    rows = profile_rows(record, digest)
    flows = itertools.count(1)
    regions = [region_process(entry, flows, digest) for entry in _by_region(record, rows)]
    return list(numbered([_step_process(record, digest), *regions]))


def _step_process(record: ProfileRecord, digest: Digest) -> Process:
    """The step's tracks, if one was recorded; graph breaks in any case."""
    process, step = Process(f"step of {record.subject}" if record.step else "graph breaks"), record.step
    if step is None:
        process.lanes.append(break_lane(break_rows(record, digest), {}))
        return process
    rows = gap_rows(step, digest)
    if not step.timeline.kinds:
        process.lanes.extend((laid_lane(step, rows, digest), break_lane(break_rows(record, digest), {})))
        return process
    events = happenings(step)
    gaps = GapTracks(step, events, rows)
    process.lanes.extend((*timeline_lanes(step, events), idle_lane(step), *gaps.lanes()))
    process.lanes.append(break_lane(break_rows(record, digest), gaps.visits))
    return process


def _by_region(record: ProfileRecord, rows: ProfileRows) -> Iterator[RegionRows]:
    nodes: dict[str, dict[str, NodeRow]] = {region.key: {} for region in record.regions}
    fusions: dict[str, dict[str, FusionRow]] = {region.key: {} for region in record.regions}
    for node in rows.nodes:
        nodes[node.region][node.name] = node
    for fusion in rows.fusions:
        fusions[fusion.region][fusion.key] = fusion
    for region in record.regions:
        code = RegionCode(region)
        found = ((kernel.key, code.of(kernel)) for kernel in region.kernels)
        calls = {key: told.call for key, told in found if told is not None}
        yield RegionRows(region=region, nodes=nodes[region.key], fusions=fusions[region.key], calls=calls)


def _facts(record: ProfileRecord) -> dict[str, Any]:
    """On what and how it was measured, by whom."""
    facts: dict[str, Any] = {"graphbench": record.graphbench, "schema_version": record.schema_version}
    facts |= {"created": record.created, "subject": record.subject, "notes": record.notes}
    facts |= {name: _known(getattr(record, name)) for name in ("environment", "policy")}
    told: dict[str, Any] = plain(facts)
    return told


def _known(part: Environment | Policy) -> dict[str, Any]:
    return {key: value for key, value in dataclasses.asdict(part).items() if value is not None and value != ()}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))

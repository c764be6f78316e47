"""When things ran: the recorded step on lanes, and both runs of all regions beside each other. Two pictures of bars."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from graphbench.analysis.digest import Digest
from graphbench.analysis.run_order import LANES, RunOrder, run_order
from graphbench.analysis.spans import Span
from graphbench.analysis.step_track import StepTrack, step_track
from graphbench.analysis.steps import StepSummary, step_summary
from graphbench.records import ProfileRecord
from graphbench.report.html.figures.drawing import TimeAxis, duration
from graphbench.report.html.figures.lanes import MOST_SPANS, finest_words, lane_layout, lane_traces
from graphbench.report.html.model import Figure, gap_id, kernel_id, node_id
from graphbench.step_records import StepRecord
from graphbench.units import count_text, format_percent, format_ratio

_BANDS: Final = 2
_NOTICEABLE: Final = 1.1


def step_figure(record: ProfileRecord, digest: Digest | None = None) -> Figure | None:
    """The recorded step: host, devices, where they waited; `None` where no timeline was recorded.

    Args:
        record: a profile.
        digest: statistics already computed for this record.
    """
    step = record.step
    track = None if step is None else step_track(step, MOST_SPANS)
    if step is None or track is None:
        return None
    found = step_summary(step, digest)
    scale = TimeAxis.up_to(found.wall_ns)
    on_device = track.idle_ns is not None

    def row_id(span: Span) -> str:
        if span.row is None:
            return ""
        row = step.rows[span.row]
        return gap_id(span.row) if row.kernel is None else kernel_id(row.region or "", row.kernel)

    return Figure(
        id="timeline",
        wide=True,
        title="Timeline of the recorded step",
        caption=_step_caption(step, track, found) + finest_words(track.drawn),
        traces=tuple(lane_traces(track.drawn, scale, row_id)),
        layout=lane_layout(track.lanes, _BANDS, scale, found.wall_ns, "time from the step's start"),
        totals_ns={"busy" if on_device else "rows": track.work_ns},
        alternative=_step_words(track),
    )


def order_figure(record: ProfileRecord, digest: Digest | None = None) -> Figure | None:
    """Eager nodes and compiled kernels in their order on one axis; `None` where nothing ran labelled.

    Args:
        record: a profile.
        digest: statistics already computed for this record.
    """
    order = run_order(record, digest, most=MOST_SPANS)
    if order is None:
        return None
    end_ns = max(*order.runs_ns, *order.rows_ns)
    scale = TimeAxis.up_to(end_ns)
    return Figure(
        id="order",
        wide=True,
        title="Eager and compiled run, row by row",
        caption=_order_caption(order) + finest_words(order.drawn),
        traces=tuple(lane_traces(order.drawn, scale, _row_id)),
        layout=lane_layout(LANES, 0, scale, end_ns, "in-graph time, rows one behind the other"),
        totals_ns={name: run_ns for name, run_ns in zip(LANES, order.runs_ns, strict=True) if run_ns},
        alternative=tuple(
            (name, f"rows {duration(rows_ns)}, labelled run {duration(run_ns)}")
            for name, rows_ns, run_ns in zip(LANES, order.rows_ns, order.runs_ns, strict=True)
        ),
    )


def _row_id(span: Span) -> str:
    if span.region is None or not span.name:
        return ""
    return node_id(span.region, span.name) if span.lane == 0 else kernel_id(span.region, span.name)


def _step_caption(step: StepRecord, track: StepTrack, found: StepSummary) -> str:
    recorded = f"One step, recorded in {duration(found.wall_ns)}"
    if found.plain_ns is not None:
        recorded += f"; without any instrument it takes {duration(found.plain_ns)}"
        slower = found.recording is not None and found.recording > _NOTICEABLE
        recorded += f": waiting looks longer here, recording takes {format_ratio(found.recording)}" if slower else ""
    parts = [recorded]
    if track.idle_ns is not None:
        parts.append(f"devices worked for {duration(track.work_ns)} and idled before launches for")
        parts[-1] += f" {duration(track.idle_ns)}"
    else:
        parts.append(f"rows took {duration(track.work_ns)}, the time between them is Python and the wrapper")
    missing = sum(row.in_graph.samples is None for row in step.rows)
    parts += [f"{count_text(missing, 'row')} without a time"] if missing else []
    return f"{'. '.join(part[:1].upper() + part[1:] for part in parts)}. Drag to zoom in, double-click to go back."


def _step_words(track: StepTrack) -> tuple[tuple[str, str], ...]:
    """How much of what was on each lane."""
    return tuple(
        (lane, _by_kind(span for span in track.drawn.spans if span.lane == position))
        for position, lane in enumerate(track.lanes)
    )


def _by_kind(spans: Iterable[Span]) -> str:
    times: dict[str, tuple[float, int]] = {}
    for span in spans:
        name = span.name if span.kind in ("phase", "graph", "gap") else span.kind
        time_ns, count = times.get(name, (0.0, 0))
        times[name] = (time_ns + span.work_ns, count + span.count)
    return "; ".join(f"{name}: {duration(time_ns)} in {count}" for name, (time_ns, count) in times.items())


def _order_caption(order: RunOrder) -> str:
    parts = ["In-graph medians of every row, one behind the other, backwards behind all forwards: no gaps are shown"]
    for name, run_ns, rows_ns, missing in zip(LANES, order.runs_ns, order.rows_ns, order.missing, strict=True):
        if not run_ns:
            parts.append(f"{name}: nothing ran labelled")
            continue
        text = f"{name}: rows {duration(rows_ns)} of a labelled run of {duration(run_ns)}"
        if rows_ns > run_ns:
            text += f", {format_percent(rows_ns / run_ns - 1)} more than it, since medians of rows are their own"
        text += f"; {count_text(missing, 'row')} without a time" if missing else ""
        parts.append(text)
    return ". ".join(part[:1].upper() + part[1:] for part in parts) + "."

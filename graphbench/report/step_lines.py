"""The lines above the tables that say what a step took, whether its rows explain it, and what it waited for."""

from __future__ import annotations

from collections.abc import Iterator

from graphbench.analysis.steps import StepSummary
from graphbench.measurements import EVENT_TIMERS
from graphbench.plaintext import clean
from graphbench.records import ProfileRecord
from graphbench.units import count_text, format_duration, format_number, format_percent, format_ratio

PLACES_NAMED = 3
CLOSE = 0.15
"""Recording that makes a step longer by more than this part leaves its host times unlike an ordinary step's."""


def verdict_lines(step: StepSummary, *, compiled: bool = True) -> Iterator[str]:
    """What to know first: gaps that dominate where anything is `compiled`, a device that waits."""
    if compiled and step.gaps_dominate:
        what = "the step's device time" if step.on_device else "the recorded step"
        yield f"gaps dominate: {format_percent(step.gap_share, decimals=0)} of {what} ran outside compiled graphs"
    if step.host_bound:
        idle, whose = (step.idle, "step") if step.idle is not None else (step.recorded_idle, "recorded step")
        yield (
            f"host-bound: the device waits for the host in {format_percent(idle, decimals=0)} of the {whose}"
            f"{_most_idle(step)}"
        )


def step_lines(step: StepSummary) -> Iterator[str]:
    """Times of the step with and without recording, what its rows explain of them, launches and synchronisations."""
    plain = "no uninstrumented time"
    if step.plain_ns is not None:
        plain = f"{format_duration(step.plain_ns)} uninstrumented (p50 of {step.n_plain})"
    cost = f" ({format_ratio(step.recording)})" if step.recording is not None else ""
    yield f"step: {plain}, {format_duration(step.wall_ns)} recorded{cost}; {_explained(step)}"
    if step.recording is not None and step.recording > 1 + CLOSE:
        whose = "host times, and idle times by place," if step.on_device else "times of rows and places"
        yield f"step: recording made it longer: {whose} are the recorded step's"
    if step.recording is not None and step.recording < 1 - CLOSE:
        runs = "run once, " if step.n_plain == 1 else ""
        yield f"step: the uninstrumented step, {runs}was slower than the recorded one: its time is noise"
    counts = [] if step.launches is None else [count_text(step.launches, "kernel")]
    if step.launches_per_ms is not None:
        counts.append(f"{format_number(step.launches_per_ms)} launches per ms")
    waits = f", in which the host waits {format_duration(step.wait_ns)}" if step.syncs and step.wait_ns else ""
    yield f"step: {', '.join([*counts, count_text(step.syncs, 'synchronisation')])}{waits}"


def nothing_compiled_line(record: ProfileRecord) -> str:
    """That the whole step ran eagerly, and why, as far as a break tells."""
    if not record.breaks:
        return "nothing was compiled, every op ran eagerly: no graph break is known, so nothing was asked to compile"
    first = record.breaks[0]
    where = f" ({first.source.file}:{first.source.line})" if first.source else ""
    where = f": {first.cause}" if first.kind == "disabled" and first.cause else where  # whose line may be torch's own
    return f"nothing was compiled, every op ran eagerly: {clean(first.reason)}{clean(where)}"


def _explained(step: StepSummary) -> str:
    if not step.on_device:
        between = "idle or unlabelled" if step.timer in EVENT_TIMERS else "wrapper"
        rest = f"rows {format_duration(step.rows_ns)} + {format_duration(step.wrapper_ns)} between them ({between})"
        noise = step.recording is not None and step.recording < 1 - CLOSE
        if not step.plain_ns or step.timer in EVENT_TIMERS or noise:
            return rest
        return f"{rest}; rows are {format_percent(step.rows_ns / step.plain_ns)} of the uninstrumented time"
    rows = f"rows explain {format_duration(step.rows_ns)} of device time, busy {format_duration(step.busy_ns)}"
    recorded = f"recorded: {format_percent(step.recorded_idle)}"
    if step.idle is None:
        return f"{rows}, device idle: {recorded}"
    if step.idle < 0:
        longer = format_percent(-step.idle)
        return (
            f"{rows}, which is {longer} more than the whole uninstrumented step: its kernels ran slower while recorded"
        )
    return f"{rows}, device idle {format_percent(step.idle)} ({recorded})"


def _most_idle(step: StepSummary) -> str:
    named = [f"{clean(row.key)} ({format_duration(row.idle_ns)})" for row in step.most_idle[:PLACES_NAMED]]
    return f"; recorded, most of it before launches of {', '.join(named)}" if named else ""

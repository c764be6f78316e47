"""The eager and the compiled run of all regions, row by row in their order, from in-graph medians. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from graphbench.analysis.digest import Digest
from graphbench.analysis.shares import TIMED_KINDS
from graphbench.analysis.spans import Fewer, Span, SpanKind, fewer
from graphbench.analysis.stats import quantile
from graphbench.measurements import Measurement
from graphbench.records import Phase, ProfileRecord, RegionRecord, Side

LANES: Final = ("eager", "compiled")
_Row = tuple[str, Measurement]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOrder:
    """Both runs, each row behind the one before it, in nanoseconds; backwards behind all forwards.

    `runs_ns` are the labelled runs of each lane: the rows in `rows_ns`, and what no row explains. That is below 0 where
    rows overlap, or where their medians add up to more than the run's. `missing` counts the rows without a time.
    """

    drawn: Fewer
    runs_ns: tuple[float, float]
    rows_ns: tuple[float, float]
    missing: tuple[int, int]


def run_order(record: ProfileRecord, digest: Digest | None = None, *, most: int) -> RunOrder | None:
    """Lay out the runs; `None` where nothing ran labelled.

    Eager nodes are in the order of the program, their backwards in reverse; kernels in the order of the wrapper.

    Args:
        record: a profile.
        digest: statistics already computed for this record.
        most: spans, of which so many are wanted at most.
    """
    digest = digest or Digest()
    spans: list[Span] = []
    runs_ns, rows_ns, missing = [0.0, 0.0], [0.0, 0.0], [0, 0]
    for lane in range(len(LANES)):
        here_ns = 0.0
        for region, phase, side, rows in _sides(record, lane):
            if side.run is None:
                continue
            times = [(name, digest.median(measured)) for name, measured in rows]
            run_ns = quantile(side.run.busy_ns, 0.5)
            known = [(name, time_ns) for name, time_ns in times if time_ns is not None]
            sum_ns = sum(time_ns for _, time_ns in known)
            spans += _laid(region, phase, lane, here_ns, known, run_ns - sum_ns)
            here_ns += max(run_ns, sum_ns)
            runs_ns[lane] += run_ns
            rows_ns[lane] += sum_ns
            missing[lane] += len(times) - len(known)
    if not any(runs_ns):
        return None
    return RunOrder(
        drawn=fewer(spans, most),
        runs_ns=(runs_ns[0], runs_ns[1]),
        rows_ns=(rows_ns[0], rows_ns[1]),
        missing=(missing[0], missing[1]),
    )


def _sides(record: ProfileRecord, lane: int) -> Iterator[tuple[RegionRecord, Phase, Side, list[_Row]]]:
    """All forwards, then all backwards, the last region's first."""
    for region in record.regions:
        nodes = [(node.name, node.in_graph) for node in region.nodes if node.kind in TIMED_KINDS]
        rows = nodes if lane == 0 else _kernels(region, "forward")
        yield region, "forward", region.eager if lane == 0 else region.forward, rows
    for region in reversed(record.regions):
        nodes = [(node.name, node.backward_in_graph) for node in reversed(region.nodes) if node.kind in TIMED_KINDS]
        # A node without a backward is no missing row.
        rows = [row for row in nodes if row[1].samples] if lane == 0 else _kernels(region, "backward")
        yield region, "backward", region.eager_backward if lane == 0 else region.backward, rows


def _kernels(region: RegionRecord, phase: Phase) -> list[_Row]:
    return [(kernel.key, kernel.in_graph) for kernel in region.kernels if kernel.phase == phase]


_KINDS: Final[dict[tuple[int, Phase], SpanKind]] = {
    (0, "forward"): "eager forward",
    (0, "backward"): "eager backward",
    (1, "forward"): "compiled forward",
    (1, "backward"): "compiled backward",
}


def _laid(
    region: RegionRecord, phase: Phase, lane: int, start_ns: float, times: list[tuple[str, float]], rest_ns: float
) -> Iterator[Span]:
    """Rows one behind the other, views left out, and what of the run no row explains."""
    place = f"{region.key}/{phase}"
    here_ns = start_ns
    for name, time_ns in times:
        if time_ns:
            yield Span(
                lane=lane,
                kind=_KINDS[lane, phase],
                start_ns=here_ns,
                end_ns=here_ns + time_ns,
                work_ns=time_ns,
                name=name,
                region=region.key,
                phase=phase,
                place=place,
            )
        here_ns += time_ns
    if rest_ns > 0:
        end_ns = here_ns + rest_ns
        yield Span(lane=lane, kind="rest", start_ns=here_ns, end_ns=end_ns, work_ns=rest_ns, place=place)

"""Times of whole regions, eager and compiled: forward, backward and both, before and after fusion. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Final, Literal

from graphbench.analysis.digest import Digest
from graphbench.analysis.missing import expected_backwards, lacks_backward
from graphbench.analysis.shares import TIMED_KINDS
from graphbench.analysis.stats import compare, quantile
from graphbench.analysis.unfused import PHASES, moves_nothing
from graphbench.conservation import WRAPPER_TIMERS
from graphbench.measurements import Measurement, TimerName
from graphbench.records import Phase, RegionRecord, Side

Part = Literal["forward", "backward", "both"]
Basis = Literal["wall", "plain", "in_graph", "isolated"]
BASES: Final[tuple[Basis, ...]] = ("wall", "plain", "in_graph", "isolated")


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Median times in nanoseconds of a region, or of all regions, each run once. `None`: not known for all of it.

    `eager` is the eager forward, `eager_backward` its backward; `forward` and `backward` are compiled. Isolated ones
    are sums of medians of the rows that were timed, `unfused_*` of post-grad nodes, each once. `plain_*` are runs
    without labels, `wall_*` without any instrument; `forward_host_ns` is the time to issue the latter.
    """

    eager_isolated_ns: float | None
    eager_in_graph_ns: float | None
    eager_backward_isolated_ns: float | None
    eager_backward_in_graph_ns: float | None
    unfused_forward_ns: float | None
    unfused_backward_ns: float | None
    forward_isolated_ns: float | None
    forward_in_graph_ns: float | None
    backward_isolated_ns: float | None
    backward_in_graph_ns: float | None
    plain_eager_ns: float | None
    plain_eager_backward_ns: float | None
    plain_forward_ns: float | None
    plain_backward_ns: float | None
    wall_eager_ns: float | None
    wall_eager_backward_ns: float | None
    wall_forward_ns: float | None
    wall_backward_ns: float | None
    forward_host_ns: float | None

    @property
    def speedup(self) -> float | None:
        """Eager ÷ compiled forward, both without labels."""
        if self.plain_eager_ns is None or not self.plain_forward_ns:
            return None
        return self.plain_eager_ns / self.plain_forward_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionTotals:
    """A region's times. `host_bound` says that issuing the compiled forward takes longer than the device needs.

    It is a verdict: only separated intervals decide. A region that lacks a backward adds nothing to sums of backward.
    """

    region: str
    times: Totals
    lacks_backward: bool
    host_bound: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """How many rows were timed, of how many that should be; `post_grad` is of none where no row has a time."""

    nodes: tuple[int, int] = (0, 0)
    post_grad: tuple[int, int] = (0, 0)
    kernels: tuple[int, int] = (0, 0)

    @property
    def whole(self) -> bool:
        """Whether all nodes and kernels were: a sum of some is not set against another."""
        return self.nodes[0] == self.nodes[1] and self.kernels[0] == self.kernels[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeAfter:
    """One line of the before/after summary, times in nanoseconds; `timed` says of what an isolated sum is.

    `unfused_ns` is known of isolated sums only. `both` is forward + backward, and `None` where either is.
    """

    part: Part
    basis: Basis
    eager_ns: float | None
    unfused_ns: float | None
    compiled_ns: float | None
    timed: Timed | None = None

    @property
    def saved_ns(self) -> float | None:
        """Eager - compiled; `None` for sums that are not of everything."""
        if self.eager_ns is None or self.compiled_ns is None or not self._comparable:
            return None
        return self.eager_ns - self.compiled_ns

    @property
    def speedup(self) -> float | None:
        """Eager ÷ compiled; `None` for sums that are not of everything."""
        if self.eager_ns is None or not self.compiled_ns or not self._comparable:
            return None
        return self.eager_ns / self.compiled_ns

    @property
    def _comparable(self) -> bool:
        return self.timed is None or self.timed.whole


def before_after(total: Totals, timed: Mapping[Phase, Timed]) -> list[BeforeAfter]:
    """The before/after summary, line by line: forward, then backward and both where there is any backward.

    Args:
        total: times of all regions.
        timed: rows of each phase, as `count_timed` counts them.
    """
    forward = [_line("forward", basis, total, timed["forward"]) for basis in BASES]
    backward = [_line("backward", basis, total, timed["backward"]) for basis in BASES]
    if all(line.eager_ns is line.unfused_ns is line.compiled_ns is None for line in backward):
        return forward
    return forward + backward + [_both(*pair) for pair in zip(forward, backward, strict=True)]


def _line(phase: Phase, basis: Basis, total: Totals, timed: Timed) -> BeforeAfter:
    eager = "eager" if phase == "forward" else "eager_backward"
    prefixed = basis in ("wall", "plain")
    names = [f"{basis}_{side}_ns" if prefixed else f"{side}_{basis}_ns" for side in (eager, phase)]
    isolated = basis == "isolated"
    return BeforeAfter(
        part=phase,
        basis=basis,
        eager_ns=getattr(total, names[0]),
        unfused_ns=getattr(total, f"unfused_{phase}_ns") if isolated else None,
        compiled_ns=getattr(total, names[1]),
        timed=timed if isolated else None,
    )


def _both(forward: BeforeAfter, backward: BeforeAfter) -> BeforeAfter:
    timed = None
    if forward.timed and backward.timed:
        pairs = [(getattr(forward.timed, f.name), getattr(backward.timed, f.name)) for f in fields(Timed)]
        nodes, post_grad, kernels = [(a + c, b + d) for (a, b), (c, d) in pairs]
        timed = Timed(nodes=nodes, post_grad=post_grad, kernels=kernels)
    return BeforeAfter(
        part="both",
        basis=forward.basis,
        eager_ns=_sum_all((forward.eager_ns, backward.eager_ns)),
        unfused_ns=_sum_all((forward.unfused_ns, backward.unfused_ns)),
        compiled_ns=_sum_all((forward.compiled_ns, backward.compiled_ns)),
        timed=timed,
    )


def count_timed(regions: Sequence[RegionRecord]) -> dict[Phase, Timed]:
    """Count the nodes, post-grad nodes and kernels of each phase that were timed, and all that should be."""
    found: dict[Phase, Timed] = {}
    for phase in PHASES:
        nodes = [measured for region in regions for measured in _node_times(region, phase)]
        post_grad = [
            node.isolated
            for region in regions
            for node in region.post_grad
            if node.phase == phase and not moves_nothing(node)
        ]
        kernels = [kernel.isolated for region in regions for kernel in region.kernels if kernel.phase == phase]
        found[phase] = Timed(
            nodes=_count(nodes),
            post_grad=_count(post_grad) if _count(post_grad)[0] else (0, 0),
            kernels=_count(kernels),
        )
    return found


def _node_times(region: RegionRecord, phase: Phase) -> list[Measurement]:
    if phase == "backward":
        return [node.backward_isolated for node in expected_backwards(region)]
    return [node.isolated for node in region.nodes if node.kind in TIMED_KINDS]


def _count(measurements: Sequence[Measurement]) -> tuple[int, int]:
    return sum(entry.status == "ok" for entry in measurements), len(measurements)


def region_totals(digest: Digest, region: RegionRecord, timer: TimerName) -> RegionTotals:
    """The times of one region that ran, measured with this timer."""

    def isolated(phase: Phase) -> float | None:
        # A kernel call site may run several times per run of its graph; its samples are per call.
        times = ((digest.median(k.isolated), max(1, k.calls)) for k in region.kernels if k.phase == phase)
        return _sum_known(None if time is None else time * calls for time, calls in times)

    def unfused(phase: Phase) -> float | None:
        return _sum_known(digest.median(node.isolated) for node in region.post_grad if node.phase == phase)

    plain, host_ns = region.forward.plain, region.forward.host_ns
    known = timer not in WRAPPER_TIMERS and plain.samples is not None and host_ns
    return RegionTotals(
        region=region.key,
        times=Totals(
            eager_isolated_ns=_sum_known(digest.median(node.isolated) for node in region.nodes),
            eager_in_graph_ns=_run_ns(region.eager),
            eager_backward_isolated_ns=_sum_known(digest.median(node.backward_isolated) for node in region.nodes),
            eager_backward_in_graph_ns=_run_ns(region.eager_backward),
            unfused_forward_ns=unfused("forward"),
            unfused_backward_ns=unfused("backward"),
            forward_isolated_ns=isolated("forward"),
            forward_in_graph_ns=_run_ns(region.forward),
            backward_isolated_ns=isolated("backward"),
            backward_in_graph_ns=_run_ns(region.backward),
            plain_eager_ns=digest.median(region.eager.plain),
            plain_eager_backward_ns=digest.median(region.eager_backward.plain),
            plain_forward_ns=digest.median(plain),
            plain_backward_ns=digest.median(region.backward.plain),
            wall_eager_ns=_wall_ns(region.eager),
            wall_eager_backward_ns=_wall_ns(region.eager_backward),
            wall_forward_ns=_wall_ns(region.forward),
            wall_backward_ns=_wall_ns(region.backward),
            forward_host_ns=quantile(host_ns, 0.5) if host_ns else None,
        ),
        lacks_backward=lacks_backward(region),
        host_bound=compare(plain.samples.busy_ns, host_ns) == "slower" if known and plain.samples else None,
    )


def add_totals(regions: Sequence[RegionTotals]) -> Totals:
    """Times of all regions together; `None` where one of them lacks the figure, though it has that phase."""

    def whole(name: str) -> float | None:
        among = [entry for entry in regions if not ("backward" in name and entry.lacks_backward)]
        return _sum_all(getattr(entry.times, name) for entry in among)

    return Totals(**{field.name: whole(field.name) for field in fields(Totals)})


def _sum_all(values: Iterable[float | None]) -> float | None:
    listed = list(values)
    known = [value for value in listed if value is not None]
    return sum(known) if known and len(known) == len(listed) else None


def _sum_known(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _run_ns(side: Side) -> float | None:
    return quantile(side.run.busy_ns, 0.5) if side.run else None


def _wall_ns(side: Side) -> float | None:
    return quantile(side.wall_ns, 0.5) if side.wall_ns else None

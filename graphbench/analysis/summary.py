"""The whole profile in a few figures: before and after fusion, coverage, owners, and what was not measured. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

from graphbench.analysis.digest import Digest
from graphbench.analysis.missing import Mismatches, NotMeasured, mismatches, named, not_measured
from graphbench.analysis.shares import TIMED_KINDS
from graphbench.analysis.stats import compare, quantile
from graphbench.conservation import WRAPPER_TIMERS
from graphbench.records import (
    KernelRecord,
    NodeRecord,
    Phase,
    ProfileRecord,
    RegionRecord,
    Role,
    RunRecord,
    Side,
)

_OWNING_ROLES: Mapping[Phase, frozenset[Role]] = {
    "forward": frozenset({"executes", "recomputes", "prepares"}),
    "backward": frozenset({"executes", "recomputes", "prepares", "differentiates"}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Median times in nanoseconds of a region, or of all regions, each run once. `None`: not known for all of it.

    Isolated ones are sums of medians of the rows that were timed. `plain_*` are runs without labels, `wall_*` without
    any instrument; `forward_host_ns` is the time to issue the latter.
    """

    eager_isolated_ns: float | None
    eager_in_graph_ns: float | None
    forward_isolated_ns: float | None
    forward_in_graph_ns: float | None
    backward_isolated_ns: float | None
    backward_in_graph_ns: float | None
    plain_eager_ns: float | None
    plain_forward_ns: float | None
    plain_backward_ns: float | None
    wall_eager_ns: float | None
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

    It is a verdict: only separated intervals decide.
    """

    region: str
    times: Totals
    host_bound: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How much of the compiled runs' time the rows explain; `None` when nothing ran labelled. `wrapper`: CPU only."""

    attributed: float | None
    kernels: int
    unattributed: tuple[str, ...]
    dropped: int
    wrapper: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Owners:
    """Kernels of one phase with a node that they belong to, by number and by in-graph (else isolated) time."""

    phase: Phase
    kernels: int
    owned: int
    time_ns: float
    owned_ns: float
    without: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCounts:
    """Nodes captured, and what became of measuring them. `views` are among the timed, skipped and failed ones."""

    captured: int
    timed: int
    views: int
    host: int
    state: int
    skipped: int
    failed: int
    shared: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCounts:
    """Kernels, and what became of measuring them."""

    total: int
    timed: int
    skipped: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileSummary:
    """Everything above a profile's tables."""

    regions: tuple[RegionTotals, ...]
    total: Totals
    coverage: Coverage
    step_coverage: Coverage | None
    owners: tuple[Owners, ...]
    nodes: NodeCounts
    kernels: KernelCounts
    mismatches: Mismatches
    not_measured: tuple[NotMeasured, ...]
    unknown_fate: tuple[str, ...]


def summary(record: ProfileRecord, digest: Digest | None = None) -> ProfileSummary:
    """Sum up a profile. Totals over regions are `None` where a region that ran lacks the figure.

    `digest` holds statistics already computed for this record.
    """
    digest = digest or Digest()
    regions = [region for region in record.regions if region.status == "ok"]
    totals = tuple(_region_totals(digest, region, record.policy.timer) for region in regions)
    runs = [side.run for region in regions for side in (region.forward, region.backward) if side.run]
    many = len(record.regions) > 1
    owners = (_owners(digest, regions, "forward", many), _owners(digest, regions, "backward", many))
    nodes = [node for region in record.regions for node in region.nodes]
    kernels = [kernel for region in record.regions for kernel in region.kernels]
    return ProfileSummary(
        regions=totals,
        total=_add([entry.times for entry in totals]),
        coverage=_coverage(runs, sum(kernel.in_graph.samples is not None for kernel in kernels)),
        step_coverage=_coverage([record.step.run], len(record.step.rows)) if record.step else None,
        owners=tuple(entry for entry in owners if entry.kernels),
        nodes=_count_nodes(nodes),
        kernels=_count_kernels(kernels),
        mismatches=mismatches(record.regions, many),
        not_measured=tuple(entry for region in record.regions for entry in not_measured(region)),
        unknown_fate=tuple(
            named(region, node.name, many)
            for region in regions
            for node in region.nodes
            if node.kind == "compute" and node.fate.kind == "unknown"
        ),
    )


def _sum_known(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _run_ns(side: Side) -> float | None:
    return quantile(side.run.busy_ns, 0.5) if side.run else None


def _wall_ns(side: Side) -> float | None:
    return quantile(side.wall_ns, 0.5) if side.wall_ns else None


def is_owned(kernel: KernelRecord) -> bool:
    """Whether a node is known to which the kernel's work belongs."""
    return any(role.role in _OWNING_ROLES[kernel.phase] for role in kernel.roles)


def _region_totals(digest: Digest, region: RegionRecord, timer: str) -> RegionTotals:
    def isolated(phase: Phase) -> float | None:
        # A kernel call site may run several times per run of its graph; its samples are per call.
        times = ((digest.median(k.isolated), max(1, k.calls)) for k in region.kernels if k.phase == phase)
        return _sum_known(None if time is None else time * calls for time, calls in times)

    plain, host_ns = region.forward.plain, region.forward.host_ns
    known = timer not in WRAPPER_TIMERS and plain.samples is not None and host_ns
    return RegionTotals(
        region=region.key,
        times=Totals(
            eager_isolated_ns=_sum_known(digest.median(node.isolated) for node in region.nodes),
            eager_in_graph_ns=_run_ns(region.eager),
            forward_isolated_ns=isolated("forward"),
            forward_in_graph_ns=_run_ns(region.forward),
            backward_isolated_ns=isolated("backward"),
            backward_in_graph_ns=_run_ns(region.backward),
            plain_eager_ns=digest.median(region.eager.plain),
            plain_forward_ns=digest.median(plain),
            plain_backward_ns=digest.median(region.backward.plain),
            wall_eager_ns=_wall_ns(region.eager),
            wall_forward_ns=_wall_ns(region.forward),
            wall_backward_ns=_wall_ns(region.backward),
            forward_host_ns=quantile(host_ns, 0.5) if host_ns else None,
        ),
        host_bound=compare(plain.samples.busy_ns, host_ns) == "slower" if known and plain.samples else None,
    )


def _add(totals: Sequence[Totals]) -> Totals:
    def whole(name: str) -> float | None:
        values = [getattr(entry, name) for entry in totals]
        return sum(values) if values and None not in values else None

    return Totals(**{field.name: whole(field.name) for field in fields(Totals)})


def _coverage(runs: Sequence[RunRecord], n_rows: int) -> Coverage:
    busy_ns = sum(sum(run.busy_ns) for run in runs)
    unattributed_ns = sum(sum(run.unattributed_ns) for run in runs)
    on_cpu = [run for run in runs if run.wrapper_ns is not None]
    wrapper_ns = sum(sum(run.wrapper_ns or ()) for run in on_cpu)
    counts = [run.n_kernels for run in runs if run.n_kernels is not None]
    return Coverage(
        attributed=1 - unattributed_ns / busy_ns if busy_ns else None,
        kernels=sum(counts) if runs and len(counts) == len(runs) else n_rows,
        unattributed=tuple(name for run in runs for name in run.unattributed),
        dropped=sum(run.dropped for run in runs),
        wrapper=wrapper_ns / busy_ns if busy_ns and runs and len(on_cpu) == len(runs) else None,
    )


def _owners(digest: Digest, regions: Sequence[RegionRecord], phase: Phase, many: bool) -> Owners:
    time_ns = owned_ns = 0.0
    n_kernels = 0
    without: list[str] = []
    for region in regions:
        for kernel in (kernel for kernel in region.kernels if kernel.phase == phase):
            kernel_ns = _kernel_ns(digest, kernel)
            owned = is_owned(kernel)
            n_kernels += 1
            time_ns += kernel_ns
            owned_ns += kernel_ns if owned else 0.0
            if not owned:
                without.append(named(region, kernel.key, many))
    owned_count = n_kernels - len(without)
    return Owners(
        phase=phase, kernels=n_kernels, owned=owned_count, time_ns=time_ns, owned_ns=owned_ns, without=tuple(without)
    )


def _kernel_ns(digest: Digest, kernel: KernelRecord) -> float:
    """A weight, not a result: a kernel without any time weighs nothing and is still counted."""
    in_graph_ns = digest.median(kernel.in_graph)
    return in_graph_ns if in_graph_ns is not None else digest.median(kernel.isolated) or 0.0


def _count_nodes(nodes: Sequence[NodeRecord]) -> NodeCounts:
    rows = [node for node in nodes if node.kind in TIMED_KINDS]
    status = [node.isolated.status for node in rows]
    kinds = [node.kind for node in nodes]
    return NodeCounts(
        captured=len(nodes),
        timed=status.count("ok"),
        views=kinds.count("view"),
        host=kinds.count("host"),
        state=kinds.count("state"),
        skipped=status.count("skipped"),
        failed=status.count("failed"),
        shared=sum(node.isolated.shared_with is not None for node in rows),
    )


def _count_kernels(kernels: Sequence[KernelRecord]) -> KernelCounts:
    status = [kernel.isolated.status for kernel in kernels]
    return KernelCounts(
        total=len(kernels),
        timed=status.count("ok"),
        skipped=status.count("skipped"),
        failed=status.count("failed"),
    )

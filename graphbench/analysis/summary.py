"""The whole profile in a few figures: before and after fusion, coverage, owners, and what was not measured. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphbench.analysis.digest import Digest
from graphbench.analysis.missing import Mismatches, NotMeasured, mismatches, named, not_measured
from graphbench.analysis.shares import TIMED_KINDS
from graphbench.analysis.totals import (
    BeforeAfter,
    RegionTotals,
    Totals,
    add_totals,
    before_after,
    count_timed,
    region_totals,
)
from graphbench.measurements import RunRecord
from graphbench.records import KernelRecord, NodeRecord, Phase, ProfileRecord, RegionRecord, Role

_OWNING_ROLES: frozenset[Role] = frozenset({"executes", "recomputes", "prepares", "differentiates"})


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
    before_after: tuple[BeforeAfter, ...]
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
    totals = tuple(region_totals(digest, region, record.policy.timer) for region in regions)
    total = add_totals(totals)
    runs = [side.run for region in regions for side in (region.forward, region.backward) if side.run]
    many = len(record.regions) > 1
    owners = (_owners(digest, regions, "forward", many), _owners(digest, regions, "backward", many))
    nodes = [node for region in record.regions for node in region.nodes]
    kernels = [kernel for region in record.regions for kernel in region.kernels]
    return ProfileSummary(
        regions=totals,
        total=total,
        before_after=tuple(before_after(total, count_timed(record.regions))),
        coverage=_coverage(runs, sum(kernel.in_graph.samples is not None for r in regions for kernel in r.kernels)),
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


def is_owned(kernel: KernelRecord) -> bool:
    """Whether a node is known to which the kernel's work belongs."""
    return any(role.role in _OWNING_ROLES for role in kernel.roles)


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

"""Did fusion pay? One row a kernel: its fused time against the eager and the unfused time of its nodes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from graphbench.analysis.costs import Cost
from graphbench.analysis.device import DeviceFacts
from graphbench.analysis.digest import Digest
from graphbench.analysis.roofline import Ceilings, Limit
from graphbench.analysis.shares import EagerShares, Interval, add, eager_shares, executing_roles, interval
from graphbench.analysis.shown import ShownRow
from graphbench.analysis.stats import Summary, Verdict, judge
from graphbench.analysis.summary import is_owned
from graphbench.analysis.traffic import NONE_MEASURED, EagerTraffic, KernelCosts, eager_traffic, kernel_costs
from graphbench.analysis.unfused import Unfused, unfused_times
from graphbench.analysis.views import is_unfaithful, verdict_grain_ns
from graphbench.measurements import Comparison, Measurement, Status
from graphbench.records import KernelKind, KernelRecord, NodeRecord, NodeRole, Phase, ProfileRecord, RegionRecord

NO_ISOLATED = "no isolated time"


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionRow(ShownRow):
    """One kernel of a region.

    Times in nanoseconds per run of the graph: `fused` and `host_ns` are of one isolated call; `fused_ns` and `batch_ns`
    of all `calls` of it, set against `eager`: its share of the isolated forward of the nodes that it executes and of
    the isolated backward of those that it differentiates; `nodes` are these, merged ones included. `unfused_ns` is its
    post-grad nodes one by one, of which another kernel computed `recomputed_ns` before. `saved_ns = eager - fused`,
    `ratio = eager / fused`. Whatever is `None` is explained in `reasons`, and in `causes` in words that many kernels
    share; `state` is that of the isolated kernel. `owned` says that a node is known to which its work belongs. `device`
    is what one isolated call did there.

    `cost` and `limit` are of one isolated call, bytes of all: `eager_bytes` its share of what its nodes move alone,
    `unfused_bytes` what its post-grad nodes move one by one, `moved_bytes` what it moves itself.
    `removed_bytes = eager - moved` is the traffic that fusion removed; `no_removed` says why it is `None`.
    """

    region: str
    key: str
    name: str
    kind: KernelKind
    phase: Phase
    calls: int
    roles: tuple[NodeRole, ...]
    nodes: tuple[str, ...]
    state: Status
    reasons: tuple[str, ...]
    causes: tuple[str, ...]
    owned: bool
    fused: Summary | None
    fused_ns: float | None
    batch_ns: float | None
    eager: Interval | None
    unfused_ns: float | None
    recomputed_ns: float | None
    saved_ns: float | None
    ratio: float | None
    verdict: Verdict | None
    in_graph: Summary | None
    host_ns: float | None
    difference: Comparison | None
    warnings: tuple[str, ...]
    unfaithful: bool
    shared_with: str | None
    device: DeviceFacts
    cost: Cost
    limit: Limit
    eager_bytes: float | None
    unfused_bytes: float | None
    moved_bytes: float | None
    no_removed: str
    together: tuple[str, ...] = ()

    @property
    def in_graph_ns(self) -> float | None:
        """Median in real execution order."""
        return self.in_graph.p50 if self.in_graph else None

    @property
    def removed_bytes(self) -> float | None:
        """Traffic of its nodes alone that the kernel does without; below 0 where it moves more."""
        if self.eager_bytes is None or self.moved_bytes is None:
            return None
        return self.eager_bytes - self.moved_bytes

    @property
    def limit_ns(self) -> float | None:
        """How long all calls take at the limit."""
        return None if self.limit.time_ns is None else self.limit.time_ns * max(1, self.calls)

    @property
    def bytes_per_s(self) -> float | None:
        """Bytes per second that one call moved."""
        return self.cost.bytes_per_s(self.fused.p50 if self.fused else None)

    @property
    def flops_per_s(self) -> float | None:
        """FLOP per second of one call."""
        return self.cost.flops_per_s(self.fused.p50 if self.fused else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Eager:
    """A kernel's eager time, or why it has none. Of `count` measurements; `single`: one of them is a single sample."""

    time: Interval | None
    nodes: tuple[str, ...]
    count: int
    single: bool
    cause: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Against:
    """What a kernel is set against."""

    eager: _Eager
    unfused: Unfused
    costs: KernelCosts
    traffic: EagerTraffic


def all_fusion_rows(
    record: ProfileRecord, digest: Digest | None = None, divided: Sequence[EagerShares] | None = None
) -> list[FusionRow]:
    """The rows of all regions of a profile; `divided` are their shares, where these are known already."""
    digest = digest or Digest()
    grain_ns = verdict_grain_ns(record)
    divided = [eager_shares(region, digest) for region in record.regions] if divided is None else divided
    return [
        row
        for region, shares in zip(record.regions, divided, strict=True)
        for row in fusion_rows(
            region, digest, shares, grain_ns=grain_ns, ceilings=Ceilings.of(record.ceilings, region.device)
        )
    ]


def fusion_rows(
    region: RegionRecord,
    digest: Digest | None = None,
    divided: EagerShares | None = None,
    *,
    grain_ns: float = 0.0,
    ceilings: Ceilings = NONE_MEASURED,
) -> list[FusionRow]:
    """One row per kernel of `region`, in the order of its wrapper.

    `digest` holds statistics already computed, `divided` the region's shares; `grain_ns` is the step of the device's
    stamps, as `views.verdict_grain_ns` tells it, `ceilings` what the device was seen to do.
    """
    digest = digest or Digest()
    divided = divided or eager_shares(region, digest)
    unfused = unfused_times(region, digest)
    nodes = {node.name: node for node in region.nodes}
    eager = {kernel.key: _eager(kernel, divided, nodes) for kernel in region.kernels}
    costs, traffic = kernel_costs(region, ceilings, digest), eager_traffic(region, divided)
    rows = []
    for kernel in region.kernels:
        key = kernel.key
        against = _Against(eager=eager[key], unfused=unfused[key], costs=costs[key], traffic=traffic[key])
        rows.append(_row(digest, region.key, kernel, against, grain_ns))
    return _judged_together(rows, region, eager, digest, grain_ns)


def _judged_together(
    rows: Sequence[FusionRow], region: RegionRecord, eager: Mapping[str, _Eager], digest: Digest, grain_ns: float
) -> list[FusionRow]:
    """The rows, where kernels that compute a node together have the verdict of their sum: none replaces it alone.

    A copy made for a node is part of the price.
    """
    groups = _together(region)
    kernels = {kernel.key: kernel for kernel in region.kernels}
    found = {row.key: row for row in rows}
    for group in groups:
        times = [interval(digest.summary(kernels[key].isolated)) for key in group]
        parts = [eager[key] for key in group if not _only_prepares(kernels[key])]
        calls = [max(1, kernels[key].calls) for key in group]
        known = [time.scaled(n) for time, n in zip(times, calls, strict=True) if time]
        whole = _Eager(
            time=add(part.time for part in parts if part.time) if all(part.time for part in parts) else None,
            nodes=(),
            count=sum(part.count for part in parts),
            single=any(part.single for part in parts),
        )
        single = any(_is_single(kernels[key].isolated) for key in group)
        fused = add(known) if len(known) == len(group) else None
        judged = _judged(fused, whole, sum(calls), single, grain_ns)
        for key in group:
            found[key] = replace(found[key], verdict=judged, together=tuple(other for other in group if other != key))
    return [found[row.key] for row in rows]


def _only_prepares(kernel: KernelRecord) -> bool:
    roles = {role.role for role in kernel.roles}
    return "prepares" in roles and not roles - {"prepares", "contributes"}


def _together(region: RegionRecord) -> list[list[str]]:
    """Keys of kernels that compute a post-grad node together, directly or over others, in the wrapper's order."""
    group_of: dict[str, list[str]] = {}
    first: dict[tuple[str, str], str] = {}
    executing: dict[tuple[str, str], str] = {}
    for kernel in region.kernels:
        for name in set(kernel.executes) - set(kernel.recomputes):
            executing.setdefault((kernel.phase, name), kernel.key)
    for kernel in region.kernels:
        names = [name for name, _ in kernel.parts]
        if _only_prepares(kernel):
            prepared = {name for role in kernel.roles if role.role == "prepares" for name in role.post_grad}
            names = [name for name in prepared if len(prepared) == 1 and (kernel.phase, name) in executing]
            first.update({(kernel.phase, name): executing[kernel.phase, name] for name in names})
        for name in names:
            other = first.setdefault((kernel.phase, name), kernel.key)
            mine, theirs = group_of.setdefault(kernel.key, [kernel.key]), group_of.setdefault(other, [other])
            if mine is not theirs:
                theirs += mine
                group_of.update(dict.fromkeys(mine, theirs))
    order = [kernel.key for kernel in region.kernels]
    unique = {id(group): group for group in group_of.values() if len(group) > 1}
    return [sorted(group, key=order.index) for group in unique.values()]


def verdict(fused: Interval, eager: Interval, *, grain_ns: float = 0.0) -> Verdict:
    """Say what the fused kernel is against its eager nodes, by the rule of `stats.judge`."""
    return judge(_quantiles(eager), _quantiles(fused), grain_ns=grain_ns)


def _quantiles(time: Interval) -> tuple[float, float, float]:
    return time.p10_ns, time.p50_ns, time.p90_ns


def _is_single(measured: Measurement) -> bool:
    """Whether it is of one sample only, which is no interval: any noise would be a difference."""
    return measured.samples is not None and len(measured.samples.busy_ns) < 2


def _row(digest: Digest, region: str, kernel: KernelRecord, against: _Against, grain_ns: float) -> FusionRow:
    measured, eager, unfused, costs = kernel.isolated, against.eager, against.unfused, against.costs
    calls = max(1, kernel.calls)
    fused_once, batch_ns = digest.summary(measured), digest.batch(measured)
    once = interval(fused_once)
    fused = once.scaled(calls) if once else None
    missing = _missing(kernel, eager, unfused)
    return FusionRow(
        region=region,
        key=kernel.key,
        name=kernel.name,
        kind=kernel.kind,
        phase=kernel.phase,
        calls=kernel.calls,
        roles=kernel.roles,
        nodes=eager.nodes,
        state=measured.status,
        reasons=tuple(f"{what}: {cause}{detail}" for what, cause, detail in missing),
        causes=tuple(f"{what}: {cause}" for what, cause, _ in missing),
        owned=is_owned(kernel),
        fused=fused_once,
        fused_ns=fused.p50_ns if fused else None,
        batch_ns=None if batch_ns is None else calls * batch_ns,
        eager=eager.time,
        unfused_ns=unfused.time_ns,
        recomputed_ns=unfused.recomputed_ns,
        saved_ns=eager.time.p50_ns - fused.p50_ns if fused and eager.time else None,
        ratio=eager.time.p50_ns / fused.p50_ns if fused and eager.time and fused.p50_ns else None,
        verdict=_judged(fused, eager, calls, _is_single(measured), grain_ns),
        in_graph=digest.summary(kernel.in_graph),
        host_ns=digest.median(measured, "host_ns"),
        difference=kernel.difference,
        warnings=measured.warnings,
        unfaithful=is_unfaithful(measured),
        shared_with=measured.shared_with,
        device=DeviceFacts(measured, digest, kernel.config),
        cost=costs.cost,
        limit=costs.limit,
        eager_bytes=against.traffic.moved_bytes,
        unfused_bytes=costs.unfused_bytes,
        moved_bytes=costs.moved_bytes,
        no_removed=against.traffic.reason or costs.cost.no_bytes,
    )


def _judged(fused: Interval | None, eager: _Eager, calls: int, single: bool, grain_ns: float) -> Verdict | None:
    if fused is None or eager.time is None:
        return None
    if single or eager.single:
        return "unclear"
    # Half a step for each measurement in either sum.
    return verdict(fused, eager.time, grain_ns=grain_ns * (calls + eager.count) / 2)


def _missing(kernel: KernelRecord, eager: _Eager, unfused: Unfused) -> list[tuple[str, str, str]]:
    """What a row lacks, why, and details of that."""
    missing = [(NO_ISOLATED, kernel.isolated.reason, "")] if kernel.isolated.samples is None else []
    missing += [("no eager time", eager.cause, eager.detail)] if eager.cause else []
    missing += [("no unfused time", unfused.cause, unfused.detail)] if unfused.cause else []
    missing += [("no in-graph time", kernel.in_graph.reason, "")] if kernel.in_graph.samples is None else []
    return missing


def _eager(kernel: KernelRecord, divided: EagerShares, nodes: Mapping[str, NodeRecord]) -> _Eager:
    forward, backward = divided.forward.kernels[kernel.key], divided.backward.kernels[kernel.key]
    missing = [*forward.missing, *backward.missing]
    cause, detail = "", ""
    if missing:
        named = ", ".join(f"{name} ({reason})" for name, reason in missing[:3])
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        cause, detail = "not all of its nodes were timed", f": {named}{more}"
    elif not forward.nodes and not backward.nodes:
        cause, detail = _why_without_nodes(kernel, set(nodes))
    measured = [nodes[name].isolated for name in forward.nodes]
    measured += [nodes[name].backward_isolated for name in backward.nodes]
    return _Eager(
        time=None if cause else add([forward.time, backward.time]),
        nodes=tuple(dict.fromkeys(forward.nodes + backward.nodes)),
        count=len(measured),
        single=any(map(_is_single, measured)),
        cause=cause,
        detail=detail,
    )


def _why_without_nodes(kernel: KernelRecord, known: Set[str]) -> tuple[str, str]:
    """Why no node's time falls to a kernel: the cause, and its details."""
    prepared = sorted({role.node for role in kernel.roles if role.role == "prepares"})
    if prepared:
        return "it only prepares what others read", f", for {', '.join(prepared[:3])}"
    executed = [role.node for role in executing_roles(kernel)]
    if any(name in known for name in executed):
        return "it only recomputes what forward kernels are charged for", f": {', '.join(executed[:3])}"
    if executed or any(role.role == "differentiates" for role in kernel.roles):
        return "its nodes have no time", ""
    return "no node of the model is known for it", ""

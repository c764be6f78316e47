"""Did fusion pay? One row a kernel: its fused time against the eager time of the nodes that it executes. Pure."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from graphbench.analysis.device import DeviceFacts
from graphbench.analysis.digest import Digest
from graphbench.analysis.shares import Interval, KernelShare, Shares, executing_roles, interval, shares
from graphbench.analysis.stats import Summary, Verdict, judge
from graphbench.analysis.summary import is_owned
from graphbench.analysis.views import is_unfaithful
from graphbench.records import Comparison, KernelKind, KernelRecord, Measurement, NodeRole, Phase, RegionRecord, Status

__all__ = ["FusionRow", "Shares", "fusion_rows", "shares", "verdict"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionRow:
    """One kernel of a region.

    Times in nanoseconds per run of the graph: `fused` and `host_ns` are of one isolated call; `fused_ns` and `batch_ns`
    of all `calls` of it, set against `eager` (share of its nodes' isolated times; `nodes` includes merged ones).
    `saved_ns = eager - fused`, `ratio = eager / fused`. Whatever is `None` is explained in `reasons`, and in `causes`
    in words that many kernels share; `state` is that of the isolated kernel. `owned` says that a node is known to which
    its work belongs. `device` is what one isolated call did there.
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
    saved_ns: float | None
    ratio: float | None
    verdict: Verdict | None
    in_graph_ns: float | None
    host_ns: float | None
    difference: Comparison | None
    warnings: tuple[str, ...]
    unfaithful: bool
    shared_with: str | None
    device: DeviceFacts


def fusion_rows(
    region: RegionRecord, digest: Digest | None = None, divided: Shares | None = None, *, grain_ns: float = 0.0
) -> list[FusionRow]:
    """One row per kernel of `region`, in the order of its wrapper.

    `digest` holds statistics already computed, `divided` the region's shares; `grain_ns` is the step of the device's
    stamps, as `views.verdict_grain_ns` tells it.
    """
    digest = digest or Digest()
    divided = divided or shares(region, digest)
    single = {node.name for node in region.nodes if _is_single(node.isolated)}
    return [
        _row(digest, region.key, kernel, divided.kernels[kernel.key], single, grain_ns) for kernel in region.kernels
    ]


def verdict(fused: Interval, eager: Interval, *, grain_ns: float = 0.0) -> Verdict:
    """Say what the fused kernel is against its eager nodes, by the rule of `stats.judge`."""
    return judge(_quantiles(eager), _quantiles(fused), grain_ns=grain_ns)


def _quantiles(time: Interval) -> tuple[float, float, float]:
    return time.p10_ns, time.p50_ns, time.p90_ns


def _is_single(measured: Measurement) -> bool:
    """Whether it is of one sample only, which is no interval: any noise would be a difference."""
    return measured.samples is not None and len(measured.samples.busy_ns) < 2


def _row(
    digest: Digest, region: str, kernel: KernelRecord, share: KernelShare, single: Set[str], grain_ns: float
) -> FusionRow:
    measured = kernel.isolated
    calls = max(1, kernel.calls)
    fused_once, batch_ns = digest.summary(measured), digest.batch(measured)
    once = interval(fused_once)
    fused = once.scaled(calls) if once else None
    no_eager = _why_no_eager(kernel, share)
    eager = None if no_eager else share.time
    missing = [("no isolated time", measured.reason, "")] if fused is None else []
    missing += [("no eager time", *no_eager)] if no_eager else []
    if kernel.in_graph.samples is None:
        missing.append(("no in-graph time", kernel.in_graph.reason, ""))
    judged: Verdict | None = None
    if fused and eager:
        # Half a step for each measurement in either sum.
        grain_ns *= (calls + len(share.nodes)) / 2
        decides = not (_is_single(measured) or single & set(share.nodes))
        judged = verdict(fused, eager, grain_ns=grain_ns) if decides else "unclear"
    return FusionRow(
        region=region,
        key=kernel.key,
        name=kernel.name,
        kind=kernel.kind,
        phase=kernel.phase,
        calls=kernel.calls,
        roles=kernel.roles,
        nodes=share.nodes,
        state=measured.status,
        reasons=tuple(f"{what}: {cause}{detail}" for what, cause, detail in missing),
        causes=tuple(f"{what}: {cause}" for what, cause, _ in missing),
        owned=is_owned(kernel),
        fused=fused_once,
        fused_ns=fused.p50_ns if fused else None,
        batch_ns=None if batch_ns is None else calls * batch_ns,
        eager=eager,
        saved_ns=eager.p50_ns - fused.p50_ns if fused and eager else None,
        ratio=eager.p50_ns / fused.p50_ns if fused and eager and fused.p50_ns else None,
        verdict=judged,
        in_graph_ns=digest.median(kernel.in_graph),
        host_ns=digest.median(measured, "host_ns"),
        difference=kernel.difference,
        warnings=measured.warnings,
        unfaithful=is_unfaithful(measured),
        shared_with=measured.shared_with,
        device=DeviceFacts(measured, digest, kernel.config),
    )


def _why_no_eager(kernel: KernelRecord, share: KernelShare) -> tuple[str, str] | None:
    """Why a kernel has no eager time: the cause, and its details; `None` when it has one."""
    if kernel.phase == "backward":
        return "a backward kernel, whose eager counterpart is no node", ""
    if share.missing:
        named = ", ".join(f"{name} ({reason})" for name, reason in share.missing[:3])
        more = f" and {len(share.missing) - 3} more" if len(share.missing) > 3 else ""
        return "not all of its nodes were timed", f": {named}{more}"
    if share.nodes:
        return None
    prepared = sorted({role.node for role in kernel.roles if role.role == "prepares"})
    if prepared:
        return "it only prepares a copy", f" for {', '.join(prepared[:3])}"
    return (
        "its nodes have no time" if executing_roles(kernel) else "no node of the model is known to execute here"
    ), ""

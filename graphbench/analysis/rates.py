"""Rows as points of a roofline: what each did per second, beside what its device was seen to do. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from graphbench.analysis.costs import Cost
from graphbench.analysis.digest import Digest
from graphbench.analysis.fusion import FusionRow
from graphbench.analysis.roofline import Ceilings, Limit
from graphbench.analysis.rows import ProfileRows, profile_rows
from graphbench.analysis.views import NodeRow
from graphbench.measurements import CacheState
from graphbench.records import KernelKind, Phase, ProfileRecord

NO_TIME: Final = "no time"
NO_BYTES: Final = "bytes not known"
MOVES_NOTHING: Final = "moves nothing"
NO_TIME_TAKEN: Final = "takes no time"


@dataclass(frozen=True, slots=True, kw_only=True)
class RatePoint:
    """A kernel, or a node's forward or backward. `name` is the kernel's key or the node's; `kind` `None` for a node.

    `once_ns` is the isolated median of one call, which `cost` and `limit` are of, `time_ns` that of all calls and
    `share` its part of all kernels', or of all nodes', both phases. `left_out` says why it has no rate, "" where it
    has: `bytes_per_s`, and where FLOPs are known also `flops_per_s` at `cost.intensity`.
    """

    region: str
    name: str
    kind: KernelKind | None
    phase: Phase
    device: str
    cache: CacheState | None
    once_ns: float | None
    time_ns: float | None
    share: float | None
    cost: Cost
    limit: Limit
    left_out: str

    @property
    def bytes_per_s(self) -> float | None:
        """Bytes that one call moved per second."""
        return self.cost.bytes_per_s(self.once_ns)

    @property
    def flops_per_s(self) -> float | None:
        """FLOP per second of one call."""
        return self.cost.flops_per_s(self.once_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Roof:
    """What a device was seen to do: bytes per second, or FLOP per second of an arithmetic; `name` says which.

    `within_bytes`: only work that moves at most so much reaches it.
    """

    device: str
    kind: Literal["memory", "compute"]
    name: str
    rate: float
    within_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Rows without a rate for one reason, and their time as far as it is known, in nanoseconds."""

    what: Literal["kernel", "node"]
    reason: str
    count: int
    time_ns: float


def rate_points(
    record: ProfileRecord, digest: Digest | None = None, rows: ProfileRows | None = None
) -> list[RatePoint]:
    """Every kernel, then every node, then every backward of a node that was timed.

    Times of kernels add up to the compiled isolated sums of the summary, those of nodes to the eager ones.

    Args:
        record: a profile.
        digest: statistics already computed for this record.
        rows: its rows, where they are made already.
    """
    rows = rows or profile_rows(record, digest or Digest())
    devices = {region.key: region.device for region in record.regions}
    kernels, nodes = rows.fusions, rows.nodes
    kernels_ns = sum(row.fused_ns or 0.0 for row in kernels)
    nodes_ns = sum((row.isolated_p50_ns or 0.0) + (row.backward_p50_ns or 0.0) for row in nodes)
    return [
        *(_of_kernel(row, devices[row.region], kernels_ns) for row in kernels),
        *(_of_node(row, "forward", devices[row.region], nodes_ns) for row in nodes),
        *(_of_node(row, "backward", devices[row.region], nodes_ns) for row in nodes if row.backward.samples),
    ]


def left_out(points: Iterable[RatePoint]) -> list[LeftOut]:
    """What has no rate, by reason."""
    counts: Counter[tuple[bool, str]] = Counter()
    times: dict[tuple[bool, str], float] = {}
    for point in points:
        if point.left_out:
            key = (point.kind is None, point.left_out)
            counts[key] += 1
            times[key] = times.get(key, 0.0) + (point.time_ns or 0.0)
    return [
        LeftOut(what="node" if key[0] else "kernel", reason=key[1], count=count, time_ns=times[key])
        for key, count in counts.items()
    ]


def roofs(record: ProfileRecord, points: Sequence[RatePoint]) -> list[Roof]:
    """The ceilings that points are judged by: every bandwidth beyond caches, and the others as far as one needs them.

    Args:
        record: a profile.
        points: those of it that are shown.
    """
    found: list[Roof] = []
    for device in dict.fromkeys(point.device for point in points):
        mine = [point for point in points if point.device == device]
        ceilings = Ceilings.of(record.ceilings, device)
        bandwidths = (("copy", ceilings.copy), ("read", ceilings.read), ("write", ceilings.write))
        found += [Roof(device=device, kind="memory", name=name, rate=rate) for name, rate in bandwidths if rate]
        found += _cached(device, ceilings, mine)
        used = {point.cost.arithmetic for point in mine if point.cost.flops}
        found += [
            Roof(device=device, kind="compute", name=name, rate=rate)
            for name, rate in ceilings.matmul.items()
            if name in used
        ]
    return found


def _cached(device: str, ceilings: Ceilings, points: Iterable[RatePoint]) -> Iterator[Roof]:
    """Rates of warm caches that hold what a point moves, each rate once, with the most that reaches it."""
    moved = [point.cost.moved_bytes for point in points if point.cache == "warm"]
    needed = [size for size in moved if size is not None]
    rates: dict[float, int] = {}
    smaller = -1
    for within_bytes, rate in ceilings.cached:
        if any(smaller < size <= within_bytes for size in needed):
            rates[rate] = max(within_bytes, rates.get(rate, 0))
        smaller = within_bytes
    for rate, within_bytes in rates.items():
        yield Roof(device=device, kind="memory", name="cached copy", rate=rate, within_bytes=within_bytes)


def _of_kernel(row: FusionRow, device: str, whole_ns: float) -> RatePoint:
    once_ns = row.fused.p50 if row.fused else None
    return RatePoint(
        region=row.region,
        name=row.key,
        kind=row.kind,
        phase=row.phase,
        device=device,
        cache=row.device.measurement.cache,
        once_ns=once_ns,
        time_ns=row.fused_ns,
        share=_share(row.fused_ns, whole_ns),
        cost=row.cost,
        limit=row.limit,
        left_out=_left_out(row.cost, once_ns),
    )


def _of_node(row: NodeRow, phase: Phase, device: str, whole_ns: float) -> RatePoint:
    forward = phase == "forward"
    time_ns = row.isolated_p50_ns if forward else row.backward_p50_ns
    cost = row.cost if forward else row.backward_cost
    return RatePoint(
        region=row.region,
        name=row.name,
        kind=None,
        phase=phase,
        device=device,
        cache=(row.node.isolated if forward else row.backward).cache,
        once_ns=time_ns,
        time_ns=time_ns,
        share=_share(time_ns, whole_ns),
        cost=cost,
        limit=row.limit if forward else row.backward_limit,
        left_out=_left_out(cost, time_ns),
    )


def _share(time_ns: float | None, whole_ns: float) -> float | None:
    return time_ns / whole_ns if time_ns is not None and whole_ns else None


def _left_out(cost: Cost, once_ns: float | None) -> str:
    if once_ns is None:
        return NO_TIME
    if cost.moved_bytes is None:
        return NO_BYTES
    if not cost.moved_bytes:
        return MOVES_NOTHING
    return "" if once_ns else NO_TIME_TAKEN

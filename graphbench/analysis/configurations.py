"""One model compiled in several ways: rows of the whole steps, and of every node under each Inductor mode. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from graphbench.analysis.compiled_costs import CompiledCost, compiled_costs
from graphbench.analysis.digest import Digest
from graphbench.analysis.implementations import ImplementationRow
from graphbench.analysis.shares import TIMED_KINDS
from graphbench.analysis.shown import ShownRow
from graphbench.analysis.stats import Verdict, compare, quantile
from graphbench.analysis.views import source_text
from graphbench.measurements import Comparison
from graphbench.records import NodeRecord, ProfileRecord

SideKind = Literal["eager", "inductor", "backend"]
ROUNDING = 1e-9
REST = "(in no row)"
"""The row of kernels that work for no node, and of parts that cannot be told because another kernel has no time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationRow(ShownRow):
    """One way to compile: `row` has its whole step, `None` where it failed, which `reason` explains.

    `wall_ns` are wall times of the uninstrumented step in two halves, empty where they are the times of `row`;
    `baseline_wall_ns` those of the first row. `first_call_ns` is the wall time of the first call, compiling included.
    `difference` compares results with eager's. `profiled` says that there is a profile; `no_profile` why not.
    """

    name: str
    kind: SideKind
    row: ImplementationRow | None = None
    wall_ns: tuple[tuple[float, ...], ...] = ()
    baseline_wall_ns: tuple[tuple[float, ...], ...] = ()
    first_call_ns: int | None = None
    difference: Comparison | None = None
    profiled: bool = False
    no_profile: str = ""
    reason: str = ""

    @property
    def step_ns(self) -> float | None:
        """Median device time of a step; on the CPU wall time."""
        return None if self.row is None else self.row.p50_ns

    @property
    def ratio(self) -> float | None:
        """Its step over the first row's: under 1 where it takes less."""
        return None if self.row is None else self.row.ratio

    @property
    def verdict(self) -> Verdict | None:
        """What its step is against the first row's."""
        return None if self.row is None else self.row.verdict

    @property
    def wall_p50_ns(self) -> float | None:
        """Median wall time of a step, `None` where it was not taken apart."""
        return _median(self.wall_ns)

    @property
    def wall_verdict(self) -> Verdict | None:
        """What its wall time is against the first row's: what all samples say, if both halves bear it out."""
        if not self.wall_ns or not self.baseline_wall_ns or self.wall_ns is self.baseline_wall_ns:
            return None
        found = compare(_joined(self.baseline_wall_ns), _joined(self.wall_ns))
        own = [quantile(half, 0.5) for half in self.wall_ns]
        first = [quantile(half, 0.5) for half in self.baseline_wall_ns]
        borne_out = {"faster": max(own) < min(first), "slower": min(own) > max(first)}
        return found if borne_out.get(found, True) else "unclear"


def _joined(halves: Sequence[Sequence[float]]) -> tuple[float, ...]:
    return tuple(value for half in halves for value in half)


def _median(halves: Sequence[Sequence[float]]) -> float | None:
    values = _joined(halves)
    return quantile(values, 0.5) if values else None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAcross:
    """One node under each configuration: its part of its kernels' isolated times, forward and backward together.

    `times_ns` are in the order of the profiles; `None` where no kernel works for it, or one of them has no time.
    """

    region: str
    name: str
    op_type: str
    source: str
    times_ns: tuple[float | None, ...]

    @property
    def most_ns(self) -> float:
        """The longest of its times; 0 without any."""
        return max((time for time in self.times_ns if time is not None), default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesAcross:
    """Nodes joined over profiles by region and name. `totals_ns` are of all kernels that have a time.

    The rows of each profile add up to its total.
    """

    names: tuple[str, ...]
    rows: tuple[NodeAcross, ...]
    totals_ns: tuple[float, ...]
    notes: tuple[str, ...] = ()


def nodes_across(profiles: Mapping[str, ProfileRecord]) -> NodesAcross:
    """Join the nodes of profiles of one model, the most expensive first.

    Args:
        profiles: by name of the configuration.
    """
    digests = {name: Digest() for name in profiles}
    found = {name: _compiled(record, digests[name]) for name, record in profiles.items()}
    nodes = {key: node for record in profiles.values() for key, node in _nodes(record).items()}
    rows = [_row(key, node, [found[name].get(key) for name in profiles]) for key, node in nodes.items()]
    rows = [row for row in rows if any(time is not None for time in row.times_ns)]
    rows.sort(key=lambda row: -row.most_ns)
    totals_ns = tuple(_kernels_ns(record, digests[name]) for name, record in profiles.items())
    rest_ns = [total - sum(row.times_ns[i] or 0.0 for row in rows) for i, total in enumerate(totals_ns)]
    if any(rest > ROUNDING * total for rest, total in zip(rest_ns, totals_ns, strict=True)):
        rows.append(NodeAcross(region="", name=REST, op_type="", source="", times_ns=tuple(rest_ns)))
    return NodesAcross(
        names=tuple(profiles),
        rows=tuple(rows),
        totals_ns=totals_ns,
        notes=tuple(_differing(profiles)),
    )


def _nodes(record: ProfileRecord) -> dict[tuple[str, str], NodeRecord]:
    return {
        (region.key, node.name): node for region in record.regions for node in region.nodes if node.kind in TIMED_KINDS
    }


def _compiled(record: ProfileRecord, digest: Digest) -> dict[tuple[str, str], float | None]:
    return {
        (region.key, name): _both(cost)
        for region in record.regions
        for name, cost in compiled_costs(region, digest).items()
    }


def _both(cost: CompiledCost) -> float | None:
    known = [time for time in (cost.forward_ns, cost.backward_ns) if time is not None]
    return sum(known) if known else None


def _row(key: tuple[str, str], node: NodeRecord, times_ns: list[float | None]) -> NodeAcross:
    region, name = key
    source = source_text(node.source)
    return NodeAcross(region=region, name=name, op_type=node.op_type, source=source, times_ns=tuple(times_ns))


def _kernels_ns(record: ProfileRecord, digest: Digest) -> float:
    return sum(
        (digest.median(kernel.isolated) or 0.0) * max(1, kernel.calls)
        for region in record.regions
        for kernel in region.kernels
    )


def _differing(profiles: Mapping[str, ProfileRecord]) -> Iterator[str]:
    """Where a graph is not the first profile's: such rows are joined by their name alone."""
    graphs = {name: {key: node.op_type for key, node in _nodes(record).items()} for name, record in profiles.items()}
    (first, expected), *others = graphs.items() or (("", {}),)
    for name, graph in others:
        apart = sorted(set(expected.items()) ^ set(graph.items()))
        if apart:
            told = ", ".join(dict.fromkeys(f"{region}/{node}" for (region, node), _ in apart))
            yield f"the graphs of {first} and {name} differ: {told}"

"""Rows of the per-node table: what records say, in the words and order of a table. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import TypeVar

from graphbench.analysis.compiled_costs import CompiledCost, compiled_costs
from graphbench.analysis.costs import Cost, node_cost
from graphbench.analysis.device import DeviceFacts
from graphbench.analysis.digest import Digest
from graphbench.analysis.roofline import Ceilings, Limit
from graphbench.analysis.shares import TIMED_KINDS
from graphbench.analysis.shown import ShownRow
from graphbench.analysis.stats import Summary
from graphbench.analysis.traffic import node_limit
from graphbench.errors import UsageError
from graphbench.measurements import Measurement, SourceLine, Status, TensorSpec
from graphbench.records import Fate, NodeKind, NodeRecord, ProfileRecord

RowT = TypeVar("RowT")

_DTYPES: tuple[tuple[str, str], ...] = (
    ("float8_", "f8"),
    ("bfloat", "bf"),
    ("float", "f"),
    ("complex", "c"),
    ("uint", "u"),
    ("qint", "q"),
    ("int", "i"),
    ("bool", "b8"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow(ShownRow):
    """One node. Times in nanoseconds; `share` is the fraction of all nodes' isolated forward medians.

    `state` and `reason` are those of the isolated measurement; `unfaithful` says that the isolated result differed from
    the real call's. `backward` is the isolated measurement of its own eager backward, whose figures are named so;
    `compiled` is the node's part of its kernels, forward and backward. `device`, `cost` and `limit` are of its isolated
    call, `ceilings` its device's. Other figures are worked out when asked for: most rows of a large profile are never
    shown.
    """

    region: str
    position: int
    name: str
    op_type: str
    kind: NodeKind
    kernels: tuple[str, ...]
    module: str
    state: Status
    reason: str
    warnings: tuple[str, ...]
    unfaithful: bool
    shared_with: str | None
    node: NodeRecord
    compiled: CompiledCost
    total_ns: float
    digest: Digest
    device: DeviceFacts
    ceilings: Ceilings
    cost: Cost
    limit: Limit

    @property
    def outputs(self) -> str:
        """Shapes and dtypes."""
        return outputs_text(self.node.outputs, self.node.symbolic)

    @property
    def symbolic(self) -> str:
        """The same with the sizes that the graph leaves open, such as `f32[s77,64]`; "" where all are fixed."""
        return symbolic_text(self.node.outputs, self.node.symbolic)

    @property
    def isolated(self) -> Summary | None:
        """Statistics of the isolated samples."""
        return self.digest.summary(self.node.isolated)

    @property
    def isolated_p50_ns(self) -> float | None:
        """Median of the isolated samples, without the other statistics."""
        return self.digest.median(self.node.isolated)

    @property
    def share(self) -> float | None:
        """Part of all nodes' isolated medians."""
        median_ns = self.isolated_p50_ns
        return median_ns / self.total_ns if median_ns is not None and self.total_ns else None

    @property
    def in_graph_ns(self) -> float | None:
        """Median in real execution order."""
        return self.digest.median(self.node.in_graph)

    @property
    def backward(self) -> Measurement:
        """The isolated measurement of its eager backward."""
        return self.node.backward_isolated

    @property
    def backward_unfaithful(self) -> bool:
        """Whether that gave other gradients than in the run."""
        return is_unfaithful(self.backward)

    @property
    def backward_summary(self) -> Summary | None:
        """Statistics of the isolated samples of its eager backward."""
        return self.digest.summary(self.backward)

    @property
    def backward_p50_ns(self) -> float | None:
        """Median of those samples, without the other statistics."""
        return self.digest.median(self.backward)

    @property
    def backward_in_graph_ns(self) -> float | None:
        """Median of its eager backward in real execution order."""
        return self.digest.median(self.node.backward_in_graph)

    @property
    def has_backward(self) -> bool:
        """Whether its backward has any time, eager or compiled."""
        times = (self.backward_p50_ns, self.backward_in_graph_ns, self.compiled.backward_ns)
        return any(time is not None for time in times)

    @property
    def host_ns(self) -> float | None:
        """Median time to issue the isolated call."""
        return self.digest.median(self.node.isolated, "host_ns")

    @property
    def moved_bytes(self) -> float | None:
        """What it reads and writes; `None` for a view, which is no news."""
        return None if self.kind == "view" else self.cost.moved_bytes

    @property
    def limit_ns(self) -> float | None:
        """How long its isolated call takes at the limit."""
        return self.limit.time_ns

    @property
    def bytes_per_s(self) -> float | None:
        """Bytes per second that its isolated call moved."""
        return self.cost.bytes_per_s(self.isolated_p50_ns)

    @property
    def flops_per_s(self) -> float | None:
        """FLOP per second of its isolated call."""
        return self.cost.flops_per_s(self.isolated_p50_ns)

    @property
    def backward_cost(self) -> Cost:
        """What its eager backward has to do."""
        return node_cost(self.node, "backward")

    @property
    def backward_limit(self) -> Limit:
        """Its eager backward alone against its limit."""
        return node_limit(self.node, "backward", self.backward_cost, self.ceilings, self.digest)

    @property
    def fate(self) -> str:
        """What became of it, in words."""
        return fate_text(self.node.fate)

    @property
    def source(self) -> str:
        """File and line."""
        return source_text(self.node.source)


def node_rows(record: ProfileRecord, digest: Digest | None = None) -> list[NodeRow]:
    """One row per compute and view node of every region, in program order. Their shares add up to 1.

    `digest` holds statistics already computed for this record.
    """
    digest = digest or Digest()
    costs = {region.key: compiled_costs(region, digest) for region in record.regions}
    ceilings = {region.key: Ceilings.of(record.ceilings, region.device) for region in record.regions}
    nodes = [
        (region.key, position, node)
        for region in record.regions
        for position, node in enumerate(region.nodes)
        if node.kind in TIMED_KINDS
    ]
    total_ns = sum(digest.median(node.isolated) or 0.0 for _, _, node in nodes)
    rows = []
    for region, position, node in nodes:
        compiled = costs[region].get(node.name, CompiledCost())
        rows.append(_node_row(digest, total_ns, compiled, ceilings[region], region, position, node))
    return rows


def verdict_grain_ns(record: ProfileRecord) -> float:
    """Step of the stamps behind a profile's device times, in nanoseconds; 0 on a wall clock or where unknown."""
    return 0.0 if record.policy.timer == "wallclock" else float(record.environment.stamp_grain_ns or 0)


def sort_rows(
    rows: Iterable[RowT], keys: Mapping[str, Callable[[RowT], object]], sort: str, top: int | None
) -> list[RowT]:
    """Sort rows by one key and keep the first `top`.

    Numbers sort from large to small, texts from a to z, rows without a value last; equal ones keep their order.

    Args:
        rows: the rows.
        keys: names of the sort keys, each with what it sorts by.
        sort: one of the names.
        top: how many to keep; `None` for all.

    Raises:
        UsageError: no such key, or `top` is below 1.
    """
    if sort not in keys:
        hint = f"sort by one of: {', '.join(keys)}"
        raise UsageError(f"unknown sort key {sort!r}", hint=hint, subject="sort")
    if top is not None and top < 1:
        raise UsageError(f"top is {top}, expected at least 1", hint="leave it out to see all rows", subject="top")
    valued = [(keys[sort](row), row) for row in rows]
    present = [pair for pair in valued if pair[0] is not None]
    absent = [row for value, row in valued if value is None]
    if present and isinstance(present[0][0], str):
        present.sort(key=lambda pair: str(pair[0]))
    else:
        present.sort(key=lambda pair: -float(pair[0]))  # type: ignore[arg-type]
    ordered = [row for _, row in present] + absent
    return ordered if top is None else ordered[:top]


def spec_text(spec: TensorSpec, sizes: Sequence[object] = ()) -> str:
    """A tensor in short, such as `f32[16,64,56,56]`, or with other `sizes` than its own."""
    name = spec.dtype.removeprefix("torch.")
    short = next((new + name.removeprefix(old) for old, new in _DTYPES if name.startswith(old)), name)
    return f"{short}[{','.join(map(str, sizes or spec.shape))}]"


def outputs_text(outputs: Sequence[TensorSpec], symbolic: Sequence[Sequence[str]] = ()) -> str:
    """All outputs of a node, in order. A size that only the data tells is called as the compiler does, as `u0`."""
    if len(symbolic) != len(outputs):
        return " ".join(map(spec_text, outputs))
    return " ".join(spec_text(spec, known_sizes(spec, sizes)) for spec, sizes in zip(outputs, symbolic, strict=True))


def known_sizes(spec: TensorSpec, symbolic: Sequence[str]) -> Sequence[object]:
    """A tensor's sizes as numbers, and where there is none, which `-1` stands for, as the compiler's expression."""
    if len(symbolic) != len(spec.shape):
        return spec.shape
    return [name if size < 0 else size for size, name in zip(spec.shape, symbolic, strict=True)]


def symbolic_text(outputs: Sequence[TensorSpec], symbolic: Sequence[Sequence[str]]) -> str:
    """All outputs of a node as the compiler knows their sizes; "" where it knows all in numbers."""
    if len(symbolic) != len(outputs):
        return ""
    return " ".join(starmap(spec_text, zip(outputs, symbolic, strict=True)))


def source_text(source: SourceLine | None) -> str:
    """A source line as `file.py:12`, without its folders; empty when unknown."""
    return "" if source is None else f"{source.file.replace(chr(92), '/').rsplit('/', 1)[-1]}:{source.line}"


def fate_text(fate: Fate) -> str:
    """A fate in words, such as `fused → triton_poi_fused_relu_0:3`."""
    kernels = ", ".join(key.split("/", 1)[-1] for key in fate.kernels)
    target = kernels or fate.note
    return f"{fate.kind} → {target}" if target else fate.kind


def _node_row(
    digest: Digest,
    total_ns: float,
    compiled: CompiledCost,
    ceilings: Ceilings,
    region: str,
    position: int,
    node: NodeRecord,
) -> NodeRow:
    isolated, cost = node.isolated, node_cost(node)
    return NodeRow(
        region=region,
        position=position,
        name=node.name,
        op_type=node.op_type,
        kind=node.kind,
        kernels=node.fate.kernels,
        module=node.module,
        state=isolated.status,
        reason=isolated.reason,
        warnings=isolated.warnings,
        unfaithful=is_unfaithful(isolated),
        shared_with=isolated.shared_with,
        node=node,
        compiled=compiled,
        total_ns=total_ns,
        digest=digest,
        device=DeviceFacts(isolated, digest),
        ceilings=ceilings,
        cost=cost,
        limit=node_limit(node, "forward", cost, ceilings, digest),
    )


def is_unfaithful(measurement: Measurement) -> bool:
    """Whether the result of an isolated call is known to differ from the real call's."""
    return measurement.fidelity is not None and measurement.fidelity.equal is False

"""Where the compiled kernels' time comes from: modules, source lines, nodes and their kernels as one tree. Pure.

Every kernel's time is divided over its nodes as in `compiled_costs`, so that each level adds up to the same sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

from graphbench.analysis.compiled_costs import kernel_parts
from graphbench.analysis.digest import Digest
from graphbench.analysis.group_homes import NO_OWNER, kernel_family, node_namer
from graphbench.records import KernelRecord, NodeRecord, ProfileRecord, RegionRecord

FlowWhat = Literal["all", "module", "source", "node", "kernel", "others"]
LEAST_SHARE: Final = 0.001
"""Parts smaller than this of all time are one part together, where a part has several."""

Row = tuple[str, str]  # a region's key, and a node's name or a kernel's key


@dataclass(slots=True)
class FlowPart:
    """One part: of a module (its repeated layers together), a source line in it, the nodes of an op type, a kernel.

    `time_ns` are isolated medians of all calls, divided over nodes. `rows` has the nodes of a `node`, the kernels of a
    `kernel` (those that differ in their number only), with their parts of the time, the longest first. `others` are
    so many small parts that are not told apart.
    """

    what: FlowWhat
    name: str
    time_ns: float = 0.0
    rows: dict[Row, float] = field(default_factory=dict)
    parts: dict[tuple[str, ...], FlowPart] = field(default_factory=dict)
    count: int = 1

    @property
    def children(self) -> list[FlowPart]:
        """Its parts, the longest first."""
        return sorted(self.parts.values(), key=lambda part: -part.time_ns)

    def child(self, what: FlowWhat, *key: str) -> FlowPart:
        """The part of that key, made where there is none; the first of the key is its name."""
        return self.parts.setdefault((what, *key), FlowPart(what, key[0]))

    def add(self, time_ns: float, row: Row | None = None) -> None:
        """Add a time; `row` is what it is of."""
        self.time_ns += time_ns
        if row is not None:
            self.rows[row] = self.rows.get(row, 0.0) + time_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """The tree. `root` adds up to the compiled isolated sums of the summary; `missing` kernels have no time."""

    root: FlowPart
    missing: tuple[Row, ...]


def kernel_flow(record: ProfileRecord, digest: Digest | None = None) -> Flow:
    """Divide the time of all kernels.

    Kernels of no node are a part beside the modules. Small parts are put together, so that the tree stays small.

    Args:
        record: a profile.
        digest: statistics already computed for this record.
    """
    digest = digest or Digest()
    nodes = [node for region in record.regions for node in region.nodes]
    module_of, source_of = node_namer(nodes, "module"), node_namer(nodes, "source")
    root = FlowPart("all", "all kernels")
    missing: list[Row] = []
    for region in record.regions:
        by_name = {node.name: node for node in region.nodes}
        for kernel in region.kernels:
            once_ns = digest.median(kernel.isolated)
            if once_ns is None:
                missing.append((region.key, kernel.key))
                continue
            time_ns = once_ns * max(1, kernel.calls)
            for name, part in (kernel_parts(kernel) or {"": 1.0}).items():
                node = by_name.get(name)
                place = None if node is None else (module_of(node), source_of(node))
                _add(root, place, region, node, kernel, time_ns * part)
    _put_together(root, root.time_ns * LEAST_SHARE)
    return Flow(root=root, missing=tuple(missing))


def _add(
    root: FlowPart,
    place: tuple[str, str] | None,
    region: RegionRecord,
    node: NodeRecord | None,
    kernel: KernelRecord,
    time_ns: float,
) -> None:
    """Add a part of a kernel to all that it belongs to."""
    root.add(time_ns)
    module, source = place or (NO_OWNER, None)
    here = root.child("module", module)
    here.add(time_ns)
    if source is not None:
        here = here.child("source", source)
        here.add(time_ns)
    if node is not None:
        here = here.child("node", node.op_type)
        here.add(time_ns, (region.key, node.name))
    here.child("kernel", kernel_family(kernel.name, kernel.kind), kernel.phase).add(time_ns, (region.key, kernel.key))


def _put_together(part: FlowPart, least_ns: float) -> None:
    small = [key for key, child in part.parts.items() if child.time_ns < least_ns]
    if len(small) > 1:
        others = FlowPart("others", "", count=len(small))
        for key in small:
            others.add(part.parts.pop(key).time_ns)
        part.parts["others",] = others
    for child in part.parts.values():
        _put_together(child, least_ns)


def walk(part: FlowPart, parent: str = "", key: str = "0") -> Iterator[tuple[str, str, FlowPart]]:
    """Every part with a key of its own and that of the part that it is in, "" for the root; parents first."""
    yield key, parent, part
    for position, child in enumerate(part.children):
        yield from walk(child, key, f"{key}.{position}")

"""Which group a node or a kernel falls into, for every way to group. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from graphbench.analysis.compiled_costs import kernel_parts
from graphbench.analysis.digest import Digest
from graphbench.analysis.group_by import DiffGroupBy, GroupBy
from graphbench.analysis.shapes import call_texts
from graphbench.analysis.shares import Shares, eager_shares
from graphbench.analysis.views import source_text
from graphbench.records import KernelKind, KernelRecord, NodeRecord, Phase, ProfileRecord, RegionRecord

TOP_LEVEL: Final = "(top level)"
NO_SOURCE: Final = "(no source line)"
NO_OWNER: Final = "(no owner)"
NO_KERNEL: Final = "(no kernel)"
LAYER: Final = "*"
NUMBERED: Final[frozenset[KernelKind]] = frozenset({"triton", "template", "user-triton", "cpp"})
"""Kinds of kernels to whose names Inductor adds a number: `triton_poi_fused_gelu_7`."""

_NUMBER = re.compile(r"_\d+$")


@dataclass(frozen=True, slots=True)
class Home:
    """A group, which of its layers (`None` for none), and the part of a node or kernel that falls to it."""

    group: str
    place: str | None = None
    part: float = 1.0


class Homes(Protocol):
    """Where the nodes and kernels of one region fall. The parts of each add up to 1."""

    def of_node(self, node: NodeRecord, phase: Phase) -> Sequence[Home]:
        """Groups of a node's forward, or of its backward."""

    def of_kernel(self, kernel: KernelRecord) -> Sequence[Home]:
        """Groups of a kernel."""


def homes_of(record: ProfileRecord, by: GroupBy, depth: int | None, digest: Digest) -> Callable[[RegionRecord], Homes]:
    """The homes of each region of a profile.

    Args:
        record: a profile.
        by: how to group.
        depth: cut module paths after so many components.
        digest: statistics already computed for this record.
    """
    if by == "kernel":
        return lambda region: _ByKernel(region, digest)
    if by == "shape":
        return lambda region: _ByNode(region, call_texts(region), depth)
    name_of = node_namer((node for region in record.regions for node in region.nodes), by, depth)
    return lambda region: _ByNode(region, {node.name: name_of(node) for node in region.nodes}, depth, by=by)


class _ByNode:
    """Every node has one group; a kernel is divided over the nodes that it works for."""

    def __init__(
        self, region: RegionRecord, names: Mapping[str, str], depth: int | None, *, by: GroupBy = "shape"
    ) -> None:
        self._homes = {node.name: Home(names[node.name], _place(node, by, depth)) for node in region.nodes}

    def of_node(self, node: NodeRecord, phase: Phase) -> Sequence[Home]:
        return (self._homes[node.name],)

    def of_kernel(self, kernel: KernelRecord) -> Sequence[Home]:
        divided = [(self._homes.get(node), part) for node, part in kernel_parts(kernel).items()]
        found = [Home(home.group, home.place, part) if home else Home(NO_OWNER, None, part) for home, part in divided]
        return found or (Home(NO_OWNER),)


class _ByKernel:
    """Every kernel has one group; a node is divided over its kernels as the fusion table divides it."""

    def __init__(self, region: RegionRecord, digest: Digest) -> None:
        families = {kernel.key: kernel_family(kernel.name, kernel.kind) for kernel in region.kernels}
        divided = eager_shares(region, digest)
        self._nodes: Mapping[Phase, Mapping[str, Mapping[str, float]]] = {
            "forward": _parts(divided.forward, families),
            "backward": _parts(divided.backward, families),
        }

    def of_node(self, node: NodeRecord, phase: Phase) -> Sequence[Home]:
        parts = self._nodes[phase].get(node.name, {NO_KERNEL: 1.0})
        return [Home(group, node.module, part) for group, part in parts.items()]

    def of_kernel(self, kernel: KernelRecord) -> Sequence[Home]:
        return (Home(kernel_family(kernel.name, kernel.kind)),)


def _parts(divided: Shares, families: Mapping[str, str]) -> dict[str, dict[str, float]]:
    """The part of each node that falls to each family: `parts[node][family]`."""
    parts: dict[str, dict[str, float]] = {}
    for key, share in divided.kernels.items():
        for node, part in zip(share.nodes, share.parts, strict=True):
            of_node = parts.setdefault(node, {})
            of_node[families[key]] = of_node.get(families[key], 0.0) + part
    return parts


def kernel_family(name: str, kind: KernelKind) -> str:
    """A kernel's name without the number that Inductor adds: repeated layers make kernels that differ in it only."""
    return _NUMBER.sub("", name) if kind in NUMBERED else name


def node_namer(
    nodes: Iterable[NodeRecord], by: GroupBy | DiffGroupBy, depth: int | None = None
) -> Callable[[NodeRecord], str]:
    """The name of each node's group, where modules, source lines or op types are groups.

    Args:
        nodes: all nodes that may be asked for: which numbers of a path repeat depends on the others.
        by: `module`, `source` or `op_type`.
        depth: cut module paths after so many components.
    """
    if by == "op_type":
        return lambda node: node.op_type
    nodes = list(nodes)
    if by == "module":
        folded = fold_layers({node.module for node in nodes})
        cut = {path: _cut(name, depth) for path, name in folded.items()}
        return lambda node: cut[node.module] or TOP_LEVEL
    places: dict[str, set[str]] = {}
    for node in nodes:
        places.setdefault(_line(node), set()).add(_place(node, by))
    # Two files of one name are told apart by their folders.
    return lambda node: (_line(node) if len(places[_line(node)]) == 1 else _line(node, folders=True)) or NO_SOURCE


def _place(node: NodeRecord, by: GroupBy | DiffGroupBy, depth: int | None = None) -> str:
    """Which of a group's layers a node is in."""
    if by != "source":
        return _cut(node.module, depth)
    return f"{node.source.file}:{node.source.line}" if node.source else ""


def _cut(path: str, depth: int | None) -> str:
    return ".".join(path.split(".")[:depth])


def _line(node: NodeRecord, *, folders: bool = False) -> str:
    code = node.source.code.strip() if node.source else ""
    return f"{_place(node, 'source') if folders else source_text(node.source)} {code}".strip()


def fold_layers(paths: Iterable[str]) -> dict[str, str]:
    """Module paths -> the same with `*` for numbers that have siblings: `h.0.mlp` and `h.1.mlp` are both `h.*.mlp`.

    A number without a sibling is no repetition and stays.
    """
    distinct = sorted(set(paths))
    folded: dict[str, list[str]] = {path: [] for path in distinct}
    for level in range(max((path.count(".") + 1 for path in distinct), default=0)):
        numbers: dict[tuple[str, ...], set[str]] = {}
        for path in distinct:
            parts = path.split(".")
            if level < len(parts) and parts[level].isdigit():
                numbers.setdefault(tuple(folded[path]), set()).add(parts[level])
        for path in distinct:
            parts = path.split(".")
            if level < len(parts):
                siblings = numbers.get(tuple(folded[path]), ())
                repeated = parts[level].isdigit() and len(siblings) > 1
                folded[path].append(LAYER if repeated else parts[level])
    return {path: ".".join(parts) for path, parts in folded.items()}

"""Repeated layers as one row: which nodes and kernels do the same in every layer, and what they come to together. Pure.

A *fold* stands for rows that repeat each other: one a layer. What does not repeat is a fold of one.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from graphbench.analysis.fusion import FusionRow
from graphbench.analysis.group_homes import LAYER, fold_layers, kernel_family
from graphbench.analysis.shapes import call_texts
from graphbench.analysis.shares import TIMED_KINDS
from graphbench.analysis.stats import Summary, judge
from graphbench.analysis.views import NodeRow, outputs_text
from graphbench.records import KernelRecord, ProfileRecord, RegionRecord, Role

RowT = TypeVar("RowT", NodeRow, FusionRow)
RowT_co = TypeVar("RowT_co", covariant=True)
_NUMBER: Final = re.compile(r"_\d+$")


class NodePattern(NamedTuple):
    """What a node is in its layer: nodes of different layers that agree in it repeat each other.

    `call` is its op type with the shapes and dtypes that it reads and makes. `position` counts the like nodes before it
    in its own module, over all regions: a fold has each layer once.
    """

    module: str
    call: str
    position: int


@dataclass(frozen=True, slots=True)
class Fold(Generic[RowT_co]):
    """Rows that repeat each other, in program order; a single one where nothing does.

    `name` is that of a single row, else a module in which `*` stands for the layers, with what is done there behind a
    colon where more than one thing is.
    """

    name: str
    rows: tuple[RowT_co, ...]

    @property
    def count(self) -> int:
        """How many rows it stands for."""
        return len(self.rows)

    @property
    def several(self) -> bool:
        """Whether it stands for more than one."""
        return len(self.rows) > 1

    def total(self, value: Callable[[RowT_co], float | None]) -> float | None:
        """Sum over the rows; `None` where one of them has no value."""
        values = [value(row) for row in self.rows]
        known = [entry for entry in values if entry is not None]
        return sum(known) if len(known) == len(values) else None

    def median(self, value: Callable[[RowT_co], float | None]) -> float | None:
        """Median over several rows; `None` of a single one, or where one of them has no value."""
        values = [value(row) for row in self.rows]
        known = [entry for entry in values if entry is not None]
        return statistics.median(known) if len(known) == len(values) > 1 else None

    def spread(
        self, measured: Callable[[RowT_co], Summary | None], *, grain_ns: float = 0.0
    ) -> tuple[float, float] | None:
        """Least and largest median over the rows, where the two are different by the rule of `stats.judge`.

        Args:
            measured: the statistics of a row; rows without any are left out.
            grain_ns: step of the device's stamps.
        """
        found = [entry for entry in map(measured, self.rows) if entry is not None]
        if len(found) < 2:
            return None
        least, most = min(found, key=lambda entry: entry.p50), max(found, key=lambda entry: entry.p50)
        if least.n < 2 or most.n < 2:
            return None
        told = judge((least.p10, least.p50, least.p90), (most.p10, most.p50, most.p90), grain_ns=grain_ns)
        return (least.p50, most.p50) if told == "slower" else None

    def texts(self, text: Callable[[RowT_co], str]) -> list[str]:
        """The distinct texts of the rows, the most frequent first."""
        return [entry for entry, _ in Counter(map(text, self.rows)).most_common()]


class Layers:
    """What repeats in a profile: the pattern of every node, and by these of every kernel.

    Kernels repeat each other where their phase, kind, name without number, calls, what they compute and the patterns of
    the nodes that they work for agree, and what their rows know.
    """

    def __init__(self, record: ProfileRecord) -> None:
        self._modules = fold_layers({node.module for region in record.regions for node in region.nodes})
        self._patterns: dict[tuple[str, str], NodePattern] = {}
        before: Counter[tuple[str, str]] = Counter()
        for region in record.regions:
            calls = call_texts(region)
            for node in region.nodes:
                like = (node.module, f"{calls[node.name]} {outputs_text(node.outputs)}")
                pattern = NodePattern(self._modules[node.module], like[1], before[like])
                self._patterns[region.key, node.name] = pattern
                before[like] += 1
        self._most = _most_nodes(record, self._modules)
        self._regions = {region.key: region for region in record.regions}

    def node_name(self, region: str, name: str) -> str:
        """What a node is called in a fold; its own name where its module repeats nothing."""
        pattern = self._patterns.get((region, name))
        if pattern is None or LAYER not in pattern.module:
            return name
        alone = self._most[pattern.module] == 1
        return pattern.module if alone else f"{pattern.module}: {base_name(name)}"

    def within_layer(self, region: str, names: Iterable[str]) -> str:
        """Nodes by their place in the layer: `input_layernorm (pow, mean), mlp.up_proj`; others by their own names."""
        places: dict[str, list[str]] = {}
        for name in names:
            pattern = self._patterns.get((region, name))
            if pattern is None or LAYER not in pattern.module:
                places.setdefault(name, [])
                continue
            within = pattern.module.partition(f"{LAYER}.")[2]
            if self._most[pattern.module] == 1 and within:
                places.setdefault(within, [])
            else:
                places.setdefault(within, []).append(base_name(name))
        return ", ".join(_place_text(place, list(dict.fromkeys(found))) for place, found in places.items())

    def fold_nodes(self, rows: Sequence[NodeRow]) -> list[Fold[NodeRow]]:
        """Nodes by pattern, fate and what is known of them, in program order."""
        found = _grouped(rows, self._node_key)
        return [Fold(self._fold_name(group), group) for group in found]

    def fold_fusions(self, rows: Sequence[FusionRow]) -> list[Fold[FusionRow]]:
        """Kernels that do the same for the same nodes of every layer, in the order of their wrappers."""
        executed = {key: _Executed(region) for key, region in self._regions.items()}
        before: Counter[Hashable] = Counter()
        keys: dict[int, Hashable] = {}
        for row in rows:
            kernel = executed[row.region].kernels[row.key]
            like = (row.region, row.phase, kernel_family(row.name, row.kind), _worked_for(kernel))
            keys[id(row)] = (self._fusion_key(row, kernel, executed[row.region]), before[like])
            before[like] += 1
        found = _grouped(rows, lambda row: keys[id(row)])
        return [Fold(_kernel_name(group), group) for group in found]

    def _fold_name(self, group: Sequence[NodeRow]) -> str:
        names = [self.node_name(row.region, row.name) for row in group]
        if len(group) == 1:
            return group[0].name
        return names[0] if len(set(names)) == 1 else f"{names[0].partition(': ')[0]}: {group[0].op_type}"

    def _node_key(self, row: NodeRow) -> Hashable:
        pattern = self._patterns[row.region, row.name]
        if LAYER not in pattern.module:
            return row.region, row.name
        known = (row.isolated_p50_ns, row.in_graph_ns, row.backward_p50_ns, row.backward_in_graph_ns, row.host_ns)
        compiled = (row.compiled.forward_ns, row.compiled.backward_ns, row.limit_ns)
        return pattern, row.node.fate.kind, row.state, _which([*known, *compiled])

    def _fusion_key(self, row: FusionRow, kernel: KernelRecord, executed: _Executed) -> Hashable:
        found = [(role, self._patterns.get((row.region, node))) for role, node in _worked_for(kernel)]
        if not any(pattern is not None and LAYER in pattern.module for _, pattern in found):
            return row.region, row.key
        worked_for = tuple(sorted(found, key=str))
        known = (row.fused_ns, row.eager and row.eager.p50_ns, row.unfused_ns, row.saved_ns, row.in_graph_ns)
        like = (row.phase, row.kind, kernel_family(row.name, row.kind), row.calls, executed.texts(kernel))
        return like, worked_for, row.state, _which([*known, row.host_ns, row.limit_ns])


class _Executed:
    """The kernels of a region, and the post-grad nodes that they execute."""

    def __init__(self, region: RegionRecord) -> None:
        self.kernels = {kernel.key: kernel for kernel in region.kernels}
        self._texts = {
            (node.phase, node.name): f"{node.target} {outputs_text(node.outputs)}" for node in region.post_grad
        }

    def texts(self, kernel: KernelRecord) -> tuple[str, ...]:
        """Ops and shapes of what it executes."""
        return tuple(sorted(self._texts.get((kernel.phase, name), "") for name in kernel.executes))


def base_name(name: str) -> str:
    """A node's name without the number by which equal names are told apart: `hidden_states` of `hidden_states_12`."""
    return _NUMBER.sub("", name)


def _place_text(place: str, names: Sequence[str]) -> str:
    """A module of a layer with what is done there; without a name, the layer itself."""
    return f"{place} ({', '.join(names)})" if place and names else place or ", ".join(names)


def _grouped(rows: Sequence[RowT], key: Callable[[RowT], Hashable]) -> list[tuple[RowT, ...]]:
    groups: defaultdict[Hashable, list[RowT]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return [tuple(group) for group in groups.values()]


def _which(values: Sequence[object]) -> tuple[bool, ...]:
    """Which values are known: sums over rows that lack different ones would not be of the same."""
    return tuple(value is None for value in values)


def _worked_for(kernel: KernelRecord) -> tuple[tuple[Role, str], ...]:
    """Roles and nodes of a kernel; what it only reads differs from layer to layer, and counts where all else fails."""
    roles = {(role.role, role.node) for role in kernel.roles}
    return tuple(sorted({entry for entry in roles if entry[0] != "contributes"} or roles))


def _kernel_name(group: Sequence[FusionRow]) -> str:
    if len(group) == 1:
        return group[0].key.split("/", 1)[-1]
    return kernel_family(group[0].name, group[0].kind)


def _most_nodes(record: ProfileRecord, modules: Mapping[str, str]) -> Counter[str]:
    """By module pattern: the most nodes that one module of it has in a region."""
    timed = [(region.key, node) for region in record.regions for node in region.nodes if node.kind in TIMED_KINDS]
    found: Counter[str] = Counter()
    for (_, module), count in Counter((region, node.module) for region, node in timed).items():
        found[modules[module]] = max(found[modules[module]], count)
    return found

"""Which node of one graph is which of another: by source and neighbourhood, so that renames and edits survive. Pure.

Nodes are compared by colours (Weisfeiler and Lehman, 1968): what a node is, refined by the colours of what it reads and
of what reads it. Nodes that are already paired have one colour of their own on both sides, so that every pair tells
their neighbours apart. Names never count: Dynamo numbers them, and one more `add` renumbers those behind it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence

from graphbench.measurements import JsonValue
from graphbench.records import RegionRecord

# From strict to loose: what else than its op a node must share, and how many steps of its neighbourhood.
_PASSES: tuple[tuple[frozenset[str], int], ...] = tuple(
    (frozenset(shared.split()), radius)
    for shared, radius in (
        ("specs code module", 2),
        ("specs code module", 0),
        ("specs code", 2),
        ("specs module", 2),
        ("specs", 2),
        ("code module", 2),
        ("code module", 0),
        ("code", 2),
        ("module", 2),
        ("", 2),
        ("code", 1),
        ("module", 1),
        ("", 1),
        ("code", 0),
        ("module", 0),
    )
)

_HUB = 32
"""What more nodes than this read tells none of them apart."""


def join_nodes(before: RegionRecord, after: RegionRecord) -> dict[str, str]:
    """Names of nodes of `after`, each with the name of the node of `before` that it was.

    Nodes of other ops are never a pair. What has the same source and neighbourhood is paired first, then with less and
    less of that in common; where nothing tells equal nodes apart, their order does. Of what is left, nodes of one op
    between the same pairs are taken for the same, unless all that is known of their neighbours speaks against it.
    """
    left, right = _Graph(before), _Graph(after)
    found = 1
    if _is_one_graph(left, right):
        left.pair, right.pair, found = [*range(len(left.nodes))], [*range(len(right.nodes))], 0
    while found and left.free and right.free:
        found = sum(_pass(left, right, shared, radius) for shared, radius in _PASSES)
        found = found or _between_pairs(left, right)
    old = {pair: node.name for node, pair in zip(left.nodes, left.pair, strict=True) if pair is not None}
    return {node.name: old[pair] for node, pair in zip(right.nodes, right.pair, strict=True) if pair is not None}


class _Graph:
    """One side: its nodes in program order, what each reads and who reads it, and the number of its pair, if any."""

    def __init__(self, region: RegionRecord) -> None:
        self.nodes = region.nodes
        index = {node.name: i for i, node in enumerate(self.nodes)}
        kinds = {entry.name: entry.kind for entry in region.inputs}
        self.reads = [[index.get(name, -1) for name in node.inputs] for node in self.nodes]
        self.given = [tuple(kinds.get(name, "") for name in node.inputs if name not in index) for node in self.nodes]
        self.readers: list[list[int]] = [[] for _ in self.nodes]
        for i, reads in enumerate(self.reads):
            for j in dict.fromkeys(reads):
                if j >= 0:
                    self.readers[j].append(i)
        self.pair: list[int | None] = [None] * len(self.nodes)
        self._constants: dict[int, Hashable] = {}

    @property
    def free(self) -> list[int]:
        """Positions of nodes without a partner."""
        return [i for i, pair in enumerate(self.pair) if pair is None]

    def label(self, i: int, shared: frozenset[str]) -> Hashable:
        """What a node is by itself: its op, what it gets from outside the graph, and of the rest what is `shared`."""
        node = self.nodes[i]
        source = node.source
        specs: Hashable = None
        if "specs" in shared:
            specs = tuple((spec.shape, spec.dtype) for spec in node.outputs), self._constants_of(i)
        return (
            node.op_type,
            self.given[i],
            specs,
            (source.code.strip() if source else "") if "code" in shared else None,
            node.module if "module" in shared else None,
        )

    def _constants_of(self, i: int) -> Hashable:
        if i not in self._constants:
            self._constants[i] = _constants(self.nodes[i].arguments)
        return self._constants[i]

    def neighbours(self, i: int) -> set[tuple[str, int]]:
        """What a node reads, and what reads it, as far as that has a partner: with the number of the pair."""
        reads = {("read", self.pair[j]) for j in self.reads[i] if j >= 0}
        readers = {("reader", self.pair[j]) for j in self.readers[i]}
        return {(how, pair) for how, pair in reads | readers if pair is not None}

    def degree(self, i: int) -> int:
        """How many neighbours a node has, with a partner or without."""
        return len(set(self.reads[i])) + len(self.readers[i])

    def order(self, i: int) -> tuple[str, int, int]:
        """Where a node stands: in the source, then in the program."""
        source = self.nodes[i].source
        return ("", 0, i) if source is None else (source.file.rsplit("/", 1)[-1], source.line, i)


def _is_one_graph(left: _Graph, right: _Graph) -> bool:
    """Whether both do the same ops in the same order and wire them alike: then every node is the one in its place."""
    ops = [[node.op_type for node in graph.nodes] for graph in (left, right)]
    return ops[0] == ops[1] and left.reads == right.reads and left.given == right.given


def _pass(left: _Graph, right: _Graph, shared: frozenset[str], radius: int) -> int:
    """Pair free nodes of one colour. How many were paired."""
    number: dict[Hashable, int] = {}
    lefts, rights = (_by_colour(graph, shared, radius, number) for graph in (left, right))
    both = [(old, rights[colour]) for colour, old in lefts.items() if colour in rights]
    if radius == 0 and (found := sum(_by_neighbours(left, right, old, new) for old, new in both)):
        return found
    pairs = [pair for old, new in both if len(old) == len(new) for pair in _in_order(left, right, old, new)]
    # Without its neighbourhood, what moved looks like what stayed: what keeps its place goes first.
    chosen = _longest_in_order(pairs) if radius == 0 else pairs
    return sum(_make_pair(left, right, i, j) for i, j in chosen)


def _by_colour(graph: _Graph, shared: frozenset[str], radius: int, number: dict[Hashable, int]) -> dict[int, list[int]]:
    """Free nodes by colour. `number` gives a colour its number, the same on both sides."""
    known: list[dict[int, int]] = [{} for _ in range(radius + 1)]

    def colour(i: int, step: int) -> int:
        found = known[step].get(i)
        if found is None:
            found = known[step][i] = number.setdefault(described(i, step), len(number))
        return found

    def described(i: int, step: int) -> Hashable:
        pair = graph.pair[i]
        if pair is not None:
            return "pair", pair
        if step == 0:
            return graph.label(i, shared)
        reads = tuple(colour(j, step - 1) if j >= 0 else -1 for j in graph.reads[i])
        readers = sorted(colour(j, step - 1) for j in graph.readers[i])
        return colour(i, step - 1), reads, tuple(readers)

    found: dict[int, list[int]] = {}
    for i in graph.free:
        found.setdefault(colour(i, radius), []).append(i)
    return found


def _constants(value: JsonValue) -> Hashable:
    """Arguments of a call without the names of nodes."""
    if isinstance(value, dict):
        return "node" if "node" in value else tuple((key, _constants(entry)) for key, entry in value.items())
    return tuple(map(_constants, value)) if isinstance(value, list) else value


def _by_neighbours(left: _Graph, right: _Graph, old: Sequence[int], new: Sequence[int]) -> int:
    """Pair nodes with paired neighbours in common, those first that have the largest part of theirs in common."""
    by_pair: dict[tuple[str, int], list[int]] = {}
    for i in old:
        for neighbour in left.neighbours(i):
            by_pair.setdefault(neighbour, []).append(i)
    candidates: list[tuple[float, int, int]] = []
    for j in new:
        near = (by_pair.get(neighbour, []) for neighbour in right.neighbours(j))
        common = Counter(i for entries in near if len(entries) <= _HUB for i in entries)
        candidates += [(-count / max(left.degree(i), right.degree(j)), i, j) for i, count in common.items()]
    return sum(_make_pair(left, right, i, j) for _, i, j in sorted(candidates))


def _in_order(left: _Graph, right: _Graph, old: Sequence[int], new: Sequence[int]) -> list[tuple[int, int]]:
    pairs = zip(sorted(old, key=left.order), sorted(new, key=right.order), strict=False)
    return [(i, j) for i, j in pairs if _agree(left, right, i, j)]


def _longest_in_order(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The largest part of these pairs that is in the same order on both sides (patience sorting)."""
    ends: list[int] = []  # for each length, the smallest end on the right of what is so long
    tops: list[int] = []
    before: list[int] = []
    ordered = sorted(pairs)
    for index, (_, j) in enumerate(ordered):
        length = bisect_left(ends, j)
        before.append(tops[length - 1] if length else -1)
        ends[length : length + 1], tops[length : length + 1] = [j], [index]
    chosen: list[tuple[int, int]] = []
    index = tops[-1] if tops else -1
    while index >= 0:
        chosen.append(ordered[index])
        index = before[index]
    return chosen[::-1]


def _agree(left: _Graph, right: _Graph, i: int, j: int) -> bool:
    """Whether two nodes may be one: not where both have paired neighbours, and none in common."""
    mine, theirs = left.neighbours(i), right.neighbours(j)
    return not mine or not theirs or bool(mine & theirs)


def _between_pairs(left: _Graph, right: _Graph) -> int:
    """Pair, in order, free nodes of one op that follow the same pair, or that stand before the same one."""
    found = 0
    for backwards in (False, True):
        lefts, rights = (_by_anchor(graph, backwards=backwards) for graph in (left, right))
        for key, old in lefts.items():
            pairs = _in_order(left, right, _still_free(left, old), _still_free(right, rights.get(key, ())))
            found += sum(_make_pair(left, right, i, j) for i, j in pairs)
    return found


def _by_anchor(graph: _Graph, *, backwards: bool) -> dict[Hashable, list[int]]:
    """Free nodes by op and by the last pair before them in the program, or the next one."""
    anchor: int | None = None
    found: dict[Hashable, list[int]] = {}
    positions = range(len(graph.nodes))
    for i in reversed(positions) if backwards else positions:
        if graph.pair[i] is not None:
            anchor = graph.pair[i]
        else:
            node = graph.nodes[i]
            found.setdefault((node.op_type, anchor), []).append(i)
    return found


def _still_free(graph: _Graph, positions: Sequence[int]) -> list[int]:
    return [i for i in positions if graph.pair[i] is None]


def _make_pair(left: _Graph, right: _Graph, i: int, j: int) -> bool:
    """Pair two nodes, unless one of them has a partner by now. Whether they were."""
    if left.pair[i] is not None or right.pair[j] is not None:
        return False
    left.pair[i] = right.pair[j] = j
    return True

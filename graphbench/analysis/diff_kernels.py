"""Which kernels of one profile do the work of which of another: joined by nodes, never by kernel name. Pure.

Kernels of one set of nodes on both sides are one fusion. Of the others those belong together that execute the same
post-grad work of the same nodes; of what is left, where the compiler decomposed a node otherwise, those that work for
the same nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from graphbench.records import KernelRecord, Phase, RegionRecord, Role

KernelPair = tuple[tuple[KernelRecord, ...], tuple[KernelRecord, ...]]
"""Kernels of the first profile, and those of the second that do their work; either may be empty."""
WORKING: frozenset[Role] = frozenset({"executes", "differentiates"})


def join_kernels(
    old: RegionRecord | None, new: RegionRecord | None, partner: Mapping[str, str], phase: Phase
) -> list[KernelPair]:
    """All kernels of a phase, each in one pair, in the order of the second profile's wrapper.

    Args:
        old: the region of the first profile.
        new: the region of the second.
        partner: names of nodes of `new`, each with that of its node of `old`.
        phase: whose kernels.
    """
    names = {before: after for after, before in partner.items()}
    left, right = _Side(old, phase, names, "before"), _Side(new, phase, {node: node for node in partner}, "after")
    pairs = _same_sets(left, right)
    pairs += _connected(left, right, _Side.parts)
    pairs += _connected(left, right, _Side.nodes)
    pairs += [((kernel,), ()) for kernel in left.free] + [((), (kernel,)) for kernel in right.free]
    order = {kernel.key: index for index, kernel in enumerate(new.kernels if new else ())}
    return sorted(pairs, key=lambda pair: order[pair[1][0].key] if pair[1] else len(order))


def node_set(kernel: KernelRecord, names: Mapping[str, str], side: str = "") -> frozenset[Hashable]:
    """What a kernel works for: nodes with its role for them, by their names in the second profile.

    A node without a partner is one of its `side` only. A kernel that only prepares works for those it prepares for.
    """
    roles = [role for role in kernel.roles if role.role in WORKING]
    roles = roles or [role for role in kernel.roles if role.role == "prepares"]
    return frozenset((role.role, names.get(role.node) or (side, role.node)) for role in roles)


class _Side:
    """The kernels of one side that have no partner yet."""

    def __init__(self, region: RegionRecord | None, phase: Phase, names: Mapping[str, str], side: str) -> None:
        self.free = [kernel for kernel in region.kernels if kernel.phase == phase] if region else []
        self._names = names
        self._side = side
        post_grad = [node for node in region.post_grad if node.phase == phase] if region else []
        self._target = {node.name: node.target for node in post_grad if not node.is_view}
        self._order = {node.name: index for index, node in enumerate(post_grad)}
        self._number = self._numbers()

    def _numbers(self) -> dict[tuple[str, str], int]:
        """Of a node's post-grad nodes of one target, which one each is: `number[node, post-grad node]`."""
        entries = {(role.node, name) for kernel in self.free for role in kernel.roles for name in role.post_grad}
        counts: dict[tuple[str, str], int] = {}
        found: dict[tuple[str, str], int] = {}
        for node, name in sorted(entries, key=lambda entry: (self._order.get(entry[1], -1), entry)):
            key = node, self._target.get(name, "")
            found[node, name] = counts[key] = counts.get(key, -1) + 1
        return found

    def nodes(self, kernel: KernelRecord) -> frozenset[Hashable]:
        """The nodes that a kernel works for."""
        return node_set(kernel, self._names, self._side)

    def parts(self, kernel: KernelRecord) -> frozenset[Hashable]:
        """The post-grad work that a kernel does for its nodes, by node, target and number."""
        return frozenset(
            (role.role, self._names.get(role.node) or (self._side, role.node), self._target[name], number)
            for role in kernel.roles
            if role.role in WORKING
            for name in role.post_grad
            if name in self._target
            for number in (self._number[role.node, name],)
        )

    def targets(self, kernel: KernelRecord) -> tuple[str, ...]:
        """The targets of what a kernel executes, by which kernels of one set of nodes are told apart."""
        return tuple(sorted(self._target[name] for name in kernel.executes if name in self._target))

    def identity(self, kernel: KernelRecord) -> Hashable:
        """Its set of nodes; where no node is known for it, its kind and what it executes."""
        return self.nodes(kernel) or (kernel.kind, self.targets(kernel))

    def take(self, kernels: Iterable[KernelRecord]) -> None:
        """These have a partner now."""
        keys = {kernel.key for kernel in kernels}
        self.free = [kernel for kernel in self.free if kernel.key not in keys]


def _same_sets(left: _Side, right: _Side) -> list[KernelPair]:
    """One for one, where as many kernels of both sides have the same set of nodes; of no node, the same targets."""
    lefts, rights = _by(left.free, left.identity), _by(right.free, right.identity)
    pairs: list[KernelPair] = []
    for key, old in lefts.items():
        new = rights.get(key, [])
        if len(old) != len(new):
            continue
        waiting, rest = _by(old, left.targets), []
        for kernel in new:
            equal = waiting.get(right.targets(kernel))
            if equal:
                pairs.append(((equal.pop(0),), (kernel,)))
            else:
                rest.append(kernel)
        remaining = [kernel for kernel in old if any(kernel in equal for equal in waiting.values())]
        pairs += [((a,), (b,)) for a, b in zip(remaining, rest, strict=True)]
    _take(left, right, pairs)
    return pairs


def _by(kernels: Iterable[KernelRecord], key: Callable[[KernelRecord], Hashable]) -> dict[Hashable, list[KernelRecord]]:
    found: dict[Hashable, list[KernelRecord]] = {}
    for kernel in kernels:
        found.setdefault(key(kernel), []).append(kernel)
    return found


def _connected(
    left: _Side, right: _Side, marks: Callable[[_Side, KernelRecord], frozenset[Hashable]]
) -> list[KernelPair]:
    """Free kernels of both sides that share a mark, directly or over others of either side."""
    sides = (left, right)
    entries = [(side, kernel) for side in (0, 1) for kernel in sides[side].free]
    group = list(range(len(entries)))

    def root(index: int) -> int:
        while group[index] != index:
            group[index] = group[group[index]]
            index = group[index]
        return index

    first: dict[Hashable, int] = {}
    for index, (side, kernel) in enumerate(entries):
        for mark in marks(sides[side], kernel):
            group[root(index)] = root(first.setdefault(mark, index))
    members: dict[int, tuple[list[KernelRecord], list[KernelRecord]]] = {}
    for index, (side, kernel) in enumerate(entries):
        members.setdefault(root(index), ([], []))[side].append(kernel)
    pairs: list[KernelPair] = [(tuple(old), tuple(new)) for old, new in members.values() if old and new]
    _take(left, right, pairs)
    return pairs


def _take(left: _Side, right: _Side, pairs: Sequence[KernelPair]) -> None:
    left.take(kernel for old, _ in pairs for kernel in old)
    right.take(kernel for _, new in pairs for kernel in new)

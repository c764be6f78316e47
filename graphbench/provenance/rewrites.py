"""Finds what a compiler's passes replaced, by comparing a graph before them with the graph after them. Pure; no torch.

A pass that rewrites a pattern leaves the pattern's users in place and gives them a new input. So where a node that was
there before reads something else than it did, what it reads now stands in for what it read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from graphbench.records import Phase

OUTPUT = "output"
Inputs = Mapping[str, Sequence[str]]
"""Node -> the nodes that it reads, in the order of its arguments, repeated where it reads one twice."""
Replaced = Mapping[str, str]
"""Node that is gone -> the node that was put in its place."""


def stand_ins(
    before: Inputs,
    after: Inputs,
    phase: Phase = "forward",
    *,
    n_results: int | None = None,
    within: Collection[str] | None = None,
) -> dict[str, tuple[str, ...]]:
    """For every node that is new, the nodes that it stands in for, in the order of the graph before.

    Args:
        before: the graph that was traced.
        after: the graph that was lowered, or a part of it; nodes that no pass touched have kept their names.
        phase: which part. A joint graph returns forward's results and then gradients, its forward part the former (and
            what backward needs), its backward part the latter.
        n_results: how many results forward has; all that the graph before returns, if it has no backward.
        within: what can be gone beside what was replaced itself, where `after` is a part that lacks other nodes too.

    Nodes that were there before stand in for nothing, also where they took over the users of a merged node.
    """
    order = {name: position for position, name in enumerate(before)}
    found: dict[str, set[str]] = {}
    for user, inputs in after.items():
        old = before.get(user)
        if old is None:
            continue
        if user == OUTPUT and phase == "forward":
            old = old[:n_results]
            old, inputs = old[: len(inputs)], inputs[: len(old)]  # behind forward's results stands what backward needs
        elif user == OUTPUT:
            old = old[len(old) - len(inputs) :]
        if len(old) != len(inputs):
            continue
        for replaced, replacement in zip(old, inputs, strict=True):
            if replacement != replaced and replacement not in before and replaced not in after:
                gone = _gone(replaced, before, after, within)
                for new in _new(replacement, before, after):
                    found.setdefault(new, set()).update(gone)
    return {name: tuple(sorted(replaced, key=order.__getitem__)) for name, replaced in found.items()}


def made_for(replaced: Replaced, before: Inputs, after: Inputs) -> dict[str, tuple[str, ...]]:
    """For every new node, the nodes that it was made for, where a pass told which node it put in the place of which.

    A node's place may be taken by several, of which the last is known; what two of them share was made for both.

    Args:
        replaced: what the pass told.
        before: the graph before it.
        after: the graph after it; nodes that it did not touch have kept their names.
    """
    ends = {new: old for old, new in replaced.items()}
    found: dict[str, list[str]] = {}
    for old in (name for name in before if name in replaced):
        stack, seen = [replaced[old]], set[str]()
        while stack:
            current = stack.pop()
            if current in seen or current in before or current not in after or ends.get(current, old) != old:
                continue
            seen.add(current)
            found.setdefault(current, []).append(old)
            stack.extend(after[current])
    return {name: tuple(gone) for name, gone in found.items()}


def _new(name: str, before: Inputs, after: Inputs) -> set[str]:
    """A node that is new, and all new ones that it was computed from: a pattern may become several."""
    found: set[str] = set()
    stack = [name]
    while stack:
        current = stack.pop()
        if current not in found and current not in before and current in after:
            found.add(current)
            stack.extend(after[current])
    return found


def _gone(name: str, before: Inputs, after: Inputs, within: Collection[str] | None) -> set[str]:
    """A node that is gone and all that went with it: what it was computed from, up to nodes that are still there."""
    found: set[str] = set()
    stack = [name]
    while stack:
        current = stack.pop()
        if current in found or current in after or current not in before:
            continue
        if within is None or current == name or current in within:
            found.add(current)
            stack.extend(before[current])
    return found

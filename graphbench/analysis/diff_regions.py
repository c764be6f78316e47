"""Which region of one profile is which of another: by what its graph does and where it stands, not by its key. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Sequence

from graphbench.analysis.views import spec_text
from graphbench.records import RegionRecord

_RESUMED = re.compile(r"_at_\d+(_\d+)?$")
"""Dynamo names what follows a graph break after the line of the break, which any edit above it moves."""

Pair = tuple[RegionRecord | None, RegionRecord | None]


def pair_regions(before: Sequence[RegionRecord], after: Sequence[RegionRecord]) -> list[Pair]:
    """Every region once, in the order of `after`; then those that are gone, with `None` for what is missing.

    First those of the same ops, inputs and place (file and function), then with one of these changed; then the most
    alike of one place; at last those of any place whose ops are half the same or more.

    Where a graph of either side was called with several groups of sizes, regions of that place are joined with those of
    equal sizes only.
    """
    left, right = list(before), list(after)
    grouped = {_place(region) for region in (*before, *after) if region.shapes_of}
    pairs: list[tuple[RegionRecord, RegionRecord]] = []

    def sizes(region: RegionRecord) -> Hashable:
        return _called_with(region) if _place(region) in grouped else ()

    for key in (
        lambda region: (_ops(region), _inputs(region), _place(region)),
        lambda region: (_ops(region), _place(region), sizes(region)),
        lambda region: (_ops(region), _inputs(region)),
        lambda region: (_ops(region), sizes(region)),
    ):
        pairs += _take_equal(left, right, key)
    pairs += _take_alike(left, right, sizes, same_place=True)
    pairs += _take_alike(left, right, sizes, same_place=False)
    partner = {new.key: old for old, new in pairs}
    found: list[Pair] = [(partner.get(region.key), region) for region in after]
    return found + [(region, None) for region in left]


def other_calls(pairs: Sequence[Pair]) -> str:
    """What of the calls of joined regions is not the same work: other inputs, or gradients on one side; "" for nothing.

    Parameters do not count, which belong to the model, nor inputs where a graph was added or is gone: a new break cuts
    the same work otherwise.
    """
    joined = [(old, new) for old, new in pairs if old is not None and new is not None]
    if len(joined) < len(pairs):
        return ""
    for old, new in joined:
        if old.ambient and new.ambient and old.ambient.grad_enabled != new.ambient.grad_enabled:
            which = "before" if old.ambient.grad_enabled else "after"
            return f"gradients are enabled only {which}"
        specs = {entry.name: entry.spec for entry in old.inputs if entry.kind == "tensor"}
        for entry in new.inputs:
            given = specs.get(entry.name)
            if given and entry.spec and (given.shape, given.dtype) != (entry.spec.shape, entry.spec.dtype):
                return f"input {entry.name} is {spec_text(given)} before, {spec_text(entry.spec)} after"
    return ""


def _ops(region: RegionRecord) -> Hashable:
    return tuple(node.op_type for node in region.nodes)


def _inputs(region: RegionRecord) -> Hashable:
    specs = (entry.spec for entry in region.inputs)
    return tuple((spec.shape, spec.dtype) for spec in specs if spec is not None)


def _called_with(region: RegionRecord) -> Hashable:
    """The shapes of a call's tensors, whatever the compiler calls them; parameters are none of a call's."""
    return tuple(entry.spec.shape for entry in region.inputs if entry.kind == "tensor" and entry.spec is not None)


def _place(region: RegionRecord) -> Hashable:
    where = region.location
    if where is None:
        return ()
    return where.file.replace("\\", "/").rsplit("/", 1)[-1], _RESUMED.sub("", where.function)


def _take_equal(
    left: list[RegionRecord], right: list[RegionRecord], key: Callable[[RegionRecord], Hashable]
) -> list[tuple[RegionRecord, RegionRecord]]:
    """Pairs of one key, in order, taken out of both lists; equal regions keep their order."""
    waiting: dict[Hashable, list[RegionRecord]] = {}
    for region in reversed(left):
        waiting.setdefault(key(region), []).append(region)
    pairs = [(waiting[key(region)].pop(), region) for region in right if waiting.get(key(region))]
    _remove(left, right, pairs)
    return pairs


def _take_alike(
    left: list[RegionRecord],
    right: list[RegionRecord],
    sizes: Callable[[RegionRecord], Hashable],
    *,
    same_place: bool,
) -> list[tuple[RegionRecord, RegionRecord]]:
    """Pairs of the most alike first, taken out of both lists. A place that has one region on each side has a pair."""
    ops = {id(region): Counter(node.op_type for node in region.nodes) for region in (*left, *right)}
    lone = _alone(left) & _alone(right) if same_place else set()
    found: list[tuple[float, int, int]] = []
    for i, old in enumerate(left):
        for j, new in enumerate(right):
            if (same_place and _place(old) != _place(new)) or sizes(old) != sizes(new):
                continue
            alike = _alikeness(ops[id(old)], ops[id(new)])
            if alike >= 0.5 or (same_place and (alike > 0 or _place(new) in lone)):
                found.append((-alike, i, j))
    taken_left: set[int] = set()
    taken_right: set[int] = set()
    pairs = []
    for _, i, j in sorted(found):
        if i not in taken_left and j not in taken_right:
            taken_left.add(i)
            taken_right.add(j)
            pairs.append((left[i], right[j]))
    _remove(left, right, pairs)
    return pairs


def _alone(regions: Sequence[RegionRecord]) -> set[Hashable]:
    counts = Counter(_place(region) for region in regions)
    return {place for place, count in counts.items() if count == 1}


def _alikeness(one: Counter[str], other: Counter[str]) -> float:
    """Ops that both have, as a part of all ops of both: 1 for the same ops."""
    total = sum(one.values()) + sum(other.values())
    return 2 * sum((one & other).values()) / total if total else 1.0


def _remove(
    left: list[RegionRecord], right: list[RegionRecord], pairs: Sequence[tuple[RegionRecord, RegionRecord]]
) -> None:
    taken = {id(region) for pair in pairs for region in pair}
    left[:] = [region for region in left if id(region) not in taken]
    right[:] = [region for region in right if id(region) not in taken]

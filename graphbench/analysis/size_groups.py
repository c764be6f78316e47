"""Which regions of a profile are one graph, called with several sizes, and what these sizes are. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from graphbench.analysis.digest import Digest
from graphbench.analysis.sizes import name_of
from graphbench.records import ProfileRecord, RegionRecord

T = TypeVar("T")


def groups_of(record: ProfileRecord) -> list[tuple[RegionRecord, ...]]:
    """The regions of every graph, in the order of the record: one, or one for every group of sizes."""
    found: dict[str, list[RegionRecord]] = {}
    for region in record.regions:
        found.setdefault(base_of(region), []).append(region)
    return [tuple(regions) for regions in found.values()]


def base_of(region: RegionRecord) -> str:
    """The key of the region whose graph this one shares: its own, unless it is of further sizes."""
    return region.shapes_of or region.key


def size_names(region: RegionRecord) -> dict[str, str]:
    """What a region's symbols are for who calls it: `s77` is `x[0]`, a dimension of the first input that has it.

    A number that is an input is called as that; what no input has keeps the compiler's name.
    """
    names: dict[str, str] = {}
    for entry in (entry for entry in region.inputs if entry.spec is not None):
        for dimension, size in enumerate(entry.symbolic):
            names.setdefault(size, f"{name_of(entry)}[{dimension}]")
    for entry in (entry for entry in region.inputs if entry.spec is None and entry.symbolic):
        names.setdefault(entry.symbolic[0], name_of(entry))
    return {symbol: names.get(symbol, symbol) for symbol, _ in region.sizes}


def sizes_text(region: RegionRecord) -> str:
    """A group's sizes in the words of who calls it, such as `x[0]=2 x[1]=64`; "" where all are fixed."""
    names = size_names(region)
    return " ".join(f"{names[symbol]}={value}" for symbol, value in region.sizes)


def has_groups(record: ProfileRecord) -> bool:
    """Whether any graph was called with several groups of sizes."""
    return any(region.shapes_of for region in record.regions)


def worst(
    record: ProfileRecord, rows: Iterable[T], region: Callable[[T], str], cost: Callable[[T], float]
) -> Iterable[T]:
    """Rows of regions, in their order: of those of one graph only the one that costs most, which tells all groups'."""
    bases = {entry.key: base_of(entry) for entry in record.regions}
    found: dict[str, T] = {}
    for row in rows:
        base = bases.get(region(row), region(row))
        if base not in found or cost(row) > cost(found[base]):
            found[base] = row
    return found.values()


def heaviest(record: ProfileRecord, digest: Digest | None = None) -> frozenset[str]:
    """The keys of one region of every graph: of several groups of sizes the one whose nodes take most, alone."""
    digest = digest or Digest()
    cost = {region.key: sum(digest.median(node.isolated) or 0.0 for node in region.nodes) for region in record.regions}
    chosen = worst(record, record.regions, lambda region: region.key, lambda region: cost[region.key])
    return frozenset(region.key for region in chosen)

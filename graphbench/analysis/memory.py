"""Peak memory of regions: where eager holds most, and what the device's allocator had given out on each side. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from graphbench.records import ProfileRecord, Side


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPeak:
    """One region. `node`, of `module`: where results of `holders` nodes are most, `held_bytes`, in its eager forward.

    `eager_bytes` and `compiled_bytes` are what the allocator counted, over forward and backward; `None` where unknown.
    """

    region: str
    node: str
    module: str
    holders: int
    held_bytes: int
    eager_bytes: int | None
    compiled_bytes: int | None


def memory_peaks(record: ProfileRecord) -> Iterator[MemoryPeak]:
    """The regions of which the eager peak is known."""
    for region in record.regions:
        if region.peak_node is None or region.peak_bytes is None:
            continue
        yield MemoryPeak(
            region=region.key,
            node=region.peak_node,
            module=next((node.module for node in region.nodes if node.name == region.peak_node), ""),
            holders=sum(bool(node.peak_bytes) for node in region.nodes),
            held_bytes=region.peak_bytes,
            eager_bytes=_peak(region.eager, region.eager_backward),
            compiled_bytes=_peak(region.forward, region.backward),
        )


def _peak(forward: Side, backward: Side) -> int | None:
    """The larger one of a forward and its backward; unknown where a side that ran does not tell."""
    sides = [side for side in (forward, backward) if side.run is not None or side.peak_bytes is not None]
    known = [side.peak_bytes for side in sides if side.peak_bytes is not None]
    return max(known) if known and len(known) == len(sides) else None

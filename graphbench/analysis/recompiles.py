"""Recompiles: what took over from which region as which guard failed, and whether it takes any sizes. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from graphbench.analysis.shown import ShownRow
from graphbench.analysis.size_groups import size_names
from graphbench.measurements import SourceLine
from graphbench.records import ProfileRecord, RegionRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class RecompileRow(ShownRow):
    """Code that Dynamo compiled again. `region` is what was made, `replaced` whose `guard` failed; "" where not known.

    `takes` are the sizes that the new region leaves open and the one that it replaced did not, such as `x[0]`.
    """

    compile_id: str
    region: str
    replaced: str
    takes: str
    guard: str
    source: SourceLine | None


def recompile_rows(record: ProfileRecord) -> Iterator[RecompileRow]:
    """Every recompile, in Dynamo's order."""
    made = {region.compile_id: region for region in reversed(record.regions) if not region.shapes_of}
    by_key = {region.key: region for region in record.regions}
    for entry in record.recompiles:
        region = by_key.get(entry.region or "")
        replaced = made.get(entry.guarded) if entry.guarded else None
        yield RecompileRow(
            compile_id=entry.compile_id,
            region=entry.region or "",
            replaced=replaced.key if replaced else "",
            takes=", ".join(_opened(region, replaced)) if region else "",
            guard=entry.guard,
            source=entry.source,
        )


def _opened(region: RegionRecord, replaced: RegionRecord | None) -> list[str]:
    before = set(size_names(replaced).values()) if replaced else set()
    return [name for name in size_names(region).values() if name not in before]

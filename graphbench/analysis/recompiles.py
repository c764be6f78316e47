"""Recompiles: beside which regions of the same code what was made, and whether it takes any sizes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from graphbench.analysis.shown import ShownRow
from graphbench.analysis.size_groups import size_names
from graphbench.measurements import SourceLine
from graphbench.records import ProfileRecord, RegionRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class RecompileRow(ShownRow):
    """Code that Dynamo compiled again. `region` is what was made, "" where nothing was or that is not known.

    `earlier` are the regions that the same code had before, all of whose guards failed; `guard` is one of those.
    `takes` are the sizes that the new region leaves open and no earlier one did, such
    as `x[0]`.
    """

    compile_id: str
    region: str
    earlier: tuple[str, ...]
    takes: str
    guard: str
    source: SourceLine | None

    @property
    def guarded(self) -> str:
        """The region whose guard failed: known where the code had been compiled once."""
        return self.earlier[0] if self.earlier and self.compile_id.endswith("/1") else ""


def recompile_rows(record: ProfileRecord) -> Iterator[RecompileRow]:
    """Every recompile, in Dynamo's order."""
    graphs = [region for region in record.regions if not region.shapes_of]
    by_key = {region.key: region for region in graphs}
    for entry in record.recompiles:
        region = by_key.get(entry.region or "")
        earlier = [other for other in graphs if _is_earlier(other.compile_id, entry.compile_id)]
        yield RecompileRow(
            compile_id=entry.compile_id,
            region=entry.region or "",
            earlier=tuple(other.key for other in earlier),
            takes=", ".join(_opened(region, earlier)) if region else "",
            guard=entry.guard,
            source=entry.source,
        )


def _is_earlier(one: str, other: str) -> bool:
    """Whether one compile id is of the same code as another, and before it: `0/0` is before `0/1`."""
    (frame, _, number), (other_frame, _, other_number) = one.rpartition("/"), other.rpartition("/")
    numbered = number.isdecimal() and other_number.isdecimal()
    return frame == other_frame and numbered and int(number) < int(other_number)


def _opened(region: RegionRecord, earlier: Sequence[RegionRecord]) -> list[str]:
    before = {name for other in earlier for name in size_names(other).values()}
    return [name for name in size_names(region).values() if name not in before]

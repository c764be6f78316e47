"""Regions that were called with several sizes: their groups side by side, and how their nodes grow with each. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from graphbench.analysis.growth import Growth
from graphbench.analysis.scaling import Scaling, scaled
from graphbench.analysis.scaling_rows import NodeScaling
from graphbench.analysis.shown import ShownRow
from graphbench.analysis.size_groups import base_of, groups_of, size_names
from graphbench.analysis.sizes import Axis
from graphbench.records import TOLD_FIRST, ProfileRecord, RegionRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeRow(ShownRow):
    """How one node, or its eager backward, grows with one size of its region, the others held.

    `values` are those of the size in all groups. `growth` is `None` where the node says why.
    """

    node: NodeScaling
    size: str
    values: tuple[int, ...]
    growth: Growth | None


def size_rows(record: ProfileRecord) -> list[SizeRow]:
    """Every node of every region that was measured with several groups of sizes, once for each size that changes."""
    return [
        SizeRow(node=row, size=axis.name, values=axis.values, growth=growth)
        for found in by_size(record)
        for row in found.rows
        for axis, growth in zip_longest(found.axes, row.growths)
    ]


def by_size(record: ProfileRecord) -> list[Scaling]:
    """For every region of which two groups of sizes or more were measured, its nodes over those sizes.

    All groups are fitted together: with several sizes that change, each has the exponent with the others held. What
    the groups share of the profile, such as its step and its notes, is none of theirs.
    """
    several = [[region for region in groups if region.status == "ok"] for groups in groups_of(record)]
    return [_by_size(record, groups) for groups in several if len(groups) > 1]


def _by_size(record: ProfileRecord, groups: Sequence[RegionRecord]) -> Scaling:
    names, base = size_names(groups[0]), base_of(groups[0])
    found = scaled([_alone(record, region) for region in groups], _axes(groups, names), [g.key for g in groups])
    told = tuple(note for note in record.notes if note.startswith(TOLD_FIRST))
    left_out = tuple(
        f"{region.key}: left out, since it was not measured: {region.reason}"
        for region in record.regions
        if base_of(region) == base and region.status != "ok"
    )
    return replace(found, region=base, symbols=tuple(names.items()), warnings=(*told, *left_out, *found.warnings))


def _alone(record: ProfileRecord, region: RegionRecord) -> ProfileRecord:
    """A profile of one group, called with what the group was called with."""
    given = tuple(entry for entry in region.inputs if entry.kind == "tensor")
    alone = replace(region, shapes_of="")
    return replace(record, regions=(alone,), inputs=given, breaks=(), recompiles=(), step=None, notes=())


def _axes(groups: Sequence[RegionRecord], names: dict[str, str]) -> list[Axis]:
    """The sizes that change between groups; those that always change together are one."""
    columns: dict[tuple[int, ...], list[str]] = {}
    for position, (symbol, _) in enumerate(groups[0].sizes):
        values = tuple(group.sizes[position][1] for group in groups)
        if len(set(values)) > 1:
            columns.setdefault(values, []).append(names[symbol])
    found = []
    for values, (name, *together) in columns.items():
        rest = list(zip(*(others for others in columns if others != values), strict=True))
        alike = tuple(map(rest.index, rest)) or (0,) * len(values)
        found.append(Axis(name=name, values=values, groups=alike, together=tuple(together)))
    return found

"""What could make a step faster, the most promising first: each with the most that it can give, alone. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from graphbench.analysis.digest import Digest
from graphbench.analysis.fusion import FusionRow, all_fusion_rows
from graphbench.analysis.group_homes import fold_layers
from graphbench.analysis.kernel_opportunities import kernel_opportunities
from graphbench.analysis.missed import GENERATED
from graphbench.analysis.opportunity import Found, Opportunity, Scene
from graphbench.analysis.size_groups import base_of, sizes_text, worst
from graphbench.analysis.step_opportunities import break_opportunities, gap_opportunities, idle_step, launch_bound
from graphbench.analysis.step_time import SideKey, StepTime, step_time
from graphbench.analysis.unfused import PHASES
from graphbench.records import NodeRecord, ProfileRecord

_NUMBER = re.compile(r"_\d+$")


def opportunities(
    record: ProfileRecord, digest: Digest | None = None, *, rows: Sequence[FusionRow] | None = None
) -> list[Opportunity]:
    """Everything that could make a step faster, ranked by what the wall time can gain, then by the device's gain.

    Gains overlap: a kernel can be far from its limit and part of a missed fusion. Each is the most that one gives
    alone; they are never added up. Equal ones of repeated layers are one, with their count.

    Args:
        record: a profile.
        digest: statistics already computed for this record.
        rows: its fusions, already computed.
    """
    digest = digest or Digest()
    step = step_time(record, digest)
    fusions = _by_region(record, digest, rows)
    several = {region.shapes_of for region in record.regions} - {""}
    found: list[Opportunity] = []
    places: list[_Place] = []
    late: list[Opportunity] = []
    for region in record.regions:
        if region.status != "ok" or (step.recorded and not any(key == region.key for key, _ in step.runs)):
            continue
        scene = Scene(record, region, step, digest)
        of_kernels = kernel_opportunities(scene, fusions.get(region.key, ()))
        places += [_Place(entry, scene, scene.works_for(entry.kernels), several) for entry in of_kernels]
        late += launch_bound(scene)
    for phase in PHASES:  # of the groups of sizes of a graph the one that waits most
        waiting = [entry for entry in late if entry.phase == phase]
        found += worst(record, waiting, lambda entry: entry.region, lambda entry: entry.gain_ns)
    found += _joined(places, step, record)
    found += idle_step(step)
    if record.step is not None:
        found += gap_opportunities(record.step, step, digest)
        found += break_opportunities(record, step, digest)
    return sorted((entry for entry in found if entry.gain_ns > 0), key=lambda entry: (-entry.rank_ns, -entry.gain_ns))


def _by_region(
    record: ProfileRecord, digest: Digest, rows: Sequence[FusionRow] | None
) -> Mapping[str, Sequence[FusionRow]]:
    rows = all_fusion_rows(record, digest) if rows is None else rows
    found: dict[str, list[FusionRow]] = {}
    for row in rows:
        found.setdefault(row.region, []).append(row)
    return found


@dataclass(frozen=True, slots=True)
class _Place:
    """An opportunity where it was found, with the nodes that it is about."""

    found: Found
    scene: Scene
    nodes: Sequence[NodeRecord]
    several: Collection[str] = ()

    @property
    def side(self) -> SideKey:
        return self.scene.region.key, self.found.kernels[0].phase

    @property
    def own_place(self) -> Hashable:
        """Where it is in its graph, whatever the sizes."""
        return base_of(self.scene.region), tuple(kernel.key for kernel in self.found.kernels)

    def by_code(self) -> Hashable:
        """The same for places whose kernels are one piece of generated code; of library calls, for none but itself.

        A graph that was called with several groups of sizes is one: its kernels have the same place in each.
        """
        kernels = self.found.kernels
        base, phase = base_of(self.scene.region), self.side[1]
        if base in self.several:
            return (self.found.kind, base, phase, tuple((kernel.name, kernel.handle) for kernel in kernels))
        if any(kernel.kind not in GENERATED for kernel in kernels):
            return id(self)
        return (self.found.kind, self.side, tuple(kernel.name for kernel in kernels))

    def by_layer(self, folded: Mapping[str, str]) -> Hashable:
        """The same for places that differ by the number of a layer only."""
        names = tuple(_NUMBER.sub("", kernel.name) for kernel in self.found.kernels)
        nodes = tuple(sorted({(folded[node.module], node.op_type) for node in self.nodes}))
        lines = tuple(sorted({(n.source.file, n.source.line) for n in self.nodes if n.source}))
        own = id(self) if not nodes else 0
        return (self.found.kind, self.side[1], names, nodes, lines, own)


def _joined(places: Iterable[_Place], step: StepTime, record: ProfileRecord) -> list[Opportunity]:
    """One opportunity for all places with the same code, or in the same layer."""
    folded = fold_layers({node.module for region in record.regions for node in region.nodes})
    by_code: dict[Hashable, list[_Place]] = {}
    for place in places:
        by_code.setdefault(place.by_code(), []).append(place)
    groups: dict[Hashable, list[_Place]] = {}
    for members in by_code.values():
        groups.setdefault(members[0].by_layer(folded), []).extend(members)
    return [_opportunity(members, step, folded) for members in groups.values()]


def _opportunity(places: Sequence[_Place], step: StepTime, folded: Mapping[str, str]) -> Opportunity:
    first = max(places, key=lambda place: place.found.gain_ns)
    what, note = first.found.tell()
    groups = {place.scene.region.key for place in places if base_of(place.scene.region) in place.several}
    if groups:
        at = f"at {sizes_text(first.scene.region)}"
        at += f", where it gives most of {len(groups)} groups of sizes" if len(groups) > 1 else ""
        note = f"{at}; {note}" if note else at
    saved: dict[SideKey | None, float] = {}
    for place in places:
        saved[place.side] = saved.get(place.side, 0.0) + place.found.gain_ns
    gain_ns = sum(saved.values())
    wall_after_ns = step.wall_after(saved)
    main = next((node for node in first.nodes if node.source or node.module), None)
    module = main.module if main else ""
    known = step.wall_ns is not None and wall_after_ns is not None
    return Opportunity(
        kind=first.found.kind,
        what=what,
        gain_ns=gain_ns,
        part=gain_ns / step.device_ns if step.device_ns else None,
        wall_gain_ns=(step.wall_ns or 0.0) - (wall_after_ns or 0.0) if known else None,
        region=first.scene.region.key,
        phase=first.side[1],
        kernels=tuple(kernel.key for kernel in first.found.kernels),
        nodes=tuple(node.name for node in first.nodes),
        source=main.source if main else None,
        module=folded[module] if len({place.own_place for place in places}) > 1 and main else module,
        count=len({place.own_place for place in places}),
        note=note,
    )

"""One thing that could make a step faster, and what of a region is looked at to find such things. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from graphbench.analysis.compiled_costs import kernel_parts
from graphbench.analysis.costs import of_phase
from graphbench.analysis.digest import Digest
from graphbench.analysis.roofline import Ceilings
from graphbench.analysis.shown import ShownRow
from graphbench.analysis.step_time import StepTime
from graphbench.analysis.unfused import PHASES
from graphbench.measurements import SourceLine
from graphbench.records import KernelRecord, NodeRecord, Phase, PostGradNode, ProfileRecord, RegionRecord

OpportunityKind = Literal[
    "slower",
    "far from limit",
    "attention",
    "missed fusion",
    "launch-bound",
    "copy",
    "cast",
    "recomputed",
    "gap ops",
    "graph break",
]
KINDS: Final[tuple[OpportunityKind, ...]] = (
    *("slower", "far from limit", "attention", "missed fusion", "launch-bound", "copy", "cast"),
    *("recomputed", "gap ops", "graph break"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opportunity(ShownRow):
    """What could be gained at one place, or at `count` equal ones of repeated layers together.

    `gain_ns` is the most that it can give, alone: opportunities overlap, so that gains are never added up. `part` is
    that of the step: of its in-graph time, or where `of` is `wall` of its wall time. `wall_gain_ns` is what the wall
    time can shrink by meanwhile: 0 where the device waits for the host anyway, `None` where that is not known. Kernels
    are keys of `region`, the first of the equal ones' places; `module` has `*` for the number of a repeated layer.
    """

    kind: OpportunityKind
    what: str
    gain_ns: float
    part: float | None
    wall_gain_ns: float | None
    of: Literal["in-graph", "wall"] = "in-graph"
    region: str = ""
    phase: Phase | None = None
    kernels: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    source: SourceLine | None = None
    module: str = ""
    count: int = 1
    note: str = ""

    @property
    def rank_ns(self) -> float:
        """What opportunities are ranked by: the wall time's gain, or where it is not known what the device gains."""
        return self.gain_ns if self.wall_gain_ns is None else self.wall_gain_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """An opportunity as it is found in one region: `tell` says what, and what else is known; of equal ones once."""

    kind: OpportunityKind
    gain_ns: float
    kernels: Sequence[KernelRecord]
    tell: Callable[[], tuple[str, str]]


class Scene:
    """One region that ran in the step, and what is looked up in it again and again."""

    def __init__(self, record: ProfileRecord, region: RegionRecord, step: StepTime, digest: Digest) -> None:
        self.region, self.step, self.digest = region, step, digest
        self.ceilings = Ceilings.of(record.ceilings, region.device)
        self.post_grad: Mapping[Phase, Mapping[str, PostGradNode]] = {
            phase: of_phase(region, phase) for phase in PHASES
        }
        self.nodes: Mapping[str, NodeRecord] = {node.name: node for node in region.nodes}
        self.kernels: Mapping[str, KernelRecord] = {kernel.key: kernel for kernel in region.kernels}
        self._parts: dict[str, Mapping[str, float]] = {}

    def time_ns(self, *kernels: KernelRecord) -> float | None:
        """In-graph time of kernels in the step; `None` where one of them has none."""
        times = [self.step.kernels.get((self.region.key, kernel.key)) for kernel in kernels]
        known = [time_ns for time_ns in times if time_ns is not None]
        return sum(known) if len(known) == len(times) else None

    def runs(self, phase: Phase) -> float:
        """How often a graph of the region runs in the step."""
        return self.step.runs.get((self.region.key, phase), 0.0)

    def works_for(self, kernels: Sequence[KernelRecord]) -> list[NodeRecord]:
        """The nodes that kernels work for, those first that most of a kernel is."""
        parts: dict[str, float] = {}
        for kernel in kernels:
            for name, part in self._parts_of(kernel).items():
                parts[name] = max(parts.get(name, 0.0), part)
        ordered = sorted(parts, key=lambda name: -parts[name])
        return [self.nodes[name] for name in ordered if name in self.nodes]

    def _parts_of(self, kernel: KernelRecord) -> Mapping[str, float]:
        known = self._parts.get(kernel.key)
        if known is None:
            known = self._parts[kernel.key] = kernel_parts(kernel)
        return known

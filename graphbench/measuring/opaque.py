"""The compiled side of a region that another backend than Inductor compiled: one row a phase, and no more is told."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graphbench.inductor.compile import CompiledGraph
from graphbench.measuring.runs import MeasuredSide, unmeasured
from graphbench.records import Fate, FusionRefusal, KernelRecord, NodeRecord, NodeRole, Phase, Role
from graphbench.regions import Region

if TYPE_CHECKING:
    from graphbench.measurements import Measurement

INSIDE = "inside what {backend} made of the whole graph, which does not tell more"
COMPILED_BY = "compiled by {backend}, not by Inductor: each phase is one row, since it does not tell of its kernels"
NOT_ALONE = "it is the whole graph: its time is that of the run"


@dataclass(slots=True)
class OpaqueSide:
    """One phase of a region as another backend compiled it: what a `CompiledSide` has, where that is anything."""

    phase: Phase
    backend: str
    nodes: Sequence[NodeRecord]
    graph: CompiledGraph = field(init=False)
    unfused: dict[str, Measurement] = field(default_factory=dict)
    unfused_ran: bool = False
    unfused_stopped: str = ""
    stopped: str = ""

    def __post_init__(self) -> None:
        """There is no graph of Inductor's."""
        self.graph = CompiledGraph(self.phase, None)

    @property
    def row(self) -> str:
        """The key of its only kernel."""
        return f"{self.phase}/{self.backend}:1"

    def recall(self, units: Mapping[Any, Any]) -> None:
        """Nothing of it is a unit."""

    def rows(self) -> list[str]:
        """The keys of its kernels: one."""
        return [self.row]

    def records(self, measured: MeasuredSide) -> tuple[KernelRecord, ...]:
        """The whole graph as one kernel."""
        role: Role = "executes" if self.phase == "forward" else "differentiates"
        return (
            KernelRecord(
                key=self.row,
                phase=self.phase,
                name=self.backend,
                handle=None,
                kind="opaque",
                calls=measured.calls.get(self.row, 0),
                roles=tuple(NodeRole(node=name, role=role) for name in self._concerned()),
                isolated=unmeasured(NOT_ALONE),
                in_graph=measured.rows.get(self.row, unmeasured(measured.side.reason or self.stopped)),
                untold=INSIDE.format(backend=self.backend),
            ),
        )

    def _concerned(self) -> Collection[str]:
        compute = [node for node in self.nodes if node.kind == "compute"]
        if self.phase == "forward":
            return [node.name for node in compute]
        return [node.name for node in compute if any(output.requires_grad for output in node.outputs)]

    def graph_notes(self) -> tuple[str, ...]:
        """Nothing of Inductor's CUDA graphs."""
        return ()

    def refusals(self) -> tuple[FusionRefusal, ...]:
        """No scheduler told."""
        return ()


def opaque_sides(region: Region, *, has_backward: bool) -> dict[str, OpaqueSide]:
    """The sides of a region that another backend compiled, by phase."""
    phases: tuple[Phase, ...] = ("forward", "backward") if has_backward else ("forward",)
    return {phase: OpaqueSide(phase, region.backend, region.nodes) for phase in phases}


def opaque_fates(nodes: Sequence[NodeRecord], backend: str) -> dict[str, Fate]:
    """What became of the nodes, as far as it is known."""
    inside = Fate(kind="opaque", kernels=(f"forward/{backend}:1",), note=INSIDE.format(backend=backend))
    return {node.name: inside for node in nodes if node.kind == "compute"}

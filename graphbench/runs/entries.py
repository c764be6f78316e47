"""What a run's journal holds: one entry per line. No torch import.

`region` is a region's key, or `step` for the gap ops of a recorded step. `row` is the name of a node, post-grad node
(`forward:relu`), kernel or gap op; of a side or a pass, its own name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from graphbench.condition_records import Environment, Policy
from graphbench.measurements import Measurement
from graphbench.records import RegionRecord, Side
from graphbench.step_records import GraphBreak, Recompile, StepRecord

UnitKind = Literal["isolated", "backward"]
WorkKind = Literal["isolated", "backward", "side", "pass"]
STEP: Final = "step"
"""Stands for a region where a unit is a gap op."""
SIDE_TIMEOUTS: Final = 10
"""How many times as long as a unit a side may take: it is sampled like one, but a sample is all units together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The first entry: the command line after `graphbench run`, the folder it was given in, and the files it reads.

    `files` are absolute paths with the SHA-256 of their contents. A `temporary` directory goes when the run is done.
    """

    schema_version: int
    graphbench: str
    command: tuple[str, ...]
    folder: str
    temporary: bool = False
    files: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What and how is measured, once that is known. A run that goes on writes another one; all must agree."""

    created: str
    subject: str
    environment: Environment
    policy: Policy
    breaks: tuple[GraphBreak, ...] = ()
    recompiles: tuple[Recompile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRegion:
    """A region before it is measured: its nodes and kernels without times."""

    region: RegionRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """Work that is about to be done. Without a result behind it, the process ended while it was."""

    region: str
    kind: WorkKind
    row: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitRow:
    """A unit that was measured, or the reason why not; `is_view` and `has_effect` are `None` when its trial failed."""

    region: str
    kind: UnitKind
    row: str
    measurement: Measurement
    is_view: bool | None = None
    has_effect: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SideRow:
    """One side of a region: its totals and the in-graph times of its rows, with how often each row ran per run."""

    region: str
    row: str
    side: Side
    rows: tuple[tuple[str, Measurement], ...] = ()
    calls: tuple[tuple[str, int], ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """Work during which the process died, or which was stopped: it is not tried again."""

    region: str
    kind: WorkKind
    row: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRegion:
    """A region that is done."""

    region: RegionRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedStep:
    """The step that was recorded; its gap ops are not isolated yet."""

    step: StepRecord


Entry = Started | Conditions | KnownRegion | Begun | UnitRow | SideRow | Failed | MeasuredRegion | RecordedStep
ENTRIES: Final[dict[str, Any]] = {entry.__name__: entry for entry in get_args(Entry)}

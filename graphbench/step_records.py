"""What a recorded step consists of, and what kept Dynamo from making one graph of it. No torch import."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from graphbench.measurements import NOT_MEASURED, Measurement, RunRecord, SourceLine, TensorSpec

StepPhase = Literal["forward", "backward", "optimizer"]
BreakKind = Literal["break", "disabled", "skipped", "limit"]
GapOpKind = Literal["op", "copy", "sync", "collective", "accumulation"]
TimelineKind = Literal["host", "kernel", "copy", "memset", "sync"]
TIMELINE_KINDS: Final[tuple[TimelineKind, ...]] = ("host", "kernel", "copy", "memset", "sync")
START = "start"
"""The place before the first region of a step."""
END = "end"
"""What follows the last place of a step."""
FOREIGN_GRAPHS = "compiled graphs that are no regions ran"
"""How the note begins that tells of graphs which another backend made: their ops are rows, and yet compiled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphBreak:
    """Why Dynamo ended a graph, or made none. `region` is the graph that ended there, when there is one.

    `kind`: a `break` within a frame that goes on in another graph; a call of a `disabled` function; a frame that was
    `skipped`, so that all of it, or what is left of it, runs eagerly; the `limit` on recompiles was hit, so that a
    frame runs eagerly from then on. `cause` is the op or call as the source line has it, of a `limit` the last guard;
    `hint` what Dynamo advises, `count` how often it happened. `frame` is the function that runs eagerly where that is
    another one than the line's: a break in a call that Dynamo was to inline gives up the caller.
    """

    reason: str
    source: SourceLine | None = None
    region: str | None = None
    kind: BreakKind = "break"
    cause: str = ""
    hint: str = ""
    count: int = 1
    frame: SourceLine | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recompile:
    """Code that Dynamo compiled again: `guard` is what no longer held, `region` what was made then, if anything was."""

    compile_id: str
    guard: str = ""
    source: SourceLine | None = None
    region: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where in a step something ran: inside a compiled graph, or in the gap behind one.

    `key` is `r0/forward` for a graph and `after r0/forward` for the gap behind it, `start` for what ran before any.
    `followed_by` are the graphs that ran next, `end` where the step ended. `host_ns` is the host's time in all `calls`
    of it together, Python between ops included.
    """

    key: str
    kind: Literal["graph", "gap"]
    followed_by: tuple[str, ...] = ()
    calls: int = 0
    host_ns: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class UserPhase:
    """What ran inside `with graphbench.phase(name):`; of nested ones `name` is `outer/inner`. `host_ns`: all calls."""

    name: str
    calls: int
    host_ns: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """One row of a live step: a kernel (`region` and `kernel` set) or a gap op (`kernel` is `None`).

    Gap ops of one place, phase, line, target and kind of arguments share a row, `calls` of them. `in_graph` is of all
    calls, `isolated` of one. `inputs` and `outputs` are the tensors of its first call. `copied_bytes` went between
    devices in all calls, in the direction `copied`, as `cuda to cpu`. In backward, `autograd_node` names the node at
    work and `source` is the line of the forward op that it belongs to. `user_phase` as in `UserPhase.name`.
    """

    name: str
    op_type: str
    in_graph: Measurement
    isolated: Measurement = NOT_MEASURED
    kind: GapOpKind = "op"
    region: str | None = None
    kernel: str | None = None
    calls: int = 0
    phase: StepPhase = "forward"
    place: str = START
    user_phase: str = ""
    source: SourceLine | None = None
    autograd_node: str = ""
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    copied_bytes: int = 0
    copied: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """What the host and the devices did during a step, one entry per event, sorted by start; all columns equally long.

    `kinds` are positions in `TIMELINE_KINDS`: the host issuing a row's call, a kernel, copy or fill on a device, the
    host waiting for a device. `rows` are positions in `StepRecord.rows`, -1 for none; `event_names` positions in
    `names`. Starts count from the step's. `lanes` are streams for device work, and for the host its threads, numbered
    in the order in which they appear; `devices` are -1 for the host.
    """

    names: tuple[str, ...] = ()
    kinds: tuple[int, ...] = ()
    rows: tuple[int, ...] = ()
    event_names: tuple[int, ...] = ()
    starts_ns: tuple[float, ...] = ()
    durations_ns: tuple[float, ...] = ()
    lanes: tuple[int, ...] = ()
    devices: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """A whole recorded step: totals, the rows that explain them, and wall times of the same step uninstrumented.

    `compiled` is false where no compiled graph ran in it: then every op is a gap op.
    """

    run: RunRecord
    rows: tuple[StepRow, ...]
    places: tuple[Place, ...] = ()
    user_phases: tuple[UserPhase, ...] = ()
    timeline: Timeline = field(default_factory=Timeline)
    plain_wall_ns: tuple[float, ...] = ()
    compiled: bool = True
    notes: tuple[str, ...] = ()

"""When a row starts where the rows of a region are laid end to end: eager nodes and compiled kernels. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from graphbench.analysis.digest import Digest
from graphbench.analysis.missing import expected_backwards
from graphbench.analysis.shares import TIMED_KINDS
from graphbench.measurements import Measurement
from graphbench.records import NodeRecord, Phase, RegionRecord
from graphbench.step_records import StepRecord

MOST_LEVELS: Final = 64
"""Modules that enclose each other deeper than this are no levels of their own: viewers stop somewhere too."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One row on a track. `key` names it there; `duration_ns` is its median, `None` with a `reason` where unknown.

    It starts on a whole nanosecond, and no other row before `end_ns`: viewers round what they read to nanoseconds, and
    rows would overlap then. So a row without a time, or of time 0, has a nanosecond of its own.
    """

    key: str
    start_ns: int
    duration_ns: float | None
    reason: str = ""

    @property
    def end_ns(self) -> int:
        """The first whole nanosecond that is the next row's."""
        return self.start_ns + max(1, math.ceil(self.duration_ns or 0.0))


@dataclass(frozen=True, slots=True)
class Track:
    """Rows one behind the other, from `start_ns` on."""

    slots: tuple[Slot, ...]
    start_ns: int = 0

    @property
    def end_ns(self) -> int:
        """Where the last row ends."""
        return self.slots[-1].end_ns if self.slots else self.start_ns

    @property
    def total_ns(self) -> float | None:
        """What its rows take together, exactly; `None` where none has a time."""
        known = [slot.duration_ns for slot in self.slots if slot.duration_ns is not None]
        return sum(known) if known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionTracks:
    """A region's rows in the order in which they ran; each track starts where the one before ends.

    `eager` are nodes in program order, `eager_backward` nodes in the order in which autograd ran them, `forward` and
    `backward` compiled kernels in the order of the wrapper; slots' keys are names of nodes and keys of kernels. Times
    are in-graph medians; where no node of the region has one, but isolated ones are known (ops of a list), `eager` is
    made of those and `alone` is true.

    What is compiled starts behind what is eager, so that an arrow from a node to its kernels leads forward in time:
    viewers drop the others.
    """

    eager: Track
    eager_backward: Track
    forward: Track
    backward: Track
    alone: bool = False


@dataclass(frozen=True, slots=True)
class ModuleSpan:
    """Neighbouring rows of one module: `path`, and the positions of the `first` and the `last` of them.

    `depth` counts the modules around it.
    """

    path: str
    depth: int
    first: int
    last: int


def region_tracks(region: RegionRecord, digest: Digest | None = None) -> RegionTracks:
    """Lay out a region's rows. `digest` holds statistics already computed for its record."""
    digest = digest or Digest()
    nodes = [node for node in region.nodes if node.kind in TIMED_KINDS]
    alone = _timed_alone_only(nodes)
    eager = _laid([(node.name, node.isolated if alone else node.in_graph) for node in nodes], digest, 0)
    expected = {node.name for node in expected_backwards(region)}
    backward_nodes = [node for node in reversed(nodes) if node.backward_in_graph.samples or node.name in expected]
    entries = [(node.name, node.backward_in_graph) for node in backward_nodes]
    eager_backward = _laid(entries, digest, eager.end_ns)

    def compiled(phase: Phase, start_ns: int) -> Track:
        return _laid([(k.key, k.in_graph) for k in region.kernels if k.phase == phase], digest, start_ns)

    forward = compiled("forward", eager_backward.end_ns)
    backward = compiled("backward", forward.end_ns)
    return RegionTracks(eager=eager, eager_backward=eager_backward, forward=forward, backward=backward, alone=alone)


def rows_track(step: StepRecord, rows: Iterable[int], digest: Digest | None = None, start_ns: int = 0) -> Track:
    """Lay rows of a step end to end, for a step without a timeline.

    Args:
        step: the step.
        rows: positions in its rows, which become the slots' keys.
        digest: statistics already computed for its record.
        start_ns: where the first starts.
    """
    return _laid([(str(row), step.rows[row].in_graph) for row in rows], digest or Digest(), start_ns)


def module_spans(paths: Sequence[str]) -> list[ModuleSpan]:
    """The modules around rows in order: outer ones before inner ones, in the order in which they are entered.

    A module that is left and entered again is two spans; what belongs to no module is in none.

    Args:
        paths: of each row the path of its module, such as `layers.0.mlp`; empty for none.
    """
    spans: list[ModuleSpan | None] = []
    open_at: list[tuple[str, int, int]] = []  # of every open module: path, first row, position in `spans`

    def leave(depth: int, last: int) -> None:
        while len(open_at) > depth:
            path, first, at = open_at.pop()
            spans[at] = ModuleSpan(path, len(open_at), first, last)

    for position, path in enumerate(paths):
        levels = _levels(path)
        same = 0
        while same < min(len(levels), len(open_at)) and open_at[same][0] == levels[same]:
            same += 1
        leave(same, position - 1)
        for level in levels[same:]:
            open_at.append((level, position, len(spans)))
            spans.append(None)
    leave(0, len(paths) - 1)
    return [span for span in spans if span is not None]


def _levels(path: str) -> list[str]:
    """`a.b.c` -> `a`, `a.b`, `a.b.c`."""
    parts = path.split(".") if path else []
    levels = [".".join(parts[: depth + 1]) for depth in range(min(len(parts), MOST_LEVELS))]
    return [*levels[:-1], path] if levels else []


def _timed_alone_only(nodes: Sequence[NodeRecord]) -> bool:
    return not any(node.in_graph.samples for node in nodes) and any(node.isolated.samples for node in nodes)


def _laid(entries: Iterable[tuple[str, Measurement]], digest: Digest, start_ns: int) -> Track:
    slots: list[Slot] = []
    at_ns = start_ns
    for key, measured in entries:
        slot = Slot(key, at_ns, digest.median(measured), "" if measured.samples else measured.reason)
        slots.append(slot)
        at_ns = slot.end_ns
    return Track(tuple(slots), start_ns)

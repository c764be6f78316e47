"""Splits a CUDA-graph replay over rows: all its work carries one label, only node ids tell the pieces apart.

Node ids count up in the order of capture (CUDA 13.0, H200). The order of rows and kernels is known from a labelled run
without graphs; a replay that runs anything else is refused, never guessed.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from graphbench.errors import AttributionError

if TYPE_CHECKING:
    from graphbench.provenance.correlation import Activity


class LaunchedWork(NamedTuple):
    """One piece of device work of a labelled run: the row that launched it, its name, whether a graph replays it."""

    row: str
    name: str
    in_graph: bool = True


@dataclass(frozen=True, slots=True)
class Replay:
    """What an external id stands for that a whole run of CUDA-graph replays carries. `order` is from `launch_order`."""

    sample: int
    order: tuple[LaunchedWork, ...]


class SplitReplay(NamedTuple):
    """A replay's work by row, and what ran beside the graphs: copies of inputs, seeds of the random generator."""

    rows: dict[str, list[Activity]]
    beside: list[Activity]


def launch_order(labelled: Sequence[tuple[str, Activity]]) -> tuple[LaunchedWork, ...]:
    """The work of one labelled run in the order of launches.

    Args:
        labelled: (row, activity) of one run, in any order. Correlation ids count launches up.
    """
    ordered = sorted(labelled, key=lambda entry: (entry[1].correlation_id, entry[1].start_ns))
    return tuple(LaunchedWork(row, activity.name) for row, activity in ordered)


def split_replay(activities: Sequence[Activity], order: Sequence[LaunchedWork]) -> SplitReplay:
    """Give every node of a replay to the row that launched it when it ran without a graph.

    Args:
        activities: all work of one replayed run.
        order: from `launch_order`, of the same code run without graphs.

    Raises:
        AttributionError: other nodes ran than were labelled, or in another order; or what should run between two graphs
            did not.
    """
    loose = [activity for activity in activities if not activity.graph_node_id]
    nodes = _in_capture_order([activity for activity in activities if activity.graph_node_id])
    steps = [step for step in order if step.in_graph]
    if len(nodes) != len(steps):
        raise AttributionError(
            f"the CUDA-graph replay ran {len(nodes)} nodes, the labelled run without graphs {len(steps)} kernels",
            hint="conditional nodes, or work that only one of them does: their times cannot be told apart",
        )
    rows: dict[str, list[Activity]] = defaultdict(list)
    waiting = deque(sorted(loose, key=_launched))
    beside: list[Activity] = []
    node_of = iter(nodes)
    launched = position = 0
    for step in order:
        if not step.in_graph:
            rows[step.row].append(_outside(step, waiting, beside, launched))
            continue
        node = next(node_of)
        if node.name != step.name:
            raise AttributionError(
                f"node {position} of the CUDA-graph replay is {node.name}, expected {step.name} of {step.row}",
                hint="the graph was captured in another order than the labelled run, or chose other kernels",
                subject=step.row,
            )
        launched, position = node.correlation_id, position + 1
        rows[step.row].append(node)
    return SplitReplay(dict(rows), [*beside, *waiting])


def _outside(step: LaunchedWork, waiting: deque[Activity], beside: list[Activity], launched: int) -> Activity:
    """The next work outside of the graphs that has a step's name; what was launched before it ran `beside` them.

    Args:
        step: what is looked for.
        waiting: work outside of the graphs that nothing has claimed, in the order of launches; what is passed is taken.
        beside: extended by what was passed.
        launched: correlation id of the graph that was launched last: the step comes after it.

    Raises:
        AttributionError: there is none.
    """
    while waiting:
        activity = waiting.popleft()
        if activity.name == step.name and activity.correlation_id > launched:
            return activity
        beside.append(activity)
    raise AttributionError(
        f"{step.name} of {step.row} did not run outside of the CUDA graphs, as it should",
        hint="a kernel between two graphs ran in another order than in the labelled run, or was not recorded",
        subject=step.row,
    )


def _in_capture_order(nodes: Sequence[Activity]) -> list[Activity]:
    """By node id within a launch of a graph, which has one correlation id; launches in their order."""
    return sorted(nodes, key=_launched)


def _launched(work: Activity) -> tuple[int, int, int]:
    return work.correlation_id, work.graph_node_id, work.start_ns

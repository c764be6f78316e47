"""Tries a candidate in a node's place: checks it, times it alone, then inside the region's graph."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from graphbench.analysis.replacements import Prediction, ReplacementRow, predict
from graphbench.capture import ambient
from graphbench.comparing.table import ImplementationTable
from graphbench.errors import GraphbenchError, UsageError
from graphbench.measurements import Comparison
from graphbench.measuring.apart import apart
from graphbench.measuring.region import RANDOM
from graphbench.options import MeasureOptions
from graphbench.records import SHARED_CPU_NOTE, ProfileRecord
from graphbench.replacing.alone import time_alone, time_backward_alone
from graphbench.replacing.checking import Checked, check_candidate
from graphbench.replacing.in_graph import compiled_copies, time_in_graph
from graphbench.replacing.live_call import LiveCall, live_call
from graphbench.replacing.replacement import Replacement
from graphbench.replacing.rewriting import trace
from graphbench.replacing.target import Target, equal_nodes, find_target
from graphbench.session import Session

ALONE = "alone"
ALONE_BACKWARD = "alone, backward"
FORWARD = "in graph"
STEP = "in graph, with backward"


@apart
def replace_node(
    session: Session,
    node: str,
    candidate: Callable[..., Any],
    options: MeasureOptions,
    *,
    tolerance: float = 1.0,
    all_equal: bool = False,
    profile: ProfileRecord | None = None,
) -> Replacement:
    """Try a candidate in a node's place; see `graphbench.replace`."""
    if not callable(candidate):
        raise UsageError(f"candidate is a {type(candidate).__name__}, expected a callable", subject="candidate")
    if not tolerance >= 0:
        raise UsageError(f"tolerance={tolerance}: expected a factor, at least 0, or inf", subject="tolerance")
    target = find_target(session, node)
    region, capture = target.region, target.region.capture
    assert capture is not None
    names = equal_nodes(target) if all_equal else (target.node.name,)
    with contextlib.ExitStack() as stack:
        stack.enter_context(session.in_use("replace"))
        stack.enter_context(session.unheard())
        stack.enter_context(region.inputs_present())
        region.check_inputs()
        stack.enter_context(ambient.rng_untouched())
        stack.enter_context(ambient.restored(capture.ambient))
        if capture.device.type == "cuda":
            stack.enter_context(torch.cuda.device(capture.device))
        return _Trying(target, names, candidate, options, tolerance).result(profile)


@dataclass(slots=True)
class _Trying:
    """One candidate in the place of one node, or of several equal ones."""

    target: Target
    names: tuple[str, ...]
    candidate: Callable[..., Any]
    options: MeasureOptions
    tolerance: float

    def result(self, profile: ProfileRecord | None) -> Replacement:
        call = live_call(self.target)
        with ambient.restored(call.state):
            checked = check_candidate(call, self.candidate, self.tolerance)
            alone = time_alone(call, self.candidate, checked, self.options)
            back = time_backward_alone(call, self.candidate, self.options) if checked.has_backward else None
        rows = [_row(ALONE, alone, checked.difference)]
        rows += [_row(ALONE_BACKWARD, back, None)] if back is not None else []
        key = self.target.region.key
        expected = predict(rows[0], rows[1] if back is not None else None, profile, key, self.names)
        rows += self._in_graph(call, checked, expected)
        return Replacement(
            nodes=tuple(f"{key}/{name}" for name in self.names),
            candidate=_name(self.candidate),
            rows=tuple(rows),
            how=expected.how,
            policy=alone.policy,
            environment=alone.environment,
            notes=_notes((alone,) if back is None else (alone, back)),
        )

    def _in_graph(self, call: LiveCall, checked: Checked, expected: Prediction) -> Iterator[ReplacementRow]:
        """The rows of the graph; where it cannot be made with the candidate, one that says why."""
        region, capture = self.target.region, self.target.region.capture
        assert capture is not None
        try:
            with ambient.restored(call.state):
                traced = trace(call, self.candidate)
            copies = compiled_copies(region, self.names, traced)
            draws = RANDOM if checked.draws else ""
            found = time_in_graph(capture, copies, self.options, draws, self.tolerance)
        except GraphbenchError as error:
            yield ReplacementRow(setting=FORWARD, reason=str(error))
            return
        yield _in_graph_row(FORWARD, found.forward, found.difference, found.kernels[0], expected.forward_ns)
        if found.step is not None:
            kernels = (sum(pair[0] for pair in found.kernels), sum(pair[1] for pair in found.kernels))
            yield _in_graph_row(STEP, found.step, found.step_difference, kernels, expected.step_ns)


def _row(setting: str, table: ImplementationTable, difference: Comparison | None) -> ReplacementRow:
    original, candidate = table.rows
    own = difference if difference is not None else candidate.difference
    return ReplacementRow(setting=setting, original=original, candidate=candidate, difference=own)


def _in_graph_row(
    setting: str,
    table: ImplementationTable,
    difference: Comparison | None,
    kernels: tuple[int, int],
    predicted_ns: float | None,
) -> ReplacementRow:
    return replace(_row(setting, table, difference), kernels=kernels, predicted_ns=predicted_ns)


def _notes(tables: Sequence[ImplementationTable]) -> tuple[str, ...]:
    """What is said of any table, once: how busy the CPU was is said in other figures each time."""
    said = dict.fromkeys(note for table in tables for note in table.notes)
    shared = [note for note in said if note.startswith(SHARED_CPU_NOTE)]
    return tuple(note for note in said if note not in shared[1:])


def _name(candidate: Callable[..., Any]) -> str:
    return str(getattr(candidate, "__name__", None) or type(candidate).__name__)

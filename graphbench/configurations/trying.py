"""The first calls of every configuration: which compile at all, how long that takes, whether results are eager's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

import torch

from graphbench.comparing.surroundings import Generators
from graphbench.configurations.sides import Side
from graphbench.configurations.steps import ModelState, Step, copies_of
from graphbench.configurations.subject import Subject
from graphbench.errors import first_line
from graphbench.isolate.compare import compare_trees
from graphbench.measurements import Comparison
from graphbench.measuring.region import RANDOM
from graphbench.timing.base import Timer

WHOLE_TOLERANCE = 10.0
"""Results of a whole step may differ by so many times what one op's may."""


@dataclass(slots=True)
class Tried:
    """A configuration after its first call. `step` is `None` where that raised, which `reason` tells."""

    side: Side
    step: Step | None = None
    first_call_ns: int | None = None
    difference: Comparison | None = None
    reason: str = ""


def try_sides(
    sides: Sequence[Side],
    subject: Subject,
    state: ModelState,
    timer: Timer,
) -> tuple[list[Tried], bool]:
    """Call every configuration once, from the same random state and the same buffers, and compare with eager.

    Args:
        sides: what to try.
        subject: what they compile, and how a step of it is made.
        state: of the model.
        timer: drains the device.

    Returns:
        The configurations, and whether a step changes the model's buffers. The model's state is put back.
    """
    generators = Generators()
    expected, why_none = _eager(subject.step_of(subject.model), timer)
    moved, draws = state.moved(), generators.moved()
    found = []
    for side in sides:
        generators.restore()
        state.put_back()
        tried = Tried(side)
        try:
            step = subject.step_of(side.compiled(subject.model, subject.dynamic, fullgraph=subject.fullgraph))
            timer.synchronize()
            start_ns = perf_counter_ns()
            result = step()
            timer.synchronize()
            tried.first_call_ns = perf_counter_ns() - start_ns if side.kind != "eager" else None
            tried.difference = _compared(side, result, expected, RANDOM if draws else why_none)
            del result  # CUDA graphs go on from the graph whose results are alive
            tried.step = step
        except torch.AcceleratorError:
            raise  # the device is lost, and with it all others
        except Exception as error:  # noqa: BLE001 - whatever one configuration raises is its row's reason
            tried.reason = _raised(error)
        found.append(tried)
    generators.restore()
    state.put_back()
    return found, moved


def _eager(step: Step, timer: Timer) -> tuple[list[torch.Tensor] | None, str]:
    """What the model returns uncompiled, or why that is not known."""
    try:
        result = step()
        timer.synchronize()
        return copies_of(result), ""
    except torch.AcceleratorError:
        raise
    except Exception as error:  # noqa: BLE001 - a model that only runs compiled still can be timed
        return None, f"eager: {_raised(error)}"


def _compared(side: Side, result: Any, expected: list[torch.Tensor] | None, why_none: str) -> Comparison | None:
    if side.kind == "eager":
        return None
    if expected is None or why_none:
        return Comparison(equal=None, max_abs=None, note=why_none)
    return compare_trees(result, expected, tolerance=WHOLE_TOLERANCE)


def _raised(error: Exception) -> str:
    """What it raised, in one line; torch wraps what a backend raises."""
    inner = getattr(error, "inner_exception", None)
    cause = inner if isinstance(inner, Exception) else error
    return f"it raised {type(cause).__name__}: {first_line(cause)}"

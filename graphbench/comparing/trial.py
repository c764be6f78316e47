"""One call of every implementation before any is timed: who raises, who changes inputs, whose results differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from graphbench.comparing.implementation import Implementation
from graphbench.comparing.snapshot import Snapshot
from graphbench.errors import UsageError, first_line
from graphbench.isolate.bench_unit import RngState
from graphbench.isolate.compare import compare_trees
from graphbench.records import Comparison
from graphbench.tensors import has_storage, shares_storage, tensors_of

OWN_INPUTS = "give it inputs of its own, Implementation(..., inputs=(copy, ...), reset=...), and put them back in reset"
GRADIENT = "take gradients with torch.autograd.grad, or time a backward through graphbench.backward_of"


@dataclass(slots=True)
class Trial:
    """What one call showed. `reason` is set when it raised; such an implementation is not timed.

    `difference` compares its result with the baseline's, `None` for the baseline itself. `draws`: it or its `reset`
    draws random numbers. `is_view`: all that it returned are views of its inputs, and it wrote to none.
    """

    implementation: Implementation
    reason: str = ""
    outputs: tuple[torch.device, ...] = ()
    difference: Comparison | None = None
    draws: bool = False
    is_view: bool = False


class Trials:
    """Calls implementations once each, all from the same random state, on the shared inputs or their own.

    Args:
        shared: the shared inputs as they were.
        own: by name, the inputs of implementations that have their own, as they were.
        rng: the generators as they were.
    """

    def __init__(self, shared: Snapshot, own: dict[str, Snapshot], rng: RngState) -> None:
        self._shared = shared
        self._own = own
        self._rng = rng
        self._expected: list[torch.Tensor] | None = None

    def run(self, implementations: Sequence[Implementation]) -> list[Trial]:
        """One trial each, in order; the first one's result is what the others' are compared with.

        Raises:
            UsageError: an implementation changes shared inputs, or its own and does not put them back.
            IsolationError: inputs that cannot be compared byte by byte.
        """
        found = []
        for position, implementation in enumerate(implementations):
            trial = Trial(implementation)
            found.append(trial)
            start = self._called(trial, is_baseline=position == 0)
            if trial.reason:
                self._shared.restore()  # whatever it did before it raised is no longer there for the others
                continue
            self._refuse_shared_writes(implementation)
            if start is not None:
                self._refuse_lost_inputs(trial, start)
        return found

    def _called(self, trial: Trial, *, is_baseline: bool) -> Snapshot | None:
        """Make the call. Returns the state of the implementation's own inputs before it, if it has any."""
        implementation = trial.implementation
        own = self._own.get(implementation.name)
        try:
            self._rng.restore()
            if implementation.reset is not None:
                implementation.reset()
            start = None if own is None else Snapshot(own.arguments())
            inputs = start or self._shared
            drawn = self._rng.moved()
            self._rng.restore()
            result = implementation.call(*inputs.arguments())
            trial.draws = drawn or self._rng.moved()
            results = tensors_of(result)
            trial.outputs = tuple(output.device for output in results)
            aliases = bool(results) and all(shares_storage(output, inputs.tensors) for output in results)
            trial.is_view = aliases and not inputs.changed()
            if is_baseline:
                self._expected = [_copy(output) for output in results]
            elif self._expected is not None:
                trial.difference = _compare(results, self._expected)
        except Exception as error:  # noqa: BLE001 - whatever a user's call raises fails its row, not the others
            trial.reason = raised(error)
            return None
        return start

    def _refuse_shared_writes(self, implementation: Implementation) -> None:
        changed = self._shared.changed()
        if changed:
            raise UsageError(
                f"{implementation.name} changes what all implementations share: {', '.join(changed)}",
                hint=_hint(changed),
                subject=implementation.name,
            )

    def _refuse_lost_inputs(self, trial: Trial, start: Snapshot) -> None:
        implementation = trial.implementation
        if implementation.reset is not None:
            try:
                self._rng.restore()
                implementation.reset()
            except Exception as error:  # noqa: BLE001 - as above
                trial.reason = raised(error)
                return
        changed = start.changed()
        if changed:
            lost = "which its reset does not put back" if implementation.reset else "and has no reset"
            hint = "copy the values that every call starts from into them in reset"
            raise UsageError(
                f"{implementation.name} changes its own {', '.join(changed)}, {lost}: every sample would start from "
                "other data",
                hint=hint if not changed[0].endswith(".grad") else GRADIENT,
                subject=implementation.name,
            )


def raised(error: BaseException) -> str:
    """Why a row has no number: what its call raised."""
    return f"it raised {type(error).__name__}: {first_line(error)}"


def _hint(changed: Sequence[str]) -> str:
    return GRADIENT if all(path.endswith(".grad") for path in changed) else OWN_INPUTS


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of a result: what an implementation returned may be one of its inputs, which is put back."""
    return tensor.detach().clone() if has_storage(tensor) else tensor.detach()


def _compare(found: list[torch.Tensor], expected: list[torch.Tensor]) -> Comparison:
    apart = [
        f"on {one.device} instead of {other.device}"
        for one, other in zip(found, expected, strict=False)
        if one.device != other.device
    ]
    if apart:
        return Comparison(equal=None, max_abs=None, note=apart[0])
    return compare_trees(found, expected)

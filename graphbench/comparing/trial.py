"""One call of every implementation before any is timed: who raises, who changes inputs, whose results differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from graphbench.comparing.device import CudaWatch, device_usable_after
from graphbench.comparing.implementation import Implementation
from graphbench.comparing.snapshot import Snapshot
from graphbench.comparing.surroundings import Generators, GlobalState
from graphbench.errors import UsageError, first_line
from graphbench.isolate.compare import compare_trees
from graphbench.measurements import Comparison
from graphbench.tensors import has_storage, shares_storage, tensors_of

OWN_INPUTS = "give it inputs of its own, Implementation(..., inputs=(copy, ...), reset=...), and put them back in reset"
RESET = "copy the values that every call starts from into them in reset"
HINTS = {
    ".grad": "take gradients with torch.autograd.grad, or time a backward through graphbench.backward_of",
    ".requires_grad": "set it before comparing, or let the call work on x.detach().requires_grad_()",
}


@dataclass(slots=True)
class Trial:
    """What one call showed. `reason` is set when it raised; such an implementation is not timed.

    `start` are its own inputs as every call finds them, `None` where it takes the shared ones. `difference` compares
    its result with the baseline's, `None` for the baseline itself. `draws`: it or its `reset` draws random numbers.
    `is_view`: all that it returned are views of its inputs, and it wrote to none. `used_cuda`: a CUDA device was busy.
    """

    implementation: Implementation
    reason: str = ""
    start: Snapshot | None = None
    outputs: tuple[torch.device, ...] = ()
    difference: Comparison | None = None
    draws: bool = False
    is_view: bool = False
    used_cuda: bool = False


class Trials:
    """Calls implementations once each, all in the same global and random state, on the shared inputs or their own.

    Args:
        shared: the shared inputs as they were.
        own: by name, the inputs of implementations that have their own, as they were.
        state: global state as it was.
        generators: the random generators as they were.
    """

    def __init__(
        self, shared: Snapshot, own: Mapping[str, Snapshot], state: GlobalState, generators: Generators
    ) -> None:
        self._shared = shared
        self._own = own
        self._state = state
        self._generators = generators
        self._expected: list[torch.Tensor] | None = None
        self._why_none = ""

    def run(self, implementations: Sequence[Implementation]) -> list[Trial]:
        """One trial each, in order; the first one's result is what the others' are compared with.

        Raises:
            UsageError: an implementation changes global state, shared inputs, or its own and does not put them back.
            TimingError: one left the device unusable.
        """
        return [self._tried(entry, is_baseline=position == 0) for position, entry in enumerate(implementations)]

    def _tried(self, implementation: Implementation, *, is_baseline: bool) -> Trial:
        trial = Trial(implementation)
        with device_usable_after(implementation.name):
            with self._state.kept():
                self._call(trial, is_baseline=is_baseline)
                state, shared = self._state.changed(), self._shared.changed()
                lost = self._lost_inputs(trial)
            if not trial.reason:
                _refuse(implementation, state, shared, lost)
            for snapshot in (self._shared, *self._own.values()):
                snapshot.restore()  # whatever it did is no longer there for the others
        return trial

    def _call(self, trial: Trial, *, is_baseline: bool) -> None:
        implementation = trial.implementation
        own = self._own.get(implementation.name)
        try:
            self._generators.restore()
            if implementation.reset is not None:
                implementation.reset()
            trial.start = None if own is None else Snapshot(own.arguments())
            inputs = trial.start or self._shared
            drawn = self._generators.moved()
            self._generators.restore()
            watch = CudaWatch()
            result = implementation.call(*inputs.arguments())
            trial.used_cuda = watch.worked()
            trial.draws = drawn or self._generators.moved()
            results = tensors_of(result)
        except Exception as error:  # noqa: BLE001 - whatever a user's call raises fails its row, not the others
            trial.reason = raised(error)
            return
        trial.outputs = tuple(output.device for output in results)
        aliases = bool(results) and all(shares_storage(output, inputs.tensors) for output in results)
        trial.is_view = aliases and not inputs.changed()
        if is_baseline:
            self._keep(results)
        elif self._expected is not None:
            trial.difference = _compare(results, self._expected)
        elif self._why_none:
            trial.difference = Comparison(equal=None, max_abs=None, note=self._why_none)

    def _keep(self, results: list[torch.Tensor]) -> None:
        try:
            self._expected = [_copy(result) for result in results]
        except RuntimeError as error:  # out of memory, or a kind of tensor that has no copies
            self._why_none = f"the first one's could not be kept: {type(error).__name__}: {first_line(error)}"

    def _lost_inputs(self, trial: Trial) -> list[str]:
        """Which of its own inputs do not come back, after its reset."""
        reset = trial.implementation.reset
        if trial.reason or trial.start is None:
            return []
        if reset is not None:
            try:
                self._generators.restore()
                reset()
            except Exception as error:  # noqa: BLE001 - as above
                trial.reason = raised(error)
                return []
        return trial.start.changed()


def raised(error: BaseException) -> str:
    """Why a row has no number: what its call raised."""
    return f"it raised {type(error).__name__}: {first_line(error)}"


def _refuse(implementation: Implementation, state: list[str], shared: list[str], lost: list[str]) -> None:
    name = implementation.name
    if state:
        raise UsageError(
            f"{name} changes global state, which all implementations share: {'; '.join(state)}",
            hint="set it inside the call and put it back there, or set it for all of them before comparing",
            subject=name,
        )
    if shared:
        raise UsageError(
            f"{name} changes what all implementations share: {', '.join(shared)}",
            hint=_hint(shared, OWN_INPUTS),
            subject=name,
        )
    if lost:
        how = "which its reset does not put back" if implementation.reset else "and has no reset"
        raise UsageError(
            f"{name} changes its own {', '.join(lost)}, {how}: every sample would start from other data",
            hint=_hint(lost, RESET),
            subject=name,
        )


def _hint(changed: Sequence[str], otherwise: str) -> str:
    """What to do where all that changed is of one kind, else what always helps."""
    return next((hint for end, hint in HINTS.items() if all(path.endswith(end) for path in changed)), otherwise)


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
    try:
        return compare_trees(found, expected)
    except RuntimeError as error:  # out of memory, or a kind of tensor that cannot be compared: not the call's fault
        return Comparison(
            equal=None, max_abs=None, note=f"comparing raised {type(error).__name__}: {first_line(error)}"
        )

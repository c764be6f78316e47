"""Live work, recorded: a block of the user's own code, and the parts of it that the user names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphbench.api import Profile, checked, current_session, measure_options
from graphbench.arguments import check_type
from graphbench.errors import UsageError
from graphbench.probes.features import require

if TYPE_CHECKING:
    from graphbench.capture.user_phases import NamedPhase
    from graphbench.measuring.step import LiveBlock
    from graphbench.options import TimerChoice
    from graphbench.step_records import StepRecord


class Recording:
    """A block of code that runs once, recorded like a step; made by `record`.

    Leave the block, then read `step` or measure what it ran with `profile`.
    """

    def __init__(self, block: LiveBlock, timer: str) -> None:
        self._block = block
        self._timer = timer

    def __enter__(self) -> Recording:
        self._block.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._block.__exit__(*error)

    @property
    def step(self) -> StepRecord:
        """Everything the block launched: rows, places, timeline. Times in nanoseconds.

        Raises:
            UsageError: the block has not been left, or it raised.
        """
        return self._block.step()

    def profile(self, **options: Any) -> Profile:
        """Measure the regions that the block ran, and its gap ops alone, as `graphbench.profile` does for a step.

        Args:
            **options: fields of `graphbench.options.MeasureOptions` but `timer`, which `record` was given.

        Raises:
            UsageError: as for `step`, or an option is unknown or does not fit.
        """
        if "timer" in options:
            raise UsageError("timer=: a recording keeps the timer it was made with", hint="give it to record()")
        return checked(self._block.profile(measure_options({**options, "timer": self._timer})))


def record(*, timer: TimerChoice = "auto", device: str | None = None) -> Recording:
    """Record everything that a block runs, once: `with graphbench.record() as recording:`.

    Compile first: what compiles inside the block is no ordinary work, and the recording says so.

    Args:
        timer: as in `graphbench.options.MeasureOptions`.
        device: what the block runs on, as `cuda:0`; by default what the captured regions do, else CUDA where it is in
            use.

    Raises:
        UsageError: no timer or device of that name.

    Entering the block raises `UsageError` for a timer that the device does not have, and `SetupError` where the
    instrument for it is missing.
    """
    measure_options({"timer": timer})
    check_type("device", device, str | None)
    require("measuring", "recording")
    from graphbench.measuring.step import LiveBlock

    return Recording(LiveBlock(current_session(), timer, device), timer)


def phase(name: str) -> NamedPhase:
    """Name a part of a step: `with graphbench.phase("decode"):`. Profiles of the step have totals for it.

    Phases nest, as `train/forward`. Enter them outside of compiled code: inside, they would break its graph.

    Args:
        name: what reports call it.

    Raises:
        UsageError: the name is empty, no text, or has a `/` in it.
    """
    check_type("name", name, str)
    if not name or "/" in name:
        raise UsageError(f"phase name {name!r}: expected a text without '/', which joins nested names", subject="name")
    from graphbench.capture.user_phases import NamedPhase

    return NamedPhase(name)

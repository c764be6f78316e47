"""A step that knows whether it ran anything compiled: without that, a profile of it would be one of something else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphbench.errors import CaptureError
from graphbench.session import Session


class WatchedStep:
    """Calls a step and remembers whether the last call compiled a region or ran one.

    Args:
        step: what is called.
        session: whose regions count.
    """

    def __init__(self, step: Callable[..., Any], session: Session) -> None:
        self._step = step
        self._session = session
        self._ran_compiled = False

    def __call__(self, *args: Any) -> Any:
        """Call the step."""
        before = self._regions_and_calls()
        result = self._step(*args)
        self._ran_compiled = self._regions_and_calls() != before
        return result

    def check(self) -> None:
        """Refuse a step whose last call ran eagerly as a whole.

        Raises:
            CaptureError: it did.
        """
        if not self._ran_compiled:
            raise CaptureError(
                "the recorded step ran no code compiled with backend='graphbench'",
                hint="let it call what torch.compile(model, backend='graphbench') returned; where it does, "
                "torch._dynamo.explain(model)(*inputs) says why that ran eagerly",
            )

    def _regions_and_calls(self) -> tuple[int, int]:
        return len(self._session.regions), self._session.tick

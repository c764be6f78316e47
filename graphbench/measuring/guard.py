"""What stands between a unit and the run: whatever the unit does, it becomes a result or a named fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import torch

from graphbench.errors import ContextLostError, FaultError, GraphbenchError, RaisedError, first_line
from graphbench.measuring.time_limit import time_limit
from graphbench.runs.entries import SIDE_TIMEOUTS

T = TypeVar("T")
_LOST: Final = (
    ("device-side assert", "device assert"),
    ("illegal memory access", "illegal access"),
    ("misaligned address", "misaligned address"),
    ("illegal instruction", "illegal instruction"),
    ("unspecified launch failure", "launch failure"),
)


class Guard:
    """Runs units, and notices when the device's context has been lost: then nothing more can run on it here.

    Args:
        unit_timeout_s: how long a unit may take, in seconds; whole runs may take `SIDE_TIMEOUTS` times as long.
        leave: ends a process that has lost its context, since another one can go on; by default this one goes on,
            and everything behind is skipped.
    """

    def __init__(self, *, unit_timeout_s: float | None = None, leave: Callable[[], None] | None = None) -> None:
        self.lost = ""
        self._unit_timeout_s = unit_timeout_s
        self._leave = leave

    @property
    def reason(self) -> str:
        """Why nothing runs any more, where the context is lost."""
        return f"context lost: {self.lost}"

    def is_lost(self) -> bool:
        """Whether the context is lost."""
        return bool(self.lost)

    def attempt(self, device: torch.device, work: Callable[[], T], *, side: bool = False) -> T:
        """Do a piece of work.

        Args:
            device: what it runs on.
            work: a unit, or a side of a region.
            side: it is a side.

        Raises:
            ContextLostError: the device's context is lost, by this or by what ran before.
            FaultError: out of memory, or too slow.
            RaisedError: whatever else the work raised.
            GraphbenchError: what the work raised of graphbench's own.
        """
        self.settle(device)
        limit_s = self._unit_timeout_s
        if limit_s is not None and side:
            limit_s *= SIDE_TIMEOUTS
        try:
            with time_limit(limit_s):
                return work()
        except torch.OutOfMemoryError as error:
            raise FaultError(f"out of memory: {first_line(error)}") from error
        except Exception as error:
            self.look(device, error)
            if isinstance(error, GraphbenchError):
                raise
            alone = "" if side else "alone "
            raise RaisedError(f"{alone}it raises {type(error).__name__}: {first_line(error)}") from error

    def settle(self, device: torch.device) -> None:
        """Wait for what was launched before, so that its faults are its own.

        Raises:
            ContextLostError: the device's context is lost.
        """
        if self.lost:
            raise ContextLostError(self.reason)
        self.look(device, None)

    def look(self, device: torch.device, error: BaseException | None) -> None:
        """Find out whether the device's context has been lost, by an error or what was launched before.

        Raises:
            ContextLostError: it has, and nobody knew.

        Source: CUDA's sticky errors: once one occurred, every call returns it (`cudaDeviceSynchronize`). torch 2.11.
        """
        if self.lost or device.type != "cuda":
            return
        try:
            torch.cuda.synchronize(device)
        except RuntimeError as found:
            self.lost = _loss(found)
            raise ContextLostError(self.lost) from error or found

    def leave_if_lost(self) -> None:
        """End the process where the context is lost and another process can go on."""
        if self.lost and self._leave is not None:
            self._leave()


def _loss(error: BaseException) -> str:
    """`device assert: CUDA error: ...`."""
    text = first_line(error)
    return next((f"{name}: {text}" for part, name in _LOST if part in text), text)

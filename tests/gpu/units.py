"""A unit over any call on a device, for tests of timers."""

from __future__ import annotations

from collections.abc import Callable

import torch

from graphbench.tensors import device_allocations

DEVICE = "cuda:0"


class DeviceUnit:
    """A unit that calls a function; nothing is restored."""

    name = "row"
    device = DEVICE
    needs_restore = False

    def __init__(self, call: Callable[[], object], *, may_launch_nothing: bool = False) -> None:
        self._call = call
        self.may_launch_nothing = may_launch_nothing

    def prepare(self) -> None:
        pass

    def run(self) -> object:
        return self._call()

    def allocations(self) -> int | None:
        return device_allocations(torch.device(DEVICE))

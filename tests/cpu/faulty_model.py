"""A model one op of which misbehaves where it is measured alone, as `GRAPHBENCH_TEST_FAULT` says."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import time
from pathlib import Path

import torch
from torch import nn

FAULT = os.environ.get("GRAPHBENCH_TEST_FAULT", "")
MARK = Path(os.environ.get("GRAPHBENCH_TEST_FAULT_MARK", os.devnull))
"""A file that is made when the fault happens; a fault that has happened does not happen again."""
ROOM_BYTES = 2000
"""How much the journal can grow once the disk is full."""
_own: set[int] = set()


def misbehave() -> None:
    """Do what was asked for, once."""
    if not FAULT or MARK.exists():
        return
    MARK.touch()
    if FAULT == "abort":
        os.abort()
    elif FAULT == "segmentation fault":
        ctypes.string_at(0)
    elif FAULT == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif FAULT == "hang":
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
        ctypes.CDLL(None).sleep(600)  # a call into C that no signal ends
    elif FAULT == "full disk":
        room = Path(os.environ["GRAPHBENCH_TEST_JOURNAL"]).stat().st_size + ROOM_BYTES
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    elif FAULT == "wait":
        time.sleep(600)


@torch.library.custom_op("graphbench_test::misbehaves", mutates_args=())
def misbehaves(x: torch.Tensor) -> torch.Tensor:
    """Twice its input; a fault where the input is a copy."""
    if not _own:
        _own.add(x.data_ptr())
    if x.data_ptr() not in _own:
        misbehave()
    return x * 2


@misbehaves.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


class Faulty(nn.Module):
    """The op and a layer behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run it."""
        return self.layer(misbehaves(x)).relu()


def example_inputs() -> torch.Tensor:
    """A batch."""
    return torch.randn(4, 16)

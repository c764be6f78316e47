"""A model one op of which indexes out of range on the device, the first time that it is given a copy of its input."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from torch import nn

MARK = "GRAPHBENCH_TEST_FAULT_MARK"
"""Names a file that is made when the fault has happened: a second process measures the op like any other."""
_own: set[int] = set()


@torch.library.custom_op("graphbench_test::takes", mutates_args=())
def takes(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Rows of `x` by index; out of range, once, where the index is a copy."""
    if not _own:
        _own.add(index.data_ptr())
    mark = Path(os.environ[MARK])
    if index.data_ptr() not in _own and not mark.exists():
        mark.touch()
        return x[index + x.shape[0]]
    return x[index]


@takes.register_fake
def _(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return x.new_empty((index.shape[0], x.shape[1]))


class Faulty(nn.Module):
    """Two layers with the op in between."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(64, 128)
        self.outer = nn.Linear(128, 32)

    def forward(self, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        """Run it."""
        hidden = nn.functional.gelu(self.inner(x))
        return self.outer(takes(hidden, index)).relu()


def example_inputs() -> tuple[torch.Tensor, torch.Tensor]:
    """A batch and an index within it."""
    return torch.randn(256, 64), torch.arange(255, -1, -1)

"""How much memory measuring may take: from what is free, or from a budget; and what is done when there is none left."""

from __future__ import annotations

import gc
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch

from graphbench.errors import DoesNotFitError, FaultError, first_line
from graphbench.host_memory import available_host_bytes
from graphbench.units import format_bytes

T = TypeVar("T")
MARGIN_PARTS = 64  # one part of the memory stays free: workspaces of libraries, kernels still to be loaded
OUT_OF_MEMORY = ("DefaultCPUAllocator: can't allocate memory", "STATUS_ALLOC_FAILED")
"""What torch's errors without a class of their own say: of the CPU, of cuBLAS and of cuDNN."""


def available_bytes(device: torch.device) -> int | None:
    """Bytes that tensors can still take on a device, less a margin; `None` where that is not told.

    On CUDA what is free, and what torch's allocator keeps without using it; of the latter some may lie in pieces.

    Source: `torch.cuda.mem_get_info`, `memory_stats_as_nested_dict`, `get_per_process_memory_fraction`,
        torch 2.11 to 2.14.
    """
    if device.type == "cpu":
        host = available_host_bytes()
        return None if host is None else host - host // MARGIN_PARTS
    if device.type != "cuda":
        return None
    free, total = torch.cuda.mem_get_info(device)  # initializes CUDA, without which there are no statistics
    stats = torch.cuda.memory_stats_as_nested_dict(device)
    reserved, allocated = (int(stats[name]["all"]["current"]) for name in ("reserved_bytes", "allocated_bytes"))
    allowed = int(total * torch.cuda.get_per_process_memory_fraction(device)) - reserved
    return max(0, min(free, allowed) + reserved - allocated - total // MARGIN_PARTS)


@dataclass(slots=True)
class MemoryBudget:
    """What copies of tensors may take on one device.

    `limit_bytes` bounds all that measuring holds there beside the model; `None` leaves it to what is free, which bounds
    it in any case. `held_bytes` is what is kept from one unit to the next.
    """

    device: torch.device
    limit_bytes: int | None = None
    held_bytes: int = 0

    def left_bytes(self) -> int | None:
        """Bytes that may still be taken; `None` without any bound."""
        free = available_bytes(self.device)
        if self.limit_bytes is None:
            return free
        own = max(0, self.limit_bytes - self.held_bytes)
        return own if free is None else min(own, free)

    def check(self, needed_bytes: int, what: str = "its copies need") -> None:
        """Refuse what cannot fit.

        Args:
            needed_bytes: what will be allocated.
            what: who needs them, for the message.

        Raises:
            DoesNotFitError: with both figures.
        """
        left = self.left_bytes() if needed_bytes else None
        if left is not None and needed_bytes > left:
            raise DoesNotFitError(
                f"does not fit: {what} {format_bytes(needed_bytes)}, the memory budget leaves {format_bytes(left)}",
                hint="a smaller batch, or a larger --memory-budget where one was given",
            )

    def with_room(self, attempt: Callable[[], T]) -> T:
        """Make an attempt; when it runs out of memory, once more after everything unused was given back.

        Raises:
            FaultError: it ran out of memory twice; the message has torch's figures.
            Exception: whatever else the attempt raises.
        """
        try:
            return attempt()
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            forget(error)
        give_back(self.device)
        try:
            return attempt()
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            forget(error)
            reason = first_line(error)
        give_back(self.device)
        raise FaultError(f"out of memory, also after all unused memory was given back: {reason}")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out, on whichever device.

    Source: `torch.OutOfMemoryError`, and texts of `RuntimeError` (c10/core/impl/alloc_cpu.cpp), torch 2.11 to 2.14.
    """
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in OUT_OF_MEMORY)


def forget(error: BaseException) -> None:
    """Let go of everything that the frames hold through which an error came: tensors above all."""
    known: BaseException | None = error
    while known is not None:
        traceback.clear_frames(known.__traceback__)
        known = known.__cause__ or known.__context__


def give_back(device: torch.device) -> None:
    """Free what only cycles keep alive, and return the allocator's unused blocks to the device."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()

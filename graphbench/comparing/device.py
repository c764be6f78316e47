"""Where implementations run: the one device that is timed, and whether another did something unseen."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from graphbench.errors import TimingError, UsageError, first_line

NO_ACCELERATOR = ("cpu", "meta")


def device_of_all(
    given: torch.device | None, found: Sequence[torch.device], worked: Sequence[str] = ()
) -> torch.device:
    """The device to time: the one asked for, else the accelerator that tensors are on, else the CPU.

    Args:
        given: `device=`, with its index.
        found: where inputs and results are.
        worked: names of implementations during whose trial a CUDA device was at work.

    Raises:
        UsageError: tensors are on another device, or on several, or nothing tells where the work is done.
    """
    seen = list(dict.fromkeys(device for device in found if device.type not in NO_ACCELERATOR))
    others = [str(device) for device in seen if device != given]
    if given is not None and others:
        raise UsageError(
            f"device={str(given)!r}: inputs or results are on {', '.join(others)}, whose time would not be seen",
            hint=f"name device={others[0]!r}, or leave device= out",
            subject="device",
        )
    if len(seen) > 1:
        raise UsageError(
            f"inputs and results are on {', '.join(others)}, expected one device: only one is drained and timed",
            hint="compare on one device at a time",
            subject="device",
        )
    target = given or next(iter(seen), torch.device("cpu"))
    if target.type == "cpu" and worked:
        raise UsageError(
            f"{', '.join(worked)}: a CUDA device was at work, though all inputs and results are on the CPU",
            hint="name the device to be timed, as device='cuda:0'",
            subject="device",
        )
    if given is None and not found and torch.cuda.is_initialized():
        raise UsageError(
            "cannot tell where the implementations run: no tensor is among their inputs and results",
            hint="give device=, as 'cuda:0', or return what is computed",
            subject="device",
        )
    return target


class CudaWatch:
    """Whether CUDA did something in a call, as far as can be told without an instrument; drained when this is made.

    Work that allocates nothing and that the call itself waited for is not seen.

    Source: `torch.cuda.memory_stats_as_nested_dict()["allocation"]["all"]["allocated"]`, a count of requests;
        `torch.cuda.Stream.query`; `torch._C._cuda_hasPrimaryContext`, since asking a device without a context would
        make one. torch 2.11 to 2.14.
    """

    def __init__(self) -> None:
        drain_cuda()
        self._before = _allocations()

    def worked(self) -> bool:
        """Whether any device is busy now, was first used or allocated since. Drains them: errors of the call show."""
        busy = any(not torch.cuda.current_stream(index).query() for index in self._before)
        drain_cuda()
        return busy or _allocations() != self._before


def drain_cuda() -> None:
    """Wait for all CUDA devices that this process uses. Nothing before CUDA's first use."""
    for index in _used():
        torch.cuda.synchronize(index)


def _used() -> list[int]:
    if not torch.cuda.is_initialized():
        return []
    has_context: Any = torch._C._cuda_hasPrimaryContext  # type: ignore[attr-defined]
    return [index for index in range(torch.cuda.device_count()) if has_context(index)]


def _allocations() -> dict[int, int]:
    return {
        index: int(torch.cuda.memory_stats_as_nested_dict(index)["allocation"]["all"]["allocated"]) for index in _used()
    }


@contextlib.contextmanager
def device_usable_after(name: str) -> Iterator[None]:
    """Names the implementation after whose call a device fails whatever is asked of it.

    Raises:
        TimingError: instead of the device's own error.
    """
    try:
        yield
        drain_cuda()
    except torch.AcceleratorError as error:
        raise TimingError(
            f"{name} left the device unusable: {first_line(error)}",
            hint="such an error lasts as long as the process: mend the implementation, and compare in a fresh one",
            subject=name,
        ) from error

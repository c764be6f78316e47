"""A GPU's clocks around the rows that are measured, and what must be said when they moved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Protocol

from graphbench.analysis.warning_kinds import CLOCK, THROTTLED
from graphbench.device_records import ClockState
from graphbench.errors import SetupError
from graphbench.timing.nvml import Nvml

MOVED_ABOVE: Final = 0.02
"""Part of the highest reading by which a clock must differ to have moved."""


class ClockSource(Protocol):
    """Where clock readings come from."""

    def read(self) -> ClockState | None:
        """The clocks now; `None` when this source knows none."""


class NvmlClocks:
    """Readings of one GPU through NVML, tens of µs each."""

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml

    def read(self) -> ClockState:
        """The clocks now."""
        return self._nvml.clock_state()


@dataclass(frozen=True, slots=True)
class NoClocks:
    """No readings; `reason` says why and what to do, and is empty for a device that has no such clocks."""

    reason: str = ""

    def read(self) -> None:
        """Nothing."""


def clock_source(device: str) -> ClockSource:
    """NVML for a CUDA device, a source without readings otherwise. Takes milliseconds: make one per profile.

    Args:
        device: torch device, as `cuda:0`.
    """
    if not device.startswith("cuda"):
        return NoClocks()
    try:
        return NvmlClocks(Nvml(device_uuid(device)))
    except SetupError as error:
        return NoClocks(error.message + (f" ({error.hint})" if error.hint else ""))


def device_uuid(device: str) -> str:
    """The UUID of a CUDA device, without NVML's prefix: the same whatever CUDA_VISIBLE_DEVICES says.

    Source: `torch.cuda.get_device_properties(device).uuid`, torch 2.11: `str` of it is hexadecimal, 8-4-4-4-12.
    """
    import torch

    return str(torch.cuda.get_device_properties(device).uuid)


def clock_warnings(states: Sequence[ClockState]) -> tuple[str, ...]:
    """What readings before, between and after one row say against it: clocks that moved, and what throttled them."""
    return tuple(_warnings(states))


def _warnings(states: Sequence[ClockState]) -> Iterator[str]:
    for clock, readings in (("SM", [s.sm_mhz for s in states]), ("memory", [s.memory_mhz for s in states])):
        known = [mhz for mhz in readings if mhz is not None]
        if known and max(known) - min(known) > MOVED_ABOVE * max(known):
            yield f"{CLOCK}: {clock} {_path(known)} MHz"
    reasons = dict.fromkeys(reason for state in states for reason in state.throttle)
    if reasons:
        yield f"{THROTTLED}: {', '.join(reasons)}"


def _path(readings: Iterable[int]) -> str:
    return " -> ".join(str(mhz) for mhz, _ in groupby(readings))

"""How far a row is from what the device was seen to do: the bound, the time at the limit, the part reached. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal

from graphbench.analysis.costs import NO_FORMULA, Cost
from graphbench.condition_records import Ceiling
from graphbench.measurements import CacheState

Bound = Literal["memory", "compute", "latency", "launch"]
OVER: Final = 1.005
"""More of the limit than this is suspicious: what would be printed as over 100 %."""
NOTHING_MOVED = "it moves nothing"
NO_CEILINGS = "the device's ceilings were not measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceilings:
    """What one device was seen to do: bytes per second, FLOP per second by arithmetic, shortest kernel in ns.

    `copy` counts both what it reads and what it writes; `cached` has by size in bytes, the smallest first, the rates of
    copies that move no more than that with warm caches. `None`, or an absent arithmetic: not measured.
    """

    copy: float | None = None
    read: float | None = None
    write: float | None = None
    matmul: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    launch_ns: float | None = None
    cached: tuple[tuple[int, float], ...] = ()

    @classmethod
    def of(cls, ceilings: Iterable[Ceiling], device: str) -> Ceilings:
        """The ceilings of one device of a profile."""
        mine = [entry for entry in ceilings if entry.device == device]
        plain = {entry.kind: entry.value for entry in mine if entry.kind != "matmul" and entry.within_bytes is None}
        return cls(
            copy=plain.get("copy"),
            read=plain.get("read"),
            write=plain.get("write"),
            matmul={entry.arithmetic: entry.value for entry in mine if entry.kind == "matmul"},
            launch_ns=plain.get("launch"),
            cached=tuple(sorted((entry.within_bytes, entry.value) for entry in mine if entry.within_bytes is not None)),
        )

    def memory_ns(self, read_bytes: float, written_bytes: float, *, warm: bool = False) -> float | None:
        """The shortest time in which so much can be moved; with `warm` caches, from those where they hold it all.

        As much as is read and written in equal parts at the rate of a copy, the rest at that of reading or writing,
        which is at least a copy's.
        """
        if not self.copy:
            return None
        moved = read_bytes + written_bytes
        fitting = next((rate for within_bytes, rate in self.cached if warm and moved <= within_bytes), None)
        if fitting is not None:
            return moved / max(fitting, self.copy) * 1e9
        both = min(read_bytes, written_bytes)
        rest = max(read_bytes, written_bytes) - both
        rate = max(self.copy, (self.read if read_bytes > both else self.write) or 0.0)
        return (2 * both / self.copy + rest / rate) * 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A row against its limit. `time_ns` at the limit, `part` of it that was reached (1.0: all of it).

    `bound` says what limits the row. Where the limit is not known all three are `None` and `reason` says why; a row
    bound by `launch` has a limit all the same. `suspicious` says what may be wrong with a row beyond its limit.
    """

    bound: Bound | None = None
    time_ns: float | None = None
    part: float | None = None
    suspicious: str = ""
    reason: str = ""


def limit_of(
    cost: Cost,
    busy_ns: float | None,
    ceilings: Ceilings,
    *,
    host_ns: float | None = None,
    cache: CacheState | None = None,
) -> Limit:
    """Set one call against the ceilings of its device.

    Args:
        cost: what the call has to do.
        busy_ns: its device_busy; `None` or 0 has no part.
        ceilings: of the device.
        host_ns: time to issue it, on a device that works while the host goes on; `None` elsewhere.
        cache: what was in the cache before.
    """
    if not ceilings.copy and not ceilings.matmul:
        return Limit(reason=NO_CEILINGS)
    if cost.read_bytes is None or cost.written_bytes is None:
        return Limit(reason=cost.no_bytes)
    memory_ns = ceilings.memory_ns(cost.read_bytes, cost.written_bytes, warm=cache == "warm")
    if memory_ns is None:
        return Limit(reason=NO_CEILINGS)
    if cost.flops is None and cost.no_flops != NO_FORMULA:
        return Limit(reason=f"its FLOPs are not known: {cost.no_flops}")
    if not cost.moved_bytes and not cost.flops:
        return Limit(reason=NOTHING_MOVED)
    compute_ns = 0.0
    if cost.flops:
        rate = ceilings.matmul.get(cost.arithmetic)
        if not rate:
            return Limit(reason=f"no matrix product in {cost.arithmetic or 'its arithmetic'} was measured")
        compute_ns = cost.flops / rate * 1e9
    times: list[tuple[float, Bound]] = [(memory_ns, "memory"), (compute_ns, "compute")]
    times.append((ceilings.launch_ns or 0.0, "latency"))
    time_ns, bound = max(times)
    part = time_ns / busy_ns if busy_ns else None
    suspicious = _suspicion(bound, cache) if part is not None and part > OVER else ""
    if host_ns is not None and busy_ns is not None and host_ns > busy_ns:
        bound = "launch"
    reason = "" if part is not None else "no time was measured"
    return Limit(bound=bound, time_ns=time_ns, part=part, suspicious=suspicious, reason=reason)


def _suspicion(bound: Bound, cache: CacheState | None) -> str:
    if bound == "compute":
        return (
            "over its limit: another arithmetic than counted, fewer FLOPs than the formula says, or a "
            "ceiling measured on a busy device"
        )
    if bound == "latency":
        return "over its limit: shorter than any kernel measured for the ceiling"
    if cache == "warm":
        return "over its limit: warm, so that it may come from a nearer cache than the ceiling's copy"
    return "over its limit: fewer bytes moved than counted, or writes left in the cache"

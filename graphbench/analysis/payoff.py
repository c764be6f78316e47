"""After how many calls compiling a region has paid for itself. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from graphbench.analysis.missing import lacks_backward
from graphbench.analysis.size_groups import base_of, groups_of
from graphbench.analysis.stats import judge, summarize
from graphbench.records import ProfileRecord, RegionRecord, Side


@dataclass(frozen=True, slots=True, kw_only=True)
class PayOff:
    """What compiling a region took, and what a call of it saves; times in nanoseconds, wall, forward and backward.

    `saved_ns` is eager less compiled; `calls` after so many has it paid, 1 and more. Where `calls` is `None`, `reason`
    says why: it never pays, or that is not known. `region` is empty for all of them together, each called once.
    """

    region: str
    compile_ns: int | None
    eager_ns: float | None
    compiled_ns: float | None
    calls: float | None = None
    reason: str = ""

    @property
    def saved_ns(self) -> float | None:
        """Eager less compiled."""
        return None if self.eager_ns is None or self.compiled_ns is None else self.eager_ns - self.compiled_ns


def pay_offs(record: ProfileRecord) -> list[PayOff]:
    """One entry for every graph that ran compiled; of one that was called with several groups of sizes, each once."""
    graphs = [[region for region in groups if region.status == "ok"] for groups in groups_of(record)]
    return [_pay_off(base_of(groups[0]), groups) for groups in graphs if groups]


def whole_pay_off(record: ProfileRecord) -> PayOff | None:
    """The same of all regions together, each called once; `None` where none ran compiled."""
    regions = [region for region in record.regions if region.status == "ok"]
    return _pay_off("", regions) if regions else None


def _pay_off(name: str, regions: Sequence[RegionRecord]) -> PayOff:
    sides = [(region.eager, region.forward) for region in regions]
    sides += [(region.eager_backward, region.backward) for region in regions if not lacks_backward(region)]
    # All groups of sizes of a graph are compiled at once, and other backends' backwards with the forward.
    first = [region for region in regions if not region.shapes_of] or regions[:1]
    compiled = [region.forward.compile_ns for region in first]
    compiled += [region.backward.compile_ns for region in first if not (region.backend or lacks_backward(region))]
    known = [entry for entry in compiled if entry is not None]
    eager, after = _times([before for before, _ in sides]), _times([side for _, side in sides])
    found = PayOff(
        region=name,
        compile_ns=sum(known) if len(known) == len(compiled) else None,
        eager_ns=eager[1] if eager else None,
        compiled_ns=after[1] if after else None,
    )
    return _with_calls(found, eager, after)


def _with_calls(
    found: PayOff, eager: tuple[float, float, float] | None, compiled: tuple[float, float, float] | None
) -> PayOff:
    """The same with the number of calls, or the reason why there is none."""
    calls, reason = None, ""
    if found.compile_ns is None:
        reason = "how long compiling took was not recorded"
    elif eager is None or compiled is None:
        reason = f"no wall time of {'eager' if eager is None else 'the compiled graph'}"
    else:
        verdict = judge(eager, compiled)
        if verdict == "faster":
            calls = max(1.0, found.compile_ns / (eager[1] - compiled[1]))
        elif verdict == "slower":
            reason = "never pays: a compiled call takes longer than eager"
        else:
            reason = "not known whether it pays: a call saves nothing beyond the noise"
    return replace(found, calls=calls, reason=reason)


def _times(sides: Sequence[Side]) -> tuple[float, float, float] | None:
    """p10, p50 and p90 of wall times, added up over the sides; `None` where one has none.

    On the CPU those of the plain runs, which are wall times too, and of which there are more.
    """
    walls = [_walls(side) for side in sides]
    found = [summarize(wall_ns) for wall_ns in walls if wall_ns]
    if len(found) < len(sides):
        return None
    return sum(s.p10 for s in found), sum(s.p50 for s in found), sum(s.p90 for s in found)


def _walls(side: Side) -> Sequence[float]:
    plain = side.plain.samples
    return plain.busy_ns if plain is not None and side.plain.timer == "wallclock" else side.wall_ns

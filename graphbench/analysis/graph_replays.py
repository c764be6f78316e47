"""What replaying CUDA graphs saves, and that it leaves the kernels as they are. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from graphbench.analysis.digest import Digest
from graphbench.analysis.missing import sides
from graphbench.analysis.stats import quantile
from graphbench.device_records import NO_GRAPHS, OUTSIDE_GRAPHS
from graphbench.measurements import Measurement
from graphbench.records import Phase, ProfileRecord, RegionRecord, Side
from graphbench.units import format_duration

SAME_KERNELS: Final = 0.03
"""Relative difference of the sums of kernels, replayed and launched one by one, above which they are not the same."""
ROWS_NAMED: Final = 3
_PARTITION: Final = re.compile(r"^def partition_\d+\(", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A figure of the run that replays graphs, and of the same run without them, in nanoseconds; `None`: not known."""

    replayed: float | None
    without: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphReplay:
    """One side that replays CUDA graphs.

    `nodes` of all its `graphs`, of which `None`: the generated code does not tell. `kernels` is the time of all its
    rows, against that in which the device was busy without graphs. `host` is the time to issue the run, `idle` what
    the device waits between its first kernel and its last. `beside_ns` is what the device does beside graphs and rows:
    it copies inputs to where the graphs read them.
    """

    region: str
    phase: Phase
    nodes: int
    graphs: int | None
    kernels: Pair
    host: Pair
    idle: Pair
    wall: Pair
    beside_ns: float | None

    @property
    def kernels_differ(self) -> float | None:
        """By which part the kernels take longer under replay."""
        if self.kernels.replayed is None or not self.kernels.without:
            return None
        return self.kernels.replayed / self.kernels.without - 1


def graph_replays(record: ProfileRecord, digest: Digest | None = None) -> Iterator[GraphReplay]:
    """Every compiled side that replays CUDA graphs, with what that changes."""
    digest = digest or Digest()
    for region in record.regions:
        for name, side in sides(region):
            if side.graph_nodes is not None and (name == "forward" or name == "backward"):
                phase: Phase = "forward" if name == "forward" else "backward"
                yield _replay(region, phase, side, side.graph_nodes, digest)


def _replay(region: RegionRecord, phase: Phase, side: Side, nodes: int, digest: Digest) -> GraphReplay:
    bare = side.uncaptured
    plain = bare.plain if bare else Measurement(status="skipped")
    code = next((code.text for code in region.code if code.phase == phase), "")
    run = side.run
    return GraphReplay(
        region=region.key,
        phase=phase,
        nodes=nodes,
        graphs=len(_PARTITION.findall(code)) or None,
        kernels=Pair(replayed=_rows(region, phase, side, digest), without=digest.median(plain)),
        host=Pair(replayed=_median(side.host_ns), without=_median(bare.host_ns if bare else ())),
        idle=Pair(replayed=_idle(side.plain, digest), without=_idle(plain, digest)),
        wall=Pair(replayed=_median(side.wall_ns), without=_median(bare.wall_ns if bare else ())),
        beside_ns=_median(run.beside_ns) if run and run.beside_ns else None,
    )


def _rows(region: RegionRecord, phase: Phase, side: Side, digest: Digest) -> float | None:
    """Time of all kernels of a run; what two of them share counts once."""
    known = [digest.median(kernel.in_graph) for kernel in region.kernels if kernel.phase == phase and kernel.calls]
    if not known or side.run is None or None in known:
        return None
    return sum(time_ns for time_ns in known if time_ns is not None) - quantile(side.run.overlap_ns, 0.5)


def _idle(plain: Measurement, digest: Digest) -> float | None:
    span_ns, busy_ns = digest.median(plain, "span_ns"), digest.median(plain)
    return None if span_ns is None or busy_ns is None else max(span_ns - busy_ns, 0.0)


def _median(times_ns: tuple[float, ...]) -> float | None:
    return quantile(times_ns, 0.5) if times_ns else None


def launched_otherwise(before: ProfileRecord, after: ProfileRecord) -> Iterator[str]:
    """That only one of two profiles replays CUDA graphs, with what this changes and what not."""
    replaying = [any(True for _ in graph_replays(record)) for record in (before, after)]
    if replaying[0] == replaying[1]:
        return
    told = [f"CUDA graphs are replayed only {'after' if replaying[1] else 'before'}"]
    kernels, walls = ([total(record) for record in (before, after)] for total in (_kernels_ns, _wall_ns))
    for what, (old, new) in (("kernels", kernels), ("wall", walls)):
        if old is not None and new is not None:
            told.append(f"{what} {format_duration(old)} before, {format_duration(new)} after")
    old, new = kernels
    same = old and new is not None and abs(new - old) <= SAME_KERNELS * old
    yield "; ".join(told) + (": they change how kernels are launched, not how long they take" if same else "")


def _kernels_ns(record: ProfileRecord) -> float | None:
    digest = Digest()
    return _whole(
        _rows(region, phase, side, digest) for region, phase, side in _compiled(record) if side.run is not None
    )


def _wall_ns(record: ProfileRecord) -> float | None:
    return _whole(_median(side.wall_ns) for _, _, side in _compiled(record) if side.run is not None)


def _compiled(record: ProfileRecord) -> Iterator[tuple[RegionRecord, Phase, Side]]:
    for region in record.regions:
        yield region, "forward", region.forward
        yield region, "backward", region.backward


def _whole(times_ns: Iterable[float | None]) -> float | None:
    """Their sum; `None` where one is missing, or all are."""
    found = list(times_ns)
    return sum(time_ns for time_ns in found if time_ns is not None) if found and None not in found else None


@dataclass(frozen=True, slots=True)
class Moved:
    """A row that takes another time under replay, in nanoseconds."""

    row: str
    without_ns: float
    replayed_ns: float


def moved_rows(without: Mapping[str, Measurement], replayed: Mapping[str, Measurement]) -> list[Moved]:
    """The rows that differ most, where the sums differ by more than `SAME_KERNELS`; none where they are the same.

    Args:
        without: the rows of a labelled run without graphs.
        replayed: the same rows, split from replays.
    """
    digest, found = Digest(), []
    for row, measured in replayed.items():
        without_ns = digest.median(without[row]) if row in without else None
        replayed_ns = digest.median(measured)
        if without_ns is not None and replayed_ns is not None:
            found.append(Moved(row, without_ns, replayed_ns))
    before_ns, after_ns = sum(each.without_ns for each in found), sum(each.replayed_ns for each in found)
    if abs(after_ns - before_ns) <= SAME_KERNELS * before_ns:
        return []
    return sorted(found, key=lambda each: -abs(each.replayed_ns - each.without_ns))[:ROWS_NAMED]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphNote:
    """What became of CUDA graphs that were asked for, in the graphs `of`, as `r0 forward`. `used`: for some kernels."""

    of: tuple[str, ...]
    why: str
    used: bool


def graph_notes(record: ProfileRecord) -> list[GraphNote]:
    """Why CUDA graphs are not used, and what is outside of those that are; alike reasons once."""
    found: dict[tuple[str, bool], list[str]] = {}
    many = len(record.regions) > 1
    for region in record.regions:
        for kind in (NO_GRAPHS, OUTSIDE_GRAPHS):
            for phase, why in _told(region, kind):
                found.setdefault((why, kind == OUTSIDE_GRAPHS), []).append(f"{region.key} {phase}" if many else phase)
    return [GraphNote(of=tuple(of), why=why, used=used) for (why, used), of in found.items()]


def not_used(region: RegionRecord) -> list[tuple[str, str]]:
    """The phases whose CUDA graphs, asked for, are not replayed, and why."""
    return _told(region, NO_GRAPHS)


def _told(region: RegionRecord, kind: str) -> list[tuple[str, str]]:
    """Phase and text of the notes of a kind, as `measuring.compiled` writes them."""
    notes = (note.removeprefix(f"{kind}: ").partition(": ") for note in region.notes if note.startswith(f"{kind}: "))
    return [(phase, why) for phase, _, why in notes]

"""The nodes of several profiles of one model, joined, each with its times over the sizes of the inputs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from graphbench.analysis.diff_regions import pair_regions
from graphbench.analysis.diff_rows import isolated, join
from graphbench.analysis.digest import Digest
from graphbench.analysis.growth import Growing, Growth, growths_over
from graphbench.analysis.roofline import Ceilings
from graphbench.analysis.shapes import call_texts
from graphbench.analysis.sizes import Axis
from graphbench.analysis.stats import median_noise
from graphbench.analysis.views import NodeRow, node_rows, symbolic_text, verdict_grain_ns
from graphbench.conservation import WRAPPER_TIMERS
from graphbench.measurements import Measurement
from graphbench.records import NodeRecord, Phase, ProfileRecord

ABSENT: Final = "the node is not in this profile"
CALL_ON_CPU_NS: Final = 10_000.0
"""What a call takes whatever its size: ops on four elements took 1 to 12 µs (torch 2.13, a CPU of two cores)."""
SHORTEST_KERNELS: Final = 2.0
"""Below so many times the shortest kernel of a device, a time is mostly that of starting one."""
STEPS_OF_STAMPS: Final = 10
"""Of shorter times the steps of the stamps are a part that an exponent would show."""

_Key = tuple[str, str]  # region and node


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePoint:
    """One node in one profile, times in nanoseconds. `reads`: its op, shapes and dtypes. `share` of all isolated nodes.

    `isolated_ns` is `None` where `reason` says why; `noise` is the part of it by which its median is not known.
    `compiled_ns` is its part of its kernels. `short`: so short that its time is not that of its work.
    """

    isolated_ns: float | None = None
    reason: str = ABSENT
    noise: float = 0.0
    share: float | None = None
    in_graph_ns: float | None = None
    compiled_ns: float | None = None
    host_ns: float | None = None
    reads: str = ""
    short: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeScaling(Growing):
    """One node, or its eager backward, over all sets of inputs. `growth` is `None` where `reason` says why.

    `outputs` are its specs with the sizes that its graph leaves open, such as `f32[s77,64]`; "" where all are fixed.
    `doubt` says why its growth is not that of its work.
    """

    region: str
    name: str
    op_type: str
    module: str
    outputs: str = ""
    phase: Phase
    points: tuple[NodePoint, ...]
    growth: Growth | None
    further: tuple[Growth, ...] = ()
    reason: str = ""
    doubt: str = ""

    @property
    def times_ns(self) -> tuple[float | None, ...]:
        """Isolated medians."""
        return tuple(point.isolated_ns for point in self.points)

    @property
    def shares(self) -> tuple[float | None, ...]:
        """Parts of all nodes' isolated medians."""
        return tuple(point.share for point in self.points)


@dataclass(slots=True)
class _Side:
    """One profile: its rows and nodes by region and name."""

    record: ProfileRecord
    digest: Digest
    rows: dict[_Key, NodeRow] = field(default_factory=dict)
    reads: dict[_Key, str] = field(default_factory=dict)
    total_ns: float = 0.0

    def __post_init__(self) -> None:
        self.rows = {(row.region, row.name): row for row in node_rows(self.record, self.digest)}
        for region in self.record.regions:
            self.reads.update(((region.key, name), text) for name, text in call_texts(region).items())
        # Both phases: what a step spends in backward is part of it.
        measured = [isolated(row.node, phase) for row in self.rows.values() for phase in _PHASES]
        self.total_ns = sum(self.digest.median(entry) or 0.0 for entry in measured)


_PHASES: tuple[Phase, ...] = ("forward", "backward")


def node_scaling(
    records: Sequence[ProfileRecord], digests: Sequence[Digest], names: Sequence[str], axes: Sequence[Axis]
) -> list[NodeScaling]:
    """Every compute node of any profile, in program order; then the backwards that any of them timed.

    Views have no time of their own and are left out.

    Args:
        records: profiles in the order of the axes' values.
        digests: statistics of each.
        names: what to call each.
        axes: their sizes.
    """
    sides = [_Side(record, digest) for record, digest in zip(records, digests, strict=True)]
    joined = [keys for keys in _joined(sides) if any(_node(s, key).kind != "view" for s, key in _present(sides, keys))]
    found = [_row(sides, keys, names, axes, "forward") for keys in joined]
    timed = [
        keys for keys in joined if any(_node(s, key).backward_isolated.samples for s, key in _present(sides, keys))
    ]
    return found + [_row(sides, keys, names, axes, "backward") for keys in timed]


def _present(sides: Sequence[_Side], keys: Sequence[_Key | None]) -> Iterator[tuple[_Side, _Key]]:
    return ((side, key) for side, key in zip(sides, keys, strict=True) if key is not None)


def _node(side: _Side, key: _Key) -> NodeRecord:
    return side.rows[key].node


def _joined(sides: Sequence[_Side]) -> list[list[_Key | None]]:
    """For every node, where it is in each profile: joined with the first, then with the one before."""
    found: list[list[_Key | None]] = []
    places: list[dict[_Key, int]] = [{} for _ in sides]
    for index, side in enumerate(sides):
        for earlier in dict.fromkeys((0, index - 1)) if index else ():
            for old_key, new_key in _pairs(sides[earlier], side):
                place = places[earlier].get(old_key)
                if place is not None and new_key not in places[index] and found[place][index] is None:
                    found[place][index] = new_key
                    places[index][new_key] = place
        for key in side.rows:
            if key not in places[index]:
                places[index][key] = len(found)
                found.append([key if i == index else None for i in range(len(sides))])
    return found


def _pairs(old: _Side, new: _Side) -> Iterator[tuple[_Key, _Key]]:
    for before, after in pair_regions(old.record.regions, new.record.regions):
        if before is None or after is None:
            continue
        for a, b in join(before, after).pairs:
            if a is not None and b is not None:
                yield (before.key, a.name), (after.key, b.name)


def _row(
    sides: Sequence[_Side], keys: Sequence[_Key | None], names: Sequence[str], axes: Sequence[Axis], phase: Phase
) -> NodeScaling:
    side, key = next(_present(sides, keys))
    node = _node(side, key)
    points = tuple(
        NodePoint() if key is None else _point(side, key, phase) for side, key in zip(sides, keys, strict=True)
    )
    missing = [f"{name}: {point.reason}" for name, point in zip(names, points, strict=True) if point.reason]
    times = [point.isolated_ns for point in points if point.isolated_ns is not None]
    found = () if missing else growths_over(axes, times, [point.noise for point in points])
    reason = missing[0] if missing else "" if found else no_growth(axes)
    return NodeScaling(
        region=key[0],
        name=node.name,
        op_type=node.op_type,
        module=node.module,
        outputs=symbolic_text(node.outputs, node.symbolic) if phase == "forward" else "",
        phase=phase,
        points=points,
        growth=found[0] if found else None,
        further=found[1:],
        reason=reason,
        doubt=_doubt(points) if found else "",
    )


def no_growth(axes: Sequence[Axis]) -> str:
    """Why times that are all known have no exponent."""
    if len(axes) == 1:
        return "all sets are of one size, or its time is 0"
    return f"{' and '.join(axis.name for axis in axes)} are not told apart by these sets, or its time is 0"


def _point(side: _Side, key: _Key, phase: Phase) -> NodePoint:
    row = side.rows[key]
    measured = isolated(row.node, phase)
    time_ns = side.digest.median(measured)
    samples = measured.samples
    in_graph = row.node.in_graph if phase == "forward" else row.node.backward_in_graph
    return NodePoint(
        isolated_ns=time_ns,
        reason="" if time_ns is not None else measured.reason or measured.status,
        noise=median_noise(samples.busy_ns) if samples is not None else 0.0,
        share=time_ns / side.total_ns if time_ns is not None and side.total_ns else None,
        in_graph_ns=side.digest.median(in_graph),
        compiled_ns=row.compiled.forward_ns if phase == "forward" else row.compiled.backward_ns,
        host_ns=None if measured.timer in WRAPPER_TIMERS else side.digest.median(measured, "host_ns"),
        reads=side.reads.get(key, ""),
        short=_short(side.record, row.ceilings, measured, time_ns),
    )


def _short(record: ProfileRecord, ceilings: Ceilings, measured: Measurement, time_ns: float | None) -> str:
    """Why a time is not that of the work, "" where it is long enough."""
    if time_ns is None:
        return ""
    if measured.timer == "wallclock":
        return "about as long as any call takes" if time_ns < CALL_ON_CPU_NS else ""
    if time_ns < STEPS_OF_STAMPS * verdict_grain_ns(record):
        return "not much longer than the steps of its stamps"
    shortest_ns = ceilings.launch_ns or 0.0
    return "hardly longer than the shortest kernel" if time_ns < SHORTEST_KERNELS * shortest_ns else ""


def _doubt(points: Sequence[NodePoint]) -> str:
    """Why a growth says nothing of the work: a time that is too short, or a host that takes longer at every size."""
    short = next((point.short for point in points if point.short), "")
    hosts = [(point.host_ns, point.isolated_ns) for point in points]
    if not short and all(host is not None and busy is not None and host > busy for host, busy in hosts):
        return "the host takes longer than the device at every size"
    return short

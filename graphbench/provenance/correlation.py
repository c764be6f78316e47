"""Attributes recorded device work to labels: which kernels, copies and fills belong to which (row, sample).

Pure: it sees plain activities and integer ids, neither CUPTI nor torch. Times are nanoseconds of one common clock.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple

from graphbench.device_records import ActivityKind, DeviceKernel
from graphbench.errors import TimingError
from graphbench.provenance.graph_replay import Replay, split_replay

WINDOW_SLACK_NS: Final = 50_000
"""How far a device stamp may lie outside the host's window: the clocks differ by about 10 µs on an H200."""


class Marker(Enum):
    """What an external id can stand for besides a label."""

    PREPARATION = "preparation"


PREPARATION: Final = Marker.PREPARATION
Label = tuple[str, int]
Owner = Label | Marker | Replay


class Launch(NamedTuple):
    """How a kernel was launched; sizes as in `records.DeviceKernel`, a `cluster` of zeros where none was asked for."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    registers: int
    static_shared_bytes: int
    dynamic_shared_bytes: int
    local_bytes: int


class Activity(NamedTuple):
    """One piece of device work as the instrument recorded it. `graph_node_id` is 0 outside CUDA-graph replays.

    `launch` is `None` for copies and fills.
    """

    kind: ActivityKind
    name: str
    start_ns: int
    end_ns: int
    correlation_id: int
    graph_node_id: int
    stream_id: int
    device_id: int
    launch: Launch | None = None


class WindowStamp(NamedTuple):
    """The host's stamps around one whole run; the device was idle at both."""

    sample: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceCost:
    """What one (row, sample) did on the device. `n_kernels` counts kernels only; `work` is of all its activities.

    `busy_ns` and the three parts are unions of intervals per device, summed over devices. `span_ns` runs from the
    first start to the last end. `work` holds each kind of launch once, in order of start.
    """

    busy_ns: int
    kernel_ns: int
    copy_ns: int
    memset_ns: int
    span_ns: int
    n_kernels: int
    work: tuple[DeviceKernel, ...]


NOTHING: Final = DeviceCost(busy_ns=0, kernel_ns=0, copy_ns=0, memset_ns=0, span_ns=0, n_kernels=0, work=())


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCost:
    """Device totals of one sample: its rows' `busy_ns` + `beside_ns` + `unattributed_ns` - `overlap_ns` = `busy_ns`.

    `beside_ns` is what a labelled run of CUDA-graph replays did beside its graphs; 0 for any other run.
    """

    busy_ns: int
    beside_ns: int
    unattributed_ns: int
    overlap_ns: int
    n_kernels: int


IDLE: Final = RunCost(busy_ns=0, beside_ns=0, unattributed_ns=0, overlap_ns=0, n_kernels=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """All device work of a session, attributed. `unattributed` names work that no label claims, each name once."""

    rows: Mapping[str, Mapping[int, DeviceCost]]
    runs: Mapping[int, RunCost]
    unattributed: tuple[str, ...]


def attribute(
    activities: Iterable[Activity],
    external_ids: Mapping[int, int],
    owners: Mapping[int, Owner],
    windows: Sequence[WindowStamp] = (),
) -> Attribution:
    """Attribute every activity to its label, and every unlabelled one to the sample that it ran in.

    With windows, unlabelled work belongs to the window that contains it, and counts nowhere outside of all windows.
    Without windows it belongs to the sample whose first labelled start is the last one before it: samples are
    separated by a device drain.

    Args:
        activities: recorded device work, in any order.
        external_ids: correlation id -> external id.
        owners: external id -> (row, sample), `PREPARATION` for work that must not count, or a `Replay` to split.
        windows: stamps of whole runs, one per sample, in the clock of the activities.

    Raises:
        TimingError: an activity without a time stamp, one that ends before it starts, or an unknown external id.
        AttributionError: a CUDA-graph replay cannot be split.
    """
    labelled: dict[Label, list[Activity]] = defaultdict(list)
    loose: list[Activity] = []
    replayed: dict[int, tuple[Replay, list[Activity]]] = {}
    for activity in activities:
        _check_stamps(activity)
        owner = _owner(activity, external_ids, owners)
        if owner is None:
            loose.append(activity)
        elif isinstance(owner, Replay):
            replayed.setdefault(owner.sample, (owner, []))[1].append(activity)
            if replayed[owner.sample][0].order != owner.order:
                raise TimingError(
                    f"sample {owner.sample} was labelled as replays of two different runs",
                    hint="label each whole run with one order",
                )
        elif not isinstance(owner, Marker):
            labelled[owner].append(activity)
    for owner in owners.values():
        if isinstance(owner, Replay):
            replayed.setdefault(owner.sample, (owner, []))  # one that ran nothing is refused, not forgotten
    beside: dict[int, list[Activity]] = {}
    for sample, (replay, work) in replayed.items():
        found = split_replay(work, replay.order)
        beside[sample] = found.beside
        for row, nodes in found.rows.items():
            labelled[row, sample].extend(nodes)
    unlabelled = _by_window(loose, windows) if windows else _by_first_start(loose, labelled)
    rows: dict[str, dict[int, DeviceCost]] = defaultdict(dict)
    for (row, sample), work in labelled.items():
        rows[row][sample] = device_cost(work)
    unclaimed = [activity for work in unlabelled.values() for activity in work]
    runs = _run_costs(labelled, unlabelled, beside, rows)
    return Attribution(rows=dict(rows), runs=runs, unattributed=_names(unclaimed))


def device_cost(activities: Sequence[Activity]) -> DeviceCost:
    """Sum up what one label did on the device."""
    if not activities:
        return NOTHING
    if len(activities) == 1:  # most labels: no unions to take
        (only,) = activities
        length = only.end_ns - only.start_ns
        kernel, copy, memset = (length if only.kind == kind else 0 for kind in ("kernel", "copy", "memset"))
        return DeviceCost(
            busy_ns=length,
            kernel_ns=kernel,
            copy_ns=copy,
            memset_ns=memset,
            span_ns=length,
            n_kernels=int(only.kind == "kernel"),
            work=_work(activities),
        )
    return DeviceCost(
        busy_ns=busy_ns(activities),
        kernel_ns=busy_ns([a for a in activities if a.kind == "kernel"]),
        copy_ns=busy_ns([a for a in activities if a.kind == "copy"]),
        memset_ns=busy_ns([a for a in activities if a.kind == "memset"]),
        span_ns=max(a.end_ns for a in activities) - min(a.start_ns for a in activities),
        n_kernels=sum(a.kind == "kernel" for a in activities),
        work=_work(activities),
    )


def busy_ns(activities: Iterable[Activity]) -> int:
    """Length of the union of the activities' intervals per device, summed over devices, in nanoseconds."""
    intervals: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for activity in activities:
        intervals[activity.device_id].append((activity.start_ns, activity.end_ns))
    return sum(_union_ns(per_device) for per_device in intervals.values())


def _union_ns(intervals: list[tuple[int, int]]) -> int:
    total = 0
    covered_until = 0
    for start, end in sorted(intervals):
        if end > covered_until:
            total += end - max(start, covered_until)
            covered_until = end
    return total


def _check_stamps(activity: Activity) -> None:
    subject = activity.name
    if activity.start_ns == 0:
        raise TimingError(
            f"{subject}: the device recorded no time stamp (start 0, expected nanoseconds)",
            hint="the instrument ran out of device buffers; measure less at once, in a fresh process",
            subject=subject,
        )
    if activity.end_ns < activity.start_ns:
        raise TimingError(
            f"{subject}: ends before it starts (start {activity.start_ns} ns, end {activity.end_ns} ns)",
            hint="the record is damaged; measure again in a fresh process",
            subject=subject,
        )


def _owner(activity: Activity, external_ids: Mapping[int, int], owners: Mapping[int, Owner]) -> Owner | None:
    external = external_ids.get(activity.correlation_id)
    if external is None:
        return None
    owner = owners.get(external)
    if owner is None:
        raise TimingError(
            f"{activity.name}: carries label id {external}, which this session never gave out",
            hint="another tool pushes correlation ids of the same kind; stop it while measuring",
            subject=activity.name,
        )
    return owner


def _by_window(loose: Iterable[Activity], windows: Sequence[WindowStamp]) -> dict[int, list[Activity]]:
    window_of = nearest_window(windows)
    found: dict[int, list[Activity]] = defaultdict(list)
    for activity in loose:
        window = window_of(activity.start_ns)
        if window is not None:
            found[window.sample].append(activity)
    return found


def nearest_window(windows: Sequence[WindowStamp]) -> Callable[[int], WindowStamp | None]:
    """A function that tells the window which a device stamp lies in, or as good as: `None` for one further off."""
    ordered = sorted(windows, key=lambda window: window.start_ns)
    starts = [window.start_ns for window in ordered]

    def window_of(stamp_ns: int) -> WindowStamp | None:
        before = bisect_right(starts, stamp_ns) - 1
        near = [ordered[i] for i in (before, before + 1) if 0 <= i < len(ordered)]
        distance, _, window = min(((_distance_ns(stamp_ns, w), w.sample, w) for w in near), default=(math.inf, 0, None))
        return window if distance <= WINDOW_SLACK_NS else None

    return window_of


def _distance_ns(stamp_ns: int, window: WindowStamp) -> int:
    return max(window.start_ns - stamp_ns, stamp_ns - window.end_ns, 0)


def _by_first_start(
    loose: Iterable[Activity], labelled: Mapping[Label, Sequence[Activity]]
) -> dict[int, list[Activity]]:
    first: dict[int, int] = {}
    for (_, sample), work in labelled.items():
        start = min(activity.start_ns for activity in work)
        first[sample] = min(start, first.get(sample, start))
    order = sorted((start, sample) for sample, start in first.items())
    starts = [start for start, _ in order]
    found: dict[int, list[Activity]] = defaultdict(list)
    for activity in loose:
        # Work ahead of the first label has no earlier sample; it then belongs to the first one (0 without labels).
        position = max(bisect_right(starts, activity.start_ns) - 1, 0)
        found[order[position][1] if order else 0].append(activity)
    return found


def _run_costs(
    labelled: Mapping[Label, Sequence[Activity]],
    unlabelled: Mapping[int, Sequence[Activity]],
    beside: Mapping[int, Sequence[Activity]],
    rows: Mapping[str, Mapping[int, DeviceCost]],
) -> dict[int, RunCost]:
    everything: dict[int, list[Activity]] = defaultdict(list)
    for (_, sample), work in labelled.items():
        everything[sample].extend(work)
    for loose in (unlabelled, beside):
        for sample, work in loose.items():
            everything[sample].extend(work)
    sums: dict[int, int] = defaultdict(int)
    for samples in rows.values():
        for sample, cost in samples.items():
            sums[sample] += cost.busy_ns
    runs = {}
    for sample, activities in everything.items():
        busy = busy_ns(activities)
        unattributed, apart = busy_ns(unlabelled.get(sample, ())), busy_ns(beside.get(sample, ()))
        runs[sample] = RunCost(
            busy_ns=busy,
            beside_ns=apart,
            unattributed_ns=unattributed,
            overlap_ns=sums[sample] + apart + unattributed - busy,
            n_kernels=sum(activity.kind == "kernel" for activity in activities),
        )
    return runs


def _work(activities: Iterable[Activity]) -> tuple[DeviceKernel, ...]:
    ordered = sorted(activities, key=_in_time)
    kinds = dict.fromkeys((a.kind, a.name, a.launch, a.stream_id, a.device_id) for a in ordered)
    return tuple(_device_kernel(*entry) for entry in kinds)


@lru_cache(maxsize=4096)
def _device_kernel(kind: ActivityKind, name: str, launch: Launch | None, stream: int, device: int) -> DeviceKernel:
    if launch is None:
        return DeviceKernel(name=name, kind=kind, stream=stream, device=device)
    return DeviceKernel(
        name=name,
        kind=kind,
        grid=launch.grid,
        block=launch.block,
        cluster=launch.cluster if any(launch.cluster) else None,
        registers=launch.registers,
        static_shared_bytes=launch.static_shared_bytes,
        dynamic_shared_bytes=launch.dynamic_shared_bytes,
        local_bytes=launch.local_bytes,
        stream=stream,
        device=device,
    )


def _names(activities: Iterable[Activity]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(activity.name for activity in sorted(activities, key=_in_time)))


def _in_time(activity: Activity) -> tuple[int, ...]:
    """Stamps advance in steps: what starts in one step keeps an order that its records' does not change."""
    return activity.start_ns, activity.end_ns, activity.device_id, activity.stream_id, activity.correlation_id

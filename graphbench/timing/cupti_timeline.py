"""The timeline of a CUPTI session's last window: labels, device work, and the host's waits for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from graphbench.provenance.correlation import PREPARATION, Activity, Owner, WindowStamp, nearest_window
from graphbench.provenance.graph_replay import Replay
from graphbench.timing.base import TimelineEvent
from graphbench.timing.cupti_records import Decoded, Wait
from graphbench.timing.timeline import HOST, Stamp, device_events, in_order, label_events

_THREAD_BITS: Final = 0xFFFFFFFF
"""CUPTI keeps the lower half of `pthread_self`, which is what `threading.get_ident` returns.

Source: `CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT`, `CUpti_ActivityAPI.threadId` (libcupti 13.0.85).
"""


class HostWindow(NamedTuple):
    """The host's own stamps of a window: `start_ns` and `end_ns` by `time.perf_counter_ns`, as labels have them.

    `left_ns`, in the clock of the records, is when its body was over: later waits are the session's drain.
    """

    start_ns: int
    end_ns: int
    left_ns: int


def session_timeline(
    decoded: Decoded,
    owners: Mapping[int, Owner],
    stamps: Iterable[Stamp],
    windows: Sequence[WindowStamp],
    last: HostWindow,
) -> tuple[TimelineEvent, ...]:
    """Everything that belongs to the last window, but preparation. Nodes of CUDA-graph replays have no row here.

    Args:
        decoded: the session's records.
        owners: as for `attribute`.
        stamps: its labelled calls.
        windows: all its windows, the last one last.
        last: the host's stamps of the last one.
    """
    window = windows[-1]

    def owner_of(correlation_id: int) -> Owner | None:
        return owners.get(decoded.external_ids.get(correlation_id, 0))

    def row_of(work: Activity | Wait) -> str | None:
        owner = owner_of(work.correlation_id)
        return owner[0] if isinstance(owner, tuple) else None

    def wait_events() -> Iterator[TimelineEvent]:
        for wait in outermost(decoded.waits):
            inside = window.start_ns <= wait.start_ns < last.left_ns
            if inside and owner_of(wait.correlation_id) is not PREPARATION:
                start_ns, duration_ns = wait.start_ns - window.start_ns, wait.end_ns - wait.start_ns
                yield TimelineEvent("sync", row_of(wait), wait.name, start_ns, duration_ns, wait.thread_id, HOST)

    window_of = nearest_window(windows)
    work = (
        activity
        for activity in decoded.activities
        if window_of(activity.start_ns) is window and _counts(owner_of(activity.correlation_id), window.sample)
    )
    labels = label_events(stamps, last.start_ns, last.end_ns)
    return in_order(
        (
            *(label._replace(lane=label.lane & _THREAD_BITS) for label in labels),
            *device_events(work, row_of, window.start_ns),
            *wait_events(),
        )
    )


def _counts(owner: Owner | None, sample: int) -> bool:
    """Whether work of this owner, done during a window, is part of the window's sample."""
    if isinstance(owner, Replay):
        return owner.sample == sample
    return owner is None or (isinstance(owner, tuple) and owner[1] == sample)


def outermost(waits: Iterable[Wait]) -> Iterator[Wait]:
    """Waits but those inside another one of their thread: one call of the runtime may make one of the driver."""
    until: dict[int, int] = {}
    for wait in sorted(waits, key=lambda wait: (wait.start_ns, -wait.end_ns)):
        if wait.start_ns >= until.get(wait.thread_id, 0):
            until[wait.thread_id] = wait.end_ns
            yield wait

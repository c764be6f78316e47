"""What is taken from cupti-python itself: its record objects (the slow way in) and its lists of API calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from graphbench.provenance.correlation import Activity, Launch
from graphbench.timing.cupti_records import LABEL_KIND, MEMSET_NAME, Decoded, Kind, copy_name

TRACED_WORDS: Final = ("launch", "memcpy", "memset")
"""Only API calls with these words in their names are traced: all of them would slow launches and flushes down."""

_SENTINELS: Final = ("invalid", "size", "force_int")

ApiSwitch = tuple[Callable[[int, int], object], int, int]
"""Function that switches tracing of one API call, the call's id, and 1 for on or 0 for off."""


def api_filter(binding: Any) -> list[ApiSwitch]:
    """The switches of every API call, runtime and driver: on for those that put work on the device.

    Source: `runtime_api_trace_cbid`, `driver_api_trace_cbid` (cupti-python 13.0.1).
    """
    switches: list[ApiSwitch] = []
    for toggle, ids in (
        (binding.activity_enable_runtime_api, binding.runtime_api_trace_cbid),
        (binding.activity_enable_driver_api, binding.driver_api_trace_cbid),
    ):
        traced: dict[int, int] = {}
        for name, cbid in ids.__members__.items():
            lower = name.lower()
            if lower not in _SENTINELS:
                # Several names may stand for one id; one that matches is enough.
                traced[int(cbid)] = traced.get(int(cbid), 0) or int(any(word in lower for word in TRACED_WORDS))
        switches.extend((toggle, cbid, on) for cbid, on in traced.items())
    return switches


def collect_objects(decoded: Decoded, demangle: Callable[[str], str], records: Sequence[Any]) -> None:
    """Add the binding's record objects to `decoded`. They wrap CUPTI's buffer, so none of them is kept."""
    for record in records:
        decoded.records += 1
        found = from_object(record, demangle)
        if isinstance(found, Activity):
            decoded.activities.append(found)
        elif found is not None:
            decoded.external_ids[found[0]] = found[1]


def from_object(record: Any, demangle: Callable[[str], str]) -> Activity | tuple[int, int] | None:
    """The same as `cupti_records.decode_record`, of the binding's object.

    Source: `ActivityKernel10`, `ActivityMemcpy6`, `ActivityMemcpyPtoP4`, `ActivityMemset4`,
        `ActivityExternalCorrelation` (cupti-python 13.0.1).
    """
    kind = int(record.kind)
    if kind == Kind.EXTERNAL_CORRELATION:
        if int(record.external_kind) != LABEL_KIND:
            return None
        return int(record.correlation_id), int(record.external_id)
    if kind == Kind.CONCURRENT_KERNEL:
        work = Activity("kernel", demangle(str(record.name)), 0, 0, 0, 0, 0, 0, _launch(record))
    elif kind in (Kind.MEMCPY, Kind.MEMCPY2):
        work = Activity("copy", copy_name(int(record.copy_kind)), 0, 0, 0, 0, 0, 0)
    elif kind == Kind.MEMSET:
        work = Activity("memset", MEMSET_NAME, 0, 0, 0, 0, 0, 0)
    else:
        return None
    return work._replace(
        start_ns=int(record.start),
        end_ns=int(record.end),
        correlation_id=int(record.correlation_id),
        graph_node_id=int(record.graph_node_id),
        stream_id=int(record.stream_id),
        device_id=int(record.device_id),
    )


def _launch(record: Any) -> Launch:
    return Launch(
        grid=(int(record.grid_x), int(record.grid_y), int(record.grid_z)),
        block=(int(record.block_x), int(record.block_y), int(record.block_z)),
        cluster=(int(record.cluster_x), int(record.cluster_y), int(record.cluster_z)),
        registers=int(record.registers_per_thread),
        static_shared_bytes=int(record.static_shared_memory),
        dynamic_shared_bytes=int(record.dynamic_shared_memory),
        local_bytes=int(record.local_memory_per_thread),
    )

"""What is taken from cupti-python itself: its record objects (the slow way in) and its lists of API calls."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from graphbench.provenance.correlation import Activity, Launch
from graphbench.timing.cupti_records import (
    LABEL_KIND,
    MEMSET_NAME,
    ApiCall,
    Decoded,
    Kind,
    NameAt,
    WaitNames,
    copy_name,
    decode_api,
    decode_record,
    read_bytes,
    wait_of,
)

TRACED_WORDS: Final = ("launch", "memcpy", "memset")
"""Only API calls with these words in their names are traced: all of them would slow launches and flushes down."""

WAITS: Final = (
    "cudaStreamSynchronize",
    "cudaDeviceSynchronize",
    "cudaEventSynchronize",
    "cuStreamSynchronize",
    "cuCtxSynchronize",
    "cuEventSynchronize",
)
"""Calls that only wait, traced besides when a timeline is asked for. Their ids add versions, as `_ptsz_v7000`."""

_SENTINELS: Final = ("invalid", "size", "force_int")


class ApiSwitch(NamedTuple):
    """How tracing of one API call is switched: `toggle(cbid, 1 or 0)`. `wait` is its name if all it does is wait."""

    kind: Kind
    cbid: int
    toggle: Callable[[int, int], object]
    traced: bool
    wait: str


def api_filter(binding: Any) -> list[ApiSwitch]:
    """The switches of every API call, runtime and driver: traced are those that put work on the device.

    Source: `runtime_api_trace_cbid`, `driver_api_trace_cbid` (cupti-python 13.0.1).
    """
    switches: dict[tuple[Kind, int], ApiSwitch] = {}
    for kind, toggle, ids in (
        (Kind.RUNTIME, binding.activity_enable_runtime_api, binding.runtime_api_trace_cbid),
        (Kind.DRIVER, binding.activity_enable_driver_api, binding.driver_api_trace_cbid),
    ):
        for name, cbid in ids.__members__.items():
            if name.lower() in _SENTINELS:
                continue
            traced = any(word in name.lower() for word in TRACED_WORDS)
            base = name.partition("_")[0]
            wait = base if base in WAITS else ""
            # Several names may stand for one id; one that matches is enough.
            known = switches.get((kind, int(cbid)))
            if known is not None:
                traced, wait = traced or known.traced, wait or known.wait
            switches[kind, int(cbid)] = ApiSwitch(kind, int(cbid), toggle, traced, wait)
    return list(switches.values())


def collect_objects(decoded: Decoded, demangle: Callable[[str], str], waits: WaitNames, records: Sequence[Any]) -> None:
    """Add the binding's record objects to `decoded`. They wrap CUPTI's buffer, so none of them is kept."""
    for record in records:
        decoded.records += 1
        if waits and int(record.kind) in (Kind.RUNTIME, Kind.DRIVER):
            wait = wait_of(api_from_object(record), waits)
            if wait is not None:
                decoded.waits.append(wait)
            continue
        found = from_object(record, demangle)
        if isinstance(found, Activity):
            decoded.activities.append(found)
        elif found is not None:
            decoded.external_ids[found[0]] = found[1]


class LayoutCheck:
    """Compares records of known launches as decoded here with what the binding's objects say of them.

    Clusters, local memory and graph nodes are 0 in these launches. A wrong graph node is found where it is used:
    replays are split by node, and each node's kernel must have the name expected.

    Args:
        demangle: turns a C++ symbol into a readable name.
        name_at: the demangled name at an address.
    """

    def __init__(self, demangle: Callable[[str], str], name_at: NameAt) -> None:
        self._demangle = demangle
        self._name_at = name_at
        self._seen: set[str] = set()
        self._faults: list[str] = []
        self._api_faults: list[str] = []

    def completed(self, records: Sequence[Any]) -> None:
        """Compare now: the objects wrap CUPTI's buffer."""
        for record in records:
            kind = int(record.kind)
            raw = ctypes.string_at(record.ptr, read_bytes(kind))
            if kind in (Kind.RUNTIME, Kind.DRIVER):
                self._compare(kind, api_from_object(record), decode_api(raw), self._api_faults)
            else:
                self._compare(
                    kind, from_object(record, self._demangle), decode_record(raw, self._name_at), self._faults
                )

    def fault(self) -> str:
        """What differs in a record of device work or of a label; "" when nothing does."""
        return self._fault(self._faults, {"kernel", "copy", "memset", "label"})

    def api_fault(self) -> str:
        """What differs in a record of an API call; "" when nothing does."""
        return self._fault(self._api_faults, {"API call"})

    def _compare(self, kind: int, expected: object, found: object, faults: list[str]) -> None:
        if expected != found:
            faults.append(f"record kind {kind} decoded as {found}, the binding says {expected}")
        elif isinstance(expected, Activity):
            self._seen.add(expected.kind)
        elif expected is not None:
            self._seen.add("API call" if isinstance(expected, ApiCall) else "label")

    def _fault(self, faults: Sequence[str], kinds: set[str]) -> str:
        missing = kinds - self._seen
        if faults or not missing:
            return faults[0] if faults else ""
        return f"no record of a known {', '.join(sorted(missing))} to check against"


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


def api_from_object(record: Any) -> ApiCall:
    """The same as `cupti_records.decode_api`, of the binding's object.

    Source: `ActivityAPI` (cupti-python 13.0.1).
    """
    return ApiCall(
        kind=int(record.kind),
        cbid=int(record.cbid),
        start_ns=int(record.start),
        end_ns=int(record.end),
        process_id=int(record.process_id),
        thread_id=int(record.thread_id),
        correlation_id=int(record.correlation_id),
        return_value=int(record.return_value),
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
